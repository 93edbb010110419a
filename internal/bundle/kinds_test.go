package bundle_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/bundle"
)

func TestDerivedObjectsAreLeftOut(t *testing.T) {
	yes := true
	owned := []metav1.OwnerReference{{Kind: "Deployment", Name: "d", Controller: &yes}}
	replicaSet := schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}
	for name, c := range map[string]struct {
		kind    schema.GroupKind
		meta    metav1.ObjectMeta
		derived bool
	}{
		"a deployment's":         {replicaSet, metav1.ObjectMeta{OwnerReferences: owned}, true},
		"a chart's":              {replicaSet, metav1.ObjectMeta{}, false},
		"a pod has an owner too": {schema.GroupKind{Kind: "Pod"}, metav1.ObjectMeta{OwnerReferences: owned}, false},
		"endpoints of a service": {schema.GroupKind{Kind: "Endpoints"}, metav1.ObjectMeta{Annotations: map[string]string{"endpoints.kubernetes.io/last-change-trigger-time": "x"}}, true},
		"endpoints of a chart":   {schema.GroupKind{Kind: "Endpoints"}, metav1.ObjectMeta{}, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.derived, bundle.Derived(c.kind, &c.meta)) })
	}
}
