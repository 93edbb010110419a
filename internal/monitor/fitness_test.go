package monitor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFitness: what is reported can be relied on when all that was there at the start has been written, and nothing has waited for long
// since.
func TestFitness(t *testing.T) {
	now := time.Unix(1000, 0)
	x := newIndex("")
	f := &fitness{index: x, arrears: newArrears(func() time.Time { return now })}
	w := &writer{index: x, arrears: f.arrears, now: f.arrears.now, shares: map[string]*share{}}
	h := &handler{index: x, kind: rbs.GroupKind()}
	require.Contains(t, f.lacks(), "still being listed")
	h.OnAdd(state(t, "1-a", "a-1", "u1", "", ""), true)
	h.OnAdd(state(t, "2-b", "b-2", "u2", "", ""), true)
	x.setChanged(f.arrears.owe)
	_, err := w.Reconcile(t.Context(), "1-a")
	require.NoError(t, err)
	require.Contains(t, f.lacks(), "still being listed")
	x.setSynced()
	require.Contains(t, f.lacks(), "is missing", "whether it is there is not known yet")
	h.observe()

	f.arrears.written("1-a")
	require.Contains(t, f.lacks(), "deployment 2-b has not been written since the agent has started")
	now = now.Add(time.Second)
	h.OnAdd(state(t, "3-c", "c-3", "u3", "", ""), false)
	require.Contains(t, f.lacks(), "deployment 2-b")
	f.arrears.written("2-b")
	require.Empty(t, f.lacks(), "what has come since has no old status")

	now = now.Add(unheardAfter)
	f.arrears.owe("3-c")
	f.arrears.owe("4-d")
	require.Empty(t, f.lacks())
	now = now.Add(1)
	require.Contains(t, f.lacks(), "deployment 3-c cannot be written since 1970-01-01T00:16:41Z")
	f.arrears.written("3-c")
	require.Empty(t, f.lacks())
	now = now.Add(unheardAfter)
	require.Contains(t, f.lacks(), "deployment 4-d")
	h.OnDelete(state(t, "2-b", "b-2", "u2", "", ""))
	_, err = w.Reconcile(t.Context(), "4-d")
	require.NoError(t, err)
	_, err = w.Reconcile(t.Context(), "2-b")
	require.NoError(t, err)
	require.Empty(t, f.lacks(), "what has no ResourceBundleState is not written")
}
