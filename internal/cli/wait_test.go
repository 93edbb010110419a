package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// TestApplyLooksWhereAnOperationStands: an instantiate that was accepted before is unchanged only once it has come to its end; one that
// goes on is waited for, and one that has failed fails.
func TestApplyLooksWhereAnOperationStands(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	const group = "projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web"
	const what = group + "/instantiate "
	file := w.file("go.yaml", "resourceContext: {anchor: "+group+"/instantiate}\n")

	w.stand(group, domain.Instantiated, domain.ContextInstantiating, 1)
	require.Equal(t, what+"goes on\n", w.done("apply", "-f", file))
	r := w.run("apply", "-f", file, "--wait", "--timeout", "1ms")
	require.Equal(t, 1, r.code, r.out)
	require.Contains(t, r.err, "after 1ms, and goes on")

	w.stand(group, domain.Instantiated, domain.ContextInstantiateFailed, 1)
	r = w.run("apply", "-f", file, "--wait")
	require.Equal(t, 1, r.code, r.out)
	require.Contains(t, r.err, "it was asked for before and has failed")

	w.stand(group, domain.Instantiated, domain.ContextInstantiated, 1)
	require.Equal(t, what+"unchanged\n", w.done("apply", "-f", file, "--wait"))
	for _, changes := range []string{
		"{anchor: " + group + "/intents}\nmetadata: {name: bound}\nspec: {intent: {genericPlacementIntent: other}}",
		"{anchor: projects/demo/composite-apps/vfw/v1/composite-profiles}\nmetadata: {name: other}",
	} {
		r = w.feed("resourceContext: "+changes+"\n---\nresourceContext: {anchor: "+group+"/instantiate}\n", "apply", "-q", "-f", "-")
		require.Contains(t, r.err, "has changed; 'drover update", r.out)
	}
}
