package view_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/view"
)

func id(kind, name string) plan.ResourceID {
	group := map[string]string{"Deployment": "apps", "Job": "batch", "Ingress": "networking.k8s.io", "CertificateSigningRequest": "certificates.k8s.io"}[kind]
	return plan.ResourceID{Group: group, Version: "v1", Kind: kind, Name: name}
}

// TestWhichWordCounts: of one leaf, what the running operation says, the records, and what the plan has of before.
func TestWhichWordCounts(t *testing.T) {
	const instantiate, terminate = domain.OpInstantiate, domain.OpTerminate
	c := cluster0("c")
	leafID := domain.LeafID("1", "app", c)
	again := func(leaf domain.Leaf) domain.Leaf { // of the second run of the operation
		leaf.Turn.Began = 2
		return leaf
	}
	leaf := func(op domain.Operation, marks string, open bool) domain.Leaf {
		return domain.Leaf{Turn: domain.Turn{Began: 1}, ID: leafID, ContextID: "1", App: "app", Cluster: c, Operation: op, Marks: marks, Open: open, Connectivity: domain.ConnectivityAvailable}
	}
	inherited := &domain.Leaf{Marks: "2A", Connectivity: domain.ConnectivityRetrying}
	for name, x := range map[string]struct {
		op           domain.Operation
		running      bool
		began        int64
		open, leaves []domain.Leaf
		inherited    *domain.Leaf
		marks        string
		inProgress   bool
	}{
		"nothing is known":                                    {op: instantiate, marks: ""},
		"nothing is known yet":                                {op: instantiate, running: true, inProgress: true},
		"the record of what has ended":                        {op: instantiate, leaves: []domain.Leaf{leaf(instantiate, "1A1F", false)}, marks: "AF"},
		"the record of an earlier operation, when it is over": {op: terminate, leaves: []domain.Leaf{leaf(instantiate, "2A", false)}, marks: "AA"},
		"what is at work":                                     {op: instantiate, running: true, open: []domain.Leaf{leaf(instantiate, "1A1s", true)}, marks: "As", inProgress: true},
		"its record, when it has ended in between": {
			op: instantiate, running: true, open: []domain.Leaf{leaf(instantiate, "1A1s", true)}, leaves: []domain.Leaf{leaf(instantiate, "2A", false)}, marks: "AA",
		},
		"what is at work, before the record of a try that left something": {
			op: instantiate, running: true, open: []domain.Leaf{leaf(instantiate, "2s", true)}, leaves: []domain.Leaf{leaf(instantiate, "1A1p", false)},
			marks: "ss", inProgress: true,
		},
		"an earlier operation's record, which a terminate has before it": {
			op: terminate, running: true, leaves: []domain.Leaf{leaf(instantiate, "1A1p", false)}, marks: "dD", inProgress: true,
		},
		"the record of an earlier terminate, before the next one comes to it": {
			op: terminate, running: true, began: 2, leaves: []domain.Leaf{leaf(terminate, "1D1X", false)}, marks: "Dr", inProgress: true,
		},
		"what is at work, before the record of an earlier terminate of which nothing was left but what failed": {
			op: terminate, running: true, began: 2, open: []domain.Leaf{again(leaf(terminate, "1D1r", true))}, leaves: []domain.Leaf{leaf(terminate, "1D1F", false)},
			marks: "Dr", inProgress: true,
		},
		"its record, when it has ended in between with what could not be deleted": {
			op: terminate, running: true, began: 2, open: []domain.Leaf{again(leaf(terminate, "1D1r", true))}, leaves: []domain.Leaf{again(leaf(terminate, "1D1X", false))},
			marks: "DX",
		},
		"an earlier operation's record, while an update goes on": {
			op: domain.OpUpdate, running: true, leaves: []domain.Leaf{leaf(instantiate, "1A1p", false)}, marks: "Ap", inProgress: true,
		},
		"what an earlier context left":                      {op: domain.OpUpdate, running: true, inherited: inherited, marks: "AA", inProgress: true},
		"what an earlier context left, and a terminate has": {op: terminate, running: true, inherited: inherited, marks: "dd", inProgress: true},
		"what an update has still to prune": {
			op: domain.OpUpdate, running: true, leaves: []domain.Leaf{leaf(domain.OpUpdate, "1A1d", false)}, marks: "Ad", inProgress: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			target := plan.Target{ClusterName: c, Reason: "intent"}
			if x.inherited != nil {
				target.Inherited = &plan.Inherited{Connectivity: x.inherited.Connectivity, Marks: x.inherited.Marks}
			}
			records := view.Records{
				ContextID: "1", Operation: x.op, Running: x.running, Began: x.began, Open: x.open, Leaves: x.leaves,
				Plan: &plan.Plan{Apps: []plan.App{{Name: "app", Resources: []plan.ResourceID{id("Service", "a"), id("Service", "b")}, Targets: []plan.Target{target}}}},
			}
			got := records.Apps()[0].Clusters[0]
			require.Equal(t, x.marks, string(got.Marks))
			require.Equal(t, x.inProgress, got.InProgress)
			require.Equal(t, "intent", got.Placement)
			records.NotStarted = map[string]string{"app": "waits until app db is Ready"}
			require.Equal(t, "waits until app db is Ready", records.Apps()[0].Clusters[0].Reason)
		})
	}
}

// TestWarningsAreAboutWhatIsThere: once a terminate has begun only what it has said itself still holds, of what it has left.
func TestWarningsAreAboutWhatIsThere(t *testing.T) {
	c := domain.ClusterName{Provider: "p", Name: "c"}
	said := func(op domain.Operation, text string) domain.Leaf {
		return domain.Leaf{ID: domain.LeafID("1", "app", c), Operation: op, Marks: "1D", Warnings: []domain.Note{{Message: text}}}
	}
	rows := func(op domain.Operation, running bool, leaves ...domain.Leaf) (got []string) {
		target := plan.Target{ClusterName: c, Inherited: &plan.Inherited{Marks: "1A", Warnings: []domain.Note{{Message: "inherited"}}}}
		records := view.Records{
			ContextID: "1", Operation: op, Running: running, Leaves: leaves,
			Plan: &plan.Plan{Apps: []plan.App{{Name: "app", Resources: []plan.ResourceID{id("Service", "a")}, Targets: []plan.Target{target}}}},
		}
		s := view.Source{ContextID: "1", Apps: records.Apps()}
		for r, err := range s.Rows(view.Ask{Detail: true}) {
			require.NoError(t, err)
			got = append(got, r.Warnings...)
		}
		return got
	}
	require.Equal(t, []string{"applied", "inherited"}, rows(domain.OpUpdate, false, said(domain.OpUpdate, "applied")))
	require.Equal(t, []string{"inherited"}, rows(domain.OpUpdate, true))
	require.Equal(t, []string{"left"}, rows(domain.OpTerminate, false, said(domain.OpTerminate, "left")))
	require.Equal(t, []string{"left"}, rows(domain.OpTerminate, true, said(domain.OpTerminate, "left")))
	require.Empty(t, rows(domain.OpTerminate, true, said(domain.OpUpdate, "applied")))
	require.Empty(t, rows(domain.OpTerminate, false, said(domain.OpUpdate, "applied")), "a terminate had nothing to do there")
	require.Empty(t, rows(domain.OpTerminate, true))
}

// line is a row as a line of text.
func line(r *view.Row) string {
	s := fmt.Sprintf("%s/%s/%s/%s %s", r.Place.App.Name, r.Place.Cluster.Name, r.Resource.Kind, r.Resource.Name, r.State)
	if r.Presence != view.NoPresence {
		s += " " + r.Presence.String() + " " + r.Readiness.String()
	}
	if r.LastPresence != view.NoPresence {
		s += " was " + r.LastPresence.String() + " " + r.LastReadiness.String()
	}
	if why := r.Why(); why != nil {
		s += " (" + why.Reason + ")"
	}
	for _, text := range []string{r.Message, r.Unready, strings.Join(r.Warnings, ", ")} {
		if text != "" {
			s += ": " + text
		}
	}
	return s
}

func lines(t *testing.T, s *view.Source, a view.Ask) []string {
	t.Helper()
	got := []string{}
	var tally view.Tally
	for r, err := range s.Rows(a) {
		require.NoError(t, err)
		tally.Add(r)
		got = append(got, line(r))
	}
	if !a.Reported {
		require.Equal(t, tally.States(), s.States(a), "rows are counted without being made")
	}
	return got
}

// source has two apps on two clusters; of the second cluster of web nothing but a Pod was ever reported, and that is long
// ago; in the first Jobs cannot be watched.
func source() *view.Source {
	seen := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	on := func(name, marks string, notes ...domain.Note) view.Cluster {
		return view.Cluster{ClusterName: cluster0(name), Connectivity: domain.ConnectivityAvailable, Marks: domain.DecodeMarks(marks), Notes: notes}
	}
	has := func(kind, name string, is readiness.Status, why string) view.ObservedResource {
		r := view.ObservedResource{ResourceID: id(kind, name), State: readiness.State{Status: is, Message: why}}
		r.Namespace, r.Stored, r.Sum = "default", seen, uint64(len(name))
		return r
	}
	observations := map[string][]*view.Observation{"web": {
		{
			ClusterName: cluster0("a"), Seen: true, Connected: true,
			Kinds:   []schema.GroupKind{{Group: "apps", Kind: "Deployment"}, {Kind: "Service"}, {Kind: "Pod"}, {Group: "batch", Kind: "Job"}},
			Unheard: []view.UnheardKind{{GroupKind: schema.GroupKind{Group: "batch", Kind: "Job"}, Since: seen, Reason: "forbidden"}},
			Resources: []view.ObservedResource{
				has("Pod", "web-1", readiness.Ready, ""), has("Deployment", "web", readiness.NotReady, "0/1"), has("Job", "hook", readiness.Ready, ""),
			},
			Object: func(i int) (json.RawMessage, error) { return json.RawMessage(fmt.Sprint(i)), nil },
		},
		{ClusterName: cluster0("b"), Seen: true, LastSeen: seen, Resources: []view.ObservedResource{has("Pod", "web-2", readiness.Ready, "")}},
	}}
	return &view.Source{
		ContextID: "1", Status: domain.ContextInstantiated, Namespace: "default",
		Apps: []view.App{
			{
				Name: "web", Hook: func(i int) bool { return i == 2 },
				Resources: []plan.ResourceID{id("Service", "web"), id("Deployment", "web"), id("Job", "hook")},
				Clusters:  []view.Cluster{on("a", "1A1F1A", domain.Note{Index: 1, Message: "no"}, domain.Note{Index: 0, Message: "over"}), on("b", "2A1G")},
			},
			{Name: "db", Resources: []plan.ResourceID{id("Secret", "db")}, Clusters: []view.Cluster{on("a", "1A"), on("c", "1G")}},
		},
		Observations: func(app string, _ []domain.ClusterName) iter.Seq2[*view.Observation, error] {
			return func(yield func(*view.Observation, error) bool) {
				for _, o := range observations[app] {
					if !yield(o, nil) {
						return
					}
				}
			}
		},
	}
}

func TestRowsKnowSinceWhenWhatIsReportedIsStored(t *testing.T) {
	for r, err := range source().Rows(view.Ask{Reported: true}) {
		require.NoError(t, err)
		require.Equal(t, r.Observed, !r.Stored.IsZero(), r.Resource)
		if r.Observed {
			require.Equal(t, uint64(len(r.Resource.Name)), r.Sum)
		} else {
			require.Zero(t, r.Sum)
		}
	}
}

func TestRows(t *testing.T) {
	const stale, silent, jobs = "the cluster cannot be heard; this is what it last reported", "no report has arrived from the cluster", "the kind Job.batch cannot be watched: forbidden"
	for name, c := range map[string]struct {
		ask  view.Ask
		want []string
	}{
		"what was done": {
			view.Ask{},
			[]string{"web/a/Job/hook Applied", "web/a/Deployment/web Failed", "web/a/Service/web Applied", "web/b/Deployment/web Applied", "web/b/Service/web Applied", "db/a/Secret/db Applied"},
		},
		"what was said of what is not applied": {
			view.Ask{Detail: true, Clusters: []domain.ClusterName{cluster0("a")}, Apps: []string{"web"}},
			[]string{"web/a/Job/hook Applied", "web/a/Deployment/web Failed: no", "web/a/Service/web Applied"},
		},
		"apps by name, and a name of resources": {
			view.Ask{Sorted: true, Resources: []string{"web", "db"}},
			[]string{"db/a/Secret/db Applied", "web/a/Deployment/web Failed", "web/a/Service/web Applied", "web/b/Deployment/web Applied", "web/b/Service/web Applied"},
		},
		"whether it is there": {
			view.Ask{Reported: true, Order: view.ByKind},
			[]string{
				"web/a/Pod/web-1  Present ", "web/a/Service/web Applied Missing ", "web/a/Deployment/web Failed Present ",
				"web/a/Job/hook Applied Unknown  was Present  (" + jobs + ")",
				"web/b/Pod/web-2  Unknown  was Present  (" + stale + ")", "web/b/Service/web Applied Unknown  was Missing  (" + stale + ")",
				"web/b/Deployment/web Applied Unknown  was Missing  (" + stale + ")",
				"db/a/Secret/db Applied Unknown  (" + silent + ")",
			},
		},
		"whether it is ready, and why not": {
			view.Ask{Reported: true, Judged: true, Detail: true, Apps: []string{"web"}, Clusters: []domain.ClusterName{cluster0("a")}},
			[]string{
				"web/a/Job/hook Applied Unknown NotReady was Present Ready (" + jobs + ")", "web/a/Deployment/web Failed Present NotReady: no: 0/1",
				"web/a/Service/web Applied Missing NotThere", "web/a/Pod/web-1  Present Ready",
			},
		},
		"an app and a cluster that are not there": {view.Ask{Apps: []string{"web"}, Clusters: []domain.ClusterName{cluster0("z")}}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, lines(t, source(), c.ask))
		})
	}
	s := source()
	s.ContextID = ""
	require.Empty(t, lines(t, s, view.Ask{Reported: true}), "without a context there are none")
	require.Equal(t, []string{"web", "db"}, source().Names())
	require.Equal(t, []string{"web"}, source().On(cluster0("b")).Names())
}

// A Job that goes by itself when it has done its work says nothing by being missing, once it had the time to be reported.
func TestWhatHasGoneByItselfIsNotMissed(t *testing.T) {
	made := func(change func(*view.Source)) *view.Source {
		s := source()
		s.Now, s.Ended = seen.Add(time.Minute), seen
		s.Apps = s.Apps[:1]
		a := &s.Apps[0]
		a.Hook, a.Expires = nil, []int{0}
		a.Resources = []plan.ResourceID{{Group: "batch", Version: "v1", Kind: "Job", Name: "migrate"}, id("Deployment", "web"), id("Job", "stays")}
		a.Clusters = a.Clusters[:1]
		a.Clusters[0].Marks = domain.DecodeMarks("3A")
		s.Observations = func(string, []domain.ClusterName) iter.Seq2[*view.Observation, error] {
			return func(yield func(*view.Observation, error) bool) {
				yield(&view.Observation{ClusterName: cluster0("a"), Seen: true, Connected: true, Kinds: []schema.GroupKind{{Group: "batch", Kind: "Job"}}}, nil)
			}
		}
		change(s)
		return s
	}
	judged := view.Ask{Reported: true, Judged: true, Order: view.AsPlanned, Resources: []string{"migrate", "stays"}}
	for name, c := range map[string]struct {
		change func(*view.Source)
		want   []string
	}{
		"it has gone":              {func(*view.Source) {}, []string{"web/a/Job/migrate Applied Missing ", "web/a/Job/stays Applied Missing NotThere"}},
		"it had no time to report": {func(s *view.Source) { s.Ended = s.Now.Add(-time.Second) }, []string{"web/a/Job/migrate Applied Missing NotThere", "web/a/Job/stays Applied Missing NotThere"}},
		"an operation goes on":     {func(s *view.Source) { s.Ended = time.Time{} }, []string{"web/a/Job/migrate Applied Missing NotThere", "web/a/Job/stays Applied Missing NotThere"}},
		"it was not applied": {
			func(s *view.Source) { s.Apps[0].Clusters[0].Marks = domain.DecodeMarks("1s2A") },
			[]string{"web/a/Job/migrate Failed Missing NotThere", "web/a/Job/stays Applied Missing NotThere"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, lines(t, made(c.change), judged))
		})
	}
}

// TestAReaderMayLeave after any row, and objects are read on demand.
func TestAReaderMayLeave(t *testing.T) {
	for _, a := range []view.Ask{{}, {Reported: true}, {Reported: true, Judged: true, Order: view.ByKind}} {
		all := len(lines(t, source(), a))
		for n := range all {
			read := 0
			for range source().Rows(a) {
				if read++; read > n {
					break
				}
			}
			require.Equal(t, n+1, read)
		}
	}
	var objects []string
	for r := range source().Rows(view.Ask{Reported: true, Resources: []string{"web", "web-1"}, Clusters: []domain.ClusterName{cluster0("a")}}) {
		object, err := r.Object()
		require.NoError(t, err)
		objects = append(objects, string(object))
	}
	require.Equal(t, []string{"1", "", "0"}, objects, "of the Deployment, the Service that is missing, and the Pod")
}

// TestWhatIsReadyTogether is what the rows say of the whole.
func TestWhatIsReadyTogether(t *testing.T) {
	place := func(d *view.Doubt) *view.Place { return &view.Place{Cluster: &view.Cluster{}, Doubt: d} }
	heard := place(nil)
	for name, c := range map[string]struct {
		rows        []view.Row
		ready       bool
		unconfirmed int
	}{
		"nothing":                         {nil, false, 0},
		"what does not count alone":       {[]view.Row{{Place: heard}}, false, 0},
		"something":                       {[]view.Row{{Place: heard}, {Place: heard, Readiness: view.Ready}}, true, 0},
		"and something else is not":       {[]view.Row{{Place: heard, Readiness: view.Ready}, {Place: heard, Readiness: view.NotReady}}, false, 0},
		"and something else is missing":   {[]view.Row{{Place: heard, Readiness: view.Ready}, {Place: heard, Readiness: view.NotThere}}, false, 0},
		"and a cluster is not heard":      {[]view.Row{{Place: heard, Readiness: view.Ready}, {Place: place(&view.Doubt{})}}, false, 1},
		"and a kind is not heard":         {[]view.Row{{Place: heard, Readiness: view.Ready}, {Place: heard, Doubt: &view.Doubt{}}}, false, 1},
		"and a kind that does not matter": {[]view.Row{{Place: heard, Readiness: view.Ready}, {Place: heard, Doubt: &view.Doubt{}, Moot: true}}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var tally view.Tally
			for i := range c.rows {
				tally.Add(&c.rows[i])
			}
			require.Equal(t, c.ready, tally.Ready())
			require.Equal(t, c.unconfirmed, tally.Unconfirmed())
		})
	}
}

// TestLacks: whoever reads an object itself judges it as a row does of which its cluster reports.
func TestLacks(t *testing.T) {
	rules := readiness.Compile(readiness.Rule{Name: "settings", Kind: "ConfigMap", Ready: `!has(object.data)`})
	for name, c := range map[string]struct {
		id           plan.ResourceID
		object, want string
	}{
		"ready":            {id("Deployment", "web"), `{"metadata":{"generation":1},"spec":{"replicas":1},"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1,"conditions":[{"type":"Available","status":"True"}]}}`, ""},
		"not ready":        {id("Deployment", "web"), `{"spec":{"replicas":2},"status":{"replicas":2,"updatedReplicas":1}}`, "Updated: 1/2"},
		"by a user's rule": {id("ConfigMap", "settings"), `{"metadata":{"name":"settings"}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, view.Lacks(c.id, json.RawMessage(c.object), rules))
			s := view.Source{
				ContextID: "1", Status: domain.ContextInstantiated, Rules: rules,
				Apps: []view.App{{Name: "app", Resources: []plan.ResourceID{c.id}, Clusters: []view.Cluster{{ClusterName: cluster0("c")}}}},
				Observations: func(string, []domain.ClusterName) iter.Seq2[*view.Observation, error] {
					return func(yield func(*view.Observation, error) bool) {
						yield(&view.Observation{
							ClusterName: cluster0("c"), Seen: true, Connected: true, Resources: []view.ObservedResource{{ResourceID: c.id}},
							Object: func(int) (json.RawMessage, error) { return json.RawMessage(c.object), nil },
						}, nil)
					}
				},
			}
			for r, err := range s.Rows(view.Ask{Reported: true, Judged: true, Detail: true}) {
				require.NoError(t, err)
				require.Equal(t, c.want, r.Unready)
				require.Equal(t, c.want == "", r.Readiness == view.Ready)
			}
		})
	}
	require.Equal(t, "NotPresent", view.Lacks(id("Deployment", "web"), nil, rules))
	require.Empty(t, view.Lacks(plan.ResourceID{Version: "v1", Kind: "ConfigMap"}, json.RawMessage(`{"data":{"k":"v"}}`), rules), "reports leave data out")
	require.NotEmpty(t, view.Lacks(id("Deployment", "web"), json.RawMessage(`{`), rules), "what cannot be read is not Ready")
}

// TestWhyWhatIsKeptIsToldWithIt: what was there before an app, and what a terminate leaves, is Applied, and not as somebody would think.
func TestWhyWhatIsKeptIsToldWithIt(t *testing.T) {
	s := source()
	s.Apps = s.Apps[:1]
	s.Apps[0].Clusters = []view.Cluster{{
		ClusterName: cluster0("a"), Marks: domain.Marks("AKA"), Notes: []domain.Note{{Index: 0, Message: "over"}, {Index: 1, Message: "it was there before"}},
	}}
	var got []string
	for r, err := range s.Rows(view.Ask{Detail: true}) {
		require.NoError(t, err)
		got = append(got, line(r))
	}
	require.Equal(t, []string{"web/a/Job/hook Applied", "web/a/Deployment/web Applied: it was there before", "web/a/Service/web Applied"}, got)
}
