package service_test

import (
	"context"
	"iter"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/view"
)

// ears hear what is stored.
type ears struct{ *store.Store }

func (ears) Rules(context.Context) (*readiness.Rules, error) { return nil, nil } //nolint:nilnil // nil are none

func (e ears) Observations(ctx context.Context, contextID, app string, clusters []domain.ClusterName) iter.Seq2[view.Report, error] {
	return func(yield func(view.Report, error) bool) {
		for o, err := range e.Store.Observations(ctx, contextID, app, clusters) {
			if err != nil {
				yield(view.Report{}, err)
				return
			}
			if !yield(view.Report{Observation: &o.Observation, Object: o.Object}, nil) {
				return
			}
		}
	}
}

// TestWhatClustersSayOfMatches is in the list of matches and in the status of the tenant: who reads them need not ask the cluster.
func TestWhatClustersSayOfMatches(t *testing.T) {
	w := newTenancy(t, 1)
	r := w.first()
	r.Heard = ears{r.store}
	require.NoError(t, r.make(t.Context(), rule("r", "yes")))
	w.take(w.begin(r), syncs(labelled("ready", "yes"), labelled("not", "yes"), labelled("missing", "yes"), labelled("pending", "yes")))
	cluster := domain.ClusterName{Provider: "provider", Name: "edge"}
	records, err := r.store.Matches(t.Context(), "t")
	require.NoError(t, err)
	for i := range records {
		if records[i].Workload != "pending" {
			records[i].Made = &domain.Made{Cluster: cluster, Version: "v1", Kind: "Pod", Namespace: "tenant-t", Name: "nginx-" + records[i].Workload}
			records[i].Mark, records[i].Due = domain.MarkApplied, time.Time{}
		}
	}
	require.NoError(t, r.store.WriteMatches(t.Context(), "t", records, nil))
	look := func() (reported map[string]*service.MatchReport, counts map[string]int) {
		t.Helper()
		list, err := r.MatchesOf(t.Context(), domain.TenantKey("t").Child(domain.WorkloadRules.Collection, "r"), url.Values{})
		require.NoError(t, err)
		reported = map[string]*service.MatchReport{}
		for _, one := range list.Items {
			reported[one.Workload] = one.Reported
		}
		status, err := r.TenantStatus(t.Context(), "t")
		require.NoError(t, err)
		return reported, status.Reported
	}
	reported, counts := look()
	require.Nil(t, reported["pending"], "it has no object")
	require.Equal(t, "Unknown", reported["ready"].State)
	require.NotEmpty(t, reported["ready"].Doubt)
	require.Equal(t, map[string]int{"Unknown": 3}, counts)

	pod := func(name string, status readiness.Status, message string) domain.ObservedResource {
		return domain.ObservedResource{
			Version: "v1", Kind: "Pod", Namespace: "tenant-t", Name: name, Status: string(status), Message: message, JSON: []byte(`{}`),
		}
	}
	require.NoError(t, r.store.PutObservation(t.Context(), &domain.Observation{
		ObservedApp: domain.ObservedApp{ContextID: "1234567890123456789", App: "r", Cluster: cluster}, Kinds: []string{"Pod"},
		Resources: []domain.ObservedResource{pod("nginx-ready", readiness.Ready, ""), pod("nginx-not", readiness.NotReady, "it is not scheduled")},
	}))
	require.NoError(t, r.store.Pulse(t.Context(), "watcher", w.clock.Now()))
	require.NoError(t, r.store.PutWatch(t.Context(), "watcher", &domain.Watch{Cluster: cluster, Connected: true}))
	reported, counts = look()
	require.Equal(t, &service.MatchReport{State: "Ready"}, reported["ready"])
	require.Equal(t, &service.MatchReport{State: "NotReady", Message: "it is not scheduled"}, reported["not"])
	require.Equal(t, &service.MatchReport{State: "Missing"}, reported["missing"])
	require.Equal(t, map[string]int{"Ready": 1, "NotReady": 1, "Missing": 1}, counts)

	w.clock.add(time.Minute) // and nobody hears the cluster any more
	reported, _ = look()
	require.Equal(t, "Ready", reported["ready"].State)
	require.NotEmpty(t, reported["ready"].Doubt)
	require.NotNil(t, reported["ready"].LastSeen)
}
