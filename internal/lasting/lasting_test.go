package lasting_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/lasting"
)

// TestTrouble: it is said when it begins, when its reason is another one, and when it is over.
func TestTrouble(t *testing.T) {
	var trouble lasting.Trouble
	require.False(t, trouble.Ends(), "there was none")
	for range 2 {
		require.True(t, trouble.Begins("slow"))
		require.False(t, trouble.Begins("slow"))
		require.True(t, trouble.Begins("gone"))
		require.True(t, trouble.Begins("slow"), "a reason that comes back is another one than the last")
		require.True(t, trouble.Ends())
		require.False(t, trouble.Ends())
	}
	require.True(t, trouble.Begins(""), "without a reason")
	require.False(t, trouble.Begins(""))
	require.True(t, trouble.Ends())
}

// TestTroubleThatManyComeUponIsSaidOnce: whoever comes upon it first says so.
func TestTroubleThatManyComeUponIsSaidOnce(t *testing.T) {
	var trouble lasting.Trouble
	var begun, ended atomic.Int32
	all := func(is func() bool, count *atomic.Int32) {
		var wait sync.WaitGroup
		for range 20 {
			wait.Go(func() {
				if is() {
					count.Add(1)
				}
			})
		}
		wait.Wait()
	}
	all(func() bool { return trouble.Begins("slow") }, &begun)
	all(trouble.Ends, &ended)
	require.EqualValues(t, 1, begun.Load())
	require.EqualValues(t, 1, ended.Load())
}
