package activities

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/view"
	"github.com/drover-io/drover/internal/when"
)

// ReadinessRules are those of users for the readiness of their kinds.
type ReadinessRules interface {
	Rules(ctx context.Context) (*readiness.Rules, error)
}

// AwaitReady waits until all resources of an app, but for its hooks and what is to be pruned, are Ready on the clusters
// that it stays on and that get them. It looks at the objects themselves, so that it does not matter whether and how the clusters report,
// and judges them as the status does. A Job that its cluster deletes by itself is not waited for once it is missing, nor a
// PersistentVolumeClaim that its cluster binds only when a Pod uses it. A cluster that does not answer is one that is not Ready yet.
func (k *Kube) AwaitReady(ctx context.Context, in ReadyInput) error {
	r := &readying{kube: k, in: in, others: map[domain.ClusterName]domain.Marks{}, lacks: map[domain.ClusterName]string{}}
	if activity.HasHeartbeatDetails(ctx) && activity.GetHeartbeatDetails(ctx, &r.told) != nil {
		r.told = spoken{} // who does not know what was told tells it anew
	}
	r.told.At = when.Past(r.told.At, time.Now())
	stop := beat(ctx, func() any { return r.said() })
	defer stop()
	p, err := k.plan(ctx, in.Plan)
	if err != nil {
		return err
	}
	app := p.App(in.App)
	if app == nil || in.To > len(app.Targets) {
		return fail.New(fail.Invalid, "plan %s has no clusters %d to %d of app %q", in.Plan, in.From, in.To, in.App)
	}
	bundle, err := k.bundle(ctx, p.Owner, app.Bundle)
	if err != nil {
		return err
	}
	r.resources = bundle.Resources[:app.Wanted()]
	for _, t := range app.Targets[in.From:in.To] {
		if !t.Leaving {
			r.lacks[t.ClusterName], r.others[t.ClusterName] = "not looked at yet", domain.DecodeMarks(app.LacksOn(&t))
		}
	}
	clusters := slices.Collect(maps.Keys(r.lacks))
	work, cancel := whileHeld(ctx)
	defer cancel(nil)
	each := panics.New(work)
	for _, c := range clusters {
		each.Go(func() error { r.await(work, c); return nil })
	}
	talking, silence := context.WithCancel(work)
	var talk sync.WaitGroup
	talk.Go(func() { r.talk(talking) })
	err = each.Wait()
	silence()
	talk.Wait()
	if work.Err() != nil {
		return context.Cause(work)
	}
	return err
}

// readying is an app that is waited for.
type readying struct {
	kube      *Kube
	in        ReadyInput
	resources []plan.Resource
	others    map[domain.ClusterName]domain.Marks // MarkGone for what other clusters get, and this one does not; as plan.App.LacksOn

	mu    sync.Mutex
	lacks map[domain.ClusterName]string // of the clusters that are not Ready
	told  spoken
}

// await waits for one cluster, or for ctx's end. What was Ready once is not looked at again.
func (r *readying) await(ctx context.Context, c domain.ClusterName) {
	next, look := 0, pause.Backoff{First: policy.FirstReadyLook, Most: policy.LongestReadyLook}
	for ctx.Err() == nil {
		var lacks string
		if cluster, err := r.kube.clusters.Get(ctx, c); err != nil {
			lacks = fail.TextOf(err)
		} else if err := panics.Do(ctx, func() error { next, lacks = r.look(ctx, cluster, r.others[c], next); return nil }); err != nil {
			lacks = fail.TextOf(err)
		}
		r.mu.Lock()
		if lacks == "" {
			delete(r.lacks, c)
		} else {
			r.lacks[c] = lacks
		}
		r.mu.Unlock()
		if lacks == "" || look.Wait(ctx) != nil {
			return
		}
	}
}

// look goes over the resources from an index on, up to the first that is not Ready, and says what that lacks.
func (r *readying) look(ctx context.Context, cluster *kube.Cluster, others domain.Marks, from int) (next int, lacks string) {
	rules, err := r.kube.Rules.Rules(ctx)
	if err != nil {
		return from, fail.TextOf(err)
	}
	for i := from; i < len(r.resources); i++ {
		if r.resources[i].Hook != nil || i < len(others) && others[i] == domain.MarkGone {
			continue
		}
		id := r.resources[i].ResourceID
		id.Namespace = cmp.Or(id.Namespace, r.in.Namespace)
		data, err := cluster.Object(ctx, id)
		if err != nil {
			return i, fail.TextOf(err)
		}
		if len(data) == 0 && r.resources[i].Expires() { // all was applied before anybody waited
			continue
		}
		if lacks := view.Lacks(id, data, rules); lacks != "" {
			gvk := schema.GroupVersionKind{Group: id.Group, Version: id.Version, Kind: id.Kind}
			if class, unused := readiness.UnusedClaim(gvk, data); unused && !rules.Has(gvk) {
				lacks = awaitsNoPod(ctx, cluster, class, lacks)
			}
			if lacks != "" {
				return i, fmt.Sprintf("%s %s: %s", id.Kind, id.Name, lacks)
			}
		}
	}
	return len(r.resources), ""
}

// awaitsNoPod is what a claim of a storage class lacks that is bound to nothing, "" where it is bound only when a Pod uses it: that may be one of what waits
// for the claim's app, and both would wait for ever.
func awaitsNoPod(ctx context.Context, cluster *kube.Cluster, class, lacks string) string {
	data, err := cluster.Object(ctx, plan.ResourceID{Group: "storage.k8s.io", Version: "v1", Kind: "StorageClass", Name: class})
	switch {
	case err != nil:
		return fmt.Sprintf("%s; whether StorageClass %s has it wait for a Pod cannot be read: %s", lacks, class, fail.TextOf(err))
	case readiness.BindsLate(data):
		return ""
	default:
		return lacks
	}
}

// spoken is what the workflow was told last, as heartbeats carry it from one attempt to the next.
type spoken struct {
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at,omitzero"`
}

// said is what it was told last.
func (r *readying) said() spoken {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told
}

// talk tells the workflow what is lacking, when that is something else, the rarer the longer it takes. An attempt goes on where the one before was.
func (r *readying) talk(ctx context.Context) {
	info := activity.GetInfo(ctx)
	run, age := info.WorkflowExecution, func() time.Duration { return time.Since(info.ScheduledTime) }
	word := words(age())
	wait := max(nextWord(&word, age(), r.in.Beside)-time.Since(r.said().At), firstWord(r.in.Beside))
	for ; pause.For(ctx, wait) == nil; wait = nextWord(&word, age(), r.in.Beside) {
		reason := r.summary()
		if reason == r.said().Reason || lease.Check(ctx) != nil {
			continue
		}
		if err := r.kube.reporter.Lacking(ctx, run.ID, run.RunID, Lacking{App: r.in.App, Reason: reason}); err != nil {
			activity.GetLogger(ctx).Warn("tell what an app lacks", "app", r.in.App, "error", err)
			continue
		}
		r.mu.Lock()
		r.told = spoken{Reason: reason, At: time.Now()}
		r.mu.Unlock()
	}
}

// words are the waits for words from an age on. Those that double are each as long as all before them.
func words(age time.Duration) pause.Backoff {
	return pause.Backoff{First: min(max(age, policy.FirstLacking), policy.LongestLacking), Most: policy.LongestLacking}
}

// firstWord is how long to wait for the first one, where so many have something to say.
func firstWord(beside int) time.Duration {
	return policy.FirstLacking * time.Duration(max(beside, policy.LackingBeside)) / policy.LackingBeside
}

// nextWord is how long to wait for it, so long after the first, where so many have something to say. A workflow takes 10,000 signals, one that stops it
// among them, and what an app lacks may change for weeks.
func nextWord(word *pause.Backoff, age time.Duration, beside int) time.Duration {
	return max(word.Next(), age/policy.LackingShare, age/policy.LackingBeside*time.Duration(beside))
}

// MostWords is how many words so many questions have in a month at the most, as a group has them: 1,300 or fewer.
func MostWords(questions int) int {
	if questions == 0 {
		return 0
	}
	return 1_000 + 3*questions
}

// longestLack is how much is told of what a resource lacks, in bytes: a rule of a user may say a lot.
const longestLack = 500

// summary names the first cluster that is not Ready, what it lacks, and how many there are.
func (r *readying) summary() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	clusters := make([]domain.ClusterName, 0, len(r.lacks))
	for c := range r.lacks {
		clusters = append(clusters, c)
	}
	if len(clusters) == 0 {
		return ""
	}
	first := slices.MinFunc(clusters, domain.ClusterName.Compare)
	text := fmt.Sprintf("on %s: %s", first, short(r.lacks[first], longestLack))
	if more := len(clusters) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d clusters more)", more)
	}
	return text
}
