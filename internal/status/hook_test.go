package status_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/view"
)

// withHooks is an app of a ConfigMap and Jobs that are hooks, by their names, on one cluster, which reports the ConfigMap
// and, where there is a state of it, the Job "job".
func withHooks(t *testing.T, was domain.ContextStatus, text string, job readiness.Status, hooks ...string) status.Source {
	t.Helper()
	resources := []plan.ResourceID{{Version: "v1", Kind: "ConfigMap", Name: "main"}}
	for _, name := range hooks {
		resources = append(resources, plan.ResourceID{Group: "batch", Version: "v1", Kind: "Job", Name: name})
	}
	o := observation("edge01", judged(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"main","namespace":"default"}}`,
		readiness.State{Status: readiness.Ready}))
	if job != "" {
		o.Resources = append(o.Resources, judged(t, `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"job","namespace":"default"}}`,
			readiness.State{Status: job, Message: "said"}).ObservedResource)
	}
	return status.Source{Source: view.Source{
		ContextID: "1", Status: was, Namespace: "default",
		Apps: []view.App{{
			Name: "web", Resources: resources, Hook: func(i int) bool { return i > 0 },
			Clusters: []view.Cluster{{ClusterName: o.ClusterName, Connectivity: domain.ConnectivityAvailable, Marks: marks(text)}},
		}},
		Observations: reported{"web": {o}}.observations,
	}}
}

// TestReadinessOfHooks: a hook of the operation that failed, or that has not been run yet, counts. What is left of one
// that has done its work, or that is not run any more, does not.
func TestReadinessOfHooks(t *testing.T) {
	t.Parallel()
	const instantiated, failed = domain.ContextInstantiated, domain.ContextInstantiateFailed
	counts := func(ready, notReady, notPresent int) map[status.ClusterState]int {
		m := map[status.ClusterState]int{}
		for state, n := range map[status.ClusterState]int{
			status.ClusterReady: ready, status.ClusterNotReady: notReady, status.ClusterNotPresent: notPresent,
		} {
			if n > 0 {
				m[state] = n
			}
		}
		return m
	}
	once, twice := []string{"job"}, []string{"job", "job"}
	for name, c := range map[string]struct {
		status domain.ContextStatus
		marks  string
		job    readiness.Status // "" where it is not reported
		hooks  []string
		ready  status.ClusterState
		counts map[status.ClusterState]int
	}{
		"it failed":                           {failed, "AX", readiness.NotReady, once, status.ClusterNotReady, counts(1, 1, 0)},
		"it failed and was deleted":           {failed, "AF", "", once, status.ClusterNotReady, counts(1, 0, 1)},
		"it is being run":                     {domain.ContextInstantiating, "As", readiness.NotReady, once, status.ClusterNotReady, counts(1, 1, 0)},
		"it was not come to":                  {failed, "Ap", "", once, status.ClusterNotReady, counts(1, 0, 1)},
		"it has succeeded":                    {instantiated, "AA", readiness.Ready, once, status.ClusterReady, counts(2, 0, 0)},
		"it has succeeded, and the Job left":  {instantiated, "AA", "", once, status.ClusterReady, counts(1, 0, 0)},
		"it has succeeded, and is not Ready":  {instantiated, "AA", readiness.NotReady, once, status.ClusterReady, counts(1, 0, 0)},
		"it was deleted when it had":          {instantiated, "AD", "", once, status.ClusterReady, counts(1, 0, 0)},
		"it is not run":                       {instantiated, "Ah", "", once, status.ClusterReady, counts(1, 0, 0)},
		"it failed in another operation":      {instantiated, "AH", readiness.NotReady, once, status.ClusterReady, counts(1, 0, 0)},
		"both runs have succeeded":            {instantiated, "AAA", readiness.Ready, twice, status.ClusterReady, counts(2, 0, 0)},
		"both were deleted":                   {instantiated, "ADD", "", twice, status.ClusterReady, counts(1, 0, 0)},
		"the first run failed":                {failed, "pXp", readiness.NotReady, twice, status.ClusterNotReady, counts(1, 1, 0)},
		"the second run failed":               {failed, "AAX", readiness.NotReady, twice, status.ClusterNotReady, counts(1, 1, 0)},
		"the second run failed and was gone":  {failed, "AAF", "", twice, status.ClusterNotReady, counts(1, 0, 1)},
		"it failed in a terminate":            {domain.ContextTerminateFailed, "dX", readiness.NotReady, once, status.ClusterNotReady, counts(1, 1, 0)},
		"it is not there after the terminate": {domain.ContextTerminated, "DD", "", once, status.ClusterNotReady, counts(1, 0, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := withHooks(t, c.status, c.marks, c.job, c.hooks...)
			doc := readReported(t, "?status=ready", s)
			require.Equal(t, c.ready, doc.Ready)
			require.Equal(t, c.counts, doc.Camel)
			bad := 0
			for row, err := range s.Rows(view.Ask{Reported: true, Judged: true}) {
				require.NoError(t, err)
				if row.Readiness == view.NotReady || row.Readiness == view.NotThere {
					require.Equal(t, "job", row.Resource.Name)
					bad++
				}
			}
			require.Equal(t, c.counts[status.ClusterNotReady]+c.counts[status.ClusterNotPresent], bad)
		})
	}
}

// TestAHookThatTheReleaseHasToo is one object, which has to be Ready as the release's.
func TestAHookThatTheReleaseHasToo(t *testing.T) {
	t.Parallel()
	s := withHooks(t, domain.ContextInstantiated, "AA", "", "main")
	s.Apps[0].Resources[1] = s.Apps[0].Resources[0]
	doc := readReported(t, "?status=ready", s)
	require.Equal(t, map[status.ClusterState]int{status.ClusterReady: 1}, doc.Camel)
	require.Equal(t, map[status.ClusterState]int{status.ClusterPresent: 1}, readReported(t, "?type=cluster", s).Kebab)
	s.Observations = reported{"web": {observation("edge01")}}.observations
	doc = readReported(t, "?status=ready", s)
	require.Equal(t, map[status.ClusterState]int{status.ClusterNotPresent: 1}, doc.Camel)
}

// TestTheRunsOfAHook have a state each; as an object it is listed once.
func TestTheRunsOfAHook(t *testing.T) {
	t.Parallel()
	s := withHooks(t, domain.ContextInstantiateFailed, "AAX", readiness.NotReady, "job", "job")
	require.Contains(t, write(t, parseQuery(t, "?output=summary"), s), `"rsync-status":{"Applied":2,"Failed":1}`)
	require.Equal(t, 1, strings.Count(write(t, parseQuery(t, "?resources"), s), `"name":"job"`))
	require.Equal(t, 1, strings.Count(write(t, parseQuery(t, "?resources&type=cluster"), s), `"name":"job"`))
}
