package service

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/view"
)

// Runs describes the runs of operations.
type Runs interface {
	// Run describes the last run of an operation; with an error, NotFound when it is not known, its id alone.
	Run(ctx context.Context, s domain.Scope) (explain.Run, error)
	// Starting finds a run of an operation of the owner, beside the one with the id; nil when there is none.
	Starting(ctx context.Context, owner domain.Key, beside string) (*explain.Run, error)
	// Attempts describes the work at places; with an error, what was found until then.
	Attempts(ctx context.Context, s domain.Scope, places []explain.Place) (map[explain.Place]explain.Attempt, error)
	// Waiting is the task that waits longest for a worker among those of workflows, nil for none, or where that is not known soon.
	Waiting(ctx context.Context, workflows []string) *explain.Task
}

// Explainer says why owners are not as they were wished.
type Explainer struct {
	lifecycle *Lifecycle
	runs      Runs
	ui        explain.WebUI
	manifests func(domain.Digest, *plan.Plan) manifestOf // of one explanation; see refusedManifests
	// LeftIn says what tenants that are gone may have in a cluster still, as Matching does. Set before all else; nil: nobody is asked.
	LeftIn func(ctx context.Context, c domain.ClusterName) ([]domain.TenantLeft, error)
}

// NewExplainer makes the query. ui is where runs can be looked at.
func NewExplainer(l *Lifecycle, runs Runs, ui explain.WebUI) *Explainer {
	return &Explainer{lifecycle: l, runs: runs, ui: ui}
}

// Explain says why an owner is not as it was wished, from its history, the records of its last app context, the run of
// the last operation and the work that is under way, and what clusters report. Without the engine it says what the
// store knows. Errors: NotFound; those of the store.
func (x *Explainer) Explain(ctx context.Context, key domain.Key) (*explain.Explanation, error) {
	s, here, leave, err := x.look(ctx, key)
	defer leave()
	switch {
	case err != nil:
		return nil, err
	case here != nil:
		return explain.OfCluster(here), nil
	default:
		return explain.Of(s), nil
	}
}

// look gathers what is known of an owner, and of a cluster what runs there. What clusters report, and manifests, are read from it later,
// with ctx, until leave is called.
func (x *Explainer) look(ctx context.Context, key domain.Key) (s *explain.Situation, here *explain.ClusterSituation, leave func(), err error) {
	with := *x
	with.manifests, leave = x.lifecycle.refusedManifests(ctx)
	owner, err := x.lifecycle.owner(ctx, key)
	if err != nil {
		return nil, nil, leave, err
	}
	asking, cancel := context.WithTimeout(ctx, policy.Explain)
	defer cancel()
	s, err = with.situation(ctx, asking, owner)
	if err != nil {
		return nil, nil, leave, err
	}
	cluster, ok := owner.(*domain.Cluster)
	if !ok {
		return s, nil, leave, nil
	}
	here, err = with.here(ctx, asking, cluster, s)
	return s, here, leave, err
}

// situation gathers what is known of an owner.
func (x *Explainer) situation(ctx, asking context.Context, owner domain.Owner) (s *explain.Situation, err error) {
	key := domain.KeyOf(owner)
	s = &explain.Situation{Now: x.lifecycle.now(), Key: key, Noun: owner.Noun(), UI: x.ui}
	silent(s, x.lifecycle.foresee(asking, owner))
	s.History = *owner.Track()
	if s.Warnings, err = x.lifecycle.unenforced(ctx, key); err != nil {
		return nil, err
	}
	if err := x.context(ctx, asking, s, owner); err != nil {
		return nil, err
	}
	if s.Earlier, err = x.earlier(ctx, s); err != nil {
		return nil, err
	}
	if s.Silent == "" && !s.Status.InProgress() {
		s.Starting, err = x.runs.Starting(asking, key, s.Run.ID)
		silent(s, err)
	}
	may(s, owner)
	return s, nil
}

// earlier are the records of contexts before the last one of which clusters have something again: an object of theirs was
// made anew, for example, after another context with another label had begun.
func (x *Explainer) earlier(ctx context.Context, s *explain.Situation) ([]*domain.Instance, error) {
	if s.Instance == nil {
		return nil, nil
	}
	contexts, err := x.lifecycle.records.InstancesOf(ctx, s.Key)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(contexts, func(i *domain.Instance) bool {
		return i.ContextID == s.Instance.ContextID || i.Status != domain.ContextTerminated || i.Remnants == ""
	}), nil
}

// may notes the operations that the owner's state allows.
func may(s *explain.Situation, owner domain.Owner) {
	for _, op := range []domain.Operation{
		domain.OpApprove, domain.OpInstantiate, domain.OpUpdate, domain.OpRollback, domain.OpMigrate, domain.OpTerminate, domain.OpStop,
	} {
		if t, err := owner.Decide(s.Status, op); err == nil && !t.Same {
			s.May = append(s.May, op)
		}
	}
}

// context gathers what is known of the last app context. In the middle of a migrate that is the one that takes over; of
// a migrate that has ended there the owner is taken as any operation will leave it first.
func (x *Explainer) context(ctx, asking context.Context, s *explain.Situation, owner domain.Owner) error {
	id := s.History.ContextID()
	h, err := x.lifecycle.halfMigrated(ctx, owner)
	if err != nil {
		return err
	}
	if h != nil {
		id = h.ContextID
	}
	if id == "" {
		return nil
	}
	if cloud, ok := owner.(*domain.LogicalCloud); ok && cloud.Admin() { // there is nothing but its document
		s.Status = cloud.AdminStatus()
		s.Instance = &domain.Instance{Owner: s.Key, ContextID: id, Status: s.Status}
		return nil
	}
	err = x.instance(ctx, asking, s, id)
	if h != nil && !s.Status.InProgress() {
		owner.Track().TakeBack()
	}
	return err
}

// silent notes that the engine did not answer.
func silent(s *explain.Situation, err error) {
	if err != nil && s.Silent == "" {
		s.Silent = fail.TextOf(err)
	}
}

// instance gathers what is known of the last app context.
func (x *Explainer) instance(ctx, asking context.Context, s *explain.Situation, id string) error {
	l := x.lifecycle
	i, err := l.instance(ctx, s.Key, id)
	if err != nil {
		return err
	}
	scope := domain.Scope{Owner: i.Owner, ContextID: i.ContextID, Operation: i.Operation}
	s.Status = i.Status
	if s.Run, err = x.runs.Run(asking, scope); !fail.Is(err, fail.NotFound) {
		silent(s, err)
	}
	if s.Silent == "" && i.Status.InProgress() {
		if s.Status, err = l.statusOf(asking, i); err != nil {
			s.Status = i.Status
			silent(s, err)
		} else if !s.Status.InProgress() { // it has ended just now, or its workflow is gone
			if i, err = l.instance(ctx, s.Key, id); err != nil {
				return err
			}
		}
	}
	s.Instance = i
	if goesOn := at(i, s.Status); s.Status.InProgress() && goesOn != scope { // after a terminate that somebody has ended
		scope = goesOn
		s.Run, err = x.runs.Run(asking, scope)
		silent(s, err)
	}
	if i.Plan == "" {
		return nil
	}
	if err := x.apps(ctx, asking, s, scope); err != nil {
		return err
	}
	if places := explain.Places(s); len(places) > 0 {
		s.Attempts, err = x.runs.Attempts(asking, scope, places)
		silent(s, err)
	}
	// Only a whole operation whose own task is done is asked for more: a cluster has hundreds of them.
	if s.Only == nil && s.Silent == "" && s.Run.Status == explain.Running && s.Run.Task == nil && len(s.Run.Children) > 0 {
		s.Run.Below = x.runs.Waiting(asking, s.Run.Children)
	}
	return nil
}

// apps reads where every app stands on every cluster: what has been recorded, and, as long as the engine answers, what
// is under way.
func (x *Explainer) apps(ctx, asking context.Context, s *explain.Situation, scope domain.Scope) error {
	gather := func(ctx context.Context, running bool) error {
		records, err := x.lifecycle.recordsOf(ctx, s.Instance, scope, running)
		if err != nil {
			return err
		}
		var only []domain.ClusterName // nil for all
		if s.Only != nil {
			only = []domain.ClusterName{*s.Only}
		}
		source := &view.Source{ContextID: scope.ContextID, Status: s.Status}
		source.Manifest = x.manifests(s.Instance.Plan, records.Plan)
		if err := x.lifecycle.gatherReports(ctx, source, s.Instance, records, only); err != nil {
			return err
		}
		if s.Only != nil {
			source = source.On(*s.Only)
		}
		s.View, s.Reported = *source, source.Rows(view.Ask{Clusters: only, Reported: true, Judged: true, Detail: true})
		return nil
	}
	if s.Status.InProgress() && s.Silent == "" {
		err := gather(asking, true)
		if err == nil {
			return nil
		}
		silent(s, err)
	}
	return gather(ctx, false)
}

// manifestOf gives manifests, as view.Source.Manifest.
type manifestOf = func(app string, variant, index int) (json.RawMessage, error)

// mostRefused bounds for how many refused resources one explanation asks for manifests.
const mostRefused = 1000

// refusedManifests gives one explanation the manifests of refused resources of plans, until leave is called. It has those of one app at a time, as resources
// are told app by app, and none after the first error or after mostRefused resources. One goroutine at a time may ask.
func (l *Lifecycle) refusedManifests(ctx context.Context) (of func(domain.Digest, *plan.Plan) manifestOf, leave func()) {
	var (
		at     appOf
		read   manifestOf
		part   = func() {}
		asked  int
		failed error
	)
	of = func(digest domain.Digest, p *plan.Plan) manifestOf {
		return func(app string, variant, index int) (manifest json.RawMessage, err error) {
			if asked++; asked > mostRefused && failed == nil {
				failed = fail.New(fail.Exhausted, "manifests are read for %d refused resources at most", mostRefused)
			}
			if failed != nil {
				return nil, failed
			}
			if this := (appOf{digest, app}); read == nil || at != this {
				part()
				at = this
				read, part = l.manifests(ctx, digest, p) // anew, as one that has begun takes longer than the request may
			}
			manifest, failed = read(app, variant, index)
			return manifest, failed
		}
	}
	return of, func() { part() }
}
