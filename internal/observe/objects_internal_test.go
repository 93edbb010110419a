package observe

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/plan"
)

// TestWhatIsHeldOfAClusterIsBounded: a cluster decides how large its objects are, and all are held.
func TestWhatIsHeldOfAClusterIsBounded(t *testing.T) {
	t.Parallel()
	x := newObjects(newQueue(0))
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
	require.ErrorIs(t, x.put("1-app", at(4), word), errHeld)
	x.remove(at(0))
	require.NoError(t, x.put("1-app", at(4), word))
	require.ErrorIs(t, x.put("1-app", at(0), quarter), errHeld)
	for i := range 5 {
		x.remove(at(i))
	}
	require.Zero(t, x.bytes)
}

func TestNamesThatNoAPIServerHasAreLeftOut(t *testing.T) {
	t.Parallel()
	long, longLabel := strings.Repeat("a", limits.ObjectName+1), strings.Repeat("a", limits.LabelValue+1)
	object := func(namespace, name, label string) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"resourceVersion":"1","labels":{%q:%q}}}`, namespace, name, plan.DeploymentLabel, label))
	}
	x, n := newObjects(newQueue(0)), newNames(newQueue(0))
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
	x := newObjects(newQueue(0))
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
