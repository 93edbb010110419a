package activities

import (
	"context"
	"errors"
	"sync"
	"time"
	"weak"

	"go.temporal.io/sdk/activity"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
)

// Reports says how a cluster reports what became of resources; it is asked of clusters whose client has been got.
type Reports interface {
	Report(c domain.ClusterName) domain.Report
}

// Why a cluster does not report on a leaf.
const (
	unconfirmed = "the cluster's agent did not confirm that the resources are gone"
)

// agentDeployment is the value of plan.DeploymentLabel on the agent's own resources: that of no app context.
const agentDeployment = "drover-monitor"

// knownClients bounds of how many clusters it is known what they have.
const knownClients = 2000

// knownReports bounds of how many rules in clusters it is known that their matches are reported on.
const knownReports = 20_000

// reporting makes clusters with an agent report: beside the resources of a leaf it puts a ResourceBundleState for
// the agent to fill, and takes it away in the end. What a cluster refuses is no failure of the leaf; the leaf's
// Report says it. A cluster that does not let the work through is one that is tried again, as with the resources.
type reporting struct {
	reports Reports
	agent   []plan.Resource // what installs the agent
	// By client: a cluster that is registered with another kubeconfig is another one. One that is registered anew with the same is not.
	installed *lru.Cache[client, struct{}]
	lacking   *lru.Cache[client, time.Time]      // when it was without the CRD
	matches   *lru.Cache[matchReport, time.Time] // the reports on matches that were made, with when their homes began
}

// client names a client of a cluster, and does not keep it: what is known of one that was replaced would keep its credentials, its
// connections and what the cluster serves.
type client = weak.Pointer[kube.Cluster]

// matchReport is a report on the matches of a rule, by the id of its domain.Home.
type matchReport struct {
	cluster client
	home    string
}

func matchReportOf(cluster *kube.Cluster, h *domain.Home) matchReport {
	return matchReport{weak.Make(cluster), h.ID()}
}

// asked says whether the cluster reports by ResourceBundleStates, or may.
func (r *reporting) asked(c domain.ClusterName) bool {
	return r.reports != nil && r.reports.Report(c).ByAgent()
}

func newReporting(reports Reports, agent []plan.Resource) *reporting {
	return &reporting{
		reports: reports, agent: agent,
		installed: lru.New[client, struct{}](knownClients), lacking: lru.New[client, time.Time](knownClients),
		matches: lru.New[matchReport, time.Time](knownReports),
	}
}

// apply applies the leaf's resources, and then its ResourceBundleState, with the administrator's rights: users need
// none on the reports.
func (a *attempt) apply(ctx context.Context, cluster, admin *kube.Cluster, job kube.Job) kube.Outcome {
	how := a.kube.reports.Report(a.in.Cluster)
	if how == domain.ReportInstall {
		if outcome := a.install(ctx, admin); outcome.Retry != nil {
			return outcome
		}
	}
	certifies := domain.Certifies(a.in.Owner)
	if err := a.spare(ctx, cluster, job); err != nil {
		return kube.Outcome{Retry: err}
	}
	outcome := cluster.Apply(ctx, job)
	// Where nothing was applied a terminate will not ask the cluster.
	if outcome.Retry == nil && a.holds() && how.ByAgent() {
		outcome.Retry = a.applyState(ctx, admin)
	}
	if outcome.Retry == nil && certifies {
		outcome.Retry = a.certify(ctx, cluster)
		outcome.Reached = outcome.Reached || errors.Is(outcome.Retry, errNotIssued)
	}
	return outcome
}

// holds says whether the cluster has something of the leaf.
func (a *attempt) holds() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all.Applied()
}

// install applies what makes the agent, once to a cluster as far as this process knows.
func (a *attempt) install(ctx context.Context, cluster *kube.Cluster) kube.Outcome {
	refusal, outcome := a.kube.install(ctx, cluster)
	if refusal != "" {
		a.say("the agent could not be installed: " + refusal)
	}
	return outcome
}

func (r *reporting) install(ctx context.Context, cluster *kube.Cluster) (refusal string, outcome kube.Outcome) {
	if r.installed.Contains(weak.Make(cluster)) {
		return "", kube.Outcome{}
	}
	refusal, outcome = beside(ctx, cluster.Apply, kube.Job{
		Resources: r.agent, Marks: domain.NewMarks(len(r.agent), domain.MarkPending), DeploymentID: agentDeployment,
	})
	if refusal == "" && outcome.Retry == nil {
		r.installed.Add(weak.Make(cluster), struct{}{})
	}
	return refusal, outcome
}

// applyState applies the ResourceBundleState. The error is that the cluster is to be tried again.
func (a *attempt) applyState(ctx context.Context, cluster *kube.Cluster) error {
	r := a.kube.reporting
	job := a.stateJob(domain.MarkPending)
	if r.installed.Contains(weak.Make(cluster)) { // the definition may have been applied a moment ago: the job waits for it
		job.Resources = append(job.Resources, r.agent...)
		job.Marks = append(job.Marks, domain.NewMarks(len(r.agent), domain.MarkApplied)...)
		job.Selects = among([]int{0})
	} else if served, err := r.serves(ctx, cluster, job.Resources[0].ResourceID); err != nil {
		return a.tolerate(ctx, err)
	} else if !served {
		if r.reports.Report(a.in.Cluster) != domain.ReportAuto { // which does without
			a.say(bundle.Missing)
		}
		return nil
	}
	refusal, outcome := beside(ctx, cluster.Apply, job)
	if refusal != "" {
		a.say("the ResourceBundleState was refused: " + refusal)
	}
	r.doubt(cluster, outcome.Retry)
	return outcome.Retry
}

// doubt has the agent installed again where a cluster said that it does not have the agent's kind: somebody has deleted the definition.
func (r *reporting) doubt(cluster *kube.Cluster, err error) {
	if kube.LacksKind(err) {
		r.installed.Remove(weak.Make(cluster))
	}
}

// tolerate keeps what the cluster said for good of its ResourceBundleStates; what may pass is returned.
func (a *attempt) tolerate(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || fail.KindOf(err).Retryable() {
		return err
	}
	a.say("the ResourceBundleState cannot be looked for: " + fail.TextOf(err))
	return nil
}

// serves says whether the cluster has the CRD.
func (r *reporting) serves(ctx context.Context, cluster *kube.Cluster, id plan.ResourceID) (bool, error) {
	if at, ok := r.lacking.Get(weak.Make(cluster)); ok && time.Since(at) < policy.Lacking {
		return false, nil
	}
	served, err := cluster.Serves(ctx, id)
	if err == nil && !served {
		r.lacking.Add(weak.Make(cluster), time.Now())
	}
	return served, err
}

// remove deletes the leaf's resources, and then its ResourceBundleState, which the agent needs until it has said
// that they are gone. That takes agents a second or so, which is nothing for a workflow's own task. There may be one although
// the cluster reports in another way now: then nobody is waited for.
func (a *attempt) remove(ctx context.Context, cluster, admin *kube.Cluster, job kube.Job) kube.Outcome {
	if !a.state.Reported {
		return cluster.Delete(ctx, job)
	}
	awaited, local := a.kube.reports.Report(a.in.Cluster).ByAgent(), activity.GetInfo(ctx).IsLocalActivity
	present := true
	if local {
		s, err := a.look(ctx, admin)
		if err != nil || s.filled && awaited {
			return kube.Outcome{Retry: ErrNotAtOnce}
		}
		present = s.present
	}
	outcome := cluster.Delete(ctx, job)
	if outcome.Retry == nil && !local {
		look := a.there
		if awaited {
			look = a.confirm
		}
		present, outcome.Retry = look(ctx, admin)
	}
	if outcome.Retry == nil && present {
		outcome.Retry = a.removeState(ctx, admin)
	}
	return outcome
}

// there says whether there is a report at all. The error is that the cluster is to be tried again.
func (a *attempt) there(ctx context.Context, cluster *kube.Cluster) (present bool, err error) {
	s, err := a.look(ctx, cluster)
	return s.present && err == nil, a.tolerate(ctx, err)
}

// confirm is there when the agent has reported that nothing is left, or has not for a while. The error may be the cause of
// ctx's end, too.
func (a *attempt) confirm(ctx context.Context, cluster *kube.Cluster) (present bool, err error) {
	deadline := time.Now().Add(policy.Confirm)
	look := pause.Backoff{First: policy.FirstLook, Most: policy.LongestLook}
	for {
		s, err := a.look(ctx, cluster)
		if err != nil || !s.filled || s.empty {
			return s.present && err == nil, a.tolerate(ctx, err)
		}
		if time.Now().After(deadline) {
			a.say(unconfirmed)
			return true, nil
		}
		if err := look.Wait(ctx); err != nil {
			return true, err
		}
	}
}

// removeState deletes the ResourceBundleState. The error is that the cluster is to be tried again.
func (a *attempt) removeState(ctx context.Context, cluster *kube.Cluster) error {
	refusal, outcome := beside(ctx, cluster.Delete, a.stateJob(domain.MarkDoomed))
	if refusal != "" {
		a.say("the ResourceBundleState could not be deleted: " + refusal)
	}
	if outcome.Waits != "" { // it says of nothing that is still there
		a.say("the ResourceBundleState is still there: " + outcome.Waits)
		return nil
	}
	return outcome.Retry
}

// state is what is seen of a ResourceBundleState.
type state struct {
	present bool
	filled  bool // an agent has written it
	empty   bool // and says that nothing is in the cluster
}

// look reads the ResourceBundleState.
func (a *attempt) look(ctx context.Context, cluster *kube.Cluster) (state, error) {
	id := bundle.New(a.in.App, a.in.labelID(), a.in.Namespace).ResourceID
	if served, err := a.kube.serves(ctx, cluster, id); err != nil || !served {
		return state{}, err
	}
	data, err := cluster.Object(ctx, id)
	if err != nil || data == nil {
		return state{}, err
	}
	part, err := bundle.Decode(data)
	if err != nil { // whatever wrote it, there is nothing to wait for
		return state{present: true}, nil //nolint:nilerr // see above
	}
	return state{present: true, filled: part.Filled, empty: part.Count == 0}, nil
}

// stateJob is work on the ResourceBundleState alone.
func (a *attempt) stateJob(m domain.Mark) kube.Job {
	return kube.Job{
		Resources: []plan.Resource{bundle.New(a.in.App, a.in.labelID(), a.in.Namespace)}, Marks: domain.NewMarks(1, m),
		Namespace: a.in.Namespace, DeploymentID: a.in.deploymentID(),
	}
}

// beside does work that is not counted among the leaf's. refusal is what the cluster said of the first resource that
// it refused.
func beside(ctx context.Context, do func(context.Context, kube.Job) kube.Outcome, job kube.Job) (refusal string, outcome kube.Outcome) {
	var mu sync.Mutex
	job.OnMark = func(i int, m domain.Mark, note string) {
		mu.Lock()
		defer mu.Unlock()
		if refusal == "" && m.Failed() {
			id := job.Resources[i].ResourceID
			refusal = id.Kind + " " + id.Name + ": " + note
		}
	}
	outcome = do(ctx, job)
	return refusal, outcome
}

// say keeps why the cluster does not report; the first reason is the one.
func (a *attempt) say(reason string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state.Report == "" {
		a.state.Report = reason
	}
}
