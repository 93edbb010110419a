package fields_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/fields"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/quantity"
)

// TestUnbounded: quantities that Kubernetes takes minutes for are found wherever a kind has some, and nothing is busy with them.
func TestUnbounded(t *testing.T) {
	t.Parallel()
	for reason, c := range map[string]struct{ manifest, want string }{
		"of a container": {
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {template: {spec: {containers: [{name: a}, {name: b, resources: {limits: {cpu: "9999999E999999999999"}}}]}}}}`,
			"spec.template.spec.containers[1].resources.limits.cpu",
		},
		"behind a pointer, with blanks": {
			`{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {volumes: [{name: v, emptyDir: {sizeLimit: " 1e-2147483647 "}}]}}`,
			"spec.volumes[0].emptyDir.sizeLimit",
		},
		"of a struct within another": {
			`{apiVersion: v1, kind: PersistentVolume, metadata: {name: a}, spec: {capacity: {storage: 1E401}}}`, "spec.capacity.storage",
		},
		"of a quota":        {`{apiVersion: v1, kind: ResourceQuota, metadata: {name: a}, spec: {hard: {pods: "1E401"}}}`, "spec.hard.pods"},
		"of what is scaled": {`{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {metrics: [{resource: {target: {averageValue: "1E401"}}}]}}`, "spec.metrics[0].resource.target.averageValue"},
		"within bounds":     {`{apiVersion: v1, kind: ResourceQuota, metadata: {name: a}, spec: {hard: {pods: "1E400", cpu: 4, memory: 1.5Gi}}}`, ""},
		"malformed":         {`{apiVersion: v1, kind: ResourceQuota, metadata: {name: a}, spec: {hard: {pods: many, cpu: {}, memory: [1]}}}`, ""},
		"another text":      {`{apiVersion: v1, kind: Pod, metadata: {name: a, annotations: {cpu: "1E401"}}, spec: {nodeName: "1E401"}}`, ""},
		"a misplaced one":   {`{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {limits: {cpu: "1E401"}, containers: {cpu: "1E401"}, volumes: "1E401"}}`, ""},
		"of no built-in":    {`{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: {hard: {pods: "1E401"}}}`, ""},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			r := resource(t, c.manifest)
			path, err := fields.UnboundedIn(schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}, r.Manifest)
			require.Equal(t, c.want, path)
			require.Equal(t, c.want != "", err != nil)
			if c.want != "" {
				require.ErrorIs(t, err, quantity.ErrBounds)
			}
			done := make(chan []string, 1)
			go func() { done <- fields.KnownTo(nil).Unknown(&r) }()
			select {
			case <-done:
			case <-time.After(10 * time.Second):
				require.FailNow(t, "it is busy with the quantity")
			}
		})
	}
	number := plan.Resource{ResourceID: plan.ResourceID{Version: "v1", Kind: "ResourceQuota"}, Manifest: json.RawMessage(`{"spec":{"hard":{"pods":9999999E999999999999}}}`)}
	path, err := fields.UnboundedIn(schema.GroupVersionKind{Version: "v1", Kind: "ResourceQuota"}, number.Manifest)
	require.Equal(t, "spec.hard.pods", path, "a number in JSON")
	require.ErrorIs(t, err, quantity.ErrBounds)
}
