package tenantagent

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/drover-io/drover/internal/universe"
)

func kept(t *testing.T, uid, name string, change ...func(*corev1.Pod)) *pod {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Namespace: "ns", Name: name, ResourceVersion: "7"}}
	for _, c := range change {
		c(p)
	}
	o, err := keep(p)
	require.NoError(t, err)
	again, err := keep(o)
	require.NoError(t, err)
	require.Same(t, o, again, "informers may ask twice")
	return o.(*pod)
}

// decoded is a message as the server reads it.
func decoded(t *testing.T, m message) *universe.WorkloadStreamRequest {
	t.Helper()
	got := &universe.WorkloadStreamRequest{}
	require.NoError(t, proto.Unmarshal(m.parts.Materialize(), got))
	return got
}

func TestMessagesAreThoseOfTheProtocol(t *testing.T) {
	whole := kept(t, "1", "a", func(p *corev1.Pod) {
		p.Labels, p.Annotations, p.Spec.NodeName = map[string]string{"l": ""}, map[string]string{"x": "y", "z": "w"}, "node"
		p.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = `{"spec":{"containers":[{"env":[{"name":"PASSWORD","value":"sesame"}]}]}}`
		p.Annotations["objectset.rio.cattle.io/applied"] = "H4sIA"
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
	bare := kept(t, "2", "b")
	metadata := func(id, name string) *universe.WorkloadMetadata {
		return &universe.WorkloadMetadata{
			Id: id, Orchestrator: universe.OrchestratorType_ORCHESTRATOR_TYPE_KUBERNETES, ResourceType: "v1/Pod", ResourceNamespace: "ns", ResourceName: name,
		}
	}
	a := &universe.WorkloadUpdate{WorkloadMetadata: metadata("1", "a"), WorkloadState: &universe.WorkloadState{
		NodeName: "node", Ready: true, Extra: map[string]*universe.WorkloadState_ExtraData{
			"labels": {Data: map[string]string{"l": ""}}, "annotations": {Data: map[string]string{"x": "y", "z": "w"}},
		},
	}}
	b := &universe.WorkloadUpdate{WorkloadMetadata: metadata("2", "b"), WorkloadState: &universe.WorkloadState{
		Extra: map[string]*universe.WorkloadState_ExtraData{"labels": {}, "annotations": {}},
	}}
	for name, c := range map[string]struct {
		got  message
		want *universe.WorkloadStreamRequest
	}{
		"update": {updateOf(whole), &universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadUpdate{WorkloadUpdate: a}}},
		"delete": {deleteOf(whole), &universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadDelete{
			WorkloadDelete: &universe.WorkloadDelete{WorkloadMetadata: a.GetWorkloadMetadata()},
		}}},
		"sync": {syncOf([]*pod{whole, bare}), &universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadSync{
			WorkloadSync: &universe.WorkloadSync{WorkloadUpdates: []*universe.WorkloadUpdate{a, b}},
		}}},
		"sync of nothing": {syncOf(nil), &universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadSync{WorkloadSync: &universe.WorkloadSync{}}}},
	} {
		require.True(t, proto.Equal(c.want, decoded(t, c.got)), "%s: %v", name, decoded(t, c.got))
	}
}

// TestOfEachPodTheLastWord: what happens faster than it can be told is told once.
func TestOfEachPodTheLastWord(t *testing.T) {
	s := newScope(nil)
	a, b := kept(t, "1", "a"), kept(t, "2", "b")
	s.put(nil, a)
	s.put(nil, b)
	require.Len(t, s.all(), 2)
	told := func(wantGone, wantUpdate []*pod) {
		t.Helper()
		gone, update := s.changes()
		require.ElementsMatch(t, wantGone, gone)
		require.ElementsMatch(t, wantUpdate, update)
	}
	told(nil, nil)
	s.put(a, kept(t, "1", "a", func(p *corev1.Pod) { p.ResourceVersion = "8" }))
	told(nil, nil)
	ready := kept(t, "1", "a", func(p *corev1.Pod) { p.Spec.NodeName = "node" })
	s.put(a, ready)
	s.put(ready, ready)
	told(nil, []*pod{ready})

	another := kept(t, "3", "b") // of the same name as b: that one is gone
	s.put(b, another)
	told([]*pod{b}, []*pod{another})
	s.remove(toolscache.DeletedFinalStateUnknown{Key: "ns/b", Obj: another})
	told([]*pod{another}, nil)
	s.remove(another)
	told(nil, nil)

	s.forget()
	s.remove(ready)
	told(nil, nil)
	require.Zero(t, s.len())
}
