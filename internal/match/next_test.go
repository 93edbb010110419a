package match_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/match"
	"github.com/drover-io/drover/internal/policy"
)

var (
	here    = domain.ClusterName{Provider: "p", Name: "here"}
	noon    = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	wanted  = &domain.Wanted{Cluster: here, Spec: "spec", Annotations: "a"}
	waiting = &domain.Wanted{Cluster: here, Without: "the workload is on no node yet"}
)

func sentTo(change func(*domain.Made)) *domain.Made {
	m := &domain.Made{Cluster: here, Version: "v1", Kind: "Pod", Namespace: "n", Name: "x", UID: "1", Spec: "spec", Annotations: "a", Sent: noon}
	if change != nil {
		change(m)
	}
	return m
}

func TestNext(t *testing.T) {
	for reason, c := range map[string]struct {
		record domain.Match
		want   match.Step
	}{
		"nothing is wanted and nothing is there": {domain.Match{Mark: domain.MarkPending}, match.Forget},
		"it cannot be made yet":                  {domain.Match{Mark: domain.MarkPending, Wanted: waiting}, match.Rest},
		"it is to be made":                       {domain.Match{Mark: domain.MarkPending, Wanted: wanted}, match.Create},
		"it was sent, and is there":              {domain.Match{Mark: domain.MarkSent, Wanted: wanted, Made: sentTo(nil)}, match.Look},
		"it may have been sent":                  {domain.Match{Mark: domain.MarkSent, Wanted: wanted, Made: sentTo(func(m *domain.Made) { m.UID = "" })}, match.Create},
		"it may not be looked at any more":       {match.Unclear(domain.Match{Mark: domain.MarkApplied, Made: sentTo(nil)}, "no"), match.Withdraw},
		"it has other annotations":               {domain.Match{Mark: domain.MarkOutdated, Wanted: wanted, Made: sentTo(func(m *domain.Made) { m.Annotations = "b" })}, match.Look},
		"it may be gone":                         {domain.Match{Mark: domain.MarkApplied, Wanted: wanted, Made: sentTo(nil)}, match.Look},
		"nothing is wanted any more":             {domain.Match{Mark: domain.MarkDoomed, Made: sentTo(nil)}, match.Withdraw},
		"it cannot be made any more":             {domain.Match{Mark: domain.MarkDoomed, Wanted: waiting, Made: sentTo(nil)}, match.Withdraw},
		"another one is wanted":                  {domain.Match{Mark: domain.MarkApplied, Wanted: wanted, Made: sentTo(func(m *domain.Made) { m.Spec = "other" })}, match.Withdraw},
		"it is wanted elsewhere":                 {domain.Match{Mark: domain.MarkApplied, Wanted: wanted, Made: sentTo(func(m *domain.Made) { m.Cluster.Name = "there" })}, match.Withdraw},
		"it is wanted again, and being deleted":  {domain.Match{Mark: domain.MarkEnding, Wanted: wanted, Made: sentTo(nil)}, match.Withdraw},
	} {
		require.Equal(t, c.want, match.Next(&c.record), reason)
	}
}

// TestMadeAgain is the wait before what is gone is made again: a second, doubling to five minutes, and anew when it has lived.
func TestMadeAgain(t *testing.T) {
	m, now := domain.Match{Mark: domain.MarkApplied, Wanted: wanted, Due: noon}, noon
	var waits []time.Duration
	for range 11 {
		m.Made = sentTo(func(made *domain.Made) { made.Sent = now })
		m = match.Gone(m, "it was gone", now)
		require.Nil(t, m.Made)
		require.Equal(t, match.Create, match.Next(&m))
		waits = append(waits, m.Next.Sub(now).Round(time.Second))
		now = m.Next
	}
	s := time.Second
	require.Equal(t, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 64 * s, 128 * s, 256 * s, 300 * s, 300 * s}, waits)
	m.Made = sentTo(func(made *domain.Made) { made.Sent = now })
	now = now.Add(time.Hour)
	require.Equal(t, now.Add(time.Second), match.Gone(m, "it was gone", now).Next)
}

func TestWhatIsEvictedIsMadeAgainAfterAWait(t *testing.T) {
	m := match.Evicted(domain.Match{Mark: domain.MarkApplied, Wanted: wanted, Made: sentTo(nil), Due: noon}, noon)
	require.Equal(t, match.Withdraw, match.Next(&m))
	m = match.Withdrawn(m, noon)
	require.Equal(t, noon.Add(time.Second), m.Next)
	require.Equal(t, match.Create, match.Next(&m))
}

// TestArriving: a create whose answer nobody got may be on its way: for some seconds after its sender has given up, and where the
// sender may have died for as long as it may have taken.
func TestArriving(t *testing.T) {
	m := domain.Match{Mark: domain.MarkDeleting, Made: sentTo(func(m *domain.Made) { m.UID = "" })}
	require.Equal(t, noon.Add(28*time.Second), match.Arriving(&m, noon.Add(time.Second)))
	require.Zero(t, match.Arriving(&m, noon.Add(28*time.Second)))
	m = match.Unanswered(m, noon.Add(5*time.Second)) // whoever sent it has given up
	require.Equal(t, noon.Add(8*time.Second), match.Arriving(&m, noon.Add(6*time.Second)))
	require.Zero(t, match.Arriving(&m, noon.Add(8*time.Second)))
	m.Made.UID = "1" // it has arrived
	require.Zero(t, match.Arriving(&m, noon))
}

// TestArrivingByAClockThatWasAhead: who looks counts from its look at the latest, and stores that.
func TestArrivingByAClockThatWasAhead(t *testing.T) {
	ahead := noon.Add(3 * time.Hour)
	sent := domain.Match{Mark: domain.MarkDeleting, Made: sentTo(func(m *domain.Made) { m.UID, m.Sent = "", ahead })}
	m := match.Sent(sent, noon)
	require.Equal(t, ahead, sent.Made.Sent, "what was read stays")
	require.Equal(t, noon.Add(28*time.Second), match.Arriving(&m, noon))
	m = match.Sent(m, noon.Add(28*time.Second))
	require.Zero(t, match.Arriving(&m, noon.Add(28*time.Second)))
	m = match.Sent(match.Unanswered(sent, ahead), noon)
	require.Equal(t, noon.Add(3*time.Second), match.Arriving(&m, noon))
}

// TestDueByAClockThatWasAhead: no wait is longer than the longest, but for what clocks may differ.
func TestDueByAClockThatWasAhead(t *testing.T) {
	m := match.Later(domain.Match{Due: noon}, "503", noon.Add(3*time.Hour))
	due, _ := match.Due([]domain.Match{m}, noon)
	require.Len(t, due, 1)
	m = match.Taken(domain.Match{Due: noon}, noon.Add(policy.ClockSkew))
	due, next := match.Due([]domain.Match{m}, noon)
	require.Empty(t, due)
	require.Equal(t, noon.Add(policy.ClockSkew+policy.LongestAgain), next)
}

func TestDue(t *testing.T) {
	record := func(workload string, due, next time.Time) domain.Match {
		return domain.Match{Tenant: "t", Workload: workload, Due: due, Next: next}
	}
	due, next := match.Due([]domain.Match{
		record("settled", time.Time{}, time.Time{}), record("late", noon, time.Time{}), record("early", noon.Add(-time.Hour), noon),
		record("waits", noon, noon.Add(2*time.Minute)), record("waits less", noon, noon.Add(time.Minute)),
	}, noon)
	require.Equal(t, noon.Add(time.Minute), next)
	require.Len(t, due, 2)
	require.Equal(t, "early", due[0].Workload, "what has been due for longest comes first")
}

func TestMissed(t *testing.T) {
	const contextID = "2621114006130701074"
	rule := domain.Key("tenants/t/workload-rules/side")
	record := domain.Match{Tenant: "t", Rule: rule, Workload: "w", Mark: domain.MarkApplied, Wanted: wanted, Made: sentTo(nil)}
	pod := func(name, json string) domain.ObservedResource {
		return domain.ObservedResource{Version: "v1", Kind: "Pod", Namespace: "n", Name: name, JSON: []byte(json)}
	}
	of := func(app string, resources ...domain.ObservedResource) *domain.Observation {
		return &domain.Observation{
			ObservedApp: domain.ObservedApp{ContextID: contextID, App: app, Cluster: here}, Kinds: []string{"Pod"}, Resources: resources,
		}
	}
	const ours = `{"metadata":{"annotations":{"drover.io/rule":"tenants/t/workload-rules/side","drover.io/workload":"v"}}}`
	unheard := of("side")
	unheard.Unheard = []domain.UnheardKind{{Kind: "Pod"}}
	for reason, c := range map[string]struct {
		o    *domain.Observation
		want []string // workloads
	}{
		"it is there":                          {of("side", pod("x", "{}")), nil},
		"it is gone":                           {of("side"), []string{"w"}},
		"it is gone, and another is there":     {of("side", pod("theirs", "{}")), []string{"w"}},
		"another rule's are reported":          {of("other"), nil},
		"the kind is not heard":                {unheard, nil},
		"it is evicted":                        {of("side", pod("x", `{"status":{"phase":"Failed","reason":"Evicted"}}`)), []string{"w"}},
		"it has ended, and stays":              {of("side", pod("x", `{"status":{"phase":"Failed"}}`)), nil},
		"one is there without a record":        {of("side", pod("x", "{}"), pod("y", ours)), []string{"v"}},
		"somebody says that it is another's":   {of("side", pod("x", "{}"), pod("y", strings.Replace(ours, "side", "other", 1))), nil},
		"the cluster cannot report":            {&domain.Observation{ObservedApp: of("side").ObservedApp, Error: "broken"}, nil},
		"what is made in another cluster":      {&domain.Observation{ObservedApp: domain.ObservedApp{ContextID: contextID, App: "side", Cluster: domain.ClusterName{Provider: "p", Name: "there"}}}, nil},
		"an app that is reported of no longer": {&domain.Observation{ObservedApp: of("side").ObservedApp}, []string{"w"}},
	} {
		var got []string
		due, unrecorded := match.Missed([]domain.Match{record}, c.o, "t", noon)
		for _, m := range append(due, unrecorded...) {
			require.Equal(t, noon, m.Due, reason)
			got = append(got, m.Workload)
		}
		require.Equal(t, c.want, got, reason)
	}
	// What the cluster has refused to have looked at, or changed, is made again as well, and not with every report.
	record.Mark = domain.MarkUndeleted
	due, _ := match.Missed([]domain.Match{record}, of("side"), "t", noon)
	require.Len(t, due, 1)
	require.Equal(t, noon, due[0].Due)
	require.True(t, due[0].Next.After(noon))
	require.Equal(t, match.Look, match.Next(&due[0]))
	due, _ = match.Missed([]domain.Match{record}, of("side", pod("x", "{}")), "t", noon)
	require.Empty(t, due)
	record.Mark = domain.MarkApplied

	due, unrecorded := match.Missed([]domain.Match{record}, of("side", pod("x", "{}"), pod("y", ours)), "t", noon)
	require.Empty(t, due)
	require.Equal(t, match.Withdraw, match.Next(&unrecorded[0]))
	require.Equal(t, match.Label(contextID, rule), unrecorded[0].Made.Label, "it may be an earlier tenant's, whose label the present one's rules do not have")
}
