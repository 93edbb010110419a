package kube

import (
	"context"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/plan"
)

// An apply takes away what its manager has applied before and says no more. Where that is too much, who owns it is changed first.

// handOver has the number of Pods stay as it is that the manifest leaves to an autoscaler of the app: the cluster would fill in 1, and all Pods but one would
// go until the autoscaler has looked.
func (w *write) handOver(ctx context.Context) error {
	if !w.scaled() {
		return nil
	}
	_, err := w.changeManagers(ctx, func(found *object) {
		for i := range found.ManagedFields {
			if e := &found.ManagedFields[i]; e.Manager == FieldManager && e.Subresource == "" {
				e.FieldsV1 = withoutReplicas(e.FieldsV1)
			}
		}
	})
	return err
}

// scaled says whether the manifest leaves the number of Pods to an autoscaler that the app has, or is to have.
func (w *write) scaled() bool {
	id, namespace := w.Resources[w.index].ResourceID, w.namespaceOf(w.index)
	return slices.ContainsFunc(w.autoscalers(), func(a autoscaler) bool {
		return a.namespace == namespace && a.target.Is(id)
	}) && !plan.SaysReplicas(w.body)
}

// autoscaler says how many Pods an object of its namespace is to have.
type autoscaler struct {
	namespace string
	target    plan.ScaleTarget
}

// autoscalers are those of the job that stay.
func (r *run) autoscalers() []autoscaler {
	r.scaling.Do(func() {
		for j := range r.Resources {
			if target, is := r.Resources[j].ScaleTarget(); is && r.marked(j).Expected() {
				r.scales = append(r.scales, autoscaler{r.namespaceOf(j), target})
			}
		}
	})
	return r.scales
}

// withoutReplicas are the fields but for the number of Pods.
func withoutReplicas(fields *metav1.FieldsV1) *metav1.FieldsV1 {
	if fields == nil {
		return nil
	}
	set, err := decodeObject(fields.GetRawBytes())
	if err != nil {
		return fields
	}
	spec := fieldSet(set).of("f:spec")
	if _, has := spec["f:replicas"]; !has {
		return fields
	}
	delete(spec, "f:replicas")
	rest, err := json.Marshal(set)
	if err != nil {
		return fields
	}
	return metav1.NewFieldsV1(string(rest))
}
