package config_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/config"
)

// TestTheTokenForTemporalIsReadAgain for each call, where the file has changed. What cannot be read changes nothing, and is said once, without what is in it.
func TestTheTokenForTemporalIsReadAgain(t *testing.T) {
	none, err := config.Temporal{}.Token(slog.Default())
	require.NoError(t, err)
	require.Nil(t, none)

	var said bytes.Buffer
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write("s3cret-1\n")
	token, err := config.Temporal{TokenFile: file}.Token(slog.New(slog.NewTextHandler(&said, nil)))
	require.NoError(t, err)
	require.Equal(t, "s3cret-1", token())
	write("s3cret-2\n")
	require.Equal(t, "s3cret-2", token())
	require.Empty(t, said.String())

	write("")
	require.Equal(t, "s3cret-2", token())
	require.Equal(t, "s3cret-2", token())
	require.Equal(t, 1, strings.Count(said.String(), "the token for Temporal stays as it was"))
	write("Bearer s3cret-3")
	require.Equal(t, "s3cret-2", token())
	require.NoError(t, os.Remove(file))
	require.Equal(t, "s3cret-2", token())
	write("s3cret-4")
	require.Equal(t, "s3cret-4", token())
	require.NotContains(t, said.String(), "s3cret")

	for text, what := range map[string]string{"": "no token", "Bearer s3cret": "without the word Bearer", "s3cret\x00": "other than those of ASCII"} {
		write(text)
		_, err := config.Temporal{TokenFile: file}.Token(slog.Default())
		require.ErrorContains(t, err, file)
		require.ErrorContains(t, err, what)
		require.NotContains(t, err.Error(), "s3cret")
	}
}
