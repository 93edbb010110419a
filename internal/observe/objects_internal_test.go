package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/plan"
)

// TestWhatIsHeldOfAClusterIsBounded: a cluster decides how large its objects are, and all are held.
func TestWhatIsHeldOfAClusterIsBounded(t *testing.T) {
	t.Parallel()
	x := newObjects(newQueue(0), nobodys, NewRoom(limits.Watched))
	at := func(i int) plan.ResourceID {
		return plan.ResourceID{Kind: "ConfigMap", Namespace: "n", Name: fmt.Sprint(i)}
	}
	quarter := &domain.ObservedResource{JSON: make(json.RawMessage, limits.ClusterHeld/4)}
	for i := range 4 {
		require.NoError(t, x.put("1-app", at(i), quarter))
	}
	require.NoError(t, x.put("1-app", at(0), quarter), "in the place of another one it takes no more")
	require.NoError(t, x.put("2-app", at(0), quarter), "nor where it changes hands")
	word := &domain.ObservedResource{Message: "not ready"}
	require.NoError(t, x.put("2-app", at(4), word), "the other one has more")
	require.Equal(t, map[string]bool{"1-app": true}, x.out)
	require.Equal(t, limits.ClusterHeld/4+sizeOf(word), x.bytes)
	for i := range 5 {
		x.remove(at(i))
	}
	require.Zero(t, x.bytes)
	require.Empty(t, x.held)
	require.Empty(t, x.out)
}

func nobodys(string) bool { return false }

// TestADeploymentThatTakesAllTheRoom leaves it to others, and itself says why nothing is known of it until there is room.
func TestADeploymentThatTakesAllTheRoom(t *testing.T) {
	t.Parallel()
	q := newQueue(0)
	kept := map[string]bool{"1-app": true, "2-app": true}
	x := newObjects(q, func(id string) bool { return kept[id] }, NewRoom(limits.Watched))
	at := func(name string) plan.ResourceID {
		return plan.ResourceID{Kind: "ConfigMap", Namespace: "n", Name: name}
	}
	half := &domain.ObservedResource{Name: "half", JSON: make(json.RawMessage, limits.ClusterHeld/2)}
	small := &domain.ObservedResource{Name: "small", JSON: json.RawMessage("{}")}
	require.NoError(t, x.put("1-app", at("own"), half))
	require.NoError(t, x.put("9-made-up", at("a"), small))
	require.NoError(t, x.put("9-made-up", at("b"), small))
	require.NoError(t, x.put("8-made-up", at("c"), half))
	require.NoError(t, x.put("2-app", at("other"), small))
	require.Equal(t, map[string]bool{"8-made-up": true}, x.out, "nobody keeps it, and it has most")
	require.Len(t, x.observation("1-app").Resources, 1)
	require.Len(t, x.observation("2-app").Resources, 1)

	require.NoError(t, x.put("2-app", at("more"), half))
	require.Equal(t, map[string]bool{"8-made-up": true, "9-made-up": true, "2-app": true}, x.out, "it outgrows what is kept")
	delete(q.due, "2-app") // it was reported
	require.NoError(t, x.put("2-app", at("last"), small))
	require.Contains(t, q.due, "2-app")
	require.Equal(t, fail.TextOf(errLeftOut), x.observation("2-app").Error)
	require.Empty(t, x.observation("2-app").Resources)
	require.False(t, x.empty("2-app"), "there is something")
	require.Empty(t, x.observation("1-app").Error)

	require.True(t, x.hasRoom(), "for that which has a few bytes")
	x.remove(at("more"))
	require.True(t, x.retry())
	require.Equal(t, map[string]bool{"8-made-up": true}, x.out, "there is no room for it")
	require.NoError(t, x.put("2-app", at("other"), small))
	require.False(t, x.empty("9-made-up"), "it may be listed yet")
	x.retryEnds()
	require.False(t, x.hasRoom())
	require.False(t, x.retry(), "nothing is listed anew for what has no room")
	o := x.observation("2-app")
	require.Empty(t, o.Error)
	require.Len(t, o.Resources, 1, "of the other one nothing is known but its name")
	require.True(t, x.empty("9-made-up"))
	require.Equal(t, sizeOf(half)+sizeOf(small), x.bytes)
	require.NoError(t, x.put("8-made-up", at("c"), small))
	require.True(t, x.retry(), "it has become small")
	require.NoError(t, x.put("8-made-up", at("c"), small))
	x.retryEnds()
	require.Empty(t, x.out)
	for _, name := range []string{"own", "other", "c"} {
		x.remove(at(name))
	}
	require.Zero(t, x.bytes)
	require.Empty(t, x.full)
	require.Empty(t, x.weight)
}

// TestWhatFitsIsHeard: a deployment that is larger than all others is left out in the end, in whatever order objects are listed; at first, when little of it
// is known, another one may have been.
func TestWhatFitsIsHeard(t *testing.T) {
	t.Parallel()
	x := newObjects(newQueue(0), func(string) bool { return true }, NewRoom(limits.Watched))
	put := func(id, name string, mib int) {
		t.Helper()
		require.NoError(t, x.put(id, plan.ResourceID{Kind: "ConfigMap", Namespace: "n", Name: id + name}, &domain.ObservedResource{JSON: make(json.RawMessage, mib<<20)}))
	}
	list := func() {
		t.Helper()
		put("1-app", "", 61)
		for i := range 5 {
			put(fmt.Sprint(i+2, "-app"), "", 30)
		}
		for i := range 15 {
			put("9-big", fmt.Sprint(i), 20)
		}
	}
	list()
	require.Equal(t, map[string]bool{"1-app": true, "9-big": true}, x.out)
	require.True(t, x.retry())
	list()
	x.retryEnds()
	require.Equal(t, map[string]bool{"9-big": true}, x.out)
	require.Equal(t, 211<<20, x.bytes)
	require.False(t, x.retry())
	list()
	require.Equal(t, map[string]bool{"9-big": true}, x.out)
}

// TestWhatSomebodyKeepsComesFirst: however much others have in the cluster, of which nobody keeps what is said.
func TestWhatSomebodyKeepsComesFirst(t *testing.T) {
	t.Parallel()
	kept := map[string]bool{}
	x := newObjects(newQueue(0), func(id string) bool { return kept[id] }, NewRoom(limits.Watched))
	put := func(id, name string, mib int) {
		t.Helper()
		require.NoError(t, x.put(id, plan.ResourceID{Kind: "ConfigMap", Namespace: "n", Name: id + name}, &domain.ObservedResource{JSON: make(json.RawMessage, mib<<20)}))
	}
	for i := range 25 {
		put(fmt.Sprint(i, "-made-up"), "", 10)
	}
	put("1-app", "", 20)
	require.True(t, x.out["1-app"], "nobody keeps what has not been said yet")
	kept["1-app"] = true
	for i := range 3 {
		put(fmt.Sprint(i, "-late"), "", 10)
	}
	require.True(t, x.retry())
	put("1-app", "", 20)
	x.retryEnds()
	require.False(t, x.out["1-app"])
	require.LessOrEqual(t, x.bytes, limits.ClusterHeld)

	x = newObjects(newQueue(0), func(id string) bool { return kept[id] }, NewRoom(limits.Watched))
	for i := range 25 {
		id := fmt.Sprint(i, "-app")
		kept[id] = true
		put(id, "", 10)
	}
	for i := range 7 {
		put("9-made-up", fmt.Sprint(i), 1)
	}
	require.Equal(t, map[string]bool{"9-made-up": true}, x.out, "no other one goes where it is enough that this one does")
	require.Equal(t, 250<<20, x.bytes)
}

// TestWhatIsDueOfAClusterIsBounded: a cluster decides of how many deployments it has something for a moment, and whoever takes reports
// may be slow.
func TestWhatIsDueOfAClusterIsBounded(t *testing.T) {
	t.Parallel()
	object := func(name, label string) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"metadata":{"namespace":"n","name":%q,"resourceVersion":%q,"labels":{%q:%q}}}`, name, label, plan.DeploymentLabel, label))
	}
	for name, of := range map[string]func(*queue) (put, remove func(json.RawMessage) error, held func() map[string]bool){
		"of resources": func(q *queue) (put, remove func(json.RawMessage) error, held func() map[string]bool) {
			x := newObjects(q, nobodys, NewRoom(limits.Watched))
			f := &objectFollower{objects: x, gvk: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}}
			return f.put, f.remove, x.deployments
		},
		"of reports": func(q *queue) (put, remove func(json.RawMessage) error, held func() map[string]bool) {
			n := newNames(q)
			return n.put, n.remove, n.deployments
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(0)
			put, remove, held := of(q)
			require.NoError(t, put(object("lives", "1-app")))
			require.NoError(t, put(object("goes", "2-app")))
			for i := range limits.ClusterObjects - 2 {
				q.again(fmt.Sprint(i, "-flood"))
			}
			require.ErrorIs(t, put(object("one", "3-app")), errMany)
			require.Equal(t, map[string]bool{"1-app": true, "2-app": true}, held(), "what was refused comes again")
			require.NoError(t, put(object("more", "1-app")), "which is due already")
			delete(q.due, "2-app") // it was reported
			q.again("another-flood")
			require.NoError(t, remove(object("goes", "2-app")), "what has gone is told")
			require.Contains(t, q.due, "2-app")

			w := &Watcher{queue: q, sent: map[string]domain.Digest{"2-app": ""}, source: holds{deployments: held}}
			w.makeRoom()
			require.Len(t, q.due, 2)
			require.Contains(t, q.due, "1-app", "it is there")
			require.Contains(t, q.due, "2-app", "somebody is to be told that it is not")
			require.NoError(t, put(object("one", "3-app")))
		})
	}
}

// TestWhatIsKnownLeavesRoomForWhatIsThere: a watch begins with all that is stored to be reported anew, which begins when the cluster has been
// listed. However much that is, the list must come to its end.
func TestWhatIsKnownLeavesRoomForWhatIsThere(t *testing.T) {
	t.Parallel()
	known := make([]domain.ObservedApp, limits.ClusterObjects)
	for i := range known {
		known[i] = domain.ObservedApp{ContextID: "1", App: fmt.Sprint("made-up-", i)}
	}
	w, err := New(Config{Report: domain.ReportAgentless, Known: known})
	require.NoError(t, err)
	require.NoError(t, w.queue.add("2-app"))
}

// holds is a source of which nothing else is asked.
type holds struct {
	source
	deployments func() map[string]bool
}

func (h holds) held() map[string]bool { return h.deployments() }

// keeper is a sink that keeps one context, and counts what it is told of others.
type keeper struct {
	contextID string
	foreign   int
}

func (k *keeper) Put(_ context.Context, o *domain.Observation) (bool, error) {
	if o.ContextID != k.contextID {
		k.foreign++
	}
	return o.ContextID == k.contextID, nil
}

func (*keeper) Delete(context.Context, domain.ObservedApp) error { return nil }
func (*keeper) Contact(context.Context, domain.Watch) error      { return nil }

// TestNothingIsRememberedOfWhatNobodyKeeps: a cluster makes up ever new ids of deployments.
func TestNothingIsRememberedOfWhatNobodyKeeps(t *testing.T) {
	t.Parallel()
	sink := &keeper{contextID: "1"}
	known := domain.ObservedApp{ContextID: "2", App: "deleted"} // since its report was stored
	w, err := New(Config{Report: domain.ReportAgentless, Sink: sink, Known: []domain.ObservedApp{known}})
	require.NoError(t, err)
	require.NoError(t, w.reportOne(t.Context(), nil, "1-app"))
	require.NoError(t, w.reportOne(t.Context(), nil, "2-deleted"))
	for i := range 100 {
		require.NoError(t, w.reportOne(t.Context(), nil, fmt.Sprintf("%d-flood", 100+i)))
	}
	require.Equal(t, []string{"1-app"}, w.deployments())
	require.Equal(t, 101, sink.foreign)
}

func TestNamesThatNoAPIServerHasAreLeftOut(t *testing.T) {
	t.Parallel()
	long, longLabel := strings.Repeat("a", limits.ObjectName+1), strings.Repeat("a", limits.LabelValue+1)
	object := func(namespace, name, label string) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"resourceVersion":"1","labels":{%q:%q}}}`, namespace, name, plan.DeploymentLabel, label))
	}
	x, n := newObjects(newQueue(0), nobodys, NewRoom(limits.Watched)), newNames(newQueue(0))
	f := &objectFollower{objects: x, gvk: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}}
	for _, o := range []json.RawMessage{object(long, "a", "1-app"), object("n", long, "1-app"), object("n", "a", longLabel)} {
		require.NoError(t, f.put(o))
		require.NoError(t, n.put(o))
	}
	require.Empty(t, x.where)
	require.Empty(t, n.known)
	good := object("n", "a", "1-app")
	require.NoError(t, f.put(good))
	require.NoError(t, n.put(good))
	require.Len(t, x.where, 1)
	require.Len(t, n.known, 1)
	require.NoError(t, f.put(object("n", "a", longLabel)), "nobody's any more")
	require.NoError(t, n.put(object("n", "a", longLabel)))
	require.Empty(t, x.where)
	require.Empty(t, n.known)
}

// TestWhatBecomesDerivedIsLeftOut: one that a chart has brought itself is adopted by a controller.
func TestWhatBecomesDerivedIsLeftOut(t *testing.T) {
	t.Parallel()
	object := func(more string) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"metadata":{"namespace":"n","name":"r","labels":{%q:"1-app"}%s}}`, plan.DeploymentLabel, more))
	}
	const adopted = `,"ownerReferences":[{"kind":"Deployment","name":"d","controller":true}]`
	x := newObjects(newQueue(0), nobodys, NewRoom(limits.Watched))
	f := &objectFollower{objects: x, gvk: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}}
	require.NoError(t, f.put(object("")))
	require.Len(t, x.where, 1)
	require.NoError(t, f.put(object(adopted)))
	require.Empty(t, x.where)
	require.Zero(t, x.bytes)
	require.NoError(t, f.put(object(adopted)))
	require.NoError(t, f.put(object("")), "it is let go")
	require.Len(t, x.where, 1)
}

// TestTheReasonOfAKindIsTheLastOne: what a cluster says first may be a moment's, as while the storage of a CRD begins.
func TestTheReasonOfAKindIsTheLastOne(t *testing.T) {
	t.Parallel()
	x := newObjects(newQueue(0), nobodys, NewRoom(limits.Watched))
	widgets := schema.GroupKind{Group: "example.com", Kind: "Widget"}
	require.NoError(t, x.put("1-app", plan.ResourceID{Kind: "ConfigMap", Namespace: "n", Name: "c"}, &domain.ObservedResource{}))
	x.observe(widgets)
	x.lose(widgets, fail.New(fail.Unavailable, "storage is (re)initializing"))
	first := x.observation("1-app").Unheard
	require.Len(t, first, 1)
	require.False(t, first[0].Since.IsZero())
	x.lose(widgets, fail.New(fail.Invalid, "conversion webhook failed"))
	require.Equal(t, []domain.UnheardKind{{Kind: widgets.String(), Since: first[0].Since, Reason: "conversion webhook failed"}}, x.observation("1-app").Unheard)
}
