package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/plan"
)

func TestScaleTarget(t *testing.T) {
	t.Parallel()
	web := plan.ResourceID{Group: "apps", Version: "v1", Kind: "Deployment", Name: "web"}
	hpa := plan.ResourceID{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler", Name: "web"}
	keda := plan.ResourceID{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject", Name: "web"}
	for name, c := range map[string]struct {
		id       plan.ResourceID
		manifest string
		want     bool
	}{
		"an autoscaler":                   {hpa, `{"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}}`, true},
		"by another version":              {hpa, `{"spec": {"scaleTargetRef": {"apiVersion": "apps/v1beta2", "kind": "Deployment", "name": "web"}}}`, true},
		"by no version":                   {hpa, `{"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}}}`, true},
		"of another name":                 {hpa, `{"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "db"}}}`, false},
		"of another kind":                 {hpa, `{"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}}}`, false},
		"of another group":                {hpa, `{"spec": {"scaleTargetRef": {"apiVersion": "example.com/v1", "kind": "Deployment", "name": "web"}}}`, false},
		"of the core":                     {hpa, `{"spec": {"scaleTargetRef": {"apiVersion": "v1", "kind": "Deployment", "name": "web"}}}`, false},
		"KEDA's":                          {keda, `{"spec": {"scaleTargetRef": {"name": "web"}}}`, true},
		"KEDA's of another kind":          {keda, `{"spec": {"scaleTargetRef": {"name": "web", "kind": "StatefulSet"}}}`, false},
		"what is no object":               {hpa, `{"spec": {"scaleTargetRef": 1}}`, false},
		"a kind that scales nothing":      {web, `{"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}}`, false},
		"an autoscaler that says nothing": {hpa, `{}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := plan.Resource{ResourceID: c.id, Manifest: []byte(c.manifest)}
			target, is := r.ScaleTarget()
			require.Equal(t, c.want, is && target.Is(web))
		})
	}
}

func TestSaysReplicas(t *testing.T) {
	t.Parallel()
	for manifest, want := range map[string]bool{`{"spec": {"replicas": 0}}`: true, `{"spec": {"replicas": null}}`: false, `{"spec": {}}`: false, `{"spec": 1}`: false} {
		require.Equal(t, want, plan.SaysReplicas([]byte(manifest)), manifest)
	}
}
