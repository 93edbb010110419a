package operations_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/operations"
)

const (
	theGroup   = domain.Key("projects/p/composite-apps/ca/v1/deployment-intent-groups/dig")
	theContext = "2621114006130701074"
)

var begun = time.Date(2026, 11, 21, 5, 29, 7, 36e6, time.UTC)

func execution(op domain.Operation, runID string, status explain.RunStatus) operations.Execution {
	return operations.Execution{
		Scope: domain.Scope{Owner: theGroup, ContextID: theContext, Operation: op},
		Run:   explain.Run{Operation: op, ID: "dig/" + runID, RunID: runID, Status: status, Started: begun},
	}
}

// record is that of a context on which an update and two terminates were done.
func record() *domain.Instance {
	i := &domain.Instance{ContextID: theContext, Owner: theGroup}
	i.Begin(domain.Ran{RunID: "r1", Operation: domain.OpUpdate, Detail: "update", RequestedBy: "alice", Accepted: begun})
	i.Begin(domain.Ran{RunID: "r1", Operation: domain.OpUpdate})
	i.End(domain.Ran{Operation: domain.OpUpdate, Status: domain.ContextInstantiated, Ended: begun.Add(time.Second)})
	i.Begin(domain.Ran{RunID: "r2", Operation: domain.OpTerminate, Accepted: begun})
	i.End(domain.Ran{Operation: domain.OpTerminate, Status: domain.ContextTerminateFailed, Stopped: true, Reason: "stopped", Ended: begun.Add(time.Second)})
	i.Begin(domain.Ran{RunID: "r3", Operation: domain.OpTerminate, Accepted: begun})
	return i
}

func TestStates(t *testing.T) {
	with := func(x operations.Execution, refusal string) operations.Execution {
		x.Refused = refusal
		return x
	}
	for name, c := range map[string]struct {
		x      operations.Execution
		record *domain.Instance
		want   operations.State
		reason string
	}{
		"going on, not recorded yet":     {execution(domain.OpInstantiate, "r0", explain.Running), nil, operations.Running, ""},
		"paused by hand":                 {execution(domain.OpInstantiate, "r0", explain.RunPaused), nil, operations.Running, ""},
		"going on":                       {execution(domain.OpTerminate, "r3", explain.Running), record(), operations.Running, ""},
		"ended a moment ago":             {execution(domain.OpUpdate, "r1", explain.Running), record(), operations.Succeeded, ""},
		"done":                           {execution(domain.OpUpdate, "r1", explain.Completed), record(), operations.Succeeded, ""},
		"stopped":                        {execution(domain.OpTerminate, "r2", explain.Completed), record(), operations.Stopped, "stopped"},
		"killed":                         {execution(domain.OpTerminate, "r3", explain.Terminated), record(), operations.Failed, "its workflow has ended without recording an end"},
		"refused":                        {with(execution(domain.OpUpdate, "r0", explain.Completed), "no"), nil, operations.Refused, "no"},
		"not begun":                      {execution(domain.OpInstantiate, "r0", explain.Failed), nil, operations.Refused, ""},
		"refused a second time":          {execution(domain.OpTerminate, "r4", explain.Failed), record(), operations.Refused, ""},
		"an update without a difference": {execution(domain.OpUpdate, "r0", explain.Completed), nil, operations.Succeeded, ""},
		"cancelled before its record":    {execution(domain.OpInstantiate, "r0", explain.Canceled), nil, operations.Stopped, ""},
		"of an owner that is gone":       {execution(domain.OpInstantiate, "r0", explain.Completed), nil, operations.Unknown, ""},
		"known to the record alone":      {execution(domain.OpUpdate, "", ""), record(), operations.Succeeded, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := operations.Of(c.x, c.record, explain.WebUI{})
			require.Equal(t, c.want, o.State)
			require.Equal(t, c.reason, o.Reason)
		})
	}
}

func TestOf(t *testing.T) {
	o := operations.Of(execution(domain.OpUpdate, "r1", explain.Completed), record(), explain.WebUI{URL: "http://ui", Namespace: "drover"})
	end := begun.Add(time.Second)
	require.Empty(t, cmp.Diff(operations.Operation{
		ID: theContext + "-update", Operation: "update", Detail: "update", Resource: theGroup, Kind: "deployment intent group",
		Instance: theContext, State: operations.Succeeded, By: "alice", Started: begun, Ended: &end, Status: domain.ContextInstantiated,
		Workflow: &explain.Workflow{ID: "dig/r1", RunID: "r1", Status: explain.Completed, Link: "http://ui/namespaces/drover/workflows/dig%2Fr1/r1"},
	}, o))
	ahead := execution(domain.OpUpdate, "r1", explain.Completed)
	ahead.Run.Started = end.Add(time.Second) // by a clock that is ahead of the worker's
	o = operations.Of(ahead, record(), explain.WebUI{})
	require.Equal(t, &o.Started, o.Ended, "nothing ends before it begins")
	networks := operations.Execution{Scope: domain.Scope{Owner: "cluster-providers/p/clusters/c", ContextID: "1", Operation: domain.OpInstantiate}}
	require.Equal(t, "apply", operations.Of(networks, nil, explain.WebUI{}).Operation)
}

func TestParseID(t *testing.T) {
	s, err := operations.ParseID(theContext + "-rollback")
	require.NoError(t, err)
	require.Equal(t, theContext+"-rollback", operations.ID(s))
	run, err := operations.ParseID("p/c-a/v1/dig/" + theContext + "/rollback")
	require.NoError(t, err)
	require.Equal(t, s, run)
	for _, id := range []string{"", "a/b/c", "update", "1-apply", "1-approve", "x-update", "1"} {
		_, err := operations.ParseID(id)
		require.True(t, fail.Is(err, fail.NotFound), "%s: %v", id, err)
	}
}

func TestParseFilter(t *testing.T) {
	for query, want := range map[string]operations.Filter{
		"":               {},
		"project=p":      {Project: "p"},
		"cluster=p%2Bc1": {Cluster: domain.ClusterName{Provider: "p", Name: "c1"}},
		"cluster=p+c1":   {Cluster: domain.ClusterName{Provider: "p", Name: "c1"}},
		"owner=/v2/" + string(theGroup) + "&kind=apply": {Owner: theGroup, Kind: domain.OpInstantiate},
		"kind=rollback&state=Failed&since=2h":           {Kind: domain.OpRollback, State: operations.Failed, Since: begun.Add(-2 * time.Hour)},
		"since=2026-11-20T00:00:00%2B01:00":             {Since: time.Date(2026, 11, 19, 23, 0, 0, 0, time.UTC)},
	} {
		v, err := url.ParseQuery(query)
		require.NoError(t, err)
		f, err := operations.ParseFilter(v, begun)
		require.NoError(t, err, query)
		f.Since = f.Since.UTC()
		require.Equal(t, want, f, query)
	}
	for query, names := range map[string]string{
		"project=a%27b": "project", "cluster=c1": "cluster", "kind=approve": "kind", "state=Done": "state", "since=yesterday": "since", "since=-2h": "since",
		"since=9999-12-31T23:59:59-01:00": "since", "since=0001-01-01T00:00:00%2B01:00": "since",
		"owner=projects/p": "owner", "owner=x/clusters/c": "owner", "owner=projects/p'/logical-clouds/lc": "owner", "project=": "project",
	} {
		v, err := url.ParseQuery(query)
		require.NoError(t, err)
		_, err = operations.ParseFilter(v, begun)
		require.True(t, fail.Is(err, fail.Invalid), "%s: %v", query, err)
		require.Equal(t, names, fail.FieldsOf(err)[0].Path)
	}
}
