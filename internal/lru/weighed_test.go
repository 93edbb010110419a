package lru_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/lru"
)

// TestWeighedForgetsWhatIsTooHeavy: what was not used for longest goes first, and a value counts once however often it is added.
func TestWeighedForgetsWhatIsTooHeavy(t *testing.T) {
	c := lru.NewWeighed[string, int](3, 10)
	known := func() (names string) {
		for _, name := range []string{"a", "b", "c", "d"} {
			if _, ok := c.Get(name); ok {
				names += name
			}
		}
		return names
	}
	c.Add("a", 1, 4)
	c.Add("b", 2, 4)
	c.Add("a", 3, 4)
	require.Equal(t, "ab", known())
	value, _ := c.Get("a")
	require.Equal(t, 3, value)
	c.Add("c", 4, 5)
	require.Equal(t, "ac", known())
	c.Add("d", 5, 100)
	require.Equal(t, "d", known(), "alone, but it is kept")
	c.Add("a", 1, 1)
	require.Equal(t, "a", known())
	for i := range 100 {
		c.Add(fmt.Sprint(i), i, 0)
	}
	require.Empty(t, known(), "there is room for three")
	require.Equal(t, 3, c.Len())
	c.Add("a", 1, 6)
	c.Add("b", 1, 4)
	require.Equal(t, "ab", known(), "what has gone weighs nothing")
	c.Remove("a")
	c.Add("c", 1, 6)
	require.Equal(t, "bc", known(), "nor does what was removed")
	require.EqualValues(t, 10, c.Weight())
}
