package trail

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/audit"
)

// TestRefusalsThatFindNoRoom are lost, and none of them is taken for one that waits: then no refusal would get a record any more.
func TestRefusalsThatFindNoRoom(t *testing.T) {
	tr := &Trail{refused: newRefusals(), kept: make([]entry, mostKept), running: true}
	refusal := entry{record: audit.Record{Event: audit.Answered, Verb: "get", From: "192.0.2.1:4711", Who: &audit.Who{Kind: "user", Name: "alice"}, Result: "Forbidden"}}
	require.True(t, refusal.refusal())
	for range 2 * mostRefused {
		require.False(t, tr.add(refusal))
	}
	require.Zero(t, tr.refused.waiting)
	_, lost := tr.Unwritten()
	require.Equal(t, 2*mostRefused, lost)
	tr.kept = nil
	require.True(t, tr.add(refusal))
	require.Equal(t, 1, tr.refused.waiting)
}
