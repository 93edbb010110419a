package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/drover-io/drover/internal/cas"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/outcome"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/render"
	"github.com/drover-io/drover/internal/stored"
	"github.com/drover-io/drover/internal/when"
)

// Store is what lifecycle activities need of the store.
type Store interface {
	Get(ctx context.Context, noun *domain.Noun, key domain.Key) (domain.Object, error)
	List(ctx context.Context, noun *domain.Noun, parent domain.Key) ([]domain.Object, error)
	ListUnder(ctx context.Context, noun *domain.Noun, prefix domain.Key) ([]domain.Object, error)
	// Each hands over what ListUnder reads, one after the other, until take fails.
	Each(ctx context.Context, noun *domain.Noun, prefix domain.Key, take func(domain.Object) error) error
	// Referring finds a document of the noun that refers to key.
	Referring(ctx context.Context, noun *domain.Noun, key domain.Key) (holder domain.Key, found bool, err error)
	Replace(ctx context.Context, o domain.Object) error

	PutBlob(ctx context.Context, data []byte) (domain.Digest, error)
	PutBlobs(ctx context.Context, data [][]byte) ([]domain.Digest, error)
	Blob(ctx context.Context, digest domain.Digest) ([]byte, error)
	SweepBlobs(ctx context.Context, keep func(domain.Digest) bool, olderThan time.Duration) (removed int, err error)
	SweepRenewals(ctx context.Context, olderThan time.Duration) (removed int, err error)
	SweepSettings(ctx context.Context, olderThan time.Duration) (removed int, err error)
	SweepCertified(ctx context.Context, at time.Time) error
	SweepObservations(ctx context.Context, known func(context.Context) (map[string]bool, error), olderThan time.Duration) (removed int, err error)
	// Homes are those of tenants with a name; all when it is "".
	Homes(ctx context.Context, tenant string) ([]domain.Home, error)

	PutInstance(ctx context.Context, in *domain.Instance) error
	DeleteInstance(ctx context.Context, contextID string) error
	// RetractInstance deletes a record if may says so of it as it is then; false when it does not. That there is none is no error.
	RetractInstance(ctx context.Context, contextID string, may func(*domain.Instance) bool) (bool, error)
	Instance(ctx context.Context, contextID string) (*domain.Instance, error)
	UpdateInstance(ctx context.Context, contextID string, change func(*domain.Instance) error) error
	ActiveInstances(ctx context.Context) ([]*domain.Instance, error)
	Standing(ctx context.Context) ([]domain.Standing, error)
	Instances(ctx context.Context) ([]*domain.Instance, error)
	InstancesOf(ctx context.Context, owner domain.Key) ([]*domain.Instance, error)
	// DeleteInstances deletes records with their leaves and what clusters said of them.
	DeleteInstances(ctx context.Context, contextIDs []string) error

	PutLeaf(ctx context.Context, leaf domain.Leaf) error
	Leaf(ctx context.Context, id string) (*domain.Leaf, error)
	// LeafMarks are the marks of all leaves of a context that have a record (domain.Leaf.Marks), by their ids.
	LeafMarks(ctx context.Context, contextID string) (map[string]string, error)
	// EachLeaf hands over all records of a context's leaves, one after the other, until take fails.
	EachLeaf(ctx context.Context, contextID string, take func(domain.Leaf) error) error

	// Unreachable are the clusters that did not answer when they were last tried.
	Unreachable(ctx context.Context) (map[domain.ClusterName]bool, error)
	// SetReachable notes whether a cluster answered.
	SetReachable(ctx context.Context, c domain.ClusterName, reachable bool) error
}

// Runs are the operations as the workflow engine knows them.
type Runs interface {
	// Close cancels the operation and waits until it is closed, and says how it ended.
	Close(ctx context.Context, s domain.Scope) (RunEnd, error)
	// Running says whether the operation's workflow is open.
	Running(ctx context.Context, s domain.Scope) (bool, error)
}

// RunEnd says how a run has ended, as the engine knows it.
type RunEnd int

// The ends of a run.
const (
	RunUnknown RunEnd = iota // the engine knows no end of it: it has forgotten the run, say
	RunInOrder               // it came to its own end
	RunBroken                // it failed, or somebody has ended it by hand
)

// Charts renders charts of strangers. What their rendering ends is Invalid. render.Processes implements it.
type Charts interface {
	Render(ctx context.Context, in render.Input) (*plan.Bundle, error)
	// AtOnce is how many of one group may be rendered at a time, so that others are rendered, too.
	AtOnce() int
}

// Control records what operations do to their owner and their context.
type Control struct {
	Store Store
	Runs  Runs
	Now   func() time.Time
	// Clock is the database's, by which Now is judged before anything is swept; zero when it does not say, nil where nobody is asked.
	Clock when.Clock
	// Charts renders those of deployment intent groups.
	Charts Charts
	// Elsewhere is asked for values that patches have from there; nil where nobody may be asked.
	Elsewhere Elsewhere
	// Nodes asks clusters for their nodes, which hpa intents look at; nil for who has no clusters.
	Nodes Nodes
	// MaxTargets is how many apps times clusters a group may have; 0 for any.
	MaxTargets int
	// Of logical clouds: what seals the keys of their users, what renews their certificates, how long those
	// are to be good, and what their namespaces enforce at least; 0 and "" leave it to the clusters.
	Sealer             Sealer
	Keepers            Keepers
	CertificateSeconds int32
	PodSecurity        domain.PodSecurity
	// Shards are told again of what they are to watch; nil where nothing is watched.
	Shards Shards
	// Plans are those of which batches ask for their clusters, shared with Kube; nil for some of its own.
	Plans *Plans
	// Audit takes the ends of operations; nil where nobody wants to know of them.
	Audit Trail

	dry        bool // it plans for who only wants to know, see Rehearsal: nothing is stored
	once       sync.Once
	footprints *lru.Weighed[domain.Digest, plan.Footprint] // of the plans of other groups
	// definitions are those of the bundles of other groups' apps.
	definitions *lru.Weighed[domain.Digest, *plan.Definitions]
}

// Record changes the owner's state by compare-and-set and writes the context's record. Doing it again
// changes nothing. Conflict when the owner's state does not allow the operation, or changed meanwhile, and Invalid when a group
// came to name a logical cloud that is to be terminated; then nothing of it is there, and what an earlier attempt may have sent comes
// to nothing.
func (l *Control) Record(ctx context.Context, in RecordInput) error {
	stop := beat(ctx) // a slow database must not cost the lease
	defer stop()
	return cas.Do(ctx, func() error { return l.record(ctx, in) })
}

// RecordLate is Record of an operation for which nobody waits any more, as the workflow knows: only one that an earlier attempt has recorded goes on, and
// any other is refused. It has a name of its own as Record of v0.1.0 would record it.
func (l *Control) RecordLate(ctx context.Context, in RecordInput) error {
	in.late = true
	return l.Record(ctx, in)
}

func (l *Control) record(ctx context.Context, in RecordInput) error {
	takesOver := in.Prepared != nil && in.Prepared.From != nil
	owner, err := l.owner(ctx, in.Owner)
	if takesOver && in.Prepared.From.Owner != in.Owner && fail.Is(err, fail.NotFound) {
		return l.targetGone(ctx, in, err)
	}
	if err != nil {
		return err
	}
	if takesOver {
		return l.takeOver(ctx, owner, in)
	}
	switch {
	case !outcome.Recorded(owner.Track(), in.Scope):
		err = l.advance(ctx, owner, in)
	case in.Operation == domain.OpTerminate:
		err = l.replace(ctx, owner) // an instantiate that was planned before, and is to take over from the context, is refused then
	}
	if err != nil {
		return err
	}
	if in.Operation == domain.OpTerminate {
		if cloud, ok := owner.(*domain.LogicalCloud); ok {
			if err := l.stillUnused(ctx, cloud, in); err != nil {
				return err
			}
		}
		err := l.terminating(ctx, in)
		if fail.Is(err, fail.NotFound) {
			return l.terminateNothing(ctx, in)
		}
		return err
	}
	return l.beginWithin(ctx, owner, in)
}

// ran is an operation that begins.
func (l *Control) ran(in RecordInput, detail string) domain.Ran {
	return domain.Ran{RunID: in.RunID, Operation: in.Operation, Detail: detail, RequestedBy: in.By, Accepted: l.Now()}
}

// errKnown ends a change of a record that has been made already.
var errKnown = errors.New("known")

// update changes the record of a context, which must not be overtaken by another attempt meanwhile: that the lease is held
// is asked after the record was read, and the record is written if it is the one that was read. errKnown is no error.
func (l *Control) update(ctx context.Context, contextID string, change func(*domain.Instance) error) error {
	err := l.Store.UpdateInstance(ctx, contextID, func(i *domain.Instance) error {
		if err := lease.Check(ctx); err != nil {
			return err
		}
		return change(i)
	})
	if errors.Is(err, errKnown) {
		return nil
	}
	return err
}

// begin is update for the record of a context that has none yet; one that is there stays as it is.
func (l *Control) begin(ctx context.Context, i *domain.Instance) error {
	if err := lease.Check(ctx); err != nil {
		return err
	}
	return l.Store.PutInstance(ctx, i)
}

func (l *Control) terminating(ctx context.Context, in RecordInput) error {
	return l.update(ctx, in.ContextID, func(i *domain.Instance) error {
		if i.Operation == domain.OpTerminate && !i.Has(in.Scope) && in.nobodyWaits(ctx) { // the history has it already, by the terminate before
			return outcome.NobodyWaits(in.Scope)
		}
		switch outcome.Terminating(i, in.Scope, l.ran(in, "")) {
		case outcome.Said:
			return errKnown
		case outcome.Overtaken:
			return outcome.Later(in.Scope)
		default:
			return nil
		}
	})
}

// terminateNothing makes the record of a context whose instantiate somebody ended by hand before it had one: it has sent
// nothing to any cluster. An instantiate that still goes on is between its two writes, and will have one.
func (l *Control) terminateNothing(ctx context.Context, in RecordInput) error {
	s := in.Scope
	goesOn, err := l.Runs.Running(ctx, domain.Scope{Owner: s.Owner, ContextID: s.ContextID, Operation: domain.OpInstantiate})
	if err == nil && goesOn {
		err = fail.New(fail.Unavailable, "the instantiate of context %s has not stored its record yet", s.ContextID)
	}
	if err != nil {
		return err
	}
	digest, err := save(ctx, l.Store, &plan.Plan{ContextID: s.ContextID, Owner: s.Owner})
	if err != nil {
		return err
	}
	err = l.begin(ctx, &domain.Instance{
		ContextID: s.ContextID, Owner: s.Owner, Origin: domain.OpInstantiate, Operation: s.Operation,
		Status: domain.ContextTerminating, Plan: digest, Accepted: l.Now(), Began: in.Began,
		Runs: []domain.Ran{l.ran(in, "")},
	})
	if err != nil {
		return err
	}
	return l.terminating(ctx, in) // of the instantiate's own record, should that have come after all
}

// instance is the record of a context that begins.
func (l *Control) instance(in RecordInput, h *domain.History) *domain.Instance {
	p := in.Prepared
	i := &domain.Instance{
		ContextID: in.ContextID, Owner: in.Owner, Origin: in.Operation, Operation: in.Operation, Status: domain.ContextInstantiating,
		Namespace: p.Namespace, LogicalCloud: p.LogicalCloud, Profile: p.Profile, Release: p.Release,
		Plan: p.Plan, Accepted: l.Now(), Label: p.Label, Began: in.Began, Runs: []domain.Ran{l.ran(in, outcome.Detail(in.Operation, in.Goal, h))},
	}
	if p.From != nil {
		i.From = p.From.ContextID
	}
	return i
}

// advance records an operation in the history of its owner.
func (l *Control) advance(ctx context.Context, owner domain.Owner, in RecordInput) error {
	last, err := l.known(ctx, owner.Track().ContextID())
	if err != nil {
		return err
	}
	asked := outcome.Asked{Scope: in.Scope, Seen: in.Seen, Goal: in.Goal, By: in.By, Late: in.nobodyWaits(ctx)}
	if p := in.Prepared; p != nil {
		asked.Made = &outcome.Made{OwnerRevision: p.OwnerRevision, Label: p.Label}
	}
	if cloud, ok := owner.(*domain.LogicalCloud); ok && in.Operation == domain.OpTerminate {
		if err := l.unused(ctx, cloud); err != nil {
			return err
		}
	}
	return l.carryOut(ctx, owner, outcome.Accept(owner, last, asked, l.Now()))
}

// nobodyWaits says of an operation that nobody waits for it any more, as the workflow knows, or as late says.
func (in RecordInput) nobodyWaits(ctx context.Context) bool { return in.late || late(ctx, in.Scope) }

// late says of an attempt at recording an operation that it began when nobody waited for the operation any more, as where the store, or every
// worker, was away. Both times are Temporal's: clocks of workers do not matter. Before a try in its own task the workflow itself has looked.
func late(ctx context.Context, s domain.Scope) bool {
	if s.Began == 0 || !activity.IsActivity(ctx) || triedAtOnce(ctx) {
		return false
	}
	return activity.GetInfo(ctx).StartedTime.Sub(time.Unix(0, s.Began)) > policy.Accept
}

// unused checks that no group names a cloud that is to be terminated, nor has left something there. Whoever asked has looked, too; but it
// may have slept since.
func (l *Control) unused(ctx context.Context, cloud *domain.LogicalCloud) error {
	key := domain.KeyOf(cloud)
	group, found, err := l.Store.Referring(ctx, domain.DeploymentIntentGroups, key)
	if err != nil {
		return err
	}
	if found {
		return cloud.UsedBy(group)
	}
	active, err := l.Store.ActiveInstances(ctx)
	if err != nil {
		return err
	}
	for _, i := range active {
		if !i.Within(key) {
			continue
		}
		if held, err := l.holds(ctx, i); err != nil {
			return err
		} else if held {
			return cloud.HeldBy(i.Owner)
		}
	}
	return nil
}

// stillUnused is unused once more, now that the cloud's history says that it is terminated: a group looks at that when the record of its context is
// there (stillMembers). A refusal takes the terminate back, unless something of it is done already.
func (l *Control) stillUnused(ctx context.Context, cloud *domain.LogicalCloud, in RecordInput) error {
	i, err := l.known(ctx, in.ContextID)
	if err != nil || i != nil && i.Operation == domain.OpTerminate && i.Status == domain.ContextTerminating {
		return err
	}
	refusal := l.unused(ctx, cloud)
	if refusal == nil || fail.KindOf(refusal).Retryable() {
		return refusal
	}
	if last := cloud.History.Last(); last.State != domain.Terminated || last.ContextID != in.ContextID { // something else was asked for since
		return nil
	}
	cloud.History.TakeBack()
	return l.refuse(ctx, cloud, refusal)
}

// known is the record of a context, nil where there is none, or no context.
func (l *Control) known(ctx context.Context, contextID string) (*domain.Instance, error) {
	if contextID == "" {
		return nil, nil
	}
	return recordOf(ctx, l.Store, contextID)
}

// recordOf is the record of a context, nil where there is none.
func recordOf(ctx context.Context, of interface {
	Instance(ctx context.Context, contextID string) (*domain.Instance, error)
}, contextID string) (*domain.Instance, error) {
	i, err := of.Instance(ctx, contextID)
	if fail.Is(err, fail.NotFound) {
		return nil, nil
	}
	return i, err
}

// RecordStop records in the history of its owner that an operation is stopped, as outcome.Stop decides.
func (l *Control) RecordStop(ctx context.Context, s StopInput) error {
	stop := beat(ctx)
	defer stop()
	return cas.Do(ctx, func() error {
		owner, err := l.owner(ctx, s.Owner)
		if err != nil {
			return err
		}
		record, err := l.known(ctx, s.ContextID)
		if err != nil {
			return err
		}
		return l.carryOut(ctx, owner, outcome.Stop(owner, record, s.Scope, s.By, l.Now()))
	})
}

// Targets reads a part of an app's clusters from the plan.
func (l *Control) Targets(ctx context.Context, in TargetsInput) (*Targets, error) {
	stop := beat(ctx)
	defer stop()
	l.remember()
	p, err := l.Plans.get(ctx, l.Store, in.Plan)
	if err != nil {
		return nil, err
	}
	app := p.App(in.App)
	if app == nil || in.To > len(app.Targets) {
		return nil, fail.New(fail.Invalid, "plan %s has no clusters %d to %d of app %q", in.Plan, in.From, in.To, in.App)
	}
	unreachable, err := l.Store.Unreachable(ctx)
	if err != nil {
		return nil, err
	}
	return targets(app, in.From, in.To, unreachable), nil
}

// targets are the clusters [from, to) of an app.
func targets(app *plan.App, from, to int, unreachable map[domain.ClusterName]bool) *Targets {
	of := app.Targets[from:to]
	out := &Targets{Clusters: make([]domain.ClusterName, 0, len(of))}
	for i, t := range of {
		out.Clusters = append(out.Clusters, t.ClusterName)
		if unreachable[t.ClusterName] {
			out.Suspect = append(out.Suspect, i)
		}
		if t.Installs {
			out.Installs = append(out.Installs, i)
		}
		if overlay := app.OverlayOf(&t); overlay != "" {
			if out.Overlays == nil {
				out.Overlays = map[int]domain.Part{}
			}
			out.Overlays[i] = overlay
		}
		if t.Inherited == nil {
			continue
		}
		if out.Marks == nil {
			out.Marks = make(MarkTexts, len(of))
		}
		out.Marks[i] = t.Inherited.Marks
		if t.Inherited.Report != "" {
			if out.Reports == nil {
				out.Reports = map[int]string{}
			}
			out.Reports[i] = t.Inherited.Report
		}
	}
	return out
}

// RecordLeaf stores the end of a leaf for which the activity could not do it. Of an operation that has ended, see outcome.Over, nothing is stored.
func (l *Control) RecordLeaf(ctx context.Context, leaf domain.Leaf) error {
	stop := beat(ctx)
	defer stop()
	if s := (domain.Scope{ContextID: leaf.ContextID, Operation: leaf.Operation, Began: leaf.Turn.Began}); s.Began != 0 {
		if i, err := l.known(ctx, leaf.ContextID); err != nil || outcome.Over(i, s) {
			return err
		}
	}
	leaf.ID = domain.LeafID(leaf.ContextID, leaf.App, leaf.Cluster)
	switch earlier, err := l.Store.Leaf(ctx, leaf.ID); {
	case err == nil:
		leaf.Follow(earlier)
	case !fail.Is(err, fail.NotFound):
		return err
	}
	if err := lease.Check(ctx); err != nil {
		return err
	}
	return l.Store.PutLeaf(ctx, leaf)
}

// Supersede ends the operation that made the context, which may still run, and says what a terminate has to
// work through.
func (l *Control) Supersede(ctx context.Context, s domain.Scope) (*Prepared, error) {
	stop := beat(ctx)
	defer stop()
	prepared, err := l.supersede(ctx, s)
	return prepared, inTime(ctx, err)
}

func (l *Control) supersede(ctx context.Context, s domain.Scope) (*Prepared, error) {
	if domain.Certifies(s.Owner) {
		if err := l.Keepers.Release(ctx, s.Owner); err != nil {
			return nil, err
		}
	}
	i, err := l.Store.Instance(ctx, s.ContextID)
	if err != nil {
		return nil, err
	}
	if triedAtOnce(ctx) { // who asks for the terminate is answered when the task is done, and need not wait for the end of another operation
		goesOn, err := l.Runs.Running(ctx, domain.Scope{Owner: i.Owner, ContextID: i.ContextID, Operation: cmp.Or(i.Origin, domain.OpInstantiate)})
		if err == nil && goesOn {
			err = ErrNotAtOnce
		}
		if err != nil {
			return nil, err
		}
	}
	inOrder, err := l.end(ctx, i, i.Origin)
	if err != nil {
		return nil, err
	}
	// Its end may have left a shorter plan.
	if i, err = l.Store.Instance(ctx, s.ContextID); err != nil {
		return nil, err
	}
	p, err := l.plan(ctx, i.Plan)
	if err != nil {
		return nil, err
	}
	unreachable, err := l.Store.Unreachable(ctx)
	if err != nil {
		return nil, err
	}
	prepared := sizes(p, i.Plan, unreachable)
	prepared.Incomplete, prepared.Label = !inOrder, i.Label
	return &prepared, nil
}

// end ends an operation on a context, "" for an instantiate. After an end that was not in order it waits for what is on
// its way; one that the workflow could not record is in the audit log. The engine forgets workflows some time after their end: of these, and of no others, the record says how they ended.
func (l *Control) end(ctx context.Context, i *domain.Instance, op domain.Operation) (inOrder bool, err error) {
	op = cmp.Or(op, domain.OpInstantiate)
	ended, err := l.Runs.Close(ctx, domain.Scope{Owner: i.Owner, ContextID: i.ContextID, Operation: op})
	inOrder = ended == RunInOrder || ended == RunUnknown && i.Sound(op)
	if err == nil && ended == RunBroken {
		err = l.auditedBroken(ctx, i, op)
	}
	if err == nil && !inOrder && !l.dry {
		err = pause.For(ctx, policy.InFlight)
	}
	return inOrder, err
}

// fewTargets is up to how many clusters an app's targets come with its sizes, and targetBytes how many bytes those of all apps have: Temporal
// takes payloads of 2 MiB. The others are asked for.
const (
	fewTargets  = 30
	targetBytes = 512 << 10
)

// toldWarnings is how many warnings of a plan are told. There may be one for each pair of apps, or for each app and cluster.
const toldWarnings = 16

// toldOf are the warnings that are told, the last of which says how many there are more.
func toldOf(warnings []string) []string {
	if more := len(warnings) - toldWarnings; more > 0 {
		return append(slices.Clone(warnings[:toldWarnings-1]), fmt.Sprintf("there are %d more warnings", more+1))
	}
	return warnings
}

// sizes is what workflows need of a plan.
func sizes(p *plan.Plan, digest domain.Digest, unreachable map[domain.ClusterName]bool) Prepared {
	out, told := Prepared{Plan: digest, Namespace: p.Namespace, Release: p.Release, User: p.User}, 0
	for _, a := range p.Apps {
		app := PreparedApp{
			Name: a.Name, Bundle: a.Bundle, Resources: len(a.Resources), Clusters: len(a.Targets),
			Needs: a.Needs, Events: a.Events,
		}
		if app.Clusters <= fewTargets {
			of := targets(&a, 0, len(a.Targets), unreachable)
			data, err := json.Marshal(of)
			if told += len(data); err == nil && told <= targetBytes {
				app.Targets = of
			}
		}
		out.Apps = append(out.Apps, app)
	}
	return out
}

// Finish records how the operation ended. It counts what the leaves left in the store, so that the record
// is true whatever the workflow knew.
func (l *Control) Finish(ctx context.Context, in FinishInput) (*Outcome, error) {
	stop := beat(ctx)
	defer stop()
	p, err := l.plan(ctx, in.Plan)
	if err != nil {
		return nil, err
	}
	recorded, err := l.Store.LeafMarks(ctx, in.ContextID)
	if err != nil {
		return nil, err
	}
	left := outcome.LeftBy(in.ContextID, recorded)
	out := &Outcome{Stopped: in.Stopped}
	out.Status, out.Counts = outcome.Of(p, left, outcome.Ended{Operation: in.Operation, Stopped: in.Stopped, Left: in.Left})
	digest := in.Plan
	if in.Operation != domain.OpTerminate && p.Label != "" { // it has taken over from another context
		if digest, err = l.trim(ctx, p, digest, left); err != nil {
			return nil, err
		}
		if digest != in.Plan {
			out.Plan = digest
		}
	}
	record := outcome.Record{
		Status: out.Status, Counts: out.Counts, Plan: digest, Stopped: in.Stopped, Reason: in.Reason, NotStarted: in.NotStarted,
		Lost: in.Lost, Sound: in.Sound, At: l.Now(),
	}
	if err := l.audited(ctx, in.Scope, record); err != nil {
		return nil, err
	}
	var accepted time.Time
	err = l.update(ctx, in.ContextID, func(i *domain.Instance) error {
		accepted = time.Time{}
		switch record.Write(i, in.Scope) {
		case outcome.Written:
			accepted = i.Accepted
			if n := len(i.Runs); n > 0 {
				accepted = i.Runs[n-1].Accepted
			}
			return nil
		case outcome.Said:
			out.Status, out.Counts = i.Status, i.Counts
		case outcome.Overtaken:
		}
		return errKnown
	})
	if err == nil && !accepted.IsZero() {
		ended := outcome.Measured(out.Status, in.Stopped)
		took := max(record.At.Sub(accepted), 0) // two workers may have said the times
		measure.OperationDuration.Record(took.Seconds(), string(in.Operation), ended)
		measure.OperationsEnded.Add(1, string(in.Operation), ended)
	}
	return out, err
}

func (l *Control) owner(ctx context.Context, key domain.Key) (domain.Owner, error) {
	return stored.Owner(ctx, l.Store, key)
}

// plan reads a plan for a caller of its own, who may change it.
func (l *Control) plan(ctx context.Context, digest domain.Digest) (*plan.Plan, error) {
	return stored.JSON[plan.Plan](ctx, l.Store, digest)
}

// save writes v as a blob of JSON.
func save(ctx context.Context, store interface {
	PutBlob(ctx context.Context, data []byte) (domain.Digest, error)
}, v any) (domain.Digest, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode blob: %w", err)
	}
	return store.PutBlob(ctx, data)
}

// beat heartbeats until the returned function is called. Outside an activity nobody hears it.
func beat(ctx context.Context, details ...func() any) (stop func()) {
	if !activity.IsActivity(ctx) {
		return func() {}
	}
	// A heartbeat that is on its way is not cut off, but waited for. Temporal cannot know what became of a write that is cut off in its
	// store, and then acquires the shard anew, for which all else on it waits. Where it is slow, more of them would be.
	whole := context.WithoutCancel(ctx)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(policy.Beat)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				values := make([]any, 0, len(details))
				for _, d := range details {
					values = append(values, d())
				}
				activity.RecordHeartbeat(whole, values...)
			}
		}
	}()
	return func() { cancel(); <-done }
}
