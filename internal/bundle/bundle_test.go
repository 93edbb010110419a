package bundle_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
)

const contextID = "2621114006130701074"

func TestNewIsAsTheSeedsShowIt(t *testing.T) {
	r := bundle.New("sink", "171887448792644816", "default")
	require.JSONEq(t, `{"apiVersion":"k8splugin.io/v1alpha1","kind":"ResourceBundleState",
		"metadata":{"name":"sink-171887448792644816","namespace":"default","labels":{"emco/deployment-id":"171887448792644816-sink"}},
		"spec":{"selector":{"matchLabels":{"emco/deployment-id":"171887448792644816-sink"}}}}`, string(r.Manifest))
	require.Equal(t, plan.ResourceID{
		Group: "k8splugin.io", Version: "v1alpha1", Kind: "ResourceBundleState", Namespace: "default", Name: "sink-171887448792644816",
	}, r.ResourceID)
}

func TestNamesAreValidAndApart(t *testing.T) {
	valid := regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	seen := map[string]string{}
	for _, app := range []string{"a", "A", "my_app", "my-app", "a.-b", "v1.2", strings.Repeat("a", 240), strings.Repeat("a", 241)} {
		name := bundle.Name(app, contextID)
		require.Regexp(t, valid, name)
		require.LessOrEqual(t, len(bundle.PartName(name, 1024)), 253)
		require.True(t, strings.HasSuffix(name, "-"+contextID))
		require.Empty(t, seen[name], "%q and %q", app, seen[name])
		seen[name] = app
	}
}

func TestStrip(t *testing.T) {
	for name, c := range map[string]struct {
		reason          string
		kind, in, strip string
	}{
		"secret": {
			"a Secret keeps nothing that could be one",
			"Secret",
			`{"metadata":{"name":"s","annotations":{"a":"copy"}},"type":"Opaque","data":{"p":"eA=="},"stringData":{"q":"x"}}`,
			`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"type":"Opaque"}`,
		},
		"config map": {
			"the data of ConfigMaps is large, and no status; that it was edited is seen by the version",
			"ConfigMap",
			`{"metadata":{"name":"c","resourceVersion":"7","annotations":{"a":"b"}},"data":{"k":"v"},"binaryData":{"k":"v"}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","resourceVersion":"7","annotations":{"a":"b"}}}`,
		},
		"other": {
			"what repeats the object, or changes without it, goes",
			"Pod",
			`{"metadata":{"name":"p","resourceVersion":"1","selfLink":"x","managedFields":[{}],"annotations":{
			"kubectl.kubernetes.io/last-applied-configuration":"{}","keep":"k"}},"data":{"of":"its own"},"spec":{"n":1}}`,
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":{"keep":"k"}},"data":{"of":"its own"},"spec":{"n":1}}`,
		},
		"strange": {
			"an object may be anything",
			"Pod", `{"metadata":7,"spec":[]}`, `{"apiVersion":"v1","kind":"Pod","metadata":7,"spec":[]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var content map[string]any
			require.NoError(t, json.Unmarshal([]byte(c.in), &content))
			o, err := bundle.Observe(plan.ResourceID{Version: "v1", Kind: c.kind, Name: "x"}, content)
			require.NoError(t, err)
			require.JSONEq(t, c.strip, string(o.JSON), c.reason)
		})
	}
}

// object makes one with a spec of about size bytes.
func object(kind, name string, size int) *bundle.Object {
	id := plan.ResourceID{Version: "v1", Kind: kind, Namespace: "ns", Name: name}
	if kind == "Widget" {
		id.Group = "example.com"
	}
	o, err := bundle.Observe(id, map[string]any{
		"metadata": map[string]any{
			"name": name, "namespace": "ns", "uid": "u-" + name, "labels": map[string]any{plan.DeploymentLabel: "1-a"},
			"annotations": map[string]any{"note": "n"},
		},
		"spec": map[string]any{"replicas": 3, "big": strings.Repeat("x", size)},
		"status": map[string]any{
			"phase": "Running", "large": strings.Repeat("y", 2000),
			"conditions": []any{map[string]any{"type": "Ready", "status": "True", "message": strings.Repeat("é", 1000)}},
		},
	})
	if err != nil {
		panic(err)
	}
	return o
}

func TestSummaryTellsWhoAndHow(t *testing.T) {
	short, err := bundle.Summarise(object("Pod", "p", 100_000))
	require.NoError(t, err)
	require.True(t, short.Summarised)
	require.JSONEq(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"ns","uid":"u-p",
		"labels":{"emco/deployment-id":"1-a"},"annotations":{"k8splugin.io/summarised":"true"}},
		"spec":{"replicas":3},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","message":"`+strings.Repeat("é", 128)+`"}]}}`,
		string(short.JSON))
}

// TestSummaryOfARouteHasItsParents: by what their controllers say each of them is judged.
func TestSummaryOfARouteHasItsParents(t *testing.T) {
	var refs, parents []any
	for i := range 4 {
		ref := map[string]any{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": fmt.Sprintf("gateway-with-a-long-name-%d", i), "namespace": "infrastructure"}
		refs = append(refs, ref)
		parents = append(parents, map[string]any{"parentRef": ref, "controllerName": "example.com/controller", "conditions": []any{
			map[string]any{"type": "Accepted", "status": "False", "message": strings.Repeat("x", 1000)},
		}})
	}
	o, err := bundle.Observe(plan.ResourceID{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute", Name: "r"}, map[string]any{
		"metadata": map[string]any{"name": "r"}, "spec": map[string]any{"parentRefs": refs, "rules": []any{strings.Repeat("y", 1000)}},
		"status": map[string]any{"parents": parents},
	})
	require.NoError(t, err)
	short, err := bundle.Summarise(o)
	require.NoError(t, err)
	var is struct {
		Spec struct {
			ParentRefs []any
			Rules      []any
		}
		Status struct {
			Parents []struct {
				Conditions []struct{ Status, Message string }
			}
		}
	}
	require.NoError(t, json.Unmarshal(short.JSON, &is))
	require.Len(t, is.Spec.ParentRefs, 4)
	require.Empty(t, is.Spec.Rules)
	require.Len(t, is.Status.Parents, 4)
	require.Equal(t, "False", is.Status.Parents[3].Conditions[0].Status)
	require.Len(t, is.Status.Parents[3].Conditions[0].Message, 256)
}

// TestSplitHasRoomBesideManyKinds, of which no name needs escapes, and many of which may not be heard for long reasons. Where names alone take all of it, that is the error.
func TestSplitHasRoomBesideManyKinds(t *testing.T) {
	kinds := func(n int) (h bundle.Head) {
		for i := range n {
			h.Kinds = append(h.Kinds, schema.GroupKind{Group: "things.example.com", Kind: fmt.Sprintf("KindOfThing%05d", i)})
		}
		return h
	}
	objects := []*bundle.Object{object("Pod", "p", 1000)}
	h := kinds(1000)
	for _, k := range h.Kinds[:300] {
		h.Unheard = append(h.Unheard, bundle.Unheard{GroupKind: k, Reason: strings.Repeat("forbidden ", 30)})
	}
	before := h.Unheard[0].Reason
	statuses, err := bundle.Split(h, objects, bundle.MinSize, bundle.Summarise)
	require.NoError(t, err)
	require.Len(t, statuses, 1)
	require.LessOrEqual(t, len(statuses[0]), bundle.MinSize)
	require.Len(t, decode(t, 1, statuses[0]).Unheard, 300)
	require.Equal(t, before, h.Unheard[0].Reason, "what is shortened is a copy")
	_, err = bundle.Split(kinds(2000), objects, bundle.MinSize, bundle.Summarise)
	require.ErrorContains(t, err, "the names of 2000 kinds")
}

func TestSummaryIsSmall(t *testing.T) {
	members := map[string]any{}
	for i := range 10_000 {
		members[fmt.Sprintf("member%d", i)] = "value"
	}
	for name, content := range map[string]map[string]any{
		"of many members of a spec":   {"metadata": map[string]any{"name": "x"}, "spec": members},
		"of many members of a status": {"metadata": map[string]any{"name": "x"}, "status": members},
		"of many labels":              {"metadata": map[string]any{"name": "x", "labels": members}},
		"of other members":            {"metadata": map[string]any{"name": "x"}, "more": members},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := bundle.Observe(plan.ResourceID{Version: "v1", Kind: "Any", Name: "x"}, content)
			require.NoError(t, err)
			short, err := bundle.Summarise(o)
			require.NoError(t, err)
			require.Less(t, len(short.JSON), 16<<10)
			require.Contains(t, string(short.JSON), `"name":"x"`)
		})
	}
}

var head = bundle.Head{
	Lease: "agents", Ready: true, Kinds: []schema.GroupKind{{Kind: "Pod"}, {Group: "example.com", Kind: "Widget"}},
	Unheard: []bundle.Unheard{
		{GroupKind: schema.GroupKind{Group: "example.com", Kind: "Widget"}, Since: time.Unix(1, 5).UTC(), Reason: `"no"`},
		{GroupKind: schema.GroupKind{Kind: "Secret"}, Reason: "forbidden"},
	},
}

// split writes the parts of a bundle as ResourceBundleStates and reads them.
func split(t testing.TB, objects []*bundle.Object, maxSize int) ([]json.RawMessage, []*bundle.Part) {
	t.Helper()
	statuses, err := bundle.Split(head, objects, maxSize, bundle.Summarise)
	require.NoError(t, err)
	parts := make([]*bundle.Part, len(statuses))
	for i, status := range statuses {
		require.LessOrEqual(t, len(status), maxSize)
		parts[i] = decode(t, i+1, status)
	}
	return statuses, parts
}

// decode reads part i of a bundle with the status.
func decode(t testing.TB, i int, status json.RawMessage) *bundle.Part {
	t.Helper()
	manifest := bundle.New("a", contextID, "ns").Manifest
	if i > 1 {
		manifest = bundle.NewPart(bundle.Owner{Namespace: "ns", Name: bundle.Name("a", contextID), UID: "first", DeploymentID: contextID + "-a"}, i)
	}
	var r map[string]any
	require.NoError(t, json.Unmarshal(manifest, &r))
	if i == 1 {
		r["metadata"].(map[string]any)["uid"] = "first"
	}
	r["status"] = status
	data, err := json.Marshal(r)
	require.NoError(t, err)
	p, err := bundle.Decode(data)
	require.NoError(t, err)
	return p
}

func TestSplit(t *testing.T) {
	const maxSize = 128 << 10
	for name, c := range map[string]struct {
		reason            string
		objects, size     int
		parts, summarised func(int) bool
	}{
		"nothing":      {"an empty bundle is one part", 0, 0, is(1), is(0)},
		"small":        {"what fits is whole", 20, 100, is(1), is(0)},
		"one large":    {"one that does not fit is cut", 1, 200_000, is(1), is(1)},
		"some large":   {"no more are cut than have to be", 10, 20_000, is(1), between(1, 9)},
		"many":         {"when all are cut and do not fit, there are parts", 500, 2_000, between(2, 64), is(500)},
		"a lot of all": {"there is no end to it", 3_000, 500, between(16, 1024), is(3_000)},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []*bundle.Object
			for i := range c.objects {
				objects = append(objects, object([]string{"Pod", "Widget"}[i%2], fmt.Sprintf("o%05d", i), c.size))
			}
			statuses, parts := split(t, objects, maxSize)
			require.True(t, c.parts(len(statuses)), "%d parts: %s", len(statuses), c.reason)
			joined := bundle.Join(parts)
			require.Len(t, joined, 1)
			b := joined[0]
			require.True(t, b.Filled && b.Complete && b.Ready)
			require.Equal(t, head.Kinds, b.Kinds)
			require.Equal(t, head.Lease, b.Lease)
			require.Equal(t, head.Unheard, b.Unheard)
			require.Len(t, b.Objects, c.objects)
			summarised := 0
			for _, o := range b.Objects {
				if o.Summarised {
					summarised++
				}
			}
			require.True(t, c.summarised(summarised), "%d summarised: %s", summarised, c.reason)

			rand.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
			again, _ := split(t, objects, maxSize)
			require.True(t, slices.EqualFunc(statuses, again, func(a, b json.RawMessage) bool { return string(a) == string(b) }), "the order does not matter")
		})
	}
}

func is(n int) func(int) bool { return func(got int) bool { return got == n } }
func between(least, most int) func(int) bool {
	return func(got int) bool { return got >= least && got <= most }
}

func TestSplitRewritesNoMoreThanItHasTo(t *testing.T) {
	var objects []*bundle.Object
	for i := range 1000 {
		objects = append(objects, object("Pod", fmt.Sprintf("o%04d", i), 1000))
	}
	before, _ := split(t, objects, bundle.MinSize)
	objects[500] = object("Pod", "o0500", 10_000)
	objects[500].JSON = json.RawMessage(strings.Replace(string(objects[500].JSON), "Running", "Failed", 1))
	after, _ := split(t, objects, bundle.MinSize)
	require.Equal(t, len(before), len(after))
	changed := 0
	for i := range before {
		if string(before[i]) != string(after[i]) {
			changed++
		}
	}
	require.Equal(t, 1, changed, "of %d", len(before))
}

func TestSplitGivesUpWithAnError(t *testing.T) {
	var objects []*bundle.Object
	for range 500 { // the same one again and again is always in the same part
		objects = append(objects, object("Pod", "same", 1000))
	}
	_, err := bundle.Split(head, objects, bundle.MinSize, bundle.Summarise)
	require.Error(t, err)
}

func TestSplitTakesNoSummaryThatIsNoShorter(t *testing.T) {
	var objects []*bundle.Object
	for i := range 1000 {
		id := plan.ResourceID{Version: "v1", Kind: "Secret", Namespace: "ns", Name: fmt.Sprintf("s%04d", i)}
		o, err := bundle.Observe(id, map[string]any{"metadata": map[string]any{"name": id.Name, "namespace": id.Namespace}})
		require.NoError(t, err)
		objects = append(objects, o)
	}
	statuses, parts := split(t, objects, bundle.MinSize)
	require.Greater(t, len(statuses), 1)
	for _, o := range bundle.Join(parts)[0].Objects {
		require.False(t, o.Summarised)
	}
}

func TestSplitKeepsWhatIsWhole(t *testing.T) {
	o := object("Pod", "p", 10)
	_, parts := split(t, []*bundle.Object{o}, bundle.MinSize)
	require.Empty(t, cmp.Diff([]bundle.Object{*o}, parts[0].Objects))
}

func TestJoinSeesWhatIsNotWhole(t *testing.T) {
	var objects []*bundle.Object
	for i := range 500 {
		objects = append(objects, object("Pod", fmt.Sprintf("o%04d", i), 1000))
	}
	_, few := split(t, objects[:250], bundle.MinSize)
	_, parts := split(t, objects, bundle.MinSize)
	require.Greater(t, len(parts), len(few))
	require.Greater(t, len(few), 1)

	whole := bundle.Join(parts)[0]
	require.True(t, whole.Complete)
	backwards := slices.Clone(parts)
	slices.Reverse(backwards)
	require.Empty(t, cmp.Diff(whole, bundle.Join(backwards)[0]), "the order does not matter")

	require.False(t, bundle.Join(parts[:len(parts)-1])[0].Complete, "a part is missing")
	require.Empty(t, bundle.Join(parts[1:]), "without its first a part is nothing")

	old := append([]*bundle.Part{parts[0]}, few[1:]...)
	mixed := bundle.Join(old)[0]
	require.False(t, mixed.Complete, "parts of two writes")
	seen := map[string]bool{}
	for _, o := range mixed.Objects {
		require.False(t, seen[o.Name], "%s is there twice", o.Name)
		seen[o.Name] = true
	}
	leftover := append(slices.Clone(few), parts[len(few):]...)
	require.True(t, bundle.Join(leftover)[0].Complete, "a part that is not deleted yet does no harm")
}

func TestJoinKeepsBundlesApart(t *testing.T) {
	one := decode(t, 1, json.RawMessage(`{"observedKinds":[],"resourceCount":0}`))
	two := *one
	two.Name, two.UID = "b-"+contextID, "second"
	joined := bundle.Join([]*bundle.Part{&two, one})
	require.Len(t, joined, 2)
	require.Equal(t, one.Name, joined[0].Name)
}

func TestReadsWhatEMCOWrites(t *testing.T) {
	p, err := bundle.Decode([]byte(`{"apiVersion":"k8splugin.io/v1alpha1","kind":"ResourceBundleState",
		"metadata":{"name":"17-sink","namespace":"default","labels":{"emco/deployment-id":"17-sink"}},
		"spec":{"selector":{"matchLabels":{"emco/deployment-id":"17-sink"}}},
		"status":{"ready":false,"resourceCount":0,"podStatuses":[{"metadata":{"name":"p","namespace":"default"},"status":{"phase":"Running"}}],
		"deploymentStatuses":null,
		"resourceStatuses":[{"group":"rbac.authorization.k8s.io","version":"v1","kind":"Role","name":"r","namespace":"default","res":"eyJhIjoxfQ=="}]}}`))
	require.NoError(t, err)
	b := bundle.Join([]*bundle.Part{p})[0]
	require.True(t, b.Filled && b.Complete)
	require.Nil(t, b.Kinds, "EMCO's agent does not say what it observes")
	require.Equal(t, plan.ResourceID{Version: "v1", Kind: "Pod", Namespace: "default", Name: "p"}, b.Objects[0].ResourceID)
	require.Equal(t, plan.ResourceID{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role", Namespace: "default", Name: "r"}, b.Objects[1].ResourceID)
	require.JSONEq(t, `{"a":1}`, string(b.Objects[1].JSON))
}

func TestOneThatNobodyFilledSaysNothing(t *testing.T) {
	for name, status := range map[string]string{"no status": ``, "EMCO's first": `,"status":{"ready":false,"resourceCount":0}`} {
		t.Run(name, func(t *testing.T) {
			p, err := bundle.Decode([]byte(`{"kind":"ResourceBundleState","metadata":{"name":"a"}` + status + `}`))
			require.NoError(t, err)
			b := bundle.Join([]*bundle.Part{p})[0]
			require.False(t, b.Filled)
			require.False(t, b.Complete)
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"what is not JSON":              `{`,
		"another kind":                  `{"kind":"Pod"}`,
		"a part without an owner":       `{"kind":"ResourceBundleState","metadata":{"labels":{"k8splugin.io/part":"2"}}}`,
		"a part that is no number":      `{"kind":"ResourceBundleState","metadata":{"labels":{"k8splugin.io/part":"x"},"ownerReferences":[{"uid":"u"}]}}`,
		"a list that is not one":        `{"kind":"ResourceBundleState","status":{"podStatuses":7}}`,
		"an object that is not one":     `{"kind":"ResourceBundleState","status":{"podStatuses":["p"]}}`,
		"an entry that is not an entry": `{"kind":"ResourceBundleState","status":{"resourceStatuses":[{"res":"!"}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := bundle.Decode([]byte(in))
			require.True(t, fail.Is(err, fail.Invalid), "%v", err)
		})
	}
}

// FuzzJoin reads whatever a cluster may answer: it never panics, and what it takes is well-formed and there once.
func FuzzJoin(f *testing.F) {
	first := `{"kind":"ResourceBundleState","metadata":{"uid":"u"},"status":`
	second := `{"kind":"ResourceBundleState","metadata":{"labels":{"k8splugin.io/part":"2"},"ownerReferences":[{"uid":"u"}]},"status":`
	few := `"podStatuses":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}},{"metadata":{"name":"a"}}],
		"resourceStatuses":[{"group":"g","version":"v1","kind":"K","name":"n","res":"eyJhIjoxfQ=="}]`
	f.Add([]byte(first+`{"observedKinds":["Pod"],"parts":2,"resourceCount":3,`+few+`}}`), []byte(second+`{"resourceCount":2,`+few+`}}`))
	f.Add([]byte(first+`{`+few+`}}`), []byte(first+`null}`))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		var parts []*bundle.Part
		for _, data := range [][]byte{one, two} {
			if p, err := bundle.Decode(data); err == nil {
				parts = append(parts, p)
			}
		}
		for _, b := range bundle.Join(parts) {
			seen := map[plan.ResourceID]bool{}
			for _, o := range b.Objects {
				require.True(t, json.Valid(o.JSON))
				id := o.ResourceID
				id.Version = ""
				require.False(t, seen[id])
				seen[id] = true
			}
		}
	})
}

func BenchmarkSplit(b *testing.B) {
	for name, n := range map[string]int{"small": 20, "summarised": 500} {
		b.Run(name, func(b *testing.B) {
			var objects []*bundle.Object
			for i := range n {
				objects = append(objects, object("Pod", fmt.Sprint(i), 3000))
			}
			for b.Loop() {
				if _, err := bundle.Split(head, objects, bundle.MaxSize, bundle.Summarise); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
