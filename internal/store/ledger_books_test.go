package store

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBooksOfTenantsThatHaveNothingTakeRoom: names that are asked for are as many as somebody makes up.
func TestBooksOfTenantsThatHaveNothingTakeRoom(t *testing.T) {
	l := newLedgers(&Store{}, workloadsName)
	for n := range bookBytes/leastBook + 10 {
		_, leave, err := l.enter(t.Context(), fmt.Sprint(n))
		require.NoError(t, err)
		leave()
	}
	require.Equal(t, bookBytes/leastBook, l.books.Len())
	require.EqualValues(t, bookBytes, l.bytes)
}
