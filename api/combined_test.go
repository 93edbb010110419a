package api_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/combine/combinetest"
	"github.com/drover-io/drover/internal/combined"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/view"
)

// stored hears what is in the store.
type stored struct{ *store.Store }

func (stored) Rules(context.Context) (*readiness.Rules, error) { return nil, nil }

func (s stored) Observations(ctx context.Context, contextID, app string, clusters []domain.ClusterName) iter.Seq2[view.Report, error] {
	return func(yield func(view.Report, error) bool) {
		for o, err := range s.Store.Observations(ctx, contextID, app, clusters) {
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

// newReportingWorld is a world in which clusters have reported what put puts into the store.
func newReportingWorld(t *testing.T) (*world, *client.API) {
	t.Helper()
	w := newWorldWith(t, func(w *world, d *deps, instances *service.Instances) {
		l := service.NewLifecycle(w.store, w.store, stored{w.store}, willing(), func() time.Time { return now })
		*instances, d.lifecycle = l, l
		d.Tables = service.NewTables(l)
	})
	require.NoError(t, w.store.Pulse(t.Context(), "watcher", now))
	return w, apiOf(t, w, func(*http.Request) {})
}

// deployment is a group with one app, web, as it is put into the store.
type deployment struct {
	name      string
	status    domain.ContextStatus // Instantiated when missing
	manifests []string             // in order
	hooks     int
	on        []reporting
}

// reporting is a target, with what its cluster says.
type reporting struct {
	cluster domain.ClusterName
	leaving bool
	marks   string            // all applied when missing
	objects map[string]string // by "Kind/name", as reported
	silent  bool              // the cluster has never reported
	stale   bool
	since   time.Time
}

// deploy puts it into the store.
func (d deployment) deploy(t *testing.T, w *world) domain.Key {
	t.Helper()
	ctx := t.Context()
	group := &domain.DeploymentIntentGroup{
		Identity: domain.Identity{Parent: "projects/proj/composite-apps/ca/v1"}, Metadata: domain.Metadata{Name: d.name}, History: domain.NewHistory(now),
	}
	id := "1" + fmt.Sprintf("%018d", w.contexts)
	w.contexts++
	group.History.Append(domain.Instantiated, id, 1, now)
	require.NoError(t, w.store.Create(ctx, group))
	key := domain.KeyOf(group)
	b := plan.Bundle{App: "web"}
	a := plan.App{Name: "web", Hooks: d.hooks}
	for _, m := range d.manifests {
		r := plan.Resource{ResourceID: identityOf(t, m), Manifest: json.RawMessage(m)}
		b.Resources, a.Resources = append(b.Resources, r), append(a.Resources, r.ResourceID)
	}
	put := func(v any) domain.Digest {
		data, err := json.Marshal(v)
		require.NoError(t, err)
		digest, err := w.store.PutBlob(ctx, data)
		require.NoError(t, err)
		return digest
	}
	a.Bundle = put(b)
	for _, on := range d.on {
		a.Targets = append(a.Targets, plan.Target{ClusterName: on.cluster, Leaving: on.leaving})
		if on.marks == "" {
			on.marks = domain.NewMarks(len(d.manifests), domain.MarkApplied).Encode()
		}
		require.NoError(t, w.store.PutLeaf(ctx, domain.Leaf{ContextID: id, App: "web", Cluster: on.cluster, Operation: domain.OpInstantiate, Marks: on.marks}))
		require.NoError(t, w.store.PutWatch(ctx, "watcher", &domain.Watch{Cluster: on.cluster, Connected: !on.stale, LastSeen: on.since}))
		if !on.silent {
			on.report(t, w, id)
		}
	}
	plan.SortTargets(a.Targets)
	status := d.status
	if status == "" {
		status = domain.ContextInstantiated
	}
	require.NoError(t, w.store.PutInstance(ctx, &domain.Instance{
		ContextID: id, Owner: key, Operation: domain.OpInstantiate, Status: status, Namespace: "default", Ended: now,
		Plan: put(plan.Plan{ContextID: id, Owner: key, Namespace: "default", Apps: []plan.App{a}}),
	}))
	return key
}

// report puts what the cluster says into the store.
func (on reporting) report(t *testing.T, w *world, contextID string) {
	t.Helper()
	o := &domain.Observation{ObservedApp: domain.ObservedApp{ContextID: contextID, App: "web", Cluster: on.cluster}, Kinds: []string{"Deployment.apps", "Pod"}}
	for _, name := range slices.Sorted(maps.Keys(on.objects)) {
		kind, object, _ := strings.Cut(name, "/")
		r := domain.ObservedResource{Group: groupsOfKinds[kind], Version: "v1", Kind: kind, Namespace: "default", Name: object, JSON: []byte(on.objects[name])}
		o.Resources = append(o.Resources, r)
	}
	require.NoError(t, w.store.PutObservation(t.Context(), o))
}

var groupsOfKinds = map[string]string{"Deployment": "apps", "StatefulSet": "apps", "DaemonSet": "apps", "ReplicaSet": "apps", "Job": "batch"}

func identityOf(t *testing.T, manifest string) plan.ResourceID {
	t.Helper()
	var m struct {
		APIVersion, Kind string
		Metadata         struct{ Name, Namespace string }
	}
	require.NoError(t, json.Unmarshal([]byte(manifest), &m))
	group, version, ok := strings.Cut(m.APIVersion, "/")
	if !ok {
		group, version = "", m.APIVersion
	}
	return plan.ResourceID{Group: group, Version: version, Kind: m.Kind, Namespace: m.Metadata.Namespace, Name: m.Metadata.Name}
}

// with is a JSON object with a member set; a nil value leaves it as it is.
func with(t *testing.T, object json.RawMessage, member string, value any) string {
	t.Helper()
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(object, &members))
	data, err := json.Marshal(value)
	require.NoError(t, err)
	members[member] = data
	out, err := json.Marshal(members)
	require.NoError(t, err)
	return string(out)
}

// TestCombinedStatusCases is the conformance table once more: the rows of a case are put into the store as what clusters have
// reported, and its collectors are evaluated by POST …/combined-status/query. Two API processes answer with the same bytes.
func TestCombinedStatusCases(t *testing.T) {
	file, err := combinetest.Load()
	require.NoError(t, err)
	w, api := newReportingWorld(t)
	other := service.NewTables(service.NewLifecycle(w.store, w.store, stored{w.store}, willing(), func() time.Time { return now }))
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			key := caseOf(t, w, &c)
			var results []*combine.Result
			var refused []fail.Field
			for _, collector := range c.Collectors {
				q := &service.TableQuery{Metadata: domain.CollectorMetadata{Name: collector.Name}, Spec: collector.Spec.StatusCollectorSpec}
				list, err := api.QueryTables(t.Context(), key, q)
				if err != nil {
					require.True(t, fail.Is(err, fail.Invalid), "%v", err)
					refused = append(refused, fail.FieldsOf(err)...)
					continue
				}
				require.Len(t, list.Items, 1)
				require.Equal(t, len(c.Clusters), list.Items[0].Inputs.Clusters)
				results = append(results, list.Items[0].Results...)
				d, err := other.Query(t.Context(), key, q)
				require.NoError(t, err)
				var again bytes.Buffer
				_, err = d.WriteTo(&again)
				require.NoError(t, err)
				require.Equal(t, written(t, list), again.String())
			}
			for i, want := range c.Expected.Refused {
				require.Less(t, i, len(refused), "%v", refused)
				require.Equal(t, want.Field, refused[i].Path)
				require.Empty(t, combinetest.Missing(want.Field, refused[i].Message, want.Mentions))
			}
			require.Len(t, refused, len(c.Expected.Refused), "%v", refused)
			slices.SortFunc(results, func(a, b *combine.Result) int { return cmp.Compare(a.Name, b.Name) })
			require.Len(t, results, len(c.Expected.Results))
			for i := range c.Expected.Results {
				require.Empty(t, c.Expected.Results[i].Diff(results[i], func(name string) string { return "cases+" + name }))
			}
		})
	}
	for _, c := range file.SingletonCases {
		t.Run(c.Name, func(t *testing.T) {
			apiVersion := "v1"
			if g := groupsOfKinds[c.Kind]; g != "" {
				apiVersion = g + "/v1"
			}
			d := deployment{name: c.Name, manifests: []string{fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"x"},"spec":{}}`, apiVersion, c.Kind)}}
			for _, name := range c.WECs {
				on := reporting{cluster: domain.ClusterName{Provider: "cases", Name: name}, silent: c.Returned[name] == nil}
				if !on.silent {
					on.objects = map[string]string{c.Kind + "/x": with(t, json.RawMessage(`{"metadata":{"name":"x"}}`), "status", json.RawMessage(c.Returned[name]))}
				}
				d.on = append(d.on, on)
			}
			key := d.deploy(t, w)
			for i, intent := range c.StatusIntents {
				require.NoError(t, w.store.Create(t.Context(), &domain.StatusIntent{
					Identity: domain.Identity{Parent: key}, Metadata: domain.Metadata{Name: fmt.Sprint("i", i)},
					Spec: domain.StatusIntentSpec{WantSingletonReportedState: intent.WantSingleton, WantMultiWECReportedState: intent.WantMulti},
				}))
			}
			list, err := api.Objects(t.Context(), key, nil)
			require.NoError(t, err)
			require.Len(t, list.Items, 1)
			annotations := list.Items[0]["metadata"].(map[string]any)["annotations"].(map[string]any)
			require.Equal(t, c.Expected.ReportedState, annotations[combined.StateAnnotation])
			require.Empty(t, combinetest.Missing("reason", annotations[combined.ReasonAnnotation].(string), c.Expected.ReasonMentions))
			if c.Expected.ObjectStatus == nil {
				require.NotContains(t, list.Items[0], "status")
			} else {
				require.Equal(t, combinetest.Plain(c.Expected.ObjectStatus), combinetest.Plain([]byte(written(t, list.Items[0]["status"]))))
			}
		})
	}
}

// caseOf puts the rows of a case into the store.
func caseOf(t *testing.T, w *world, c *combinetest.Case) domain.Key {
	t.Helper()
	d := deployment{name: c.Name}
	for _, row := range c.Clusters {
		var object struct {
			Kind     string
			Metadata map[string]any
		}
		require.NoError(t, json.Unmarshal(json.RawMessage(row.Object), &object))
		if object.Metadata == nil {
			object.Metadata = map[string]any{}
		}
		object.Metadata["name"] = "x"
		d.manifests = []string{with(t, json.RawMessage(row.Object), "metadata", object.Metadata)}
		on := reporting{cluster: domain.ClusterName{Provider: "cases", Name: row.Inventory.Name}, silent: row.Returned == nil}
		if !on.silent {
			metadata := map[string]any{"name": "x"}
			if row.Propagation.Summarised {
				metadata["annotations"] = map[string]string{"k8splugin.io/summarised": "true"}
			}
			on.objects = map[string]string{object.Kind + "/x": with(t, json.RawMessage(row.Returned), "metadata", metadata)}
		}
		if s := row.Propagation.Stale; s != nil {
			on.stale = *s
		}
		if s := row.Propagation.StaleSince; s != nil {
			on.since = *s
		}
		for _, label := range row.Inventory.Labels {
			require.NoError(t, w.store.Create(t.Context(), &domain.ClusterLabel{Identity: domain.Identity{Parent: on.cluster.Key()}, Label: label}))
		}
		d.on = append(d.on, on)
	}
	// The time at which a row is stored is the case's: each cluster reports at its own.
	rows := d.on
	d.on = slices.Clone(rows)
	for i := range d.on {
		d.on[i].silent = true
	}
	key := d.deploy(t, w)
	group, err := w.store.Get(t.Context(), domain.DeploymentIntentGroups, key)
	require.NoError(t, err)
	for i, on := range rows {
		if on.silent {
			continue
		}
		w.stored = c.Clusters[i].Propagation.LastReturnedUpdateTimestamp
		on.report(t, w, group.(*domain.DeploymentIntentGroup).History.ContextID())
		w.stored = time.Time{}
	}
	return key
}

func written(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}

const deployment3 = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"fw0-web","labels":{"app":"web"}},"spec":{"replicas":3}}`

func on(name string, objects map[string]string) reporting {
	return reporting{cluster: domain.ClusterName{Provider: "cp", Name: name}, objects: objects, silent: objects == nil}
}

func available(n int) map[string]string {
	return map[string]string{"Deployment/fw0-web": fmt.Sprintf(`{"metadata":{"name":"fw0-web"},"spec":{"replicas":3},"status":{"availableReplicas":%d}}`, n)}
}

// intend puts a status intent below a group, by the API.
func intend(t *testing.T, api *client.API, group domain.Key, name string, s domain.StatusIntentSpec) {
	t.Helper()
	_, err := api.Put(t.Context(), &domain.StatusIntent{Identity: domain.Identity{Parent: group}, Metadata: domain.Metadata{Name: name}, Spec: s}, nil)
	require.NoError(t, err)
}

// collect writes a collector, of a project or with "" of the fleet.
func collect(t *testing.T, api *client.API, project domain.Key, name string, s domain.StatusCollectorSpec) {
	t.Helper()
	noun := domain.StatusCollectors
	if project != "" {
		noun = domain.ProjectCollectors
	}
	c := noun.New().(*domain.StatusCollector)
	c.Parent, c.Metadata.Name, c.Spec = project, name, s
	_, err := api.Put(t.Context(), c, nil)
	require.NoError(t, err)
}

// inhabit makes what groups are below.
func inhabit(t *testing.T, w *world) {
	t.Helper()
	for _, o := range []domain.Object{
		&domain.Project{Metadata: domain.Metadata{Name: "proj"}},
		&domain.CompositeApp{Identity: domain.Identity{Parent: "projects/proj"}, Metadata: domain.Metadata{Name: "ca"}, Spec: domain.CompositeAppSpec{Version: "v1"}},
	} {
		require.NoError(t, w.store.Create(t.Context(), o))
	}
}

// TestWhatIntentsAskForIsShown, and follows when intents and collectors change.
func TestWhatIntentsAskForIsShown(t *testing.T) {
	w, api := newReportingWorld(t)
	inhabit(t, w)
	count := domain.StatusCollectorSpec{CombinedFields: []domain.NamedAggregator{{Name: "n", Type: domain.AggregatorCount}, {Name: "up", Type: domain.AggregatorSum, Subject: "returned.status.availableReplicas"}}}
	collect(t, api, "projects/proj", "count", count)
	collect(t, api, "", "count", domain.StatusCollectorSpec{
		Filter: "inventory.labels.exists(l, l == 'gpu')", Select: []domain.NamedExpression{{Name: "wec", Def: "inventory.id"}, {Name: "labels", Def: "inventory.labels"}},
	})
	require.NoError(t, w.store.Create(t.Context(), &domain.ClusterLabel{Identity: domain.Identity{Parent: "cluster-providers/cp/clusters/b"}, Label: "gpu"}))
	require.NoError(t, w.store.Create(t.Context(), &domain.ClusterLabel{Identity: domain.Identity{Parent: "cluster-providers/cp/clusters/b"}, Label: "edge"}))
	leaving := on("gone", available(1))
	leaving.leaving = true
	group := deployment{name: "dig", manifests: []string{
		deployment3, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"fw0-web"},"spec":{}}`,
		`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"hook"},"spec":{}}`,
	}, hooks: 1, on: []reporting{on("a", available(3)), on("b", available(1)), on("c", nil), leaving}}.deploy(t, w)

	shown := func(query string) (lines []string) {
		t.Helper()
		parameters, err := url.ParseQuery(query)
		require.NoError(t, err)
		list, err := api.CombinedStatus(t.Context(), group, parameters)
		require.NoError(t, err)
		for _, i := range list.Items {
			for _, r := range i.Results {
				lines = append(lines, i.Metadata.Labels["status.kubestellar.io/resource"]+" "+r.Name+" "+written(t, r.Rows)+strings.Join(r.Errors, ""))
			}
		}
		return lines
	}
	require.Empty(t, shown(""), "nobody asks for anything")

	deployments := domain.StatusIntentSpec{ObjectTest: domain.ObjectTest{Resources: []string{"deployments"}}, StatusCollectors: []string{"count", "fleet/count"}}
	intend(t, api, group, "i", deployments)
	counted := `deployments count [{"columns":[{"type":"Number","float":"3"},{"type":"Number","float":"4"}]}]`
	labelled := `deployments fleet/count [{"columns":[{"type":"String","string":"cp+b"},{"type":"Array","array":["edge","gpu"]}]}]`
	require.Equal(t, []string{counted, labelled}, shown(""))
	require.Equal(t, []string{labelled}, shown("collector=fleet/count&app=web&kind=Deployment&resource=fw0-web"))
	require.Empty(t, shown("kind=Service"))

	intend(t, api, group, "j", domain.StatusIntentSpec{ObjectTest: domain.ObjectTest{Kinds: []string{"Service"}}, StatusCollectors: []string{"count"}, Together: true})
	deployments.Together = true
	intend(t, api, group, "i", deployments)
	require.Equal(t, []string{
		`services count [{"columns":[{"type":"Number","float":"3"},{"type":"Number","float":"0"}]}]`, counted, labelled,
		`apps count [{"columns":[{"type":"Number","float":"6"},{"type":"Number","float":"4"}]}]`,
		`apps fleet/count [{"columns":[{"type":"String","string":"cp+b"},{"type":"Array","array":["edge","gpu"]}]},{"columns":[{"type":"String","string":"cp+b"},{"type":"Array","array":["edge","gpu"]}]}]`,
	}[:4], shown("")[:4])

	count.CombinedFields = count.CombinedFields[:1]
	collect(t, api, "projects/proj", "count", count)
	require.Contains(t, shown(""), `deployments count [{"columns":[{"type":"Number","float":"3"}]}]`)
}

// TestACollectorThatDoesNotCompileAnyMore, as after an upgrade, says so where it is shown and in its results; the others go on.
func TestACollectorThatDoesNotCompileAnyMore(t *testing.T) {
	w, api := newReportingWorld(t)
	inhabit(t, w)
	group := deployment{name: "dig", manifests: []string{deployment3}, on: []reporting{on("a", available(3))}}.deploy(t, w)
	old := domain.StatusCollectors.New().(*domain.StatusCollector)
	old.Metadata.Name, old.Generation = "old", 1
	old.Spec.Select = []domain.NamedExpression{{Name: "a", Def: "inventory.rack"}}
	require.NoError(t, w.store.Create(t.Context(), old))
	collect(t, api, "", "new", domain.StatusCollectorSpec{Select: []domain.NamedExpression{{Name: "a", Def: "inventory.name"}}})
	intend(t, api, group, "i", domain.StatusIntentSpec{StatusCollectors: []string{"fleet/old", "fleet/new"}})
	got, err := api.Get(t.Context(), domain.StatusCollectors, "status-collectors/old")
	require.NoError(t, err)
	require.Len(t, got.(*domain.StatusCollector).Status.Errors, 1)
	require.Contains(t, got.(*domain.StatusCollector).Status.Errors[0], "spec.select[0].def: ")
	list, err := api.CombinedStatus(t.Context(), group, nil)
	require.NoError(t, err)
	results := list.Items[0].Results
	require.Equal(t, "fleet/new", results[0].Name)
	require.Len(t, results[0].Rows, 1)
	require.Empty(t, results[0].Errors)
	require.Equal(t, "fleet/old", results[1].Name)
	require.Empty(t, results[1].Rows)
	require.Contains(t, written(t, results[1].Errors), "rack")
}

// TestTablesWhileAGroupIsTerminated: a row is there until the object is Deleted, and in the end there is none, and no item.
func TestTablesWhileAGroupIsTerminated(t *testing.T) {
	w, api := newReportingWorld(t)
	q := &service.TableQuery{Spec: domain.StatusCollectorSpec{CombinedFields: []domain.NamedAggregator{{Name: "n", Type: domain.AggregatorCount}}}}
	deleted := on("b", map[string]string{})
	deleted.marks = "1D"
	for status, want := range map[domain.ContextStatus]string{
		domain.ContextInstantiated: `[{"columns":[{"type":"Number","float":"2"}]}]`, domain.ContextTerminating: `[{"columns":[{"type":"Number","float":"1"}]}]`,
		domain.ContextTerminateFailed: `[{"columns":[{"type":"Number","float":"1"}]}]`, domain.ContextTerminated: "",
	} {
		key := deployment{name: string(status), status: status, manifests: []string{deployment3}, on: []reporting{on("a", available(3)), deleted}}.deploy(t, w)
		list, err := api.QueryTables(t.Context(), key, q)
		require.NoError(t, err)
		if want == "" {
			require.Empty(t, list.Items)
			continue
		}
		require.Equal(t, want, written(t, list.Items[0].Results[0].Rows), status)
	}
	never := &domain.DeploymentIntentGroup{Identity: domain.Identity{Parent: "projects/proj/composite-apps/ca/v1"}, Metadata: domain.Metadata{Name: "never"}, History: domain.NewHistory(now)}
	require.NoError(t, w.store.Create(t.Context(), never))
	list, err := api.QueryTables(t.Context(), domain.KeyOf(never), q)
	require.NoError(t, err)
	require.Empty(t, list.Items)
}

// TestAQueryOfAnAppThatIsNotThere is refused, as a filter by it is: an empty answer would look like one about what is there.
func TestAQueryOfAnAppThatIsNotThere(t *testing.T) {
	w, api := newReportingWorld(t)
	inhabit(t, w)
	group := deployment{name: "dig", manifests: []string{deployment3}, on: []reporting{on("a", available(3))}}.deploy(t, w)
	q := &service.TableQuery{Spec: domain.StatusCollectorSpec{CombinedFields: []domain.NamedAggregator{{Name: "n", Type: domain.AggregatorCount}}}}
	for apps, items := range map[string]int{"web": 1, "*": 1, "none *": 1, "none": -1, "web none": -1} {
		q.Tests.Apps = strings.Fields(apps)
		list, err := api.QueryTables(t.Context(), group, q)
		if items < 0 {
			require.True(t, fail.Is(err, fail.Invalid), "%s: %v", apps, err)
			require.Equal(t, []fail.Field{{Path: fmt.Sprintf("tests.apps[%d]", len(q.Tests.Apps)-1), Message: `"none" is not in list of apps for composite app ca (it has: web)`}}, fail.FieldsOf(err))
			continue
		}
		require.NoError(t, err, apps)
		require.Len(t, list.Items, items, apps)
	}
}

// TestWhatSecretsHoldIsNowhere: in no table, no error, no object, and no log.
func TestWhatSecretsHoldIsNowhere(t *testing.T) {
	w, api := newReportingWorld(t)
	inhabit(t, w)
	// "sesame", in base64 and plainly, where a manifest may have it.
	secret := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","annotations":{"note":"sesame"}},"data":{"p":"c2VzYW1l"},"stringData":{"q":"sesame"}}`
	copied := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"sesame"}},"data":{}}`
	inside := `{"apiVersion":"example.com/v1","kind":"Template","metadata":{"name":"t"},"spec":{"objects":[` + secret + `]}}`
	group := deployment{name: "dig", manifests: []string{secret, copied, inside}, on: []reporting{on("a", map[string]string{})}}.deploy(t, w)
	for _, spec := range []domain.StatusCollectorSpec{
		{Select: []domain.NamedExpression{{Name: "obj", Def: "obj"}, {Name: "returned", Def: "returned"}, {Name: "data", Def: "obj.data.p"}}},
		{Select: []domain.NamedExpression{{Name: "wrong", Def: "int(string(obj.data.p))"}, {Name: "key", Def: "obj[obj.stringData.q]"}}},
		{GroupBy: []domain.NamedExpression{{Name: "d", Def: "obj.data"}}, CombinedFields: []domain.NamedAggregator{{Name: "m", Type: domain.AggregatorMax, Subject: "obj.data.p"}}},
		{Filter: "obj.data.p == 'c2VzYW1l'", CombinedFields: []domain.NamedAggregator{{Name: "n", Type: domain.AggregatorCount}}},
	} {
		list, err := api.QueryTables(t.Context(), group, &service.TableQuery{Spec: spec, Together: true})
		require.NoError(t, err)
		require.Len(t, list.Items, 4)
		text := written(t, list)
		require.NotContains(t, text, "sesame")
		require.NotContains(t, text, "c2VzYW1l")
		if spec.Filter != "" { // nobody can find it out by trying either
			for _, i := range list.Items {
				require.Equal(t, `[{"columns":[{"type":"Number","float":"0"}]}]`, written(t, i.Results[0].Rows))
			}
		}
	}
	objects, err := api.Objects(t.Context(), group, nil)
	require.NoError(t, err)
	require.Len(t, objects.Items, 3)
	require.NotContains(t, written(t, objects), "esame")
	require.NotContains(t, written(t, objects), "c2VzYW1l")
	require.NotContains(t, w.log.String(), "sesame")
	require.NotContains(t, w.log.String(), "c2VzYW1l")
}

// TestBadCollectorsAreRefused with all that is wrong at once, by field, and nothing is stored.
func TestBadCollectorsAreRefused(t *testing.T) {
	w, api := newReportingWorld(t)
	group := deployment{name: "dig", manifests: []string{deployment3}, on: []reporting{on("a", available(3))}}.deploy(t, w)
	long := strings.Repeat("a", 4097)
	for name, c := range map[string]struct {
		spec string
		want []string // fields in order, with a part of the text
	}{
		"an empty spec":             {`{}`, []string{"spec: "}},
		"select with groupBy":       {`{"select":[{"name":"a","def":"1"}],"groupBy":[{"name":"b","def":"1"}],"combinedFields":[{"name":"n","type":"COUNT"}]}`, []string{"spec.select: "}},
		"groupBy alone":             {`{"groupBy":[{"name":"b","def":"inventory.name"}]}`, []string{"spec.combinedFields: "}},
		"an unknown type":           {`{"combinedFields":[{"name":"n","type":"MEDIAN","subject":"1"}]}`, []string{"spec.combinedFields[0].type: \"MEDIAN\""}},
		"COUNT with a subject":      {`{"combinedFields":[{"name":"n","type":"COUNT","subject":"1"}]}`, []string{"spec.combinedFields[0].subject: COUNT"}},
		"SUM without one":           {`{"combinedFields":[{"name":"n","type":"SUM"}]}`, []string{"spec.combinedFields[0].subject: is required"}},
		"names":                     {`{"select":[{"name":"","def":"1"},{"name":"a","def":"1"},{"name":"a","def":"2"}]}`, []string{"spec.select[0].name: is required", "spec.select[2].name: "}},
		"what does not compile":     {`{"filter":"x +","select":[{"name":"a","def":"y"}]}`, []string{"spec.filter: line 1, column ", "spec.select[0].def: line 1, column 1: "}},
		"a filter that is no bool":  {`{"filter":"'a'","select":[{"name":"a","def":"1"}]}`, []string{"spec.filter: "}},
		"a key that is a list":      {`{"groupBy":[{"name":"b","def":"[1]"}],"combinedFields":[{"name":"n","type":"COUNT"}]}`, []string{"spec.groupBy[0].def: "}},
		"a subject that is a bool":  {`{"combinedFields":[{"name":"n","type":"SUM","subject":"true"}]}`, []string{"spec.combinedFields[0].subject: "}},
		"a limit of -1":             {`{"select":[{"name":"a","def":"1"}],"limit":-1}`, []string{"spec.limit: "}},
		"a limit of 1001":           {`{"select":[{"name":"a","def":"1"}],"limit":1001}`, []string{"spec.limit: "}},
		"orderBy of no column":      {`{"select":[{"name":"a","def":"1"}],"orderBy":[{"column":"b"}]}`, []string{"spec.orderBy[0].column: \"b\""}},
		"an unknown member":         {`{"select":[{"name":"a","def":"returned.data.x"},{"name":"b","def":"propagation.cpu"},{"name":"c","def":"obj.status"}]}`, []string{"spec.select[0].def: ", "spec.select[1].def: ", "spec.select[2].def: "}},
		"an expression without end": {`{"select":[{"name":"a","def":"'` + long + `'"}]}`, []string{"spec.select[0].def: "}},
		"macros without end":        {`{"select":[{"name":"a","def":"[1].all(a, [1].all(b, [1].all(c, [1].all(d, true))))"}]}`, []string{"spec.select[0].def: "}},
	} {
		t.Run(name, func(t *testing.T) {
			var spec domain.StatusCollectorSpec
			require.NoError(t, json.Unmarshal([]byte(c.spec), &spec))
			compare := func(err error) {
				t.Helper()
				require.True(t, fail.Is(err, fail.Invalid), "%v", err)
				fields := fail.FieldsOf(err)
				require.Len(t, fields, len(c.want), "%v", fields)
				for i, f := range fields {
					require.Contains(t, f.Path+": "+f.Message, c.want[i])
				}
			}
			_, err := api.QueryTables(t.Context(), group, &service.TableQuery{Spec: spec})
			compare(err)
			bad := domain.StatusCollectors.New().(*domain.StatusCollector)
			bad.Metadata.Name, bad.Spec = "bad", spec
			_, err = api.Create(t.Context(), bad, nil)
			compare(err)
			_, err = api.Get(t.Context(), domain.StatusCollectors, "status-collectors/bad")
			require.True(t, fail.Is(err, fail.NotFound), "%v", err)
		})
	}
	_, err := api.QueryTables(t.Context(), group, &service.TableQuery{Metadata: domain.CollectorMetadata{Name: "a b"}, Tests: domain.ObjectTest{NamespaceSelectors: []domain.LabelSelector{{}}}})
	fields := fail.FieldsOf(err)
	require.Len(t, fields, 3)
	require.Equal(t, []string{"metadata.name", "spec", "tests.namespaceSelectors"}, []string{fields[0].Path, fields[1].Path, fields[2].Path})
	_, err = api.QueryTables(t.Context(), group+"x", &service.TableQuery{Spec: domain.StatusCollectorSpec{Select: []domain.NamedExpression{{Name: "a", Def: "1"}}}})
	require.True(t, fail.Is(err, fail.NotFound), "%v", err)
}

// TestNumbersOfObjectsKeepTheirDigits through the client, whatever their size.
func TestNumbersOfObjectsKeepTheirDigits(t *testing.T) {
	w, api := newReportingWorld(t)
	inhabit(t, w)
	const spec = `{"big":9007199254740993,"half":0.5,"huge":123456789012345678901234567890,"more":18446744073709551615,"one":1}`
	group := deployment{name: "dig", manifests: []string{`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"t"},"spec":` + spec + `}`}, on: []reporting{on("a", nil)}}.deploy(t, w)
	list, err := api.Objects(t.Context(), group, nil)
	require.NoError(t, err)
	require.Equal(t, spec, written(t, list.Items[0]["spec"]))
	require.Equal(t, int64(1), list.Items[0]["spec"].(map[string]any)["one"])
}

// TestWhichObjectsTestsLeave: AND between the members, OR within; nothing, or "*" among others, is all.
func TestWhichObjectsTestsLeave(t *testing.T) {
	w, _ := newReportingWorld(t)
	inhabit(t, w)
	group := deployment{name: "dig", manifests: []string{
		deployment3, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"fw0-web","labels":{"app":"web","tier":"front"}},"spec":{}}`,
		`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}`, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"ünï","namespace":"other"}}`,
	}, on: []reporting{on("a", available(3)), on("b", available(1))}}.deploy(t, w)
	require.NoError(t, w.store.Create(t.Context(), &domain.App{Identity: domain.Identity{Parent: "projects/proj/composite-apps/ca/v1"}, Metadata: domain.Metadata{Name: "other"}}))
	all := []string{"namespaces", "services", "deployments", "things"}
	for tests, want := range map[string][]string{
		`{}`:                                all,
		`{"kinds":[],"apps":null}`:          all,
		`{"kinds":["*","Service"]}`:         all,
		`{"kinds":["Service","Service"]}`:   {"services"},
		`{"kinds":["Service","Thing"]}`:     {"services", "things"},
		`{"kinds":["service"]}`:             {},
		`{"apps":["other"]}`:                {},
		`{"apiGroup":""}`:                   {"namespaces", "services"},
		`{"apiGroup":"*"}`:                  all,
		`{"apiGroup":"apps"}`:               {"deployments"},
		`{"namespaces":["*"]}`:              all,
		`{"namespaces":["default"]}`:        {"services", "deployments"},
		`{"namespaces":["default","*"]}`:    all,
		`{"namespaces":["other"]}`:          {"things"},
		`{"objectNames":["ünï","n"]}`:       {"namespaces", "things"},
		`{"resources":["deployments","*"]}`: all,
		`{"apiGroup":"","kinds":["Service"],"objectNames":["n"]}`: {},
		`{"objectSelectors":[{}]}`:                                all,
		`{"objectSelectors":[{"matchLabels":{"app":"web"}}]}`:     {"services", "deployments"},
		`{"objectSelectors":[{"matchLabels":{"app":"web"},"matchExpressions":[{"key":"tier","operator":"In","values":["front","back"]}]}]}`: {"services"},
		`{"objectSelectors":[{"matchExpressions":[{"key":"tier","operator":"NotIn","values":["front"]}]}]}`:                                 {"namespaces", "deployments", "things"},
		`{"objectSelectors":[{"matchExpressions":[{"key":"app","operator":"DoesNotExist"}]},{"matchLabels":{"tier":"front"}}]}`:             {"namespaces", "services", "things"},
	} {
		answer := do(t, w.router, call{method: "POST", url: "/v2/" + string(group) + "/combined-status/query", body: `{"spec":{"combinedFields":[{"name":"n","type":"COUNT"}]},"tests":` + tests + `}`})
		require.Equal(t, http.StatusOK, answer.Code, tests)
		var list combined.List
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &list))
		got := []string{}
		for _, d := range list.Items {
			got = append(got, d.Metadata.Labels["status.kubestellar.io/resource"])
			require.Equal(t, "2", *d.Results[0].Rows[0].Columns[0].Float)
		}
		require.Equal(t, want, got, tests)
	}
	query := "/v2/" + string(group) + "/combined-status/query"
	body := func(tests string) string {
		return `{"spec":{"combinedFields":[{"name":"n","type":"COUNT"}]},"tests":` + tests + `}`
	}
	check(t, w.router, []call{
		{name: "a selector's faults", method: "POST", url: query, status: 400, contains: []string{"[0].operator: \"Gt\"", "[1].key: ", "[1].values: is required", "[2].values: must be left out"},
			body: body(`{"objectSelectors":[{"matchExpressions":[{"key":"t","operator":"Gt"},{"key":"","operator":"In"},{"key":"a","operator":"Exists","values":["x"]}]}]}`)},
		{name: "a selector that is a star", method: "POST", url: query, status: 422, body: body(`{"objectSelectors":["*"]}`), contains: []string{"tests.objectSelectors[0]: cannot be string"}},
		{name: "a list that is none", method: "POST", url: query, status: 422, body: body(`{"kinds":"Service"}`), contains: []string{"tests.kinds: cannot be string, must be array"}},
		{name: "names that none can be", method: "POST", url: query, status: 400, body: body(`{"resources":["Services"],"apps":["a b"],"namespaces":["A"]}`),
			contains: []string{"tests.apps[0]: ", "tests.resources[0]: ", "tests.namespaces[0]: "}},
		{name: "together with groups", method: "POST", url: query, status: 200, body: `{"spec":{"groupBy":[{"name":"k","def":"obj.kind"}],"combinedFields":[{"name":"n","type":"COUNT"}]},"together":true}`,
			contains: []string{`"rows":[{"columns":[{"type":"String","string":"Deployment"},{"type":"Number","float":"2"}]},{"columns":[{"type":"String","string":"Namespace"},{"type":"Number","float":"2"}]},`}},
		{name: "a limit that is no integer", method: "POST", url: query, status: 422, body: `{"spec":{"select":[{"name":"a","def":"1"}],"limit":1.5}}`, contains: []string{"spec.limit: "}},
	})
}
