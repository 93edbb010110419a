package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/combine/combinetest"
	"github.com/drover-io/drover/internal/combined"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/notify"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/service"
)

// tablesWorld is a group in a store, whose clusters report, with its streams.
type tablesWorld struct {
	testing.TB
	p         *Parts
	lifecycle *service.Lifecycle
	tables    *service.Tables
	hub       *notify.Hub
	group     *domain.DeploymentIntentGroup
	label     string
	plan      *plan.Plan
	bundle    *plan.Bundle
	record    *domain.Instance
	seen      prometheus.Gatherer
}

const tablesProject = domain.Key("projects/p")

// newTablesWorld has the Deployment web of the app web on clusters c0, c1 and so on, which are heard.
func newTablesWorld(t testing.TB, clusters int) *tablesWorld {
	t.Helper()
	w := &tablesWorld{TB: t, p: partial(t), label: "2621114006130701074"}
	l := service.NewLifecycle(w.p.store, w.p.store, heard{w.p.store, w.p.rules}, w.p.engine, time.Now)
	w.lifecycle, w.tables = l, service.NewTables(l)
	registry := prometheus.NewRegistry()
	var err error
	w.hub, err = notify.New(looks(statuses{l, service.NewFleet(l, w.p.store, nil)}, w.tables), notify.Options{Interval: time.Millisecond, Anew: time.Hour}, registry)
	require.NoError(t, err)
	t.Cleanup(w.hub.Close)
	w.seen = registry

	ctx, now := t.Context(), time.Now()
	w.group = &domain.DeploymentIntentGroup{
		Identity: domain.Identity{Parent: tablesProject + "/composite-apps/a/v1"}, Metadata: domain.Metadata{Name: "group"},
		History: domain.NewHistory(now),
	}
	w.group.History.Append(domain.Instantiated, w.label, 1, now)
	require.NoError(t, w.p.store.Create(ctx, w.group))
	require.NoError(t, w.p.store.Create(ctx, &domain.App{Identity: domain.Identity{Parent: w.group.Parent}, Metadata: domain.Metadata{Name: "web"}}))
	w.bundle = &plan.Bundle{App: "web"}
	w.plan = &plan.Plan{ContextID: w.label, Owner: domain.KeyOf(w.group), Namespace: "default", Apps: []plan.App{{Name: "web"}}}
	w.replicas(3)
	for c := range clusters {
		name := tablesCluster(c)
		w.plan.Apps[0].Targets = append(w.plan.Apps[0].Targets, plan.Target{ClusterName: name})
		require.NoError(t, w.p.store.PutLeaf(ctx, domain.Leaf{
			ContextID: w.label, App: "web", Cluster: name, Operation: domain.OpInstantiate, Connectivity: domain.ConnectivityAvailable,
			Marks: domain.NewMarks(1, domain.MarkApplied).Encode(),
		}))
		require.NoError(t, w.p.store.PutWatch(ctx, "watcher", &domain.Watch{Cluster: name, Connected: true, LastSeen: now}))
	}
	plan.SortTargets(w.plan.Apps[0].Targets)
	require.NoError(t, w.p.store.Pulse(ctx, "watcher", now.Add(time.Hour))) // which no test outlasts
	w.record = &domain.Instance{
		ContextID: w.label, Owner: domain.KeyOf(w.group), Operation: domain.OpInstantiate, Status: domain.ContextInstantiated,
		Plan: w.stored(), Ended: now, Namespace: "default",
	}
	require.NoError(t, w.p.store.PutInstance(ctx, w.record))
	return w
}

func tablesCluster(n int) domain.ClusterName {
	return domain.ClusterName{Provider: "fleet", Name: fmt.Sprintf("c%d", n)}
}

// replicas makes the Deployment ask for some.
func (w *tablesWorld) replicas(n int) {
	id := plan.ResourceID{Group: "apps", Version: "v1", Kind: "Deployment", Name: "web"}
	w.bundle.Resources = []plan.Resource{{ResourceID: id, Manifest: json.RawMessage(fmt.Sprintf(
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","labels":{"app":"web"}},"spec":{"replicas":%d}}`, n))}}
	w.plan.Apps[0].Resources = []plan.ResourceID{id}
}

// stored puts the plan with its bundle into the store.
func (w *tablesWorld) stored() domain.Digest {
	w.Helper()
	put := func(v any) domain.Digest {
		data, err := json.Marshal(v)
		require.NoError(w, err)
		digest, err := w.p.store.PutBlob(w.Context(), data)
		require.NoError(w, err)
		return digest
	}
	w.plan.Apps[0].Bundle = put(w.bundle)
	return put(w.plan)
}

// updated makes the plan as it is that of a newer context, as an update does.
func (w *tablesWorld) updated() {
	w.Helper()
	ctx := w.Context()
	old := w.record
	next := *old
	next.ContextID, next.Label, next.Operation, next.Status = "9"+old.ContextID[1:], w.label, domain.OpUpdate, domain.ContextInstantiated
	w.plan.ContextID, w.plan.Label, next.Plan = next.ContextID, w.label, ""
	next.Plan = w.stored()
	for _, t := range w.plan.Apps[0].Targets {
		require.NoError(w, w.p.store.PutLeaf(ctx, domain.Leaf{
			ContextID: next.ContextID, App: "web", Cluster: t.ClusterName, Operation: domain.OpUpdate,
			Connectivity: domain.ConnectivityAvailable, Marks: domain.NewMarks(1, domain.MarkApplied).Encode(),
		}))
	}
	require.NoError(w, w.p.store.PutInstance(ctx, &next))
	w.group.History.Append(domain.Updated, next.ContextID, 2, time.Now())
	require.NoError(w, w.p.store.Replace(ctx, w.group))
	w.record = &next
}

// says has a cluster report the Deployment with a status.
func (w *tablesWorld) says(cluster int, status string) {
	w.Helper()
	require.NoError(w, w.p.store.PutObservation(w.Context(), &domain.Observation{
		ObservedApp: domain.ObservedApp{ContextID: w.label, App: "web", Cluster: tablesCluster(cluster)}, Kinds: []string{"Deployment.apps"},
		Resources: []domain.ObservedResource{{
			Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "default", Name: "web", Status: "NotReady",
			JSON: []byte(`{"metadata":{"name":"web"},"spec":{"replicas":3},"status":` + status + `}`),
		}},
	}))
}

// collector stores one of the project's, in place of what there is; an intent asks for it.
func (w *tablesWorld) collector(name, spec string) {
	w.Helper()
	ctx, store := w.Context(), w.p.store
	key := tablesProject.Child(domain.ProjectCollectors.Collection, name)
	c := domain.ProjectCollectors.New().(*domain.StatusCollector)
	old, err := store.Get(ctx, domain.ProjectCollectors, key)
	if err == nil {
		c = old.(*domain.StatusCollector)
		c.Spec = domain.StatusCollectorSpec{}
	}
	c.Parent, c.Metadata.Name = tablesProject, name
	require.NoError(w, json.Unmarshal([]byte(spec), &c.Spec))
	if err == nil {
		require.NoError(w, store.Replace(ctx, c))
		return
	}
	require.NoError(w, store.Create(ctx, c))
	i := domain.StatusIntents.New().(*domain.StatusIntent)
	i.Parent, i.Name = domain.KeyOf(w.group), name
	i.Spec.StatusCollectors, i.Spec.WantMultiWECReportedState = []string{name}, true
	require.NoError(w, store.Create(ctx, i))
}

// tableStream is a stream of tables.
type tableStream struct {
	w *tablesWorld
	*notify.Subscription
	last string // id
}

func (w *tablesWorld) watch(question func(url.Values) (notify.Question, error), query, after string) *tableStream {
	w.Helper()
	v, err := url.ParseQuery(query)
	require.NoError(w, err)
	q, err := question(v)
	require.NoError(w, err)
	s, err := w.hub.SubscribeTo(w.Context(), domain.KeyOf(w.group), q, after)
	require.NoError(w, err)
	w.Cleanup(s.Close)
	return &tableStream{w: w, Subscription: s}
}

// next is the data of the next event.
func (s *tableStream) next(kind notify.Kind) []byte {
	s.w.Helper()
	ctx, cancel := context.WithTimeout(s.w.Context(), time.Minute)
	defer cancel()
	e, err := s.Next(ctx)
	require.NoError(s.w, err)
	require.Equal(s.w, kind, e.Kind, "%s", e.Data)
	s.last = e.ID
	return e.Data
}

// table decodes what an event says of the one item: rows and errors of each result.
func table(t testing.TB, data []byte) (rows []string, item *combined.CombinedStatus) {
	t.Helper()
	var l combined.List
	require.NoError(t, json.Unmarshal(data, &l))
	require.Len(t, l.Items, 1, "%s", data)
	for _, r := range l.Items[0].Results {
		rows = append(rows, strings.Join(r.ColumnNames, ","))
		for _, row := range r.Rows {
			var cells []string
			for _, c := range row.Columns {
				switch {
				case c.String != nil:
					cells = append(cells, *c.String)
				case c.Float != nil:
					cells = append(cells, *c.Float)
				default:
					cells = append(cells, string(c.Type))
				}
			}
			rows = append(rows, strings.Join(cells, " "))
		}
		for _, e := range r.RowErrors {
			rows = append(rows, "error of "+e.ColumnName+" on "+e.WEC.ClusterID)
		}
		rows = append(rows, r.Errors...)
	}
	return rows, l.Items[0]
}

// change is the one item of the next change.
func (s *tableStream) change() []string {
	s.w.Helper()
	rows, _ := table(s.w, s.next(notify.Change))
	return rows
}

const wecs = `{"filter":"obj.spec.replicas != returned.status.availableReplicas",` +
	`"select":[{"name":"wec","def":"inventory.name"},{"name":"available","def":"returned.status.availableReplicas"}]}`

// lifecycles make the changes of the conformance table's lifecycle cases. Before each the table is
// "wec,available", "c1 1", of three clusters of which c0 and c2 have 3.
var lifecycles = map[string]struct {
	change func(w *tablesWorld)
	want   []string
}{
	"destination-removed": {func(w *tablesWorld) {
		w.plan.Apps[0].Targets = w.plan.Apps[0].Targets[:1]
		w.record.Plan = w.stored()
		require.NoError(w, w.p.store.UpdateInstance(w.Context(), w.record.ContextID, func(i *domain.Instance) error {
			i.Plan = w.record.Plan
			return nil
		}))
	}, []string{"wec,available"}},
	"filter-starts-to-err": {func(w *tablesWorld) {
		w.says(1, `{"availableReplicas":1,"fails":true}`)
	}, []string{"wec,available", "error of  on fleet+c1"}},
	"column-reorder": {func(w *tablesWorld) {
		w.collector("wecs", strings.Replace(lifecycleTable, lifecycleColumns, `{"name":"available","def":"returned.status.availableReplicas"},{"name":"wec","def":"inventory.name"}`, 1))
	}, []string{"available,wec", "1 c1"}},
	"workload-object-edit": {func(w *tablesWorld) {
		w.replicas(1)
		w.updated()
	}, []string{"wec,available", "c0 3", "c2 3"}},
}

const (
	lifecycleColumns = `{"name":"wec","def":"inventory.name"},{"name":"available","def":"returned.status.availableReplicas"}`
	// A member fails makes the filter fail, and changes nothing else.
	lifecycleTable = `{"filter":"obj.spec.replicas != returned.status.availableReplicas && (returned.status.fails == null || 1 / 0 > 0)","select":[` + lifecycleColumns + `]}`
)

// TestLifecycleCases of the conformance table: each change shows once.
func TestLifecycleCases(t *testing.T) {
	file, err := combinetest.Load()
	require.NoError(t, err)
	for _, c := range file.LifecycleCases {
		t.Run(c.Name, func(t *testing.T) {
			require.Contains(t, lifecycles, c.Name, "nobody knows here how to make it so that %s", c.Given)
			w := newTablesWorld(t, 3)
			for cluster, available := range []int{3, 1, 3} {
				w.says(cluster, fmt.Sprintf(`{"availableReplicas":%d}`, available))
			}
			w.collector("wecs", lifecycleTable)
			s := w.watch(service.CombinedStatusQuestion, "", "")
			rows, _ := table(t, s.next(notify.Status))
			require.Equal(t, []string{"wec,available", "c1 1"}, rows)
			of := lifecycles[c.Name]
			of.change(w)
			require.Equal(t, of.want, s.change(), "%s", c.Then)
			w.says(0, `{"availableReplicas":7}`)
			require.Contains(t, s.change(), map[bool]string{true: "7 c0", false: "c0 7"}[of.want[0] == "available,wec"], "the next event is of the next change")
		})
	}
}

// TestTablesAreStreamed goes through changes of inputs: each shows once.
func TestTablesAreStreamed(t *testing.T) {
	w := newTablesWorld(t, 3)
	w.says(0, `{"availableReplicas":3}`)
	w.says(1, `{"availableReplicas":1}`)
	s := w.watch(service.CombinedStatusQuestion, "", "")
	require.JSONEq(t, `{"apiVersion":"control.kubestellar.io/v1alpha1","kind":"CombinedStatusList","metadata":{},"items":[]}`, string(s.next(notify.Status)))

	w.collector("wecs", wecs)
	require.Equal(t, []string{"wec,available", "c1 1", "c2 Null"}, s.change(), "an intent counts at once")
	w.says(2, `{"availableReplicas":3}`)
	require.Equal(t, []string{"wec,available", "c1 1"}, s.change())
	w.says(0, `{"availableReplicas":0}`)
	require.Equal(t, []string{"wec,available", "c0 0", "c1 1"}, s.change())
	before := s.last
	w.says(0, `{"availableReplicas":3}`)
	require.Equal(t, []string{"wec,available", "c1 1"}, s.change())
	require.Equal(t, []string{"wec,available", "c1 1"}, w.watch(service.CombinedStatusQuestion, "", before).change(), "a stream goes on where it was")

	w.collector("wecs", strings.Replace(wecs, "obj.spec.replicas !=", "false && obj.spec.replicas !=", 1))
	require.Equal(t, []string{"wec,available"}, s.change(), "a collector that is edited to no rows")
	w.collector("wecs", wecs)
	require.Equal(t, []string{"wec,available", "c1 1"}, s.change())
	t.Run("errors alone", func(t *testing.T) {
		w := newTablesWorld(t, 1)
		w.says(0, `{"availableReplicas":3}`)
		w.collector("fails", `{"select":[{"name":"a","def":"returned.status['first']"}]}`)
		s := w.watch(service.CombinedStatusQuestion, "", "")
		s.next(notify.Status)
		w.collector("fails", `{"select":[{"name":"a","def":"returned.status['second']"}]}`)
		rows, item := table(t, s.next(notify.Change))
		require.Equal(t, []string{"a", "Null", "error of a on fleet+c0"}, rows, "as before")
		require.Contains(t, item.Results[0].RowErrors[0].Error, "second")
		w.says(0, `{"second":"there"}`)
		require.Equal(t, []string{"a", "there"}, s.change(), "one event")
	})
	t.Run("deleted-by-hand", func(t *testing.T) {
		w := newTablesWorld(t, 1)
		w.says(0, `{"availableReplicas":3}`)
		w.collector("is", `{"select":[{"name":"a","def":"string(propagation.present) + ' ' + string(propagation.stale)"},{"name":"b","def":"returned.status.availableReplicas"}]}`)
		s := w.watch(service.CombinedStatusQuestion, "", "")
		rows, _ := table(t, s.next(notify.Status))
		require.Equal(t, []string{"a,b", "true false 3"}, rows)
		require.NoError(t, w.p.store.PutObservation(t.Context(), &domain.Observation{
			ObservedApp: domain.ObservedApp{ContextID: w.label, App: "web", Cluster: tablesCluster(0)}, Kinds: []string{"Deployment.apps"},
		}))
		rows, item := table(t, s.next(notify.Change))
		require.Equal(t, []string{"a,b", "false false Null"}, rows, "the cluster says that it is gone")
		require.Equal(t, combined.Inputs{Clusters: 1, Reported: 1}, item.Inputs)
	})
	t.Run("cut-off", func(t *testing.T) {
		require.NoError(t, w.p.store.PutWatch(t.Context(), "watcher", &domain.Watch{Cluster: tablesCluster(1), Reason: "refused"}))
		rows, item := table(t, s.next(notify.Change))
		require.Equal(t, []string{"wec,available", "c1 1"}, rows, "values stay")
		require.Equal(t, 1, item.Inputs.Stale)
		require.NoError(t, w.p.store.PutWatch(t.Context(), "watcher", &domain.Watch{Cluster: tablesCluster(1), Connected: true, LastSeen: time.Now()}))
		_, item = table(t, s.next(notify.Change))
		require.Zero(t, item.Inputs.Stale)
	})
	t.Run("intent-removed", func(t *testing.T) {
		require.NoError(t, w.p.store.Delete(t.Context(), domain.StatusIntents, domain.KeyOf(w.group).Child(domain.StatusIntents.Collection, "wecs"), 0))
		var gone struct {
			Items   []any
			Removed []string
		}
		require.NoError(t, json.Unmarshal(s.next(notify.Change), &gone))
		require.Empty(t, gone.Items)
		require.Len(t, gone.Removed, 1)
		require.Regexp(t, `^[0-9a-f]{16}\.[0-9a-f]{16}$`, gone.Removed[0])
	})
}

// TestStreamedTablesAreThoseOfTheQuery compares what a stream has come to by changes with what the query evaluates as a whole.
func TestStreamedTablesAreThoseOfTheQuery(t *testing.T) {
	w := newTablesWorld(t, 4)
	w.collector("wecs", wecs)
	w.collector("phases", `{"groupBy":[{"name":"n","def":"returned.status.availableReplicas"}],"combinedFields":[{"name":"count","type":"COUNT"},{"name":"sum","type":"SUM","subject":"returned.status.replicas"}]}`)
	for _, c := range []struct {
		question func(url.Values) (notify.Question, error)
		whole    func(*service.Tables) (*service.TablesDocument, error)
	}{
		{service.CombinedStatusQuestion, func(tables *service.Tables) (*service.TablesDocument, error) {
			return tables.CombinedStatus(t.Context(), domain.KeyOf(w.group), nil)
		}},
		{service.ObjectsQuestion, func(tables *service.Tables) (*service.TablesDocument, error) {
			return tables.Objects(t.Context(), domain.KeyOf(w.group), nil)
		}},
	} {
		s := w.watch(c.question, "", "")
		s.next(notify.Status)
		for i := range 12 {
			w.says(i*7%4, fmt.Sprintf(`{"availableReplicas":%d,"replicas":%d}`, i%3, 100*i))
		}
		shared := written(t, c.whole, w.tables)
		want := written(t, c.whole, service.NewTables(w.lifecycle))
		require.Equal(t, string(want), string(shared), "who has it evaluated anew gets the same bytes")
		require.Eventually(t, func() bool { return bytes.Equal(want, w.watch(c.question, "", "").next(notify.Status)) }, time.Minute, time.Millisecond)
	}
}

// written is an answer to who asks once.
func written(t testing.TB, ask func(*service.Tables) (*service.TablesDocument, error), of *service.Tables) []byte {
	t.Helper()
	d, err := ask(of)
	require.NoError(t, err)
	var b bytes.Buffer
	n, err := d.WriteTo(&b)
	require.NoError(t, err)
	require.Equal(t, d.Size(), int(n))
	return b.Bytes()
}

func TestAStreamOfTablesOfNoGroup(t *testing.T) {
	w := newTablesWorld(t, 1)
	q, err := service.CombinedStatusQuestion(nil)
	require.NoError(t, err)
	_, err = w.hub.SubscribeTo(t.Context(), domain.KeyOf(w.group)+"x", q, "")
	require.ErrorContains(t, err, "not found")
	_, err = service.CombinedStatusQuestion(url.Values{"app": {""}})
	require.ErrorContains(t, err, "Invalid query app")
	s := w.watch(service.ObjectsQuestion, "", "")
	s.next(notify.Status)
	require.NoError(t, w.p.store.Delete(t.Context(), domain.DeploymentIntentGroups, domain.KeyOf(w.group), 0))
	s.next(notify.End)
}

// TestALabelThatChangesIsAnEvent at once: it is an input as any other.
func TestALabelThatChangesIsAnEvent(t *testing.T) {
	w := newTablesWorld(t, 2)
	s := w.watch(service.CombinedStatusQuestion, "", "")
	s.next(notify.Status)
	w.collector("edge", `{"filter":"'edge' in inventory.labels","select":[{"name":"wec","def":"inventory.name"}]}`)
	require.Equal(t, []string{"wec"}, s.change())
	label := &domain.ClusterLabel{Identity: domain.Identity{Parent: tablesCluster(1).Key()}, Label: "edge"}
	require.NoError(t, w.p.store.Create(t.Context(), label))
	require.Equal(t, []string{"wec", "c1"}, s.change())
	require.NoError(t, w.p.store.Delete(t.Context(), domain.ClusterLabels, domain.KeyOf(label), 0))
	require.Equal(t, []string{"wec"}, s.change())
}
