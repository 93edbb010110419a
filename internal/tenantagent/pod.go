package tenantagent

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/universe"
)

// pod is all that is kept of a Pod: what is said of it, as it is sent. It does not change.
type pod struct {
	metav1.ObjectMeta // namespace, name, UID and resource version alone, which informers ask for

	said []byte // a WorkloadUpdate
	meta int    // how many bytes of it, from the first, are its WorkloadMetadata, which alone is a WorkloadDelete
}

// keep makes a pod of what an informer gets, before it is stored. It is a cache.TransformFunc, and may get its own result.
func keep(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	for _, copied := range bundle.LastApplied { // of the whole manifest: environments of containers do not leave the cluster
		delete(p.Annotations, copied)
	}
	metadata := &universe.WorkloadMetadata{
		Id: string(p.UID), Orchestrator: universe.OrchestratorType_ORCHESTRATOR_TYPE_KUBERNETES, ResourceType: domain.KindPod,
		ResourceNamespace: p.Namespace, ResourceName: p.Name,
	}
	state := &universe.WorkloadState{
		NodeName: p.Spec.NodeName, Ready: ready(p),
		Extra: map[string]*universe.WorkloadState_ExtraData{domain.ExtraLabels: {Data: p.Labels}, domain.ExtraAnnotations: {Data: p.Annotations}},
	}
	// Equal Pods have to be equal bytes, and the metadata come first: fields are written in the order of their numbers.
	encode := proto.MarshalOptions{Deterministic: true}
	said, err := encode.Marshal(&universe.WorkloadUpdate{WorkloadMetadata: metadata})
	if err != nil {
		return nil, fmt.Errorf("encode the Pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	meta := len(said)
	if said, err = encode.MarshalAppend(said, &universe.WorkloadUpdate{WorkloadState: state}); err != nil {
		return nil, fmt.Errorf("encode the Pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return &pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion},
		said:       append(make([]byte, 0, len(said)), said...), meta: meta,
	}, nil
}

// ready says whether the condition Ready is True. A Pod that has ended or is being deleted is what its condition says, too.
func ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
