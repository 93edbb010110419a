package combined_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/combined"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/view"
)

const theGroup domain.Key = "projects/p/composite-apps/c/v1/deployment-intent-groups/dig"

func cluster(name string) domain.ClusterName { return domain.ClusterName{Provider: "cp", Name: name} }

func resource(group, kind, name, manifest string) plan.Resource {
	version := "v1"
	if group != "" {
		version = group + "/v1"
	}
	return plan.Resource{
		ResourceID: plan.ResourceID{Group: group, Version: "v1", Kind: kind, Name: name},
		Manifest:   json.RawMessage(fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q},%s}`, version, kind, name, manifest)),
	}
}

// group is one app on clusters a and b, and on c, which it is leaving, with an intent that wants everything.
func group(resources ...plan.Resource) *combined.Group {
	a := plan.App{Name: "web", Targets: []plan.Target{{ClusterName: cluster("a")}, {ClusterName: cluster("b")}, {ClusterName: cluster("c"), Leaving: true}}}
	for _, r := range resources {
		a.Resources = append(a.Resources, r.ResourceID)
	}
	return &combined.Group{
		Key: theGroup, Status: domain.ContextInstantiated,
		Plan:    &plan.Plan{ContextID: "1", Namespace: "default", Owner: theGroup, Apps: []plan.App{a}},
		Bundles: map[string]*plan.Bundle{"web": {App: "web", Resources: resources}},
		Mask:    func(m json.RawMessage) json.RawMessage { return bundle.NewMasker(nil).Mask("p", m) },
		Intents: []*domain.StatusIntent{{Spec: domain.StatusIntentSpec{StatusCollectors: []string{"all"}, WantMultiWECReportedState: true}}},
	}
}

// broken stands for a collector, so that items have no tables but all the rest.
var broken = map[string]combined.Collector{"all": {Name: "all", Broken: &combine.Result{Name: "all", ColumnNames: []string{}, Rows: []combine.ResultRow{}, Errors: []string{"broken"}}}}

// source is the view of the group with what clusters report, by cluster: nil for a cluster that has said nothing.
func source(g *combined.Group, marks string, reports map[string]*view.Observation) *view.Source {
	s := &view.Source{ContextID: "1", Status: g.Status, Namespace: "default"}
	for _, a := range g.Plan.Apps {
		app := view.App{Name: a.Name, Resources: a.Resources, Hook: a.Hook}
		for _, t := range a.Targets {
			app.Clusters = append(app.Clusters, view.Cluster{ClusterName: t.ClusterName, Marks: domain.DecodeMarks(marks)})
		}
		s.Apps = append(s.Apps, app)
	}
	s.Observations = func(string, []domain.ClusterName) iter.Seq2[*view.Observation, error] {
		return func(yield func(*view.Observation, error) bool) {
			for _, name := range []string{"a", "b", "c"} {
				if o := reports[name]; o != nil {
					o.ClusterName = cluster(name)
					if !yield(o, nil) {
						return
					}
				}
			}
		}
	}
	return s
}

var stored = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// saying is a report of a cluster that is heard.
func saying(kind, name, object string) *view.Observation {
	o := &view.Observation{Seen: true, Connected: true, Kinds: []schema.GroupKind{{Group: "apps", Kind: "Deployment"}}}
	if object != "" {
		o.Resources = []view.ObservedResource{{
			ResourceID: plan.ResourceID{Group: "apps", Version: "v1", Kind: kind, Namespace: "default", Name: name}, Stored: stored,
		}}
		o.Object = func(int) (json.RawMessage, error) { return json.RawMessage(object), nil }
	}
	return o
}

func documents(t *testing.T, g *combined.Group, f combined.Filter, s *view.Source) *combined.List {
	t.Helper()
	set, err := combined.NewSet(t.Context(), g, f, broken)
	require.NoError(t, err)
	if s != nil {
		require.NoError(t, set.Evaluate(t.Context(), s))
	}
	return set.CombinedStatuses()
}

// TestNobodyWaitsForObjects: what intents ask of many objects ends with who asks.
func TestNobodyWaitsForObjects(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := combined.NewSet(ctx, group(resource("apps", "Deployment", "web", `"spec":{}`)), combined.Filter{}, nil)
	require.ErrorIs(t, err, context.Canceled)
}

func TestWhichObjectsThereAre(t *testing.T) {
	g := group(
		resource("", "Namespace", "own", `"spec":{}`),
		resource("", "Secret", "s", `"data":{"password":"c2VzYW1l"},"stringData":{"a":"sesame"}`),
		resource("apps", "Deployment", "web", `"spec":{"replicas":3},"status":{"replicas":1}`),
		resource("example.com", "Widget", "w", `"spec":{}`),
		resource("example.com", "Thing", "t", `"spec":{}`),
		resource("example.com", "Node", "n", `"spec":{}`),
		resource("rbac.authorization.k8s.io", "ClusterRole", "r", `"rules":[]`),
		resource("apiextensions.k8s.io", "CustomResourceDefinition", "things.example.com", `"spec":{"group":"example.com","scope":"Cluster","names":{"plural":"thingies","kind":"Thing"}}`),
		resource("batch", "Job", "hook", `"spec":{}`),
		resource("", "Service", "pruned", `"spec":{}`),
	)
	g.Plan.Apps[0].Pruned, g.Plan.Apps[0].Hooks = 1, 1
	set, err := combined.NewSet(t.Context(), g, combined.Filter{}, nil)
	require.NoError(t, err)
	data, err := json.Marshal(set.Objects())
	require.NoError(t, err)
	const annotated = `"annotations":{"drover.io/reported-state":"none","drover.io/reported-state-reason":"REASON"}`
	var list combined.ObjectList
	require.NoError(t, json.Unmarshal(data, &list))
	var got []string
	for _, o := range list.Items {
		metadata := o["metadata"].(map[string]any)
		annotations := metadata["annotations"].(map[string]any)
		require.Equal(t, "none", annotations[combined.StateAnnotation])
		annotations[combined.ReasonAnnotation] = "REASON"
		text, err := json.Marshal(o)
		require.NoError(t, err)
		got = append(got, strings.Replace(string(text), annotated, "A", 1))
	}
	require.Equal(t, []string{
		`{"apiVersion":"v1","kind":"Namespace","metadata":{A,"name":"own"},"spec":{}}`,
		`{"apiVersion":"v1","kind":"Secret","metadata":{A,"name":"s","namespace":"default"}}`,
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{A,"name":"things.example.com"},"spec":{"group":"example.com","names":{"kind":"Thing","plural":"thingies"},"scope":"Cluster"}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{A,"name":"web","namespace":"default"},"spec":{"replicas":3}}`,
		`{"apiVersion":"example.com/v1","kind":"Node","metadata":{A,"name":"n","namespace":"default"},"spec":{}}`,
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{A,"name":"t"},"spec":{}}`,
		`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{A,"name":"w","namespace":"default"},"spec":{}}`,
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{A,"name":"r"},"rules":[]}`,
	}, got)

	resources := map[string]string{}
	for _, d := range documents(t, g, combined.Filter{}, nil).Items {
		resources[d.Metadata.Labels["status.kubestellar.io/name"]] = d.Metadata.Namespace + " " + d.Metadata.Labels["status.kubestellar.io/resource"]
	}
	require.Equal(t, map[string]string{
		"own": "kubestellar-report namespaces", "s": "default secrets", "web": "default deployments", "w": "default widgets", "t": "kubestellar-report thingies",
		"things.example.com": "kubestellar-report customresourcedefinitions", "n": "default nodes", "r": "kubestellar-report clusterroles",
	}, resources)
}

func TestFilters(t *testing.T) {
	g := group(resource("apps", "Deployment", "web", `"spec":{}`), resource("", "Service", "web", `"spec":{}`), resource("", "Service", "db", `"spec":{}`))
	g.Intents = append(g.Intents, &domain.StatusIntent{Spec: domain.StatusIntentSpec{
		ObjectTest: domain.ObjectTest{Kinds: []string{"Service"}}, StatusCollectors: []string{"together"}, Together: true,
	}})
	for name, c := range map[string]struct {
		f    combined.Filter
		want []string
	}{
		"none":            {combined.Filter{}, []string{"services/db [all together]", "services/web [all together]", "deployments/web [all]", "apps/web [together]"}},
		"an app":          {combined.Filter{Apps: []string{"web"}, Collectors: []string{"together"}}, []string{"services/db [together]", "services/web [together]", "apps/web [together]"}},
		"another app":     {combined.Filter{Apps: []string{"db"}}, nil},
		"a kind":          {combined.Filter{Kinds: []string{"Deployment", "Pod"}}, []string{"deployments/web [all]"}},
		"a resource":      {combined.Filter{Resources: []string{"web"}}, []string{"services/web [all together]", "deployments/web [all]"}},
		"a collector":     {combined.Filter{Collectors: []string{"all"}}, []string{"services/db [all]", "services/web [all]", "deployments/web [all]"}},
		"none of its own": {combined.Filter{Collectors: []string{"fleet/all"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, d := range documents(t, g, c.f, nil).Items {
				var results []string
				for _, r := range d.Results {
					results = append(results, r.Name)
				}
				got = append(got, fmt.Sprintf("%s/%s %v", d.Metadata.Labels["status.kubestellar.io/resource"], d.Metadata.Labels["status.kubestellar.io/name"], results))
			}
			require.Equal(t, c.want, got)
		})
	}
}

// TestATableOfAnAppIsOfItsCollectorsObjects, and so are its inputs: of what another collector is for, a filter leaves nothing.
func TestATableOfAnAppIsOfItsCollectorsObjects(t *testing.T) {
	g := group(resource("apps", "Deployment", "web", `"spec":{}`), resource("", "Service", "web", `"spec":{}`))
	spec := &domain.StatusCollectorSpec{CombinedFields: []domain.NamedAggregator{
		{Name: "n", Type: domain.AggregatorCount}, {Name: "sum", Type: domain.AggregatorSum, Subject: "propagation.reported ? 1 : 0"},
	}}
	collectors := map[string]combined.Collector{}
	g.Intents = nil
	for kind, name := range map[string]string{"Deployment": "deployments", "Service": "services"} {
		program, err := combine.Compile(name, spec)
		require.NoError(t, err)
		collectors[name] = combined.Collector{Name: name, Program: program}
		g.Intents = append(g.Intents, &domain.StatusIntent{Spec: domain.StatusIntentSpec{
			ObjectTest: domain.ObjectTest{Kinds: []string{kind}}, StatusCollectors: []string{name}, Together: true,
		}})
	}
	reports := map[string]*view.Observation{"a": saying("Service", "web", `{"metadata":{"name":"web"}}`), "b": saying("Service", "web", `{"metadata":{"name":"web"}}`)}
	for _, o := range reports {
		o.Resources[0].Group = ""
	}
	for filter, want := range map[string]string{
		"":            "deployments 2 0, services 2 2; of 2, 0 have reported, and 2 are stale",
		"services":    "services 2 2; of 2, 2 have reported, and 0 are stale",
		"deployments": "deployments 2 0; of 2, 0 have reported, and 2 are stale",
	} {
		f := combined.Filter{}
		if filter != "" {
			f.Collectors = []string{filter}
		}
		set, err := combined.NewSet(t.Context(), g, f, collectors)
		require.NoError(t, err)
		require.NoError(t, set.Evaluate(t.Context(), source(g, "2A", reports)))
		items := set.CombinedStatuses().Items
		d := items[len(items)-1]
		require.Equal(t, "apps", d.Metadata.Labels["status.kubestellar.io/resource"])
		var results []string
		for _, r := range d.Results {
			results = append(results, fmt.Sprint(r.Name, " ", *r.Rows[0].Columns[0].Float, " ", *r.Rows[0].Columns[1].Float))
		}
		require.Equal(t, want, fmt.Sprintf("%s; of %d, %d have reported, and %d are stale", strings.Join(results, ", "), d.Inputs.Clusters, d.Inputs.Reported, d.Inputs.Stale))
	}
}

// TestAnObjectThatWasDeletedByHand on a cluster that is heard is not stale: the cluster has reported it, and says that it is gone.
func TestAnObjectThatWasDeletedByHand(t *testing.T) {
	gone := func() *view.Observation {
		o := saying("Deployment", "web", "")
		o.Gone = []domain.GoneResource{{Identity: domain.IdentityOf("apps", "Deployment", "default", "web"), Since: stored}}
		return o
	}
	cut := gone()
	cut.Connected, cut.LastSeen, cut.Reason = false, stored.Add(time.Hour), "refused"
	unheard := gone()
	unheard.Unheard = []view.UnheardKind{{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Since: stored.Add(time.Minute), Reason: "forbidden"}}
	unwatched := gone()
	unwatched.Kinds = []schema.GroupKind{{Kind: "Pod"}}
	const columns = `{"select":[{"name":"a","def":"[propagation.reported, propagation.present, propagation.stale]"},{"name":"b","def":"propagation.lastReturnedUpdateTimestamp"},
		{"name":"c","def":"propagation.staleSince"},{"name":"d","def":"returned"},{"name":"e","def":"propagation.ready"}]}`
	var spec domain.StatusCollectorSpec
	require.NoError(t, json.Unmarshal([]byte(columns), &spec))
	program, err := combine.Compile("all", &spec)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		says  *view.Observation
		want  string // the cells of cluster a, then inputs.stale
		there bool   // it is not known that it is not there
	}{
		"heard":           {gone(), `[true,false,false] 2026-03-01T12:00:00Z - {} NotPresent; 1`, false},
		"cut off since":   {cut, `[true,false,true] 2026-03-01T12:00:00Z 2026-03-01T13:00:00Z {} NotPresent; 2`, true},
		"its kind is":     {unheard, `[true,false,true] 2026-03-01T12:00:00Z 2026-03-01T12:01:00Z {} NotPresent; 2`, true},
		"nobody watches":  {unwatched, `[true,false,true] 2026-03-01T12:00:00Z - {} -; 2`, true},
		"was never there": {saying("Deployment", "web", ""), `[false,false,true] 0001-01-01T00:00:00Z - {} NotPresent; 2`, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := group(resource("apps", "Deployment", "web", `"spec":{}`))
			set, err := combined.NewSet(t.Context(), g, combined.Filter{}, map[string]combined.Collector{"all": {Name: "all", Program: program}})
			require.NoError(t, err)
			b := saying("Deployment", "web", "") // has never had it
			require.NoError(t, set.Evaluate(t.Context(), source(g, "1A", map[string]*view.Observation{"a": c.says, "b": b})))
			d := set.CombinedStatuses().Items[0]
			require.Empty(t, d.Results[0].RowErrors)
			var got []string
			for _, cell := range d.Results[0].Rows[0].Columns {
				text := "-"
				if cell.String != nil && *cell.String != "" {
					text = *cell.String
				} else if len(cell.Object)+len(cell.Array) > 0 {
					text = string(cell.Object) + string(cell.Array)
				}
				got = append(got, text)
			}
			require.Equal(t, c.want, fmt.Sprint(strings.Join(got, " "), "; ", d.Inputs.Stale))
			objects, err := combined.NewSet(t.Context(), g, combined.Filter{}, nil)
			require.NoError(t, err)
			require.NoError(t, objects.Evaluate(t.Context(), source(g, "1A", map[string]*view.Observation{"a": c.says, "b": b})))
			status := objects.Objects().Items[0]["status"].(map[string]any)
			require.EqualValues(t, 0, status["replicas"])
			reason := "of 2 clusters; silent: cp+a, cp+b"
			if !c.there {
				reason = "of 2 clusters; not there: cp+a; silent: cp+b"
			}
			require.Equal(t, reason, objects.Objects().Items[0]["metadata"].(map[string]any)["annotations"].(map[string]any)[combined.ReasonAnnotation])
		})
	}
}

// TestAnObjectThatWasSummarised is shown with what is left of its status, and says so.
func TestAnObjectThatWasSummarised(t *testing.T) {
	g := group(resource("apps", "Deployment", "web", `"spec":{}`))
	set, err := combined.NewSet(t.Context(), g, combined.Filter{}, nil)
	require.NoError(t, err)
	whole := saying("Deployment", "web", `{"metadata":{"name":"web"},"status":{"replicas":1}}`)
	short := saying("Deployment", "web", `{"metadata":{"name":"web","annotations":{"k8splugin.io/summarised":"true"}},"status":{"replicas":1}}`)
	require.NoError(t, set.Evaluate(t.Context(), source(g, "1A", map[string]*view.Observation{"a": short, "b": whole})))
	annotations := set.Objects().Items[0]["metadata"].(map[string]any)["annotations"].(map[string]any)
	require.Equal(t, "of 2 clusters; summarised: cp+a", annotations[combined.ReasonAnnotation])
}

// TestAnObjectThatCannotBeRead on one cluster has a row that says so, and takes nothing from other clusters and objects.
func TestAnObjectThatCannotBeRead(t *testing.T) {
	program, err := combine.Compile("all", &domain.StatusCollectorSpec{Select: []domain.NamedExpression{
		{Name: "wec", Def: "inventory.name"}, {Name: "n", Def: "returned.status.replicas"}, {Name: "reported", Def: "propagation.reported"},
	}})
	require.NoError(t, err)
	g := group(resource("apps", "Deployment", "web", `"spec":{}`))
	set, err := combined.NewSet(t.Context(), g, combined.Filter{}, map[string]combined.Collector{"all": {Name: "all", Program: program}})
	require.NoError(t, err)
	bad, good := saying("Deployment", "web", `[]`), saying("Deployment", "web", `{"status":{"replicas":2}}`)
	require.NoError(t, set.Evaluate(t.Context(), source(g, "1A", map[string]*view.Observation{"a": bad, "b": good})))
	d := set.CombinedStatuses().Items[0]
	require.Empty(t, d.Results[0].RowErrors)
	rows, err := json.Marshal(d.Results[0].Rows)
	require.NoError(t, err)
	require.JSONEq(t, `[{"columns":[{"type":"String","string":"a"},{"type":"Null"},{"type":"Bool","bool":true}]},
		{"columns":[{"type":"String","string":"b"},{"type":"Number","float":"2"},{"type":"Bool","bool":true}]}]`, string(rows))
	require.Equal(t, 1, d.Inputs.Stale)
	require.Contains(t, d.Inputs.Unconfirmed[0].Reason, "what the cluster reports of the object cannot be read: ")
}

// TestReplicasThatAManifestLeavesOut are 1, as Kubernetes stores them: a Deployment that has what it is to have is not listed as one that has
// not. Nothing else is filled in.
func TestReplicasThatAManifestLeavesOut(t *testing.T) {
	program, err := combine.Compile("all", &domain.StatusCollectorSpec{
		Filter: "obj.spec.replicas != returned.status.availableReplicas", Select: []domain.NamedExpression{{Name: "wec", Def: "inventory.name"}},
	})
	require.NoError(t, err)
	g := group(resource("apps", "Deployment", "web", `"spec":{}`))
	set, err := combined.NewSet(t.Context(), g, combined.Filter{}, map[string]combined.Collector{"all": {Name: "all", Program: program}})
	require.NoError(t, err)
	has := func(n int) *view.Observation {
		return saying("Deployment", "web", fmt.Sprintf(`{"metadata":{"name":"web"},"status":{"availableReplicas":%d}}`, n))
	}
	require.NoError(t, set.Evaluate(t.Context(), source(g, "1A", map[string]*view.Observation{"a": has(1), "b": has(2)})))
	rows := set.CombinedStatuses().Items[0].Results[0].Rows
	require.Len(t, rows, 1)
	require.Equal(t, "b", *rows[0].Columns[0].String)

	for kind, want := range map[string]string{
		"StatefulSet": `{"replicas":1}`, "ReplicaSet": `{"replicas":1}`, "DaemonSet": `{}`,
	} {
		objects, err := combined.NewSet(t.Context(), group(resource("apps", kind, "web", `"spec":{}`)), combined.Filter{}, nil)
		require.NoError(t, err)
		spec, err := json.Marshal(objects.Objects().Items[0]["spec"])
		require.NoError(t, err)
		require.Equal(t, want, string(spec), kind)
	}
}

// TestAnObjectWithoutAStatusGetsNone, though all its clusters report it.
func TestAnObjectWithoutAStatusGetsNone(t *testing.T) {
	g := group(resource("", "ConfigMap", "c", `"data":{}`))
	set, err := combined.NewSet(t.Context(), g, combined.Filter{}, nil)
	require.NoError(t, err)
	reports := map[string]*view.Observation{"a": saying("ConfigMap", "c", `{"metadata":{"name":"c"}}`), "b": saying("ConfigMap", "c", `{"metadata":{"name":"c"}}`)}
	for _, o := range reports {
		o.Resources[0].Group = ""
	}
	require.NoError(t, set.Evaluate(t.Context(), source(g, "1A", reports)))
	require.NotContains(t, set.Objects().Items[0], "status")
}

// TestARowHasWhatItsClusterGets, which intents may have varied.
func TestARowHasWhatItsClusterGets(t *testing.T) {
	g := group(resource("apps", "Deployment", "web", `"spec":{"replicas":3}`), resource("", "Service", "web", `"spec":{}`))
	g.Plan.Apps[0].Variants, g.Plan.Apps[0].Targets[1].Variant = []plan.Variant{{}}, 1
	g.Overlays = map[string][]*plan.Overlay{"web": {{Resources: []plan.Overlaid{
		{Index: 0, Resource: resource("apps", "Deployment", "web", `"spec":{"replicas":1},"status":{}`)},
	}}}}
	p, err := combine.Compile("all", &domain.StatusCollectorSpec{Select: []domain.NamedExpression{{Name: "n", Def: "[obj.spec, obj.metadata.namespace]"}}})
	require.NoError(t, err)
	set, err := combined.NewSet(t.Context(), g, combined.Filter{Kinds: []string{"Deployment"}}, map[string]combined.Collector{"all": {Name: "all", Program: p}})
	require.NoError(t, err)
	require.NoError(t, set.Evaluate(t.Context(), source(g, "1A", nil)))
	var rows []string
	for _, r := range set.CombinedStatuses().Items[0].Results[0].Rows {
		rows = append(rows, string(r.Columns[0].Array))
	}
	require.Equal(t, []string{`[{"replicas":3},"default"]`, `[{"replicas":1},"default"]`}, rows)
}

// TestAnObjectIsShownAsItsOneClusterGetsIt: there the status is that cluster's, too.
func TestAnObjectIsShownAsItsOneClusterGetsIt(t *testing.T) {
	for clusters, want := range map[int]string{1: `{"replicas":1}`, 2: `{"replicas":3}`} {
		g := group(resource("apps", "Deployment", "web", `"spec":{"replicas":3}`))
		a := &g.Plan.Apps[0]
		a.Variants, a.Targets[1].Variant, a.Targets = []plan.Variant{{}}, 1, a.Targets[2-clusters:2]
		g.Overlays = map[string][]*plan.Overlay{"web": {{Resources: []plan.Overlaid{
			{Index: 0, Resource: resource("apps", "Deployment", "web", `"spec":{"replicas":1}`)},
		}}}}
		set, err := combined.NewSet(t.Context(), g, combined.Filter{}, nil)
		require.NoError(t, err)
		o := set.Objects().Items[0]
		spec, err := json.Marshal(o["spec"])
		require.NoError(t, err)
		require.Equal(t, want, string(spec))
		require.Equal(t, "default", o["metadata"].(map[string]any)["namespace"])
	}
}

// TestClustersThatLackAnObject have no row of it, and its status is that of the one that has it.
func TestClustersThatLackAnObject(t *testing.T) {
	g := group(resource("apps", "Deployment", "web", `"spec":{}`), resource("apps", "Deployment", "one", `"spec":{"replicas":1}`))
	g.Plan.Apps[0].Lacks = domain.Marks{domain.MarkPending, domain.MarkGone}.Encode() // what b has not
	g.Plan.Apps[0].Variants, g.Plan.Apps[0].Targets[0].Variant = []plan.Variant{{}}, 1
	g.Overlays = map[string][]*plan.Overlay{"web": {{}}}
	g.Plan.Apps[0].Begin()
	p, err := combine.Compile("all", &domain.StatusCollectorSpec{CombinedFields: []domain.NamedAggregator{{Name: "n", Type: domain.AggregatorCount}}})
	require.NoError(t, err)
	set, err := combined.NewSet(t.Context(), g, combined.Filter{}, map[string]combined.Collector{"all": {Name: "all", Program: p}})
	require.NoError(t, err)
	require.NoError(t, set.Evaluate(t.Context(), source(g, "1A", nil)))
	counts := map[string]string{}
	for _, d := range set.CombinedStatuses().Items {
		counts[d.Metadata.Labels["status.kubestellar.io/name"]] = fmt.Sprint(*d.Results[0].Rows[0].Columns[0].Float, " of ", d.Inputs.Clusters)
	}
	require.Equal(t, map[string]string{"web": "2 of 2", "one": "1 of 1"}, counts)
}

// TestASetKeepsNoManifests but the objects that it is about, which count for what it takes.
func TestASetKeepsNoManifests(t *testing.T) {
	large := `"spec":{"a":"` + strings.Repeat("x", 1<<20) + `"}`
	for name, least := range map[string]int64{"large": 1 << 20, "other": 0} {
		g := group(resource("example.com", "Widget", "large", large))
		manifests := weak.Make(g.Bundles["web"])
		set, err := combined.NewSet(t.Context(), g, combined.Filter{Resources: []string{name}}, broken)
		require.NoError(t, err)
		require.Eventually(t, func() bool { runtime.GC(); return manifests.Value() == nil }, time.Minute, time.Millisecond)
		require.GreaterOrEqual(t, set.Size(), least)
	}
}

// TestPlurals: what a status intent has in resources of kinds whose CRD is in no chart of the group.
func TestPlurals(t *testing.T) {
	for kind, plural := range map[string]string{
		"Gateway": "gateways", "ServiceMesh": "servicemeshes", "Index": "indexes", "NetworkPolicy": "networkpolicies", "Ingress": "ingresses", "Endpoints": "endpoints",
	} {
		g := group(resource("example.com", kind, "a", `"spec":{}`))
		require.Equal(t, plural, documents(t, g, combined.Filter{}, nil).Items[0].Metadata.Labels["status.kubestellar.io/resource"])
	}
}

// TestObjectsOfTwoAppsHaveNamesOfTheirOwn: apps may share a CRD.
func TestObjectsOfTwoAppsHaveNamesOfTheirOwn(t *testing.T) {
	g := group(resource("apiextensions.k8s.io", "CustomResourceDefinition", "things.example.com", `"spec":{}`))
	other := g.Plan.Apps[0]
	other.Name = "db"
	g.Plan.Apps, g.Bundles["db"] = append(g.Plan.Apps, other), g.Bundles["web"]
	set, err := combined.NewSet(t.Context(), g, combined.Filter{}, nil)
	require.NoError(t, err)
	const crd = "/CustomResourceDefinition.apiextensions.k8s.io/things.example.com"
	var names []string
	for name := range set.Shown() {
		names = append(names, name)
	}
	require.Equal(t, []string{"db" + crd, "web" + crd}, names)
}

// TestObjectsByCollector: the objects that have the collector, whether or not a status is asked for.
func TestObjectsByCollector(t *testing.T) {
	g := group(resource("apps", "Deployment", "web", `"spec":{}`), resource("", "Service", "web", `"spec":{}`))
	g.Intents[0].Spec.Kinds = []string{"Service"}
	for collector, want := range map[string]int{"all": 1, "none": 0} {
		set, err := combined.NewSet(t.Context(), g, combined.Filter{Collectors: []string{collector}}, nil)
		require.NoError(t, err)
		require.Len(t, set.Objects().Items, want)
	}
}

// TestAClusterWithTooManyReplicasIsNotDone: its old Pods are still there, which shows only against its own spec.
func TestAClusterWithTooManyReplicasIsNotDone(t *testing.T) {
	g := group(resource("apps", "Deployment", "web", `"spec":{"replicas":3}`))
	set, err := combined.NewSet(t.Context(), g, combined.Filter{}, nil)
	require.NoError(t, err)
	report := func(replicas int) *view.Observation {
		return saying("Deployment", "web", fmt.Sprintf(
			`{"metadata":{"name":"web"},"spec":{"replicas":3},"status":{"replicas":%d,"updatedReplicas":3,"readyReplicas":3,"availableReplicas":3}}`, replicas))
	}
	require.NoError(t, set.Evaluate(t.Context(), source(g, "1A", map[string]*view.Observation{"a": report(3), "b": report(4)})))
	status := set.Objects().Items[0]["status"].(map[string]any)
	require.EqualValues(t, 4, status["replicas"])
	require.EqualValues(t, 3, status["updatedReplicas"])
}

// TestWhichClustersAreInTheTables: every target that is not leaving, reported or not, until the object is Deleted there.
func TestWhichClustersAreInTheTables(t *testing.T) {
	since := stored.Add(-time.Hour)
	web := `{"metadata":{"name":"web"},"status":{"replicas":1}}`
	for name, c := range map[string]struct {
		status  domain.ContextStatus
		marks   string
		reports map[string]*view.Observation
		want    string
	}{
		"nobody has reported": {domain.ContextInstantiating, "1p", nil,
			`{"clusters":2,"reported":0,"stale":2,"unconfirmed":[{"clusterId":"cp+a","reason":"no report has arrived from the cluster"},{"clusterId":"cp+b","reason":"no report has arrived from the cluster"}]}`},
		"one has, and one does not have it": {domain.ContextInstantiated, "1A", map[string]*view.Observation{"a": saying("Deployment", "web", web), "b": saying("Deployment", "web", "")},
			`{"clusters":2,"reported":1,"stale":1,"unconfirmed":[{"clusterId":"cp+b","reason":"the object is not in the cluster"}]}`},
		"one is cut off": {domain.ContextInstantiated, "1A", map[string]*view.Observation{"a": saying("Deployment", "web", web), "b": func() *view.Observation {
			o := saying("Deployment", "web", web)
			o.Connected, o.LastSeen, o.Reason = false, since, "refused"
			return o
		}()}, `{"clusters":2,"reported":2,"stale":1,"unconfirmed":[{"clusterId":"cp+b","since":"2026-03-01T11:00:00Z","reason":"refused"}]}`},
		"terminating":           {domain.ContextTerminating, "1d", map[string]*view.Observation{"a": saying("Deployment", "web", web), "b": saying("Deployment", "web", web)}, `{"clusters":2,"reported":2,"stale":0}`},
		"deleted everywhere":    {domain.ContextTerminating, "1D", map[string]*view.Observation{"a": saying("Deployment", "web", "")}, `{"clusters":0,"reported":0,"stale":0}`},
		"what was not deleted":  {domain.ContextTerminateFailed, "1X", map[string]*view.Observation{"a": saying("Deployment", "web", web), "b": saying("Deployment", "web", web)}, `{"clusters":2,"reported":2,"stale":0}`},
		"terminated":            {domain.ContextTerminated, "1D", nil, ``},
		"migrated to elsewhere": {domain.ContextUpdated, "1A", nil, ``},
	} {
		t.Run(name, func(t *testing.T) {
			g := group(resource("apps", "Deployment", "web", `"spec":{}`))
			g.Status = c.status
			list := documents(t, g, combined.Filter{}, source(g, c.marks, c.reports))
			if c.want == "" {
				require.Equal(t, []*combined.CombinedStatus{}, list.Items)
				return
			}
			data, err := json.Marshal(list.Items[0].Inputs)
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(data))
		})
	}
}

func TestAGroupThatWasNeverInstantiatedHasNothing(t *testing.T) {
	g := group()
	g.Plan, g.Bundles, g.Status = nil, nil, ""
	require.Empty(t, documents(t, g, combined.Filter{}, nil).Items)
}

// TestTheNamesOfDocuments: what kubectl would show, with long names cut, and whole in annotations.
func TestTheNamesOfDocuments(t *testing.T) {
	long := strings.Repeat("a", 62) + "-b"
	g := group(resource("apps", "Deployment", long, `"spec":{}`), resource("rbac.authorization.k8s.io", "ClusterRole", "system:web:", `"rules":[]`))
	g.Intents[0].Spec.Together = true
	list := documents(t, g, combined.Filter{}, nil)
	data, err := json.Marshal(list)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(data), `{"apiVersion":"control.kubestellar.io/v1alpha1","kind":"CombinedStatusList","metadata":{},"items":[{`), string(data))
	require.Len(t, list.Items, 3)
	seen := map[string]bool{}
	for _, d := range list.Items {
		require.Regexp(t, `^[0-9a-f]{16}\.[0-9a-f]{16}$`, d.Metadata.Name)
		require.False(t, seen[d.Metadata.Name])
		seen[d.Metadata.Name] = true
		require.Equal(t, "dig", d.Metadata.Labels["status.kubestellar.io/binding-policy"])
		require.Equal(t, string(theGroup), d.Metadata.Annotations["drover.io/deployment-intent-group"])
		require.Equal(t, "web", d.Metadata.Annotations["drover.io/app"])
		require.Len(t, d.Metadata.Labels, 5)
		for name, value := range d.Metadata.Labels {
			require.Regexp(t, `^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`, value, name)
		}
	}
	const label = "status.kubestellar.io/name"
	require.Regexp(t, `^a{52}-[0-9a-f]{10}$`, list.Items[0].Metadata.Labels[label])
	require.Equal(t, long, list.Items[0].Metadata.Annotations[label])
	require.Regexp(t, `^system-web-[0-9a-f]{10}$`, list.Items[1].Metadata.Labels[label])
	require.Equal(t, "system:web:", list.Items[1].Metadata.Annotations[label])
	require.Equal(t, "kubestellar-report", list.Items[2].Metadata.Namespace)
	require.NotContains(t, list.Items[2].Metadata.Annotations, label)
}

// TestAnObjectHasAHundredCollectors: what is more has an error in place of a table.
func TestAnObjectHasAHundredCollectors(t *testing.T) {
	g := group(resource("apps", "Deployment", "web", `"spec":{}`))
	collectors := map[string]combined.Collector{}
	g.Intents[0].Spec.StatusCollectors = nil
	for i := range combined.MaxCollectors + 2 {
		name := fmt.Sprintf("c%03d", i)
		program, err := combine.Compile(name, &domain.StatusCollectorSpec{Select: []domain.NamedExpression{{Name: "wec", Def: "inventory.name"}}})
		require.NoError(t, err)
		collectors[name] = combined.Collector{Name: name, Program: program}
		g.Intents[0].Spec.StatusCollectors = append(g.Intents[0].Spec.StatusCollectors, name)
	}
	set, err := combined.NewSet(t.Context(), g, combined.Filter{}, collectors)
	require.NoError(t, err)
	require.NoError(t, set.Evaluate(t.Context(), source(g, "1A", nil)))
	results := set.CombinedStatuses().Items[0].Results
	require.Len(t, results, combined.MaxCollectors+2)
	for i, r := range results {
		if i < combined.MaxCollectors {
			require.Len(t, r.Rows, 2)
			require.Empty(t, r.Errors)
		} else {
			require.Equal(t, []string{"an object has at most 100 collectors"}, r.Errors)
		}
	}
}

// TestARequestThatEndsGivesUpNoTable: what goes on with the set later has the whole of it.
func TestARequestThatEndsGivesUpNoTable(t *testing.T) {
	g := group(resource("apps", "Deployment", "web", `"spec":{}`))
	program, err := combine.Compile("all", &domain.StatusCollectorSpec{Select: []domain.NamedExpression{{Name: "wec", Def: "inventory.name"}}})
	require.NoError(t, err)
	set, err := combined.NewSet(t.Context(), g, combined.Filter{}, map[string]combined.Collector{"all": {Name: "all", Program: program}})
	require.NoError(t, err)
	ended, end := context.WithCancel(t.Context())
	defer end()
	s := source(g, "1A", map[string]*view.Observation{"a": saying("Deployment", "web", `{"metadata":{"name":"web"}}`)})
	for r, err := range s.Rows(set.Ask()) {
		require.NoError(t, err)
		end()
		_, err = set.Put(ended, r)
		require.NoError(t, err)
	}
	require.ErrorIs(t, set.Evaluate(ended, s), context.Canceled)
	require.NoError(t, set.Evaluate(t.Context(), s))
	result := set.CombinedStatuses().Items[0].Results[0]
	require.Len(t, result.Rows, 2)
	require.Empty(t, result.Errors)
}

// TestDocumentsOfAnAppAreTheSameEachTime, though several of its objects on a cluster are stale for different reasons.
func TestDocumentsOfAnAppAreTheSameEachTime(t *testing.T) {
	g := group(resource("apps", "Deployment", "web", `"spec":{}`), resource("", "Service", "web", `"spec":{}`), resource("apps", "Deployment", "db", `"spec":{}`))
	g.Intents[0].Spec.Together = true
	var before string
	for range 20 {
		s := source(g, "3A", map[string]*view.Observation{"a": saying("Deployment", "web", `{"metadata":{"name":"web"}}`)})
		list := documents(t, g, combined.Filter{}, s)
		data, err := json.Marshal(list.Items[len(list.Items)-1])
		require.NoError(t, err)
		if before != "" {
			require.Equal(t, before, string(data))
		}
		before = string(data)
	}
}
