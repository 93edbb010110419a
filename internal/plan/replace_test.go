package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
)

func TestCheckReplace(t *testing.T) {
	t.Parallel()
	job := plan.ResourceID{Group: "batch", Version: "v1", Kind: "Job", Name: "a"}
	core := func(kind string) plan.ResourceID { return plan.ResourceID{Version: "v1", Kind: kind, Name: "a"} }
	for name, c := range map[string]struct {
		id          plan.ResourceID
		value, keep string
		want        string
	}{
		"a Job":                     {id: job, value: "true"},
		"a Job that is not to be":   {id: job, value: "false"},
		"a word":                    {job, "yes", "", `annotation drover.io/replace: "yes" is neither true nor false`},
		"nothing":                   {job, "", "", `annotation drover.io/replace: "" is neither true nor false`},
		"what is kept":              {job, "true", "keep", "annotation drover.io/replace: helm.sh/resource-policy: keep says that it is never deleted"},
		"a volume":                  {core("PersistentVolume"), "true", "", "annotation drover.io/replace: its data would go with a PersistentVolume"},
		"a claim":                   {core("PersistentVolumeClaim"), "true", "", "annotation drover.io/replace: its data would go with a PersistentVolumeClaim"},
		"a claim that is not to be": {id: core("PersistentVolumeClaim"), value: "false"},
		"a namespace":               {core("Namespace"), "true", "", "annotation drover.io/replace: all that is in it would go with a Namespace"},
		"a definition":              {plan.ResourceID{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "a"}, "true", "", "annotation drover.io/replace: all that is in it would go with a CustomResourceDefinition"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.id.CheckReplace(map[string]string{plan.ReplaceAnnotation: c.value, plan.KeepAnnotation: c.keep})
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.True(t, fail.Is(err, fail.Invalid))
			require.Equal(t, c.want, fail.TextOf(err))
		})
	}
	require.NoError(t, core("Namespace").CheckReplace(nil))
}

// TestOnlyWhatIsChangedMayBeReplaced: what is new, run or deleted is not, whatever its manifest says, nor what says so elsewhere than in its own annotations.
func TestOnlyWhatIsChangedMayBeReplaced(t *testing.T) {
	const asks, elsewhere = `{"metadata":{"annotations":{"drover.io/replace":"true"}}}`, `{"metadata":{"annotations":{"drover.io/replace":"false"}},"data":{"drover.io/replace":"true"}}`
	for action, want := range map[plan.Action]bool{
		plan.ActionCreate: false, plan.ActionChange: true, plan.ActionAgain: true, plan.ActionRun: false, plan.ActionDelete: false,
	} {
		require.Equal(t, want, (&plan.ResourceChange{Action: action, After: []byte(asks)}).MayReplace(), action)
		require.False(t, (&plan.ResourceChange{Action: action, Before: []byte(asks), After: []byte(elsewhere)}).MayReplace(), action)
	}
}

// TestWhatIsNeverDeletedIsNotReplaced: an object of a generic k8s intent may ask for it, and a difference says what is done.
func TestWhatIsNeverDeletedIsNotReplaced(t *testing.T) {
	const asks, kept = `{"metadata":{"annotations":{"drover.io/replace":"true"}}}`, `{"metadata":{"annotations":{"drover.io/replace":"true","helm.sh/resource-policy":"keep"}}}`
	for _, c := range []struct {
		kind, after string
		want        bool
	}{{"Service", asks, true}, {"PersistentVolumeClaim", asks, false}, {"Namespace", asks, false}, {"Service", kept, false}} {
		change := plan.ResourceChange{Action: plan.ActionChange, After: []byte(c.after)}
		change.ResourceID = plan.ResourceID{Version: "v1", Kind: c.kind, Name: "a"}
		require.Equal(t, c.want, change.MayReplace(), c.kind+c.after)
	}
}
