package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/cas"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/repair"
	"github.com/drover-io/drover/internal/stored"
	"github.com/drover-io/drover/internal/version"
	"github.com/drover-io/drover/internal/view"
)

// Engine runs operations as workflows.
type Engine interface {
	// Start begins an operation and returns when it is accepted or refused.
	Start(ctx context.Context, s domain.Scope, seen domain.Seen) (warnings []string, err error)
	// Change is Start for an operation whose context takes over from another one. The revision is that of the
	// instance then; it is the one there was when nothing is to be done, which a warning says.
	Change(ctx context.Context, s domain.Scope, seen domain.Seen, goal domain.Goal) (revision int, warnings []string, err error)
	// Stop ends a running operation in order and returns when that is recorded.
	Stop(ctx context.Context, s domain.Scope) error
	// Running says whether the operation's workflow is open.
	Running(ctx context.Context, s domain.Scope) (bool, error)
	// Counts are the states of a running operation's resources.
	Counts(ctx context.Context, s domain.Scope) (map[domain.ResourceState]int, error)
	// NotStarted are the apps that a running operation has not started, and why. NotFound when it does not run.
	NotStarted(ctx context.Context, s domain.Scope) (map[string]string, error)
	// Open are the leaves of an app on which a running operation is at work.
	Open(ctx context.Context, s domain.Scope, app string) ([]domain.Leaf, error)
	// StopWatching ends that clusters are watched for an app context.
	StopWatching(ctx context.Context, contextID string) error
}

// Records reads what operations left in the store.
type Records interface {
	Instance(ctx context.Context, contextID string) (*domain.Instance, error)
	// InstancesByID reads many at once; those that are not there are left out.
	InstancesByID(ctx context.Context, contextIDs []string) ([]*domain.Instance, error)
	Leaves(ctx context.Context, contextID string) ([]domain.Leaf, error)
	Blob(ctx context.Context, digest domain.Digest) ([]byte, error)
	ActiveInstances(ctx context.Context) ([]*domain.Instance, error)
	UpdateInstance(ctx context.Context, contextID string, change func(*domain.Instance) error) error
	// DeleteInstance removes the record of a context that did not come about.
	DeleteInstance(ctx context.Context, contextID string) error
	InstancesOf(ctx context.Context, owner domain.Key) ([]*domain.Instance, error)
	DeleteInstances(ctx context.Context, contextIDs []string) error
}

// Heard is what clusters report, as watches left it in the store.
type Heard interface {
	// ObservationsVersion is another one after what clusters say of a context has changed; "" before they have said
	// anything.
	ObservationsVersion(ctx context.Context, contextID string) (string, error)
	// Watches is what was last said of clusters; one that is missing is not heard. view.ContactAt judges it. It is shared, and
	// must not be changed. Of all clusters it is the same map as long as nothing else is said.
	Watches(ctx context.Context, clusters []domain.ClusterName) (map[domain.ClusterName]domain.Watch, error)
	// ObservationsSince says what has changed since a version that was the context's at a time.
	ObservationsSince(ctx context.Context, contextID, version string, at lease.Instant) (domain.ObservedChanges, error)
	// Observations reads what clusters say of an app, sorted as plan.SortTargets does; nil clusters are all. An error
	// ends the sequence.
	Observations(ctx context.Context, contextID, app string, clusters []domain.ClusterName) iter.Seq2[view.Report, error]
	// Rules are those of users by which it is judged, as they were readiness.Freshness ago or later.
	Rules(ctx context.Context) (*readiness.Rules, error)
}

// Lifecycle runs the operations of owners and tells where they stand.
type Lifecycle struct {
	store   Store
	records Records
	heard   Heard
	engine  Engine
	now     Clock
	moment  lease.Clock // now's, with the time for which the machine was suspended
	recall  *recall
	onShow  *manifests
	recent  recent
	// contacts are those of groups that somebody watches, or asks for tables of.
	contacts contacts
	// told are the warnings of groups whose operation goes on, as they were read last. Who waits for an operation asks often.
	told *lru.Weighed[domain.Key, told]

	// Rehearse plans what an instantiate of a group would do and does nothing; nil where nobody can. The error is why it
	// would be refused, the warnings what else its user should know. See Approve and PreviewGroup.
	Rehearse func(ctx context.Context, group *domain.DeploymentIntentGroup) (p *plan.Plan, warnings []string, err error)
	// Foresee plans an operation as the operation itself does, and does nothing; nil where nobody can. The errors are the operation's,
	// but that an instantiate need not be approved. See Diff.
	Foresee func(ctx context.Context, s domain.Scope, goal domain.Goal) (*plan.Way, error)
	// Masks makes the digests that are shown in place of what Secrets hold.
	Masks bundle.Masker
}

// told are warnings, when they were read, and of which context of the group: another group may have the name.
type told struct {
	at        time.Time
	contextID string
	warnings  []string
}

// toldMost is of how many groups warnings are kept, and toldBytes what they may take in memory.
const toldMost, toldBytes = 1000, 16 << 20

// NewLifecycle makes the lifecycle commands and queries.
func NewLifecycle(store Store, records Records, heard Heard, engine Engine, now Clock) *Lifecycle {
	return &Lifecycle{
		store: store, records: records, heard: heard, engine: engine, now: now, moment: lease.By(now), recall: newRecall(), onShow: newManifests(limits.Manifests),
		told: lru.NewWeighed[domain.Key, told](toldMost, toldBytes),
	}
}

// Approve makes a group ready to be instantiated; the warnings say what of it will not hold, or is still missing, and which
// apps are not the same on all of their clusters. What cannot be rendered or placed as it is there is refused, and changes nothing. An approved group stays as it is.
func (l *Lifecycle) Approve(ctx context.Context, key domain.Key) (warnings []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, policy.Accept)
	defer cancel()
	err = cas.Do(ctx, func() error {
		warnings, err = l.approve(ctx, key)
		return err
	})
	return warnings, err
}

// approve is Approve, or cas.ErrOvertaken.
func (l *Lifecycle) approve(ctx context.Context, key domain.Key) (warnings []string, err error) {
	if warnings, err = l.unenforced(ctx, key); err != nil {
		return nil, err
	}
	owner, t, _, err := l.decide(ctx, key, domain.OpApprove)
	if err != nil {
		return nil, err
	}
	if t.Same {
		return warnings, nil
	}
	group, ok := owner.(*domain.DeploymentIntentGroup)
	if ok {
		if _, err := l.fourEyes(ctx, group, "approve"); err != nil {
			return nil, err
		}
	}
	if ok && l.Rehearse != nil {
		p, told, err := l.Rehearse(ctx, group)
		if err != nil {
			return nil, err
		}
		warnings = append(told, differing(p)...)
	}
	if ok {
		group.ChangedBy, group.Reviewing, group.Review = nil, nil, ""
	}
	owner.Track().Append(t.To, "", t.Revision, l.now())
	owner.Track().Note("", caller.Of(ctx))
	return warnings, cas.Overtaken(l.store.Replace(ctx, owner))
}

// Instantiate starts a new app context. It returns when everything is rendered, placed, planned and
// recorded; the warnings say what the user should know about the plan, or why nothing is done.
func (l *Lifecycle) Instantiate(ctx context.Context, key domain.Key) (warnings []string, err error) {
	owner, t, observed, err := l.decide(ctx, key, domain.OpInstantiate)
	if err != nil || t.Same {
		return whyNot(t), err
	}
	id, err := newContextID()
	if err != nil {
		return nil, err
	}
	err = l.takingIn(ctx, owner, domain.OpInstantiate, func() error {
		warnings, err = l.engine.Start(ctx, domain.Scope{Owner: key, ContextID: id, Operation: domain.OpInstantiate}, seen(owner, observed))
		return err
	})
	return warnings, err
}

// Terminate starts to delete what the last app context put into clusters.
func (l *Lifecycle) Terminate(ctx context.Context, key domain.Key) error {
	owner, t, observed, err := l.decide(ctx, key, domain.OpTerminate)
	if err != nil || t.Same {
		return err
	}
	s := domain.Scope{Owner: key, ContextID: owner.Track().ContextID(), Operation: domain.OpTerminate}
	_, err = l.engine.Start(ctx, s, seen(owner, observed))
	return err
}

// Stop ends the running operation in order: what is done stays done.
func (l *Lifecycle) Stop(ctx context.Context, key domain.Key) error {
	owner, _, _, err := l.decide(ctx, key, domain.OpStop)
	if err != nil {
		return err
	}
	i, err := l.instance(ctx, key, owner.Track().ContextID())
	if err != nil {
		return err
	}
	err = l.engine.Stop(ctx, working(i))
	if fail.Is(err, fail.NotFound) {
		return fail.Wrap(err, fail.Conflict, "%s is not instantiating or terminating: its operation has just ended",
			describe(owner.Noun(), key))
	}
	return err
}

// ContextStatus is where an app context stands: as recorded, unless the record says that an operation is
// going on whose workflow somebody has ended by hand. A context that nobody recorded yet is instantiating.
func (l *Lifecycle) ContextStatus(ctx context.Context, owner domain.Key, contextID string) (domain.ContextStatus, error) {
	if contextID == "" {
		return domain.ContextNone, nil
	}
	i, err := l.instance(ctx, owner, contextID)
	if err != nil {
		return "", err
	}
	return l.statusOf(ctx, i)
}

// statusOf is ContextStatus for a record that was read just now.
func (l *Lifecycle) statusOf(ctx context.Context, i *domain.Instance) (domain.ContextStatus, error) {
	if !i.Status.InProgress() {
		return i.Status, nil
	}
	running, err := l.engine.Running(ctx, working(i))
	if err != nil || running {
		return i.Status, err
	}
	// It may have ended between the two questions.
	if i, err = l.instance(ctx, i.Owner, i.ContextID); err != nil || !i.Status.InProgress() {
		return i.Status, err
	}
	if i.Status.Deleting() { // what it was to end may go on
		running, err = l.engine.Running(ctx, at(i, domain.ContextInstantiating))
	}
	return i.Status.Abandoned(running), err
}

// mostLeft is on how many clusters it is said by name that something is left.
const mostLeft = 5

// Left says how many resources contexts of an owner may have left in which clusters, as after a terminate that was stopped or has failed.
// What Drover leaves there on purpose is not among them. Conflict when a record is whole that cannot be read: its owner does not go, as that does not.
func (l *Lifecycle) Left(ctx context.Context, owner domain.Key) (texts []string, err error) {
	contexts, err := l.records.InstancesOf(ctx, owner)
	if whole := wholeOf(owner, err); whole != nil {
		return nil, whole
	}
	if err != nil && !errors.Is(err, domain.ErrUnreadable) {
		return nil, err
	}
	if err != nil {
		texts = append(texts, "what it has in clusters cannot be told: "+fail.TextOf(err))
	}
	all, on := 0, map[string]int{}
	for _, i := range contexts {
		if i.Status.Over() || i.Plan == "" {
			continue
		}
		records, err := l.recordsOf(ctx, i, working(i), false)
		if errors.Is(err, domain.ErrUnreadable) || fail.Is(err, fail.NotFound) { // which must not keep it for ever
			texts = append(texts, "what it has left in clusters cannot be told: "+fail.TextOf(err))
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, app := range records.Apps() {
			for _, c := range app.Clusters {
				if n := len(c.Marks) - len(slices.DeleteFunc(slices.Clone(c.Marks), domain.Mark.Ours)); n > 0 {
					all, on[c.String()] = all+n, on[c.String()]+n
				}
			}
		}
	}
	if all == 0 {
		return texts, nil
	}
	names := slices.Sorted(maps.Keys(on))
	more := ""
	if len(names) > mostLeft {
		more = fmt.Sprintf(" and %d more", len(names)-mostLeft)
	}
	for i, name := range names[:min(len(names), mostLeft)] {
		names[i] = fmt.Sprintf("%s (%d)", name, on[name])
	}
	return append(texts, fmt.Sprintf("up to %d of its resources stay in clusters, and nothing deletes them any more: %s%s",
		all, strings.Join(names[:min(len(names), mostLeft)], ", "), more)), nil
}

// wholeOf refuses that the owner of records goes of which err says that some cannot be read, though they are whole; nil when it says that of none.
func wholeOf(owner domain.Key, err error) error {
	var why string
	switch {
	case errors.Is(err, domain.ErrNoKey):
		why = "is sealed with a key that is not configured, and is not damaged: bring the key back"
	case errors.Is(err, version.ErrNewer):
		why = "was written by a newer Drover, and is not damaged: delete it with that"
	default:
		return nil
	}
	return fail.Wrap(err, fail.Conflict, "what is recorded of %s %s", describe(domain.OwnerNoun(owner), owner), why)
}

// Forget removes the records of all contexts of a resource that is deleted, and says whether there were any. For one that has not come to
// its end, as after a terminate that failed, clusters are still watched: that ends too. Nothing is removed when there is such a resource.
// Conflict when a record is whole that cannot be read.
func (l *Lifecycle) Forget(ctx context.Context, owner domain.Key) (found bool, err error) {
	contexts, err := l.records.InstancesOf(ctx, owner)
	if whole := wholeOf(owner, err); whole != nil {
		return false, whole
	}
	// Damaged records go with the others: nobody reads them any more.
	var damaged []string
	if errors.Is(err, domain.ErrUnreadable) {
		damaged, err = domain.UnreadableOf(err)
	}
	if err != nil || len(contexts)+len(damaged) == 0 {
		return false, err
	}
	// Looked at after the list: what was listed is of one that is gone, then, and not of another one of its name.
	if there, err := l.store.Exists(ctx, domain.OwnerNoun(owner), owner); err != nil || there {
		return false, err
	}
	var watched error
	ids := damaged // nobody knows by which label these are watched: the sweep ends that
	for _, i := range contexts {
		ids = append(ids, i.ContextID)
		if i.Status.Over() {
			continue
		}
		if err := l.engine.StopWatching(ctx, i.LabelID()); err != nil {
			watched = fmt.Errorf("stop watching clusters for %s: %w", i.ContextID, err)
		}
	}
	return true, cmp.Or(l.records.DeleteInstances(ctx, ids), watched)
}

// User finds an owner whose app context, not terminated yet, goes to the cluster. A cluster is no user of itself:
// its own state says whether it may be deleted.
func (l *Lifecycle) User(ctx context.Context, c domain.ClusterName) (owner domain.Key, found bool, err error) {
	return l.user(ctx, func(i *domain.Instance) (bool, error) { return l.has(ctx, i, c) })
}

// Tenant is User for what is in the logical cloud, which is not the cloud's own.
func (l *Lifecycle) Tenant(ctx context.Context, cloud domain.Key, c domain.ClusterName) (owner domain.Key, found bool, err error) {
	return l.user(ctx, func(i *domain.Instance) (bool, error) {
		if !i.Within(cloud) {
			return false, nil
		}
		return l.has(ctx, i, c)
	})
}

// Within is Tenant for all clusters. What counts is where the instance is, and not which cloud the owner's document names now.
func (l *Lifecycle) Within(ctx context.Context, cloud domain.Key) (owner domain.Key, found bool, err error) {
	return l.user(ctx, func(i *domain.Instance) (bool, error) { return i.Within(cloud), nil })
}

// has says whether a context that is not the cluster's own goes to it.
func (l *Lifecycle) has(ctx context.Context, i *domain.Instance, c domain.ClusterName) (bool, error) {
	if i.Owner == c.Key() {
		return false, nil
	}
	return l.goes(ctx, i, c)
}

func (l *Lifecycle) user(ctx context.Context, counts func(*domain.Instance) (bool, error)) (owner domain.Key, found bool, err error) {
	active, err := l.records.ActiveInstances(ctx)
	if err != nil {
		return "", false, err
	}
	for _, i := range active {
		counted, err := counts(i)
		if err != nil {
			return "", false, err
		}
		if !counted {
			continue
		}
		if found, err := l.stands(ctx, i); err != nil || found {
			return i.Owner, found, err
		}
	}
	return "", false, nil
}

// instance is the record of a context. One that has none is instantiating, or was given to another owner that is gone with the record.
func (l *Lifecycle) instance(ctx context.Context, key domain.Key, contextID string) (*domain.Instance, error) {
	i, err := l.records.Instance(ctx, contextID)
	if !fail.Is(err, fail.NotFound) {
		return i, err
	}
	i = &domain.Instance{ContextID: contextID, Owner: key, Operation: domain.OpInstantiate, Status: domain.ContextInstantiating}
	owner, err := l.owner(ctx, key)
	switch {
	case fail.Is(err, fail.NotFound):
	case err != nil:
		return nil, err
	case repair.TakerOf(owner.Track(), contextID) != "":
		i.Status = domain.ContextUpdated
	}
	return i, nil
}

// Planned is what a context of one app puts into clusters, nil for a context that there is no record of.
func (l *Lifecycle) Planned(ctx context.Context, contextID string) (*plan.Bundle, error) {
	i, err := l.records.Instance(ctx, contextID)
	if fail.Is(err, fail.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p, err := l.recall.plan(ctx, l.records, i.Plan)
	if err != nil {
		return nil, err
	}
	if len(p.Apps) == 0 {
		return &plan.Bundle{}, nil
	}
	return stored.JSON[plan.Bundle](ctx, l.records, p.Apps[0].Bundle)
}

// owner reads a resource with a lifecycle.
func (l *Lifecycle) owner(ctx context.Context, key domain.Key) (domain.Owner, error) {
	return stored.Owner(ctx, l.store, key)
}

// decide asks the owner's state machine, which refuses early what the operation itself would refuse, and
// says where the last context stands.
func (l *Lifecycle) decide(ctx context.Context, key domain.Key, op domain.Operation) (domain.Owner, domain.Transition, domain.ContextStatus, error) {
	owner, err := l.owner(ctx, key)
	if err == nil {
		owner, err = l.Repair(ctx, owner)
	}
	if err != nil {
		return nil, domain.Transition{}, "", err
	}
	observed, err := l.ContextStatus(ctx, key, owner.Track().ContextID())
	if err != nil {
		return nil, domain.Transition{}, "", err
	}
	t, err := owner.Decide(observed, op)
	return owner, t, observed, err
}

func seen(owner domain.Owner, status domain.ContextStatus) domain.Seen {
	return domain.Seen{Status: status, History: owner.Track().Sign(), Created: owner.Track().Made()}
}

// working is the operation that is going on in a context, or was the last one.
func working(i *domain.Instance) domain.Scope { return at(i, i.Status) }

// at is working for a context that stands elsewhere than its record says.
func at(i *domain.Instance, status domain.ContextStatus) domain.Scope {
	stands := *i
	stands.Status = status
	return domain.Scope{Owner: i.Owner, ContextID: i.ContextID, Operation: stands.Working()}
}

// newContextID is EMCO's form: a random positive 63-bit number in decimal.
func newContextID() (string, error) {
	var b [8]byte
	for {
		if _, err := rand.Read(b[:]); err != nil {
			return "", fail.Wrap(err, fail.Internal, "make a context id")
		}
		if n := binary.BigEndian.Uint64(b[:]) >> 1; n > 1e18 { // always 19 digits, so that ids line up
			return strconv.FormatUint(n, 10), nil
		}
	}
}
