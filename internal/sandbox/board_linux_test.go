package sandbox

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever a child that is out of control does to the board, the parent reads a short text, or none.
func TestBoardsOfStrangers(t *testing.T) {
	t.Parallel()
	b, err := newBoard()
	require.NoError(t, err)
	defer b.close()
	require.Empty(t, b.note(1))
	require.Error(t, b.file.Truncate(0), "else reading it could fail")
	require.Error(t, b.file.Truncate(1<<30))
	_, err = b.file.WriteAt(bytes.Repeat([]byte{0xff}, boardSize), 0)
	require.NoError(t, err)
	require.Empty(t, b.note(1))
	require.Equal(t, "?", b.note(1<<32-1), "bytes that are no text")
}
