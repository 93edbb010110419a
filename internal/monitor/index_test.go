package monitor

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/plan"
)

var (
	podKind = schema.GroupKind{Kind: "Pod"}
	rbs     = schema.GroupVersionKind{Group: bundle.Group, Version: bundle.Version, Kind: bundle.Kind}
)

// fixture is an index with its handlers, and the deployments that it said have changed.
type fixture struct {
	*index
	pods, bundles *handler
	told          []string
}

func newFixture() *fixture {
	f := &fixture{index: newIndex("")}
	f.pods, f.bundles = &handler{index: f.index, kind: podKind}, &handler{index: f.index, kind: bundle.GroupKind}
	f.pods.observe()
	f.bundles.observe()
	f.setSynced()
	f.setChanged(func(id string) { f.told = append(f.told, id) })
	return f
}

// changes are what was told since the last call.
func (f *fixture) changes() []string {
	told := f.told
	f.told = nil
	slices.Sort(told)
	return slices.Compact(told)
}

// pod is as an informer hands it out.
func pod(t *testing.T, id, name, phase string) *tracked {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": name, "namespace": "ns", "labels": map[string]any{plan.DeploymentLabel: id}},
		"status":   map[string]any{"phase": phase},
	}}
	tr, err := track(o)
	require.NoError(t, err)
	return tr.(*tracked)
}

func state(t *testing.T, id, name, uid string, owner types.UID, part string) *tracked {
	t.Helper()
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "ns", UID: types.UID(uid), Labels: map[string]string{plan.DeploymentLabel: id},
	}}
	if part != "" {
		o.Labels[bundle.PartLabel] = part
		o.OwnerReferences = []metav1.OwnerReference{{UID: owner}}
	}
	o.SetGroupVersionKind(rbs)
	tr, err := track(o)
	require.NoError(t, err)
	return tr.(*tracked)
}

func TestIndexFollowsObjects(t *testing.T) {
	f := newFixture()
	f.pods.OnAdd(pod(t, "1-a", "p", "Pending"), true)
	_, ok := f.view("1-a")
	require.False(t, ok, "without a ResourceBundleState there is nothing to write")
	f.bundles.OnAdd(state(t, "1-a", "a-1", "u1", "", ""), false)
	require.Equal(t, []string{"1-a"}, f.changes())
	v, ok := f.view("1-a")
	require.True(t, ok)
	require.Len(t, v.objects, 1)
	require.Equal(t, []schema.GroupKind{podKind}, v.head.Kinds)
	require.False(t, v.head.Ready)

	f.pods.OnUpdate(nil, pod(t, "1-a", "p", "Pending"))
	require.Empty(t, f.changes(), "what looks the same is no change")
	f.pods.OnUpdate(nil, pod(t, "1-a", "p", "Succeeded"))
	require.Equal(t, []string{"1-a"}, f.changes())
	v, _ = f.view("1-a")
	require.True(t, v.head.Ready)

	f.pods.OnUpdate(nil, pod(t, "2-b", "p", "Running"))
	require.Equal(t, []string{"1-a", "2-b"}, f.changes(), "with a new label it moves")
	v, _ = f.view("1-a")
	require.Empty(t, v.objects)

	f.pods.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "ns/p", Obj: pod(t, "2-b", "p", "Running")})
	f.bundles.OnDelete(state(t, "1-a", "a-1", "u1", "", ""))
	require.Empty(t, f.deployments, "nothing is left behind")
	require.Empty(t, f.where)
}

// replicaSet is as an informer hands it out: the app's own, or one that a Deployment has adopted.
func replicaSet(t *testing.T, id string, adopted bool) *tracked {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "ReplicaSet"}}
	o.SetName("r")
	o.SetNamespace("ns")
	o.SetLabels(map[string]string{plan.DeploymentLabel: id})
	if adopted {
		o.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Deployment", Name: "d", Controller: new(true)}})
	}
	tr, err := track(o)
	require.NoError(t, err)
	return tr.(*tracked)
}

// TestIndexForgetsWhatBecomesDerived: one that a chart has brought itself is adopted by a controller.
func TestIndexForgetsWhatBecomesDerived(t *testing.T) {
	f := newFixture()
	h := &handler{index: f.index, kind: schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}}
	f.bundles.OnAdd(state(t, "1-a", "a-1", "u1", "", ""), false)
	reported := func() int {
		v, ok := f.view("1-a")
		require.True(t, ok)
		return len(v.objects)
	}
	for name, goes := range map[string]func(){
		"it is adopted":                          func() { h.OnUpdate(nil, replicaSet(t, "1-a", true)) },
		"it is adopted, and belongs to another":  func() { h.OnUpdate(nil, replicaSet(t, "2-b", true)) },
		"it is adopted and gone when it is seen": func() { h.OnDelete(replicaSet(t, "1-a", true)) },
	} {
		t.Run(name, func(t *testing.T) {
			h.OnAdd(replicaSet(t, "1-a", true), false)
			require.Zero(t, reported())
			h.OnAdd(replicaSet(t, "1-a", false), false)
			require.Equal(t, 1, reported())
			f.changes()
			goes()
			require.Zero(t, reported())
			require.Equal(t, []string{"1-a"}, f.changes())
			require.Empty(t, f.where)
		})
	}
}

func TestIndexTellsNothingBeforeItKnowsAll(t *testing.T) {
	f := &fixture{index: newIndex("")}
	h := &handler{index: f.index, kind: bundle.GroupKind}
	h.OnAdd(state(t, "1-a", "a-1", "u1", "", ""), true)
	_, ok := f.view("1-a")
	require.False(t, ok)
	f.setSynced()
	_, ok = f.view("1-a")
	require.True(t, ok)
}

func TestIndexForgetsAKind(t *testing.T) {
	f := newFixture()
	f.bundles.OnAdd(state(t, "1-a", "a-1", "u1", "", ""), false)
	f.pods.OnAdd(pod(t, "1-a", "p", "Running"), false)
	f.changes()
	f.pods.forget()
	require.Equal(t, []string{"1-a"}, f.changes())
	f.pods.OnAdd(pod(t, "1-a", "late", "Running"), false)
	f.pods.observe()
	v, _ := f.view("1-a")
	require.Empty(t, v.objects, "events that come too late count for nothing")
	require.Empty(t, v.head.Kinds)
}

func TestIndexKnowsParts(t *testing.T) {
	f := newFixture()
	f.bundles.OnAdd(state(t, "1-a", "a-1", "u1", "", ""), false)
	f.bundles.OnAdd(state(t, "1-a", "a-1-2", "u2", "u1", "2"), false)
	f.bundles.OnAdd(state(t, "1-a", "b-1", "u3", "", ""), false)
	v, _ := f.view("1-a")
	require.Len(t, v.first, 2, "every ResourceBundleState of the label is filled")
	require.Equal(t, []int{2}, v.first[0].parts)
	require.Zero(t, v.first[0].lost)

	f.changes()
	f.bundles.OnUpdate(nil, state(t, "1-a", "a-1-2", "u2", "u1", "2"))
	require.Empty(t, f.changes(), "its own writes are no news")
	f.bundles.OnDelete(state(t, "1-a", "a-1-2", "u2", "u1", "2"))
	require.Equal(t, []string{"1-a"}, f.changes())
	v, _ = f.view("1-a")
	require.Equal(t, 1, v.first[0].lost)
}

// TestIndexKnowsItsOwnWrites: what anybody else writes of a ResourceBundleState is to be put right.
func TestIndexKnowsItsOwnWrites(t *testing.T) {
	f := newFixture()
	at := func(version string) *tracked {
		s := state(t, "1-a", "a-1", "u1", "", "")
		s.ResourceVersion = version
		return s
	}
	part := func(version string) *tracked {
		s := state(t, "1-a", "a-1-2", "u2", "u1", "2")
		s.ResourceVersion = version
		return s
	}
	name, second := types.NamespacedName{Namespace: "ns", Name: "a-1"}, types.NamespacedName{Namespace: "ns", Name: "a-1-2"}
	wrong := func() int {
		v, ok := f.view("1-a")
		require.True(t, ok)
		return v.first[0].lost
	}
	f.bundles.OnAdd(at("1"), true)
	f.changes()
	f.bundles.OnUpdate(nil, at("2"))
	require.Zero(t, wrong(), "it has not been written yet")

	f.writes("1-a", name)([]string{"3"})
	require.Empty(t, f.changes(), "what was seen before is older")
	f.writes("1-a", name)([]string{"4"})
	f.bundles.OnUpdate(nil, at("3"))
	f.bundles.OnUpdate(nil, at("4"))
	f.bundles.OnUpdate(nil, at("4"))
	require.Empty(t, f.changes())

	done := f.writes("1-a", name)
	f.bundles.OnUpdate(nil, at("5")) // before the answer to the write is there
	require.Empty(t, f.changes())
	done([]string{"5"})
	require.Empty(t, f.changes())
	require.Zero(t, wrong())

	f.bundles.OnUpdate(nil, at("6"))
	require.Equal(t, []string{"1-a"}, f.changes())
	require.Equal(t, 1, wrong())
	done = f.writes("1-a", name)
	f.bundles.OnUpdate(nil, at("8")) // it has overwritten 7
	done([]string{"7"})
	require.Equal(t, []string{"1-a"}, f.changes())
	require.Equal(t, 2, wrong())
	done = f.writes("1-a", name)
	f.bundles.OnUpdate(nil, at("9")) // somebody else's, which is overwritten
	f.bundles.OnUpdate(nil, at("10"))
	done([]string{"10"})
	require.Empty(t, f.changes())

	f.writes("1-a", second)([]string{"11", "12"})
	f.bundles.OnAdd(part("11"), false)
	f.changes()
	f.bundles.OnUpdate(nil, part("12"))
	require.Empty(t, f.changes())
	f.bundles.OnUpdate(nil, part("13"))
	require.Equal(t, []string{"1-a"}, f.changes())
	require.Equal(t, 3, wrong(), "of the first one, with which it is written")

	done = f.writes("1-a", name)
	f.bundles.OnDelete(at("14"))
	f.bundles.OnDelete(part("15"))
	f.bundles.OnAdd(state(t, "1-a", "a-1", "u3", "", ""), false)
	f.changes()
	done([]string{"14"})
	require.Empty(t, f.changes(), "another one has taken its place")
	f.writes("1-a", name)(nil)
	require.Empty(t, f.own)
}

// TestWhatOthersWriteIsPutRight at once, and then less and less often: two agents that say something else would write in turn for ever.
func TestWhatOthersWriteIsPutRight(t *testing.T) {
	now := time.Unix(1000, 0)
	s := &written{version: 7, next: now}
	f := first{}
	for i, want := range []time.Duration{0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		from, ok := s.from(f, 7)
		require.False(t, ok, "%s", from)
		f.lost++
		from, ok = s.from(f, 7)
		require.True(t, ok)
		require.Equal(t, want*time.Second, from.Sub(now), "the %d. time", i)
		from, ok = s.from(f, 8)
		require.True(t, ok)
		require.Equal(t, s.next, from, "what is new does not wait for that")
		now = now.Add(want * time.Second)
		s.restored(f, now, time.Second)
		s.next = now
	}
	now = now.Add(2*mostRestore + 1)
	f.lost++
	s.restored(f, now, time.Second)
	require.Equal(t, now.Add(time.Second), s.restore)
}

func TestPauseGrowsWithTheSize(t *testing.T) {
	for name, c := range map[string]struct {
		size int
		want time.Duration
	}{
		"nothing":  {0, time.Second},
		"small":    {fullRate, time.Second},
		"a MiB":    {1 << 20, 4 * time.Second},
		"8 of 1MB": {8 << 20, 32 * time.Second},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, quiet(time.Second, c.size)) })
	}
}

func TestChoose(t *testing.T) {
	both := metav1.Verbs{"list", "watch"}
	served := []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "pods", Kind: "Pod", Verbs: both}, {Name: "events", Kind: "Event", Verbs: both},
			{Name: "componentstatuses", Kind: "ComponentStatus", Verbs: metav1.Verbs{"list"}},
			{Name: "pods/status", Kind: "Pod", Verbs: metav1.Verbs{"get"}},
		}},
		{GroupVersion: "example.com/v2", APIResources: []metav1.APIResource{{Name: "widgets", Kind: "Widget", Verbs: both}}},
		{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{{Name: "widgets", Kind: "Widget", Verbs: both}}},
	}
	for name, c := range map[string]struct {
		more     []extra
		discover bool
		want     []string
	}{
		"known kinds alone":                {nil, false, []string{"/v1, Kind=Pod"}},
		"all that can be watched":          {nil, true, []string{"/v1, Kind=Pod", "example.com/v2, Kind=Widget"}},
		"a configured kind":                {[]extra{{"example.com", "", "Widget"}}, false, []string{"/v1, Kind=Pod", "example.com/v2, Kind=Widget"}},
		"a configured version":             {[]extra{{"example.com", "v1", "Widget"}}, true, []string{"/v1, Kind=Pod", "example.com/v1, Kind=Widget"}},
		"a busy kind, if it is configured": {[]extra{{"", "v1", "Event"}}, true, []string{"/v1, Kind=Event", "/v1, Kind=Pod", "example.com/v2, Kind=Widget"}},
		"one that nobody serves":           {[]extra{{"example.com", "v1", "Gadget"}}, false, []string{"/v1, Kind=Pod"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, k := range choose(served, c.more, c.discover) {
				got = append(got, k.String())
			}
			slices.Sort(got)
			require.Equal(t, c.want, got)
		})
	}
}
