package test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/test/harness"
)

// TestGroupsShareADefinition: each of two groups brings the same CRD in crds/. Both are ready, whatever the other one does; the CRD stays the first one's.
func TestGroupsShareADefinition(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	on := twoClusters(t)[0]
	name := register(ctx, t, s, on, domain.ReportAgentless)
	chart := harness.Tgz(t, map[string]string{
		"things/Chart.yaml": "apiVersion: v2\nname: things\nversion: 0.1.0\n", "things/values.yaml": "{}\n",
		"things/crds/things.yaml": `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  creationTimestamp: null
  name: things.shared.drover.io
spec:
  group: shared.drover.io
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer, minimum: 1}}}}}}
`,
		"things/templates/thing.yaml": "apiVersion: shared.drover.io/v1\nkind: Thing\nmetadata:\n  name: {{ .Release.Name }}-thing\nspec: {size: 2}\n",
	})
	definitions := on.Dynamic(t).Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	t.Cleanup(func() {
		_ = definitions.Delete(context.Background(), "things.shared.drover.io", metav1.DeleteOptions{})
	})
	group := func() *client.Deployment {
		d := s.On(ctx, []domain.ClusterName{name}, client.App{Name: "things", Chart: chart})
		do(ctx, t, d, domain.OpApprove, domain.OpInstantiate)
		s.Await(ctx, d, "Instantiated")
		return d
	}
	ready := func(d *client.Deployment) {
		t.Helper()
		harness.Until(ctx, t, "all is ready", func() bool {
			x, err := d.API.Explain(ctx, d.Key())
			require.NoError(t, err)
			return strings.Contains(x.Summary, "everything is as wished: ") && strings.Contains(x.Summary, "and ready")
		})
	}
	owner := func() string {
		t.Helper()
		o, err := definitions.Get(ctx, "things.shared.drover.io", metav1.GetOptions{})
		require.NoError(t, err)
		return o.GetLabels()[plan.DeploymentLabel]
	}
	first := group()
	ready(first)
	had := owner()
	second := group()
	ready(second)
	require.Equal(t, had, owner())
	for _, d := range []*client.Deployment{first, second} {
		_, err := d.API.Reapply(ctx, d.Key())
		require.NoError(t, err)
		s.Await(ctx, d, "Instantiated")
	}
	ready(first)
	ready(second)
	require.Equal(t, had, owner())
	do(ctx, t, first, domain.OpTerminate)
	s.Await(ctx, first, "Terminated")
	ready(second)
	do(ctx, t, second, domain.OpTerminate)
	s.Await(ctx, second, "Terminated")
	require.Equal(t, had, owner(), "a CRD of crds/ stays")
}

// TestAnAppLeavesWithNothingToDelete: one of CRDs alone leaves a cluster, with which the group has nothing to do then.
func TestAnAppLeavesWithNothingToDelete(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	clusters := twoClusters(t)
	names := []domain.ClusterName{register(ctx, t, s, clusters[0], domain.ReportNone), register(ctx, t, s, clusters[1], domain.ReportNone)}
	chart := harness.Tgz(t, map[string]string{
		"kinds/Chart.yaml": "apiVersion: v2\nname: kinds\nversion: 0.1.0\n", "kinds/values.yaml": "{}\n",
		"kinds/crds/leftovers.yaml": `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: leftovers.leaving.drover.io}
spec:
  group: leaving.drover.io
  scope: Namespaced
  names: {kind: Leftover, plural: leftovers}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`,
	})
	for _, c := range clusters {
		definitions := c.Dynamic(t).Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
		t.Cleanup(func() {
			_ = definitions.Delete(context.Background(), "leftovers.leaving.drover.io", metav1.DeleteOptions{})
		})
	}
	d := s.On(ctx, names, client.App{Name: "kinds", Chart: chart})
	do(ctx, t, d, domain.OpApprove, domain.OpInstantiate)
	s.Await(ctx, d, "Instantiated")
	_, err := d.API.Put(ctx, d.PlacementOf("kinds", harness.All(names[0])), nil)
	require.NoError(t, err)
	accepted, err := d.API.Operate(ctx, d.Key(), domain.OpUpdate)
	require.NoError(t, err)
	require.Contains(t, strings.Join(accepted.Warnings, "\n"), "leaves cluster "+names[1].String())
	require.Equal(t, 2, accepted.Revision)
	s.Await(ctx, d, "Instantiated")
	var shown json.RawMessage
	_, err = s.Read(ctx, client.At(d.Key())+"/status", &shown)
	require.NoError(t, err)
	require.Contains(t, string(shown), names[0].Provider)
	require.NotContains(t, string(shown), names[1].Provider)
	accepted, err = d.API.Operate(ctx, d.Key(), domain.OpUpdate)
	require.NoError(t, err)
	require.Contains(t, strings.Join(accepted.Warnings, "\n"), "nothing to update")
	do(ctx, t, d, domain.OpTerminate)
	s.Await(ctx, d, "Terminated")
}
