package test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
)

// TestOthersWriteToTheSameObjects: what docs/how-to/other-tools.md says becomes of what other tools and people write to the objects of a group.
func TestOthersWriteToTheSameObjects(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	c := instantiated(ctx, t, s, "others:edited=1 both=1 gone=1 dropped=1 theirs=1")
	on := c.clusters[0]
	maps := on.Client(t).CoreV1().ConfigMaps("default")
	named := func(name string) string { return c.Release + "-" + name }
	patch := func(name, change string) {
		t.Helper()
		_, err := maps.Patch(ctx, named(name), types.MergePatchType, []byte(change), metav1.PatchOptions{FieldManager: "kubectl-edit"})
		require.NoError(t, err)
	}
	data := func(name string) map[string]string {
		t.Helper()
		is, err := maps.Get(ctx, named(name), metav1.GetOptions{})
		require.NoError(t, err)
		return is.Data
	}
	summary := func() string {
		t.Helper()
		x, err := c.API.Explain(ctx, c.Key())
		require.NoError(t, err)
		return x.Summary
	}
	ready := func(n int) {
		t.Helper()
		harness.Until(ctx, t, "all is ready", func() bool {
			return strings.Contains(summary(), fmt.Sprintf("everything is as wished: %d resources are applied on 2 clusters and ready", n))
		})
	}
	ready(10)

	// What somebody changes stays until the chart changes there, or all is applied again; what he adds stays then, too.
	patch("edited", `{"data":{"says":"theirs"}}`)
	patch("both", `{"data":{"more":"theirs"},"metadata":{"labels":{"their":"label"}}}`)
	patch("dropped", `{"data":{"more":"theirs"}}`)
	ready(10)
	c.chart(ctx, "others", "edited=1 both=2 gone=1 theirs=1")
	c.updated(ctx)
	require.Equal(t, map[string]string{"says": "theirs"}, data("edited"))
	require.Equal(t, map[string]string{"says": "2", "more": "theirs"}, data("both"))
	require.Equal(t, []string{"others/both=2", "others/edited=theirs", "others/gone=1", "others/theirs=1"}, c.holds(on), "what the chart drops goes, whoever has written to it")

	// What somebody deletes is missed, and put back when it is asked for.
	require.NoError(t, maps.Delete(ctx, named("gone"), metav1.DeleteOptions{}))
	harness.Until(ctx, t, "what is gone is missed", func() bool { return strings.Contains(summary(), "1 resource is not on 1 of 2 clusters any more") })
	_, err := c.API.Reapply(ctx, c.Key())
	require.NoError(t, err)
	s.Await(ctx, c.Deployment, "Instantiated")
	ready(8)
	require.Equal(t, []string{"others/both=2", "others/edited=1", "others/gone=1", "others/theirs=1"}, c.holds(on))
	require.Equal(t, map[string]string{"says": "2", "more": "theirs"}, data("both"))

	// What somebody makes anew in its place is his: a terminate leaves it.
	require.NoError(t, maps.Delete(ctx, named("theirs"), metav1.DeleteOptions{}))
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: named("theirs")}, Data: map[string]string{"says": "mine"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = maps.Delete(context.Background(), named("theirs"), metav1.DeleteOptions{}) })
	do(ctx, t, c.Deployment, domain.OpTerminate)
	s.Await(ctx, c.Deployment, "Terminated")
	require.Empty(t, c.holds(on))
	require.Equal(t, map[string]string{"says": "mine"}, data("theirs"))
	x, err := c.API.Explain(ctx, c.Key())
	require.NoError(t, err)
	require.Contains(t, x.Summary, "nothing is left in clusters; the warnings tell of 1 resource on 1 cluster: ConfigMap/"+named("theirs"))
	require.Len(t, x.Warnings, 1)
	require.Contains(t, x.Warnings[0], "left in the cluster: it no longer carries the label")

	// What is there before is taken over, and has what others have written besides.
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: named("both")}, Data: map[string]string{"says": "mine", "more": "mine"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	do(ctx, t, c.Deployment, domain.OpApprove, domain.OpInstantiate)
	c.label = s.Await(ctx, c.Deployment, "Instantiated").States.ContextID()
	require.Equal(t, map[string]string{"says": "2", "more": "mine"}, data("both"))
	require.True(t, slices.Contains(c.holds(on), "others/theirs=1"), "%v", c.holds(on))
	do(ctx, t, c.Deployment, domain.OpTerminate)
	s.Await(ctx, c.Deployment, "Terminated")
	_, err = maps.Get(ctx, named("both"), metav1.GetOptions{})
	require.Error(t, err, "what was taken over goes with it")
}
