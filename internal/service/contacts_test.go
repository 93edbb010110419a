package service

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// TestContactsHoldUntilTheNextDeadline: what is kept is what would be said anew, at each time, and of other watches too.
func TestContactsHoldUntilTheNextDeadline(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	watch := func(name string, pulse time.Duration, reason string) domain.Watch {
		return domain.Watch{Cluster: cluster0(name), Connected: reason == "", LastSeen: noon, Reason: reason, Pulse: noon.Add(pulse)}
	}
	said := map[domain.ClusterName]domain.Watch{}
	for _, w := range []domain.Watch{watch("a", 0, ""), watch("b", 4*time.Second, ""), watch("c", 0, "dead"), watch("d", 30*time.Second, "")} {
		said[w.Cluster] = w
	}
	plans := map[domain.Digest][]domain.ClusterName{
		"all": {cluster0("a"), cluster0("b"), cluster0("c"), cluster0("d"), cluster0("nobody")}, "late": {cluster0("d")}, "b": {cluster0("b")},
	}
	var kept contacts
	at := func(plan domain.Digest, watches map[domain.ClusterName]domain.Watch, after time.Duration) string {
		t.Helper()
		now := noon.Add(after)
		d := kept.at(plan, plans[plan], watches, now)
		require.Equal(t, contactsNow(plans[plan], watches, now).digest, d, "%s at %s", plan, now)
		return d
	}
	all := map[string]bool{}
	for s := range 60 { // and back again, as clocks may
		for plan := range plans {
			for _, after := range []time.Duration{time.Duration(s) * time.Second, time.Duration(60-s) * time.Second} {
				d := at(plan, said, after)
				all[string(plan)+d] = true
			}
		}
	}
	require.Len(t, all, 4+2+2, "one state more for each cluster that is not heard any more")

	before := at("b", said, 0)
	require.Equal(t, before, at("b", said, domain.PulseLife+4*time.Second), "to the end")
	require.NotEqual(t, before, at("b", said, domain.PulseLife+4*time.Second+1))
	later := maps.Clone(said)
	later[cluster0("b")] = watch("b", 9*time.Second, "")
	require.Equal(t, before, at("b", later, domain.PulseLife+4*time.Second+1), "when it was heard does not matter")
	later = maps.Clone(later)
	later[cluster0("b")] = watch("b", 9*time.Second, "dead")
	require.NotEqual(t, before, at("b", later, 0))
	require.Equal(t, at("b", nil, 0), at("b", nil, time.Hour))
}
