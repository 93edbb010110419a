package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/readiness"
)

// runAnnotation is on the object of a hook: which run of the leaf made it, for which event, and by its index as which
// hook, as several may be the same object. An attempt that finds the object of its own run waits for it, whatever its
// predecessor could still tell; any other object is an earlier run's.
const runAnnotation = "drover.io/hook-run"

// hookRun is a hook on its way.
type hookRun struct {
	*attempt
	cluster *kube.Cluster
	step    plan.Step
	index   int
	id      plan.ResourceID // with the namespace that it is in, where its kind has namespaces
	run     string          // the value of runAnnotation
}

// hook runs one hook to its completion. A hook that fails is MarkUndeleted: its object may be in the cluster.
func (a *attempt) hook(ctx context.Context, cluster *kube.Cluster, s plan.Step) kube.Outcome {
	h := &hookRun{attempt: a, cluster: cluster, step: s, index: s.Resources[0]}
	h.id = a.resources[h.index].ResourceID
	h.id.Namespace = cmp.Or(h.id.Namespace, a.in.Namespace)
	h.run = fmt.Sprintf("%s/%s/%d", activity.GetInfo(ctx).WorkflowExecution.RunID, s.Event, h.index)
	heard := cluster.Answers()
	outcome := h.do(ctx)
	outcome.Reached = outcome.Reached || cluster.Answers() != heard
	return outcome
}

func (h *hookRun) do(ctx context.Context) kube.Outcome {
	if !h.marked(h.index).ToApply() {
		return kube.Outcome{} // an earlier attempt, or an earlier terminate, came to its end
	}
	if h.waiting() && readiness.Awaited(h.gvk()) { // it was there: where it is no more, it is not run again. v0.1.0 waited for any kind
		return kube.Outcome{Retry: h.await(ctx)}
	}
	found, err := h.look(ctx)
	if err != nil {
		return kube.Outcome{Retry: h.refused(ctx, err)}
	}
	if found == nil && h.resources[h.index].Expired(h.sentFor(ctx)) {
		h.mark(h.index, domain.MarkRefused, "it was sent without an answer so long ago that its cluster may have deleted it since: whether it was run is not known")
		return kube.Outcome{}
	}
	if found == nil || found.Metadata.Annotations[runAnnotation] != h.run {
		if spared, err := h.spares(ctx, found); spared || err != nil {
			return kube.Outcome{Retry: err}
		}
		outcome := h.clear(ctx, found)
		if outcome.Retry == nil && !h.failed() {
			outcome = h.send(ctx)
		}
		if outcome.Retry != nil || h.failed() || !readiness.Awaited(h.gvk()) {
			return outcome
		}
	} else if h.applied(h.index); !readiness.Awaited(h.gvk()) { // the answer was lost
		h.mark(h.index, domain.MarkApplied, "")
		return kube.Outcome{}
	}
	h.heard()
	return kube.Outcome{Retry: h.await(ctx)}
}

// object is what is looked at of a hook's object.
type object struct {
	Metadata struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		Ending      *metav1.Time      `json:"deletionTimestamp"`
	} `json:"metadata"`
	raw json.RawMessage
}

// look reads the hook's object; nil when there is none.
func (h *hookRun) look(ctx context.Context) (*object, error) {
	data, err := h.cluster.Object(ctx, h.id)
	if err != nil || data == nil {
		return nil, err
	}
	o := &object{raw: data}
	if err := json.Unmarshal(data, o); err != nil {
		return nil, fail.Wrap(err, fail.Unavailable, "%s %s cannot be read", h.id.Kind, h.id.Name)
	}
	return o, nil
}

// spares leaves alone what was there before, see spare: the hook has nothing to do.
func (h *hookRun) spares(ctx context.Context, found *object) (bool, error) {
	if found == nil || !h.mayBeSpared(&h.resources[h.index]) {
		return false, nil
	}
	why, err := h.sparedAs(h.index, found.raw)
	if err != nil {
		return false, err
	}
	if why == "" {
		return false, h.handOn(ctx)
	}
	h.mark(h.index, domain.MarkKept, why)
	return true, nil
}

// clear takes an earlier run's object out of the way, as the hook's policy says.
func (h *hookRun) clear(ctx context.Context, found *object) kube.Outcome {
	if found == nil {
		return kube.Outcome{}
	}
	left := plan.HookLeftover{
		Owner: found.Metadata.Labels[plan.DeploymentLabel], For: h.in.deploymentID(), RunsOnce: readiness.RunsOnce(h.gvk()),
		Holds: slices.Contains(holders, h.id.Kind) && found.Metadata.Ending == nil, // what goes already is waited for
		Keep:  h.resources[h.index].Keep, Released: found.Metadata.Annotations[runAnnotation] == "",
	}
	if by := found.Metadata.Annotations[plan.InstallationAnnotation]; by != "" {
		left.Foreign = by != h.kube.Installation
	}
	end := readiness.Hook(h.gvk(), found.raw)
	left.Expires = (end.Done || end.Failure != "") && (&plan.Resource{ResourceID: h.id, Manifest: found.raw}).Expires()
	clearing := h.resources[h.index].Hook.Clear(left)
	if clearing.Fails != 0 {
		h.mark(h.index, clearing.Fails, clearing.Why)
	}
	if !clearing.Delete {
		return kube.Outcome{}
	}
	refusal, outcome := beside(ctx, h.cluster.Delete, kube.Job{
		Resources: []plan.Resource{{ResourceID: h.id}}, Marks: domain.NewMarks(1, domain.MarkDoomed),
		Namespace: h.in.Namespace, DeploymentID: left.Owner,
	})
	if refusal != "" {
		h.mark(h.index, domain.MarkUndeleted, "what an earlier run has left cannot be deleted: "+refusal)
		return outcome
	}
	if outcome.Retry != nil { // what waits, says so
		return outcome
	}
	found, err := h.look(ctx)
	if err == nil && found != nil && h.id.IsNamespace() && found.Metadata.Ending == nil && found.Metadata.Labels[plan.DeploymentLabel] == left.Owner {
		return outcome // it was left with what is to be kept in it: the hook is applied over it
	}
	if outcome.Retry = h.refused(ctx, err); found != nil {
		outcome.Retry = fail.New(fail.Unavailable, "%s %s of an earlier run is still being deleted", h.id.Kind, h.id.Name)
	}
	return outcome
}

// send applies the hook's object with the mark of its run, and whose it is: others may run a hook of its name.
func (h *hookRun) send(ctx context.Context) kube.Outcome {
	job := h.job(h.step)
	job.Resources = slices.Clone(job.Resources)
	manifest, err := plan.HookManifest(job.Resources[h.index].Manifest, map[string]string{runAnnotation: h.run, plan.InstallationAnnotation: h.kube.Installation})
	if err != nil {
		h.mark(h.index, domain.MarkRefused, fail.TextOf(err))
		return kube.Outcome{}
	}
	job.Resources[h.index].Manifest = manifest
	h.sends(ctx)
	job.OnMark = func(i int, m domain.Mark, note string) {
		if m == domain.MarkApplied {
			h.applied(i)
		}
		if readiness.Awaited(h.gvk()) {
			m = m.Await()
		}
		h.mark(i, m, note)
	}
	return h.cluster.Apply(ctx, job)
}

// await waits until the hook has completed or failed. The error is that the cluster is to be tried again, or the
// cause of ctx's end.
func (h *hookRun) await(ctx context.Context) error {
	timeout := cmp.Or(h.resources[h.index].Hook.Timeout, h.in.HookTime)
	look := pause.Backoff{First: policy.FirstLook, Most: policy.LongestHookLook}
	for {
		found, err := h.look(ctx)
		if err != nil {
			return h.refused(ctx, err)
		}
		if found != nil && cmp.Or(found.Metadata.Annotations[runAnnotation], h.run) != h.run {
			found = nil // an earlier run's, of a cluster that was made from a backup: this one's is gone
		}
		sight := plan.HookSight{There: found != nil, Waited: h.heard(), Most: timeout}
		if found != nil {
			end := readiness.Hook(h.gvk(), found.raw)
			sight.Done, sight.Failure, sight.Lacks = end.Done, end.Failure, end.Lacks
		}
		if end, why, over := sight.End(); over {
			h.mark(h.index, end, why)
			return nil
		}
		if err := h.waits(ctx); err != nil {
			return err
		}
		if err := look.Wait(ctx); err != nil {
			return err
		}
	}
}

// waiting says whether the hook's object was in the cluster, and its end is waited for, be it by the attempt before.
func (h *hookRun) waiting() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.state.Since.IsZero()
}

// heard takes an answer of the cluster, and is for how long the hook has been waited for. The first one begins that.
func (h *hookRun) heard() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	w := plan.HookWait{Since: h.state.Since, Heard: h.state.Heard}.Hear(now, policy.HookSilence)
	h.state.Since, h.state.Heard = w.Since, w.Heard
	return now.Sub(w.Since)
}

// sends notes, before it is, that the hook's object is sent: an attempt after this one may come so late that it has done its work by then, and is gone.
func (h *hookRun) sends(ctx context.Context) {
	h.mu.Lock()
	h.state.Sent = time.Now()
	h.mu.Unlock()
	activity.RecordHeartbeat(ctx, h.snapshot())
}

// sentFor is how long ago the hook's object was sent at the most; 0 when it was not. The worker that has noted when may have had a clock that was
// behind: it was not sent before its activity was scheduled.
func (h *hookRun) sentFor(ctx context.Context) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state.Sent.IsZero() {
		return 0
	}
	return min(time.Since(h.state.Sent), scheduledFor(activity.GetInfo(ctx), h.began))
}

// scheduledFor is how long ago an activity was scheduled whose attempt began at a moment, by Temporal's clock up to then; but in tests.
var scheduledFor = func(info activity.Info, began lease.Instant) time.Duration {
	return info.StartedTime.Sub(info.ScheduledTime) + lease.Now().Passed(began)
}

// waits tells the workflow what is waited for, unless it knows: what waits holds up no other leaf.
func (h *hookRun) waits(ctx context.Context) error {
	reason := fmt.Sprintf("waits for the %s hook %s %s", h.step.Event, h.id.Kind, h.id.Name)
	h.mu.Lock()
	told := h.state.Reason == reason && h.state.Connectivity == domain.ConnectivityAvailable
	h.state.Reason, h.state.Connectivity, h.state.Error = reason, domain.ConnectivityAvailable, ""
	h.mu.Unlock()
	if told {
		return nil
	}
	p := h.snapshot()
	return h.tell(ctx, Contact{Connectivity: p.Connectivity, Marks: p.Marks, Reason: reason})
}

// refused settles the hook when the cluster does not let it be looked at; what may pass is returned.
func (h *hookRun) refused(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || fail.KindOf(err).Retryable() {
		return err
	}
	h.mark(h.index, domain.MarkUndeleted, fail.TextOf(err))
	return nil
}

func (h *hookRun) failed() bool {
	return h.marked(h.index).Failed()
}

func (h *hookRun) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: h.id.Group, Version: h.id.Version, Kind: h.id.Kind}
}

// tidy deletes the objects of hooks as their policies say: MarkDeleted then, or MarkRefused of those that had
// failed. One that cannot be deleted, or that outlives its deletion, stays what it was: nothing waits for it but a
// terminate.
func (a *attempt) tidy(ctx context.Context, cluster *kube.Cluster, s plan.Step) kube.Outcome {
	job := a.job(s)
	ends := map[int]domain.Mark{}
	for _, i := range s.Resources {
		if end, goes := a.resources[i].Hook.Tidied(job.Marks[i]); goes {
			ends[i], job.Marks[i] = end, domain.MarkDoomed
		}
	}
	job.Selects = func(i int) bool { _, goes := ends[i]; return goes }
	job.BeforeStage = nil
	job.OnMark = func(i int, m domain.Mark, note string) {
		switch {
		case m == domain.MarkDeleted:
			a.mark(i, ends[i], "")
		case m.Failed():
			activity.GetLogger(ctx).Warn("delete hook", "cluster", a.in.Cluster, "hook", a.resources[i].Name, "reason", note)
		}
	}
	outcome := cluster.Delete(ctx, job)
	if outcome.Waits != "" {
		activity.GetLogger(ctx).Warn("delete hook", "cluster", a.in.Cluster, "reason", outcome.Waits)
		outcome.Waits, outcome.Retry = "", nil
	}
	return outcome
}
