package activities

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/when"
)

// Sweep removes the blobs that nothing refers to any more: charts and profiles of apps that are gone or were
// replaced, and the plans and manifests of instances that were forgotten; what is kept of clusters that are not
// registered any more, of settings of tenants that are gone, and of certificates that have expired; what clusters said of app contexts that are gone; and the
// records of contexts that no history has any more. It returns how many blobs. What somebody has ended by hand is begun again:
// none of the four waits for another one that fails, nor for the blobs, for which the plan of every context is read. An attempt that comes
// after one which has swept them leaves them alone. Unavailable, with nothing removed, when this worker's clock cannot be right: the next attempt
// may be another worker's.
func (l *Control) Sweep(ctx context.Context) (removed int, err error) {
	var done swept
	if activity.IsActivity(ctx) && activity.HasHeartbeatDetails(ctx) && activity.GetHeartbeatDetails(ctx, &done) != nil {
		done = swept{}
	}
	stop := beat(ctx, func() any { return done })
	defer stop()
	err = errors.Join(l.keepAgain(ctx), l.watchAgain(ctx))
	if wrong := l.believe(ctx); wrong != nil {
		return done.Removed, errors.Join(err, wrong)
	}
	err = errors.Join(err, l.retire(ctx))
	if done.Blobs {
		return done.Removed, err
	}
	removed, failed := l.sweep(ctx)
	if failed == nil && err != nil && activity.IsActivity(ctx) {
		stop() // no other heartbeat comes after this one
		activity.RecordHeartbeat(ctx, swept{Blobs: true, Removed: removed})
	}
	return removed, errors.Join(failed, err)
}

// swept is what the attempts at a sweep have done of it so far.
type swept struct {
	Blobs   bool `json:"blobs,omitempty"`
	Removed int  `json:"removed,omitempty"`
}

// believe refuses to remove anything by a clock that the database's contradicts.
func (l *Control) believe(ctx context.Context) error {
	d, err := when.Ahead(ctx, l.Now(), l.Clock)
	if err == nil && d.Abs() > policy.ClockWrong {
		return fail.New(fail.Unavailable, "this worker's clock and the database's are %s apart, so that nothing is swept: set them right", d.Round(time.Second))
	}
	return err
}

func (l *Control) sweep(ctx context.Context) (removed int, err error) {
	if _, err := l.Store.SweepRenewals(ctx, policy.Unwanted); err != nil {
		return 0, err
	}
	if _, err := l.Store.SweepSettings(ctx, policy.Unwanted); err != nil {
		return 0, err
	}
	if err := l.Store.SweepCertified(ctx, l.Now().Add(-policy.CertificateOver)); err != nil {
		return 0, err
	}
	if _, err := l.Store.SweepObservations(ctx, l.contexts, policy.Unwanted); err != nil {
		return 0, err
	}
	wanted, err := l.referred(ctx)
	if err != nil {
		return 0, err
	}
	return l.Store.SweepBlobs(ctx, func(d domain.Digest) bool { return wanted[d] }, policy.Unwanted)
}

// retire removes the records of contexts, with their leaves, that are over and that no history has any more: of a resource that is updated again and
// again for years these would be far more than all that is there. What was recorded a moment ago may come into a history yet. Those of an owner that is
// not there are left to who deletes it, who may put it back.
func (l *Control) retire(ctx context.Context) error {
	instances, err := l.Store.Instances(ctx)
	if err != nil {
		return err
	}
	over := map[string]domain.Key{}
	for _, i := range instances {
		if i.Status.Over() && i.Remnants == "" && l.Now().Sub(i.Ended) > policy.Unwanted && l.Now().Sub(i.Accepted) > policy.Unwanted {
			over[i.ContextID] = i.Owner
		}
	}
	for _, i := range instances {
		delete(over, i.Label) // what clusters say is kept for it
		if !i.Status.Over() {
			delete(over, i.From)
		}
	}
	if len(over) == 0 {
		return nil
	}
	there := map[domain.Key]bool{}
	for _, noun := range domain.Owners {
		err := l.Store.Each(ctx, noun, "", func(o domain.Object) error {
			there[domain.KeyOf(o)] = true
			for _, a := range o.(domain.Owner).Track().Actions {
				delete(over, a.ContextID)
				delete(over, a.By)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	maps.DeleteFunc(over, func(_ string, owner domain.Key) bool { return !there[owner] })
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(over)), retiredAtOnce) {
		if err := l.Store.DeleteInstances(ctx, ids); err != nil {
			return err
		}
	}
	return nil
}

// retiredAtOnce is how many records go together: an attempt that ends has done something.
const retiredAtOnce = 100

// keepAgain has the certificates of every logical cloud renewed from now on: somebody may have ended by hand what does that, and nobody would notice
// before they are no good any more. What does it looks once more.
func (l *Control) keepAgain(ctx context.Context) error {
	if l.Keepers == nil {
		return nil
	}
	active, unread := l.Store.ActiveInstances(ctx)
	if _, err := domain.UnreadableOf(unread); err != nil {
		return err
	}
	for _, i := range active {
		if i.Status != domain.ContextInstantiated || i.Plan == "" || !domain.Certifies(i.Owner) { // a cloud of level 0 has no plan
			continue
		}
		if err := l.Keepers.Keep(ctx, i.Owner); err != nil {
			return err
		}
	}
	return unread
}

// watchAgain has the clusters watched of every context that has something there, where the shard that does it was ended by hand.
func (l *Control) watchAgain(ctx context.Context) error {
	if l.Shards == nil {
		return nil
	}
	var sets [WatchShards]*WatchSet
	g, all := panics.WithContext(ctx) // side by side: those that do not answer take their time
	for n := range sets {
		g.Go(func() error {
			set, err := l.watched(all, n)
			switch {
			case err == nil:
				sets[n] = set
			case fail.Is(err, fail.NotFound): // it does not run
				sets[n] = &WatchSet{}
			case ctx.Err() != nil:
				return context.Cause(ctx)
			default: // it runs, and does not say
				activity.GetLogger(ctx).Warn("ask what is watched", "shard", n, "error", err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	known := map[int]*WatchSet{}
	for n, set := range sets {
		known[n] = set
	}
	return errors.Join(watchAgain(ctx, l.Store, l.Shards, known), l.unwatchOver(ctx, known))
}

// unwatchOver has nothing watched for what has ended, where known is what shards had before anything else was read: a context may end while its
// shard is told of it again, and who does that may end, too.
func (l *Control) unwatchOver(ctx context.Context, known map[int]*WatchSet) error {
	over := map[int][]string{}
	for n, set := range known {
		if set != nil {
			over[n] = set.Contexts
		}
	}
	for range 2 { // one that some other context has taken over from, while they were read, is not over
		wanted, err := l.watchable(ctx)
		if err != nil {
			return err
		}
		for n, ids := range over {
			if over[n] = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return wanted[id] }); len(over[n]) == 0 {
				delete(over, n)
			}
		}
		if len(over) == 0 {
			return nil
		}
	}
	for n, ids := range over {
		for _, id := range ids {
			if err := l.Shards.Unwatch(ctx, n, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// watchable are the ids of those for which clusters may be watched: active contexts, and tenants, whose clusters are watched before they have a
// home there.
func (l *Control) watchable(ctx context.Context) (map[string]bool, error) {
	active, err := l.Store.ActiveInstances(ctx)
	if err != nil {
		return nil, err
	}
	wanted, err := l.tenants(ctx)
	if err != nil {
		return nil, err
	}
	for _, i := range active {
		wanted[i.LabelID()] = true
	}
	return wanted, nil
}

// watched is what a shard watches: it answers at once who asks for none of its activities.
func (l *Control) watched(ctx context.Context, shard int) (*WatchSet, error) {
	ctx, cancel := context.WithTimeout(ctx, policy.Plain)
	defer cancel()
	return l.Shards.Changes(ctx, shard, ChangesInput{Term: -1, Generation: int(l.Now().Unix())}) // each question is another one
}

// contexts are the ids by which clusters may say something that somebody wants to know: of app contexts, by which objects are labelled that
// others have taken over, and of tenants.
func (l *Control) contexts(ctx context.Context) (map[string]bool, error) {
	instances, err := l.Store.Instances(ctx)
	if err != nil {
		return nil, err
	}
	known, err := l.tenants(ctx)
	if err != nil {
		return nil, err
	}
	for _, i := range instances {
		known[i.ContextID], known[i.LabelID()] = true, true
	}
	return known, nil
}

// tenants are the ids of their contexts.
func (l *Control) tenants(ctx context.Context) (map[string]bool, error) {
	tenants, err := list[*domain.Tenant](l.Store.List(ctx, domain.Tenants, ""))
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, t := range tenants {
		known[t.ContextID] = true
	}
	homes, err := l.Store.Homes(ctx, "")
	for _, h := range homes { // of tenants that are gone too
		known[h.ContextID] = true
	}
	return known, err
}

// referred are the blobs that documents and instances name. The documents of one project may be more than fits into memory: they are looked at one by one.
func (l *Control) referred(ctx context.Context) (map[domain.Digest]bool, error) {
	wanted := map[domain.Digest]bool{}
	for _, noun := range []*domain.Noun{domain.Apps, domain.Profiles, domain.GenericResources, domain.Customizations} {
		err := l.Store.Each(ctx, noun, "", func(o domain.Object) error {
			switch o := o.(type) {
			case *domain.App:
				wanted[o.Chart] = true
			case *domain.Profile:
				wanted[o.Archive] = true
			case *domain.GenericResource:
				wanted[o.Template] = true
			case *domain.Customization:
				for _, f := range o.Files {
					wanted[f.Content] = true
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	instances, err := l.Store.Instances(ctx)
	if err != nil {
		return nil, err
	}
	for _, i := range instances {
		if wanted[i.Plan] || i.Plan == "" {
			continue
		}
		p, err := l.plan(ctx, i.Plan)
		if err != nil {
			return nil, err
		}
		wanted[i.Plan] = true
		for _, a := range p.Apps {
			wanted[a.Bundle] = true
			for _, overlay := range a.Overlays() {
				pack, _, err := overlay.Cut()
				if err != nil {
					return nil, err
				}
				wanted[pack] = true
			}
		}
	}
	return wanted, nil
}
