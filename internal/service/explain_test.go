package service

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
)

const explained = domain.Key("projects/p/composite-apps/ca/v1/deployment-intent-groups/dig")

// shelf has one group, instantiated.
type shelf struct{ Store }

func (shelf) Get(context.Context, *domain.Noun, domain.Key) (domain.Object, error) {
	g := &domain.DeploymentIntentGroup{History: domain.NewHistory(time.Unix(0, 0))}
	g.History.Append(domain.Approved, "", 0, time.Unix(1, 0))
	g.History.Append(domain.Instantiated, "1", 1, time.Unix(2, 0))
	return g, nil
}

// List finds nothing that is bound to it.
func (shelf) List(context.Context, *domain.Noun, domain.Key) ([]domain.Object, error) {
	return nil, nil
}

// written has the record of the group's context, as it is read one time after the other, of two clusters, of which one
// has a leaf.
type written struct {
	Records
	statuses []domain.ContextStatus
	read     int
	err      error
	earlier  []*domain.Instance
}

func (w *written) InstancesOf(context.Context, domain.Key) ([]*domain.Instance, error) {
	last := &domain.Instance{ContextID: "1", Status: domain.ContextTerminated, Remnants: "what is said of the last one is said already"}
	return append(slices.Clone(w.earlier), last), nil
}

func (w *written) Instance(context.Context, string) (*domain.Instance, error) {
	i := &domain.Instance{
		ContextID: "1", Owner: explained, Operation: domain.OpInstantiate, Plan: "plan",
		Status: w.statuses[min(w.read, len(w.statuses)-1)],
	}
	w.read++
	return i, nil
}

func (w *written) Blob(context.Context, domain.Digest) ([]byte, error) {
	return json.Marshal(plan.Plan{ContextID: "1", Owner: explained, Apps: []plan.App{{
		Name: "app", Resources: []plan.ResourceID{{Version: "v1", Kind: "ConfigMap", Name: "cm"}},
		Targets: []plan.Target{{ClusterName: cluster0("c0")}, {ClusterName: cluster0("c1")}},
	}}})
}

func (w *written) Leaves(context.Context, string) ([]domain.Leaf, error) {
	return []domain.Leaf{{
		ID: domain.LeafID("1", "app", cluster0("c0")), ContextID: "1", App: "app", Cluster: cluster0("c0"),
		Operation: domain.OpInstantiate, Connectivity: domain.ConnectivityAvailable, Marks: "1A",
	}}, w.err
}

// away is an engine of which parts do not answer.
type away struct {
	Engine
	running                  bool
	run, open, starts, tries error
	described                explain.Run
	asked                    []explain.Place
	children                 []string // that were asked for when the attempts were known
}

func (a *away) Running(context.Context, domain.Scope) (bool, error) { return a.running, nil }

func (a *away) Open(_ context.Context, s domain.Scope, app string) ([]domain.Leaf, error) {
	return []domain.Leaf{{
		ID: domain.LeafID(s.ContextID, app, cluster0("c1")), App: app, Cluster: cluster0("c1"),
		Connectivity: domain.ConnectivityRetrying, Marks: "1s", LastError: "connection refused", Open: true,
	}}, a.open
}

func (a *away) NotStarted(context.Context, domain.Scope) (map[string]string, error) { return nil, nil }

func (a *away) Run(context.Context, domain.Scope) (explain.Run, error) { return a.described, a.run }

func (a *away) Starting(context.Context, domain.Key, string) (*explain.Run, error) {
	return nil, a.starts
}

func (a *away) Attempts(_ context.Context, _ domain.Scope, places []explain.Place) (map[explain.Place]explain.Attempt, error) {
	a.asked = places
	return map[explain.Place]explain.Attempt{places[0]: {Number: 7}}, a.tries
}

func (a *away) Waiting(_ context.Context, workflows []string) *explain.Task {
	if a.asked != nil {
		a.children = workflows
	}
	return &explain.Task{Workflow: workflows[0], Since: time.Unix(1, 0), Attempt: 4}
}

// TestExplainRemnantsOfEarlierInstances: what clusters have again of a context that ended before the last one began is shown.
func TestExplainRemnantsOfEarlierInstances(t *testing.T) {
	records := &written{statuses: []domain.ContextStatus{domain.ContextInstantiated}, earlier: []*domain.Instance{
		{ContextID: "a", Status: domain.ContextTerminated, Remnants: "Pod once on p+c: its deletion is refused"},
		{ContextID: "b", Status: domain.ContextTerminated},
		{ContextID: "c", Status: domain.ContextUpdated, Remnants: "of nobody"},
	}}
	l := NewLifecycle(shelf{}, records, said{}, &away{}, func() time.Time { return time.Unix(100, 0) })
	x, err := NewExplainer(l, &away{}, explain.WebUI{}).Explain(t.Context(), explained)
	require.NoError(t, err)
	var said []string
	for _, r := range x.Reasons {
		if r.Kind == explain.Remnants {
			said = append(said, r.Text)
		}
	}
	require.Equal(t, []string{"clusters have something of the earlier app context a again: Pod once on p+c: its deletion is refused"}, said)
}

// immutable has the record of an update whose only resource is refused for good, with its manifest.
type immutable struct {
	written
	manifest string
}

func (r *immutable) Blob(_ context.Context, digest domain.Digest) ([]byte, error) {
	id := plan.ResourceID{Version: "v1", Kind: "Secret", Name: "s"}
	if digest == "bundle" {
		return json.Marshal(plan.Bundle{App: "app", Resources: []plan.Resource{{ResourceID: id, Manifest: json.RawMessage(r.manifest)}}})
	}
	return json.Marshal(plan.Plan{ContextID: "1", Owner: explained, Apps: []plan.App{{
		Name: "app", Bundle: "bundle", Resources: []plan.ResourceID{id}, Targets: []plan.Target{{ClusterName: cluster0("c0")}},
	}}})
}

func (r *immutable) Leaves(context.Context, string) ([]domain.Leaf, error) {
	return []domain.Leaf{{
		ID: domain.LeafID("1", "app", cluster0("c0")), ContextID: "1", App: "app", Cluster: cluster0("c0"), Operation: domain.OpInstantiate,
		Connectivity: domain.ConnectivityAvailable, Marks: "1F", Notes: []domain.Note{{Message: `Secret "s" is invalid: type: Invalid value: "b": field is immutable`}},
	}}, nil
}

// TestExplainReadsWhatIsKept: by the manifest, when the time to ask the engine is over.
func TestExplainReadsWhatIsKept(t *testing.T) {
	for manifest, advised := range map[string]bool{
		`{"kind": "Secret"}`: true,
		`{"kind": "Secret", "metadata": {"annotations": {"helm.sh/resource-policy": "keep"}}}`: false,
	} {
		records := &immutable{written{statuses: []domain.ContextStatus{domain.ContextInstantiateFailed}}, manifest}
		engine := &away{described: explain.Run{Operation: domain.OpUpdate, Status: explain.Completed}}
		l := NewLifecycle(shelf{}, records, said{}, engine, func() time.Time { return time.Unix(100, 0) })
		x, err := NewExplainer(l, engine, explain.WebUI{}).Explain(t.Context(), explained)
		require.NoError(t, err)
		require.Equal(t, explain.ResourceRefused, x.Reasons[0].Kind)
		require.Equal(t, advised, strings.Contains(x.Reasons[0].Do, plan.ReplaceAnnotation), x.Reasons[0].Do)
	}
}

// refusing has the record of an update whose hundred resources of each of two apps are refused for good.
type refusing struct {
	written
	bundles int // reads of them
	fails   bool
}

func (r *refusing) Blob(_ context.Context, digest domain.Digest) ([]byte, error) {
	b, p := plan.Bundle{}, plan.Plan{ContextID: "1", Owner: explained}
	var ids []plan.ResourceID
	for i := range 100 {
		id := plan.ResourceID{Version: "v1", Kind: "Secret", Name: fmt.Sprint("s", i)}
		ids = append(ids, id)
		b.Resources = append(b.Resources, plan.Resource{ResourceID: id, Manifest: json.RawMessage(`{"kind": "Secret"}`)})
	}
	if digest == "plan" {
		for _, app := range []string{"a", "b"} {
			p.Apps = append(p.Apps, plan.App{
				Name: app, Bundle: domain.Digest("bundle of " + app), Resources: ids, Targets: []plan.Target{{ClusterName: cluster0("c0")}, {ClusterName: cluster0("c1")}},
			})
		}
		return json.Marshal(p)
	}
	r.bundles++
	if r.fails {
		return nil, fail.New(fail.Unavailable, "the database does not answer")
	}
	return json.Marshal(b)
}

func (r *refusing) Leaves(context.Context, string) (all []domain.Leaf, err error) {
	for _, app := range []string{"a", "b"} {
		for _, c := range []domain.ClusterName{cluster0("c0"), cluster0("c1")} {
			l := domain.Leaf{
				ID: domain.LeafID("1", app, c), ContextID: "1", App: app, Cluster: c, Operation: domain.OpInstantiate,
				Connectivity: domain.ConnectivityAvailable, Marks: "100F",
			}
			for i := range 100 {
				l.Notes = append(l.Notes, domain.Note{Index: i, Message: `Secret "s" is invalid: type: Invalid value: "b": field is immutable`})
			}
			all = append(all, l)
		}
	}
	return all, nil
}

// TestExplainReadsAnAppOnce: however much of it is refused. For its size and for what it has it is read twice. After an error nothing is read any more.
func TestExplainReadsAnAppOnce(t *testing.T) {
	ended, going := domain.ContextInstantiateFailed, domain.ContextInstantiating
	for name, c := range map[string]struct {
		status  domain.ContextStatus
		fails   bool
		advised bool
		bundles int
	}{
		"it has ended":       {ended, false, true, 4},
		"it goes on":         {going, false, false, 4}, // nothing is advised yet
		"they cannot be had": {ended, true, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			records := &refusing{written: written{statuses: []domain.ContextStatus{c.status}}, fails: c.fails}
			engine := &away{running: c.status == going, described: explain.Run{Operation: domain.OpUpdate, Status: explain.Running}}
			l := NewLifecycle(shelf{}, records, said{}, engine, func() time.Time { return time.Unix(100, 0) })
			x, err := NewExplainer(l, engine, explain.WebUI{}).Explain(t.Context(), explained)
			require.NoError(t, err)
			i := slices.IndexFunc(x.Reasons, func(r explain.Reason) bool { return r.Kind == explain.ResourceRefused })
			require.GreaterOrEqual(t, i, 0)
			require.Equal(t, 400, x.Reasons[i].Resources)
			require.Equal(t, c.advised, strings.Contains(x.Reasons[i].Do, plan.ReplaceAnnotation), x.Reasons[i].Do)
			require.Equal(t, c.bundles, records.bundles)
			require.Empty(t, l.onShow.of, "what was read is given back")
		})
	}
}

func TestExplain(t *testing.T) {
	down := fail.New(fail.Unavailable, "the workflow engine is not available")
	running := explain.Run{Operation: domain.OpInstantiate, Status: explain.Running}
	begun := running
	begun.Children = []string{"app"}
	going := []domain.ContextStatus{domain.ContextInstantiating}
	for name, c := range map[string]struct {
		engine   away
		statuses []domain.ContextStatus
		kinds    []explain.Kind
		unknown  int
		asked    int // places
		children []string
	}{
		"a cluster does not answer": {
			engine: away{running: true, described: running}, statuses: going,
			kinds: []explain.Kind{explain.ClusterHoldsUp}, asked: 1,
		},
		"nor does a worker do a child's task": {
			engine: away{running: true, described: begun}, statuses: going,
			kinds: []explain.Kind{explain.NoWorker, explain.ClusterHoldsUp}, asked: 1, children: begun.Children,
		},
		"children are nobody's matter when the engine goes down": {
			engine: away{running: true, described: begun, tries: down}, statuses: going,
			kinds: []explain.Kind{explain.EngineSilent, explain.ClusterHoldsUp}, asked: 1,
		},
		"it ends while it is asked": {
			engine: away{described: running}, statuses: []domain.ContextStatus{domain.ContextInstantiating, domain.ContextInstantiated},
			kinds: []explain.Kind{explain.NeverSent}, unknown: 1, // what the records say
		},
		"its workflow was killed": {
			engine: away{described: explain.Run{Operation: domain.OpInstantiate, Status: explain.Terminated}}, statuses: going,
			kinds: []explain.Kind{explain.WorkflowGone, explain.Unrecorded},
		},
		"the engine does not know it any more": {
			engine: away{run: fail.New(fail.NotFound, "no workflow")}, statuses: going,
			kinds: []explain.Kind{explain.WorkflowGone, explain.Unrecorded},
		},
		"the engine is down": {
			engine: away{run: down}, statuses: going, kinds: []explain.Kind{explain.EngineSilent, explain.Unrecorded},
		},
		"the engine goes down before leaves are asked for": {
			engine: away{running: true, described: running, open: down}, statuses: going,
			kinds: []explain.Kind{explain.EngineSilent, explain.Unrecorded},
		},
		"the engine goes down when attempts are asked for": {
			engine: away{running: true, described: running, tries: down}, statuses: going,
			kinds: []explain.Kind{explain.EngineSilent, explain.ClusterHoldsUp}, asked: 1,
		},
		"the engine is down and nothing goes on": {
			engine: away{run: down}, statuses: []domain.ContextStatus{domain.ContextInstantiated},
			kinds: []explain.Kind{explain.NeverSent}, unknown: 2,
		},
		"the engine cannot say whether something begins": {
			engine: away{starts: down}, statuses: []domain.ContextStatus{domain.ContextInstantiated},
			kinds: []explain.Kind{explain.NeverSent}, unknown: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			records := &written{statuses: c.statuses}
			l := NewLifecycle(shelf{}, records, said{}, &c.engine, func() time.Time { return time.Unix(100, 0) })
			x, err := NewExplainer(l, &c.engine, explain.WebUI{}).Explain(t.Context(), explained)
			require.NoError(t, err)
			var kinds []explain.Kind
			for _, r := range x.Reasons {
				kinds = append(kinds, r.Kind)
			}
			require.Equal(t, c.kinds, kinds)
			require.False(t, x.AsWished)
			require.Len(t, x.Unknown, c.unknown)
			if len(c.statuses) == 1 && !c.statuses[0].InProgress() {
				require.Equal(t, []string{"update", "rollback", "migrate", "terminate"}, x.May)
			}
			require.Len(t, c.engine.asked, c.asked)
			require.Equal(t, c.children, c.engine.children)
			if c.asked > 0 && c.engine.tries == nil {
				require.Equal(t, 7, x.Reasons[len(x.Reasons)-1].Examples[0].Attempt)
			}

			records.err = fail.New(fail.Unavailable, "the database does not answer")
			l = NewLifecycle(shelf{}, records, said{}, &c.engine, l.now)
			_, err = NewExplainer(l, &c.engine, explain.WebUI{}).Explain(t.Context(), explained)
			require.ErrorContains(t, err, "the database does not answer", "of the store nothing can be said without it")
		})
	}
}
