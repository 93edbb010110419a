package plan_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

func TestWhatIsLeftOfAHookIsClearedByItsPolicy(t *testing.T) {
	const ours = "2621114006130701074-sink"
	before, keeps := []string{string(plan.BeforeCreation)}, []string{string(plan.WhenSucceeded)}
	others := plan.Clearing{
		Fails: domain.MarkRefused,
		Why:   "an object of its name is there already that another deployment has, by its label emco/deployment-id=1-sink: rename the hook, or delete that by hand",
	}
	for name, c := range map[string]struct {
		reason   string
		policies []string
		left     plan.HookLeftover
		want     plan.Clearing
	}{
		"a Job of ours": {
			"it cannot be run again as it is", before, plan.HookLeftover{Owner: ours, RunsOnce: true}, plan.Clearing{Delete: true},
		},
		"a ConfigMap of ours": {"the policy says so", before, plan.HookLeftover{Owner: ours}, plan.Clearing{Delete: true}},
		"no policy": {
			"that is the policy before-hook-creation", nil, plan.HookLeftover{Owner: ours, RunsOnce: true}, plan.Clearing{Delete: true},
		},
		"a Job of somebody else": {
			"it is not ours to delete, and what would be applied over it would not run", before, plan.HookLeftover{RunsOnce: true},
			plan.Clearing{
				Fails: domain.MarkRefused,
				Why:   "an object of its name, that does not carry the label emco/deployment-id, is there already",
			},
		},
		"a ConfigMap of somebody else": {"the cluster says whether it may be applied over", before, plan.HookLeftover{}, plan.Clearing{}},
		"a Job that stays": {
			"its policy does not let it be deleted", keeps, plan.HookLeftover{Owner: ours, RunsOnce: true},
			plan.Clearing{
				Fails: domain.MarkUndeleted,
				Why:   "it is there already, from an earlier run; it would have to have the policy before-hook-creation",
			},
		},
		"a Job of the release": {
			"it was no hook before", keeps, plan.HookLeftover{Owner: ours, For: ours, RunsOnce: true, Released: true}, plan.Clearing{Delete: true},
		},
		"a Job of another app's release": {
			"that one may have it still", keeps, plan.HookLeftover{Owner: "2621114006130701074-source", For: ours, RunsOnce: true, Released: true}, plan.Clearing{
				Fails: domain.MarkUndeleted,
				Why:   "it is there already, from an earlier run; it would have to have the policy before-hook-creation",
			},
		},
		"a Job of another deployment's release": {
			"that one has it", keeps, plan.HookLeftover{Owner: "1-sink", For: ours, RunsOnce: true, Released: true}, others,
		},
		"a Job of another deployment's release, to be deleted before": {
			"Helm would", before, plan.HookLeftover{Owner: "1-sink", For: ours, RunsOnce: true, Released: true}, others,
		},
		"a Job of another app's release, to be deleted before": {
			"an update moves it", before, plan.HookLeftover{Owner: "2621114006130701074-source", For: ours, RunsOnce: true, Released: true}, plan.Clearing{Delete: true},
		},
		"a hook's Job of an earlier instance": {
			"it is as one of an earlier run", before, plan.HookLeftover{Owner: "1-sink", For: ours, RunsOnce: true}, plan.Clearing{Delete: true},
		},
		"a hook's Job of another installation": {
			"it may go on", before, plan.HookLeftover{Owner: "1-sink", For: ours, RunsOnce: true, Foreign: true}, others,
		},
		"a ConfigMap of another deployment's release": {
			"it is applied over, as with a release", before, plan.HookLeftover{Owner: "1-sink", For: ours, Released: true}, plan.Clearing{},
		},
		"a Job whose time to live began": {
			"its cluster deletes it anyway, and would have done so earlier had it not been kept to be seen", keeps,
			plan.HookLeftover{Owner: ours, For: ours, RunsOnce: true, Expires: true}, plan.Clearing{Delete: true},
		},
		"a ConfigMap of the release": {"it is applied over", keeps, plan.HookLeftover{Owner: ours, For: ours, Released: true}, plan.Clearing{}},
		"a Namespace of ours": {
			"the policy says so", before, plan.HookLeftover{Owner: ours, For: ours, Holds: true}, plan.Clearing{Delete: true},
		},
		"a Namespace of another app of ours": {
			"an update moves it", before, plan.HookLeftover{Owner: "2621114006130701074-source", For: ours, Holds: true}, plan.Clearing{Delete: true},
		},
		"a Namespace of another deployment": {
			"with it would go what that has in it", before, plan.HookLeftover{Owner: "1-sink", For: ours, Holds: true}, plan.Clearing{},
		},
		"a PVC of another deployment that is to be kept": {
			"an earlier instance of the group has left it, with the data", before, plan.HookLeftover{Owner: "1-sink", For: ours, Holds: true, Keep: true}, plan.Clearing{},
		},
		"a PVC of ours that is to be kept": {
			"so does an upgrade", before, plan.HookLeftover{Owner: ours, For: ours, Holds: true, Keep: true}, plan.Clearing{},
		},
		"a ConfigMap of ours that is to be kept": {"nothing goes with it", before, plan.HookLeftover{Owner: ours, Keep: true}, plan.Clearing{Delete: true}},
		"a Namespace of another deployment that stays": {
			"it is applied over", keeps, plan.HookLeftover{Owner: "1-sink", For: ours, Holds: true}, plan.Clearing{},
		},
		"a ConfigMap of another deployment": {
			"nothing goes with it", before, plan.HookLeftover{Owner: "1-sink", For: ours}, plan.Clearing{Delete: true},
		},
		"a ConfigMap that stays": {"it is applied over", keeps, plan.HookLeftover{Owner: ours}, plan.Clearing{}},
	} {
		require.Equal(t, c.want, (&plan.Hook{DeletePolicies: c.policies}).Clear(c.left), "%s: %s", name, c.reason)
	}
}

func TestHowAHookEnds(t *testing.T) {
	type end struct {
		mark domain.Mark
		why  string
		over bool
	}
	for name, c := range map[string]struct {
		reason string
		sight  plan.HookSight
		want   end
	}{
		"deleted":   {"nobody will see how it ends", plan.HookSight{}, end{domain.MarkRefused, "it was deleted before anybody had seen it complete: whether it has is not known", true}},
		"completed": {"", plan.HookSight{There: true, Done: true}, end{domain.MarkApplied, "", true}},
		"completed late": {
			"that it has completed counts more than when", plan.HookSight{There: true, Done: true, Waited: 2, Most: 1},
			end{domain.MarkApplied, "", true},
		},
		"failed": {
			"its object stays", plan.HookSight{There: true, Failure: "the Job has failed"}, end{domain.MarkUndeleted, "the Job has failed", true},
		},
		"too long": {
			"it says what it lacked", plan.HookSight{There: true, Lacks: "the Job has not completed", Waited: 2 * time.Minute, Most: time.Minute},
			end{domain.MarkUndeleted, "it has not completed within 1m0s: the Job has not completed", true},
		},
		"in time":       {"it is waited for", plan.HookSight{There: true, Waited: time.Minute, Most: time.Minute}, end{mark: domain.MarkSent}},
		"without limit": {"it is waited for", plan.HookSight{There: true, Waited: time.Hour}, end{mark: domain.MarkSent}},
	} {
		mark, why, over := c.sight.End()
		require.Equal(t, c.want, end{mark, why, over}, "%s: %s", name, c.reason)
	}
}

func TestHowLongAHookIsWaitedFor(t *testing.T) {
	start := time.Unix(1e9, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	for name, c := range map[string]struct {
		reason string
		wait   plan.HookWait
		now    int
		waited time.Duration
	}{
		"the first answer":    {"it begins with that", plan.HookWait{}, 7, 0},
		"the next look":       {"nothing was missed", plan.HookWait{Since: at(0), Heard: at(9)}, 10, 10 * time.Second},
		"as long as a look":   {"nothing was missed", plan.HookWait{Since: at(0), Heard: at(10)}, 40, 40 * time.Second},
		"an outage":           {"what became of it nobody could see", plan.HookWait{Since: at(0), Heard: at(10)}, 4000, 40 * time.Second},
		"of an older release": {"nobody knows when it was heard", plan.HookWait{Since: at(0)}, 4000, 4000 * time.Second},
		"a clock that lags":   {"nothing was missed", plan.HookWait{Since: at(0), Heard: at(10)}, 9, 9 * time.Second},
	} {
		got := c.wait.Hear(at(c.now), 30*time.Second)
		require.Equal(t, at(c.now), got.Heard, "%s: %s", name, c.reason)
		require.Equal(t, c.waited, at(c.now).Sub(got.Since), "%s: %s", name, c.reason)
	}
	now, w := start, plan.HookWait{}
	for range 121 { // one answer in an hour
		now = now.Add(time.Hour)
		w = w.Hear(now, 30*time.Second)
	}
	require.Equal(t, time.Hour, now.Sub(w.Since), "who answers now and then is not waited for for ever")
}
