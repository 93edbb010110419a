package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/combined"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/share"
	"github.com/drover-io/drover/internal/view"
)

// kept are the tables of one query of a group, or its objects with their status, for all who read them, once or in a stream. They are
// evaluated once, and take what changes.
//
// Who reads once is answered by a look that began after it asked, which it may share with others that ask in the same moment. The
// look reads what tables depend on: the group, its intents and collectors, its app context, which clusters are heard, and the
// versions of what clusters say and of their labels. Where all of it is as it was, the answer is the last one. So a write
// that was answered is always seen, and no time has to pass. A stream goes by a cheaper sign.
type kept struct {
	tables *Tables
	key    keptKey
	turn   chan struct{} // has one in it while somebody uses what follows
	begun  atomic.Int64  // counts looks at what tables depend on
	caught atomic.Int64  // counts attempts at what tables have left

	// What was evaluated last.

	exact    string        // a digest of what tables depend on but what clusters say; "" where nobody can tell whether it changes
	streamed string        // the same as a stream's sign has it
	observed string        // the version of what clusters say
	at       lease.Instant // when that was the version
	all      time.Time     // when all clusters were looked at
	took     time.Duration // for so long
	renewed  int64         // which look at what tables depend on was the last one
	instance *domain.Instance
	records  *view.Records // of the instance, where its operation has ended; nil else
	made     string        // of what the set was made
	intents  []string      // the keys of intents that could not be read
	unlabels []string      // the same of labels
	set      *combined.Set // nil for none
	source   *view.Source  // nil when nothing is to be in clusters
	sourced  int64         // what the source takes in memory, about
	label    string        // under which clusters report
	answer   *tablesAnswer // nil for none
	retry    time.Time     // when tables that were given up are tried again; zero when there are none
	backoff  time.Duration // for how long they were left alone
	room     *part         // of the request for which it is used now; nil where it is used for a stream
	free     int64         // bytes that it took when that began to use it, which count where streams do, as long as one has it

	// Guarded by the keeper.

	pins   int // of streams and requests
	used   time.Time
	size   int64
	looked bool // somebody has looked at them

	streams atomic.Int32 // of those who have it pinned
}

// keptKey is what is asked, and of whom.
type keptKey struct {
	group  domain.Key
	extent tablesExtent
}

// keptShare is how many times as long as a look at all clusters has taken there is none after it.
const keptShare = 10

// retries is for how long tables that were given up are left alone.
var retries = policy.Doubling{First: policy.FirstTables, Most: policy.LongestTables}

// errTooMuch is that of a group whose rows cannot be looked at in time, with what helps.
func errTooMuch(group domain.Key, help string) error {
	return fail.New(fail.Timeout, "the clusters of %s report more than can be looked at in %s; %s", domain.NameOwner(group), policy.Tables, help)
}

// ask is the answer to a query as it is now. Those of one caller who ask in the same moment share it.
func (t *Tables) ask(ctx context.Context, key keptKey) (*tablesAnswer, error) {
	by, err := caller.IdentityOf(ctx)
	if err != nil {
		return nil, err
	}
	e := key.extent
	shared := fmt.Sprintf("%q %q %t %q", by, key.group, e.objects, []string{e.apps, e.kinds, e.resources, e.selected})
	return t.reads.Get(ctx, shared, func(ctx context.Context) (*tablesAnswer, error) {
		ctx, cancel := context.WithTimeout(ctx, t.answers.limit)
		defer cancel()
		wanted, release := share.Wanted(ctx)
		defer release()
		read := func(begin beginPart) (*tablesAnswer, error) {
			room, err := begin(wanted)
			if err != nil {
				return nil, err
			}
			defer room.end()
			k := t.kept(key)
			defer t.keeper.release(k)
			return k.read(ctx, wanted, room)
		}
		if t.keeper.has(key) {
			return orInTurn(t.answers, read)
		}
		return read(t.answers.begin)
	})
}

// read is the answer as it is now, for a request that has room. It goes on as long as it is wanted, and where a stream goes by what it finds as long as ctx:
// what it has taken by then stays.
func (k *kept) read(ctx, wanted context.Context, room *part) (a *tablesAnswer, err error) {
	asked := k.begun.Load()
	err = k.use(wanted, func() error {
		k.room, k.free = room, 0
		defer func() { k.room = nil }()
		look := wanted
		if k.streams.Load() > 0 {
			k.free, look = k.answered(), ctx
		}
		if err := k.hold(k.answered()); err != nil {
			return harmless{err}
		}
		if k.set == nil || k.renewed <= asked { // nobody has looked while it waited for its turn
			if err := k.renew(look); err != nil {
				return err
			}
		}
		a, err = k.complete(look, policy.Tables)
		return err
	})
	if ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) { // and not one of the database
		err = errTooMuch(k.key.group, "it goes on when you ask again")
	}
	return a, err
}

// hold has room for so many bytes where it is used for a request, with the errors of part.hold. Those that a stream keeps count there.
func (k *kept) hold(bytes int64) error {
	if k.room == nil {
		return nil
	}
	if k.free > 0 && k.streams.Load() > 0 {
		return k.room.hold(bytes - k.free)
	}
	err := k.room.hold(bytes)
	if k.free > 0 && fail.Is(err, fail.Invalid) { // streams have closed meanwhile, and who begins without them needs no room for two answers
		err = errAnswers()
	}
	return err
}

// holdSet is hold for the set, beside the last answer.
func (k *kept) holdSet(bytes int64) error { return k.hold(bytes + k.answer.size()) }

// answered is what its set and its answer take in memory, about. What is known of the clusters of a group is beside that, as it is for who asks for a status.
func (k *kept) answered() int64 {
	n := k.answer.size()
	if k.set != nil {
		n += k.set.Size()
	}
	return n
}

// follow is the answer for a stream that has seen a sign.
func (k *kept) follow(ctx context.Context, now signed) (a *tablesAnswer, err error) {
	asked := k.begun.Load()
	err = k.use(ctx, func() error {
		switch {
		case k.set != nil && k.renewed > asked: // by a request, while this look waited for its turn
			k.streamed = now.rest
		case k.set == nil || now.rest != k.streamed || k.source == nil:
			err = k.renew(ctx)
			k.streamed = now.rest
		case now.observed != k.observed:
			err = k.changes(ctx)
		case !k.set.Behind() || k.old():
			err = k.renew(ctx)
		}
		if err != nil {
			return err
		}
		a, err = k.complete(ctx, policy.TablesLook)
		return err
	})
	return a, err
}

// harmless is an error that leaves what was evaluated as it is: others go by it.
type harmless struct{ error }

// use waits for its turn. What fails leaves nothing that anybody goes by, unless it is harmless: rows that were taken stay, and are looked at again.
func (k *kept) use(ctx context.Context, do func() error) (err error) {
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() {
		if same := (harmless{}); errors.As(err, &same) {
			err = same.error
		} else if err != nil {
			if errors.As(err, new(*panics.Error)) || fail.Is(err, fail.Invalid) { // the latter is of a set that is too large
				k.set = nil
			}
			k.exact, k.streamed, k.answer, k.renewed = "", "", nil, 0
		}
		size := k.memory()
		<-k.turn
		k.tables.keeper.put(k, size)
	}()
	return panics.Do(ctx, do)
}

// memory is what it takes, about.
func (k *kept) memory() int64 { return k.answered() + k.sourced }

// sizeOf is what a source takes in memory, about; nil for none.
func sizeOf(s *view.Source) (n int64) {
	const perPlace = 700 // what is known of an app on a cluster beside its marks and what is said of it, in the source and in the records
	if s == nil {
		return 0
	}
	for i := range s.Apps {
		for c := range s.Apps[i].Clusters {
			at := &s.Apps[i].Clusters[c]
			n += perPlace + 2*int64(len(at.Marks)) + domain.WeightOfNotes(at.Notes) + domain.WeightOfNotes(at.Warnings)
		}
	}
	return n
}

// renew looks at what tables depend on, and takes what has changed.
func (k *kept) renew(ctx context.Context) error {
	look := k.begun.Add(1)
	in, err := k.depend(ctx)
	if err != nil {
		return err
	}
	k.intents = in.unread
	switch {
	case k.set == nil || in.exact == "" || in.exact != k.exact || k.old():
		err = k.anew(ctx, in)
	case in.observed != k.observed:
		err = k.changes(ctx)
	}
	if err == nil {
		k.renewed = look
	}
	return err
}

// old says whether all clusters are to be looked at again. Where that takes long, it is done less often.
func (k *kept) old() bool {
	return k.tables.lifecycle.now().Sub(k.all) > max(policy.TablesAnew, keptShare*k.took)
}

// dependence is what tables depend on, all of it.
type dependence struct {
	*standing
	collectors map[string]combined.Collector
	labels     bool
	at         time.Time
	moment     lease.Instant // at that time
	observed   string
	exact      string
}

// depend reads it.
func (k *kept) depend(ctx context.Context) (d *dependence, err error) {
	t := k.tables
	d = &dependence{at: t.lifecycle.now(), moment: t.lifecycle.moment()}
	if d.standing, err = t.stands(ctx, k.key.group); err != nil {
		return nil, err
	}
	if !k.key.extent.objects {
		if d.collectors, d.labels, err = t.collectors(ctx, d.group); err != nil {
			return nil, err
		}
	}
	i := d.instance
	var contacts string
	if i != nil {
		if contacts, err = t.lifecycle.contactsAt(ctx, i.Plan, d.watches, d.hearing.at); err != nil {
			return nil, err
		}
		if d.observed, err = t.lifecycle.heard.ObservationsVersion(ctx, i.LabelID()); err != nil {
			return nil, err
		}
	}
	var labels []string
	if d.labels {
		if labels, err = t.labelsVersions(ctx, i); err != nil {
			return nil, err
		}
	}
	if d.group.Status.InProgress() { // what is done changes from moment to moment
		return d, nil
	}
	base := d.owner.Base()
	d.exact, err = digestOf([]any{
		base.Made, base.Revision, d.group.Status, i, madeOf(d.group, d.collectors), labels, contacts, t.lifecycle.recent.number(d.rules),
	})
	return d, err
}

// anew looks at all clusters, and takes what has changed. Where it is not the same objects, collectors and clusters any more,
// everything is evaluated anew.
func (k *kept) anew(ctx context.Context, in *dependence) (err error) {
	t := k.tables
	k.unlabels = nil
	if in.labels {
		if in.group.Labels, k.unlabels, err = t.labels(ctx, in.group); err != nil {
			return err
		}
	}
	made, err := digestOf([]any{madeOf(in.group, in.collectors), labelsOf(in.group), planOf(in.instance)})
	if err != nil {
		return err
	}
	// What the source reads it reads in later looks too, each call with a deadline of its own.
	source, err := t.source(context.WithoutCancel(ctx), in.standing, k.recorded(in))
	if err != nil {
		return err
	}
	k.instance, k.records = in.instance, in.records
	if k.set == nil || made != k.made {
		k.set, k.answer = nil, nil // before there is another
		if err := t.bundles(ctx, in.group); err != nil {
			return err
		}
		in.group.Room = k.holdSet
		k.set, err = combined.NewSet(ctx, in.group, k.key.extent.filter(), in.collectors)
		if err != nil {
			return err
		}
		k.made, k.retry, k.backoff = made, time.Time{}, 0
	}
	if k.source, k.sourced = source, sizeOf(source); source != nil {
		k.label = in.instance.LabelID()
		if err := k.take(ctx, nil); err != nil {
			return err
		}
	}
	k.exact, k.streamed, k.observed, k.at, k.all = in.exact, "", in.observed, in.moment, in.at
	k.took = t.lifecycle.now().Sub(in.at)
	return nil
}

// recorded is what was read last of the leaves, where it cannot have changed; nil else.
func (k *kept) recorded(in *dependence) *view.Records {
	if in.instance == nil || in.group.Status.InProgress() || in.instance.Ended.IsZero() || !reflect.DeepEqual(in.instance, k.instance) {
		return nil
	}
	return k.records
}

// fewChanged is up to how many clusters are looked at by themselves.
const fewChanged = 100

// changes takes what clusters have said since the last time, where nothing else has changed. Where they are many, or nobody can
// tell which they are, it compares what all have said: what was read of the group otherwise still holds.
func (k *kept) changes(ctx context.Context) error {
	now := k.tables.lifecycle.moment()
	c, err := k.tables.lifecycle.heard.ObservationsSince(ctx, k.label, k.observed, k.at)
	if err != nil {
		return err
	}
	clusters := []domain.ClusterName{}
	for _, o := range c.Of {
		clusters = append(clusters, o.Cluster)
	}
	slices.SortFunc(clusters, domain.ClusterName.Compare)
	if clusters = slices.Compact(clusters); !c.Known || len(clusters) > fewChanged {
		clusters = nil
	}
	if clusters == nil || len(clusters) > 0 {
		if err := k.take(ctx, clusters); err != nil {
			return err
		}
	}
	k.observed, k.at = c.Version, now
	return nil
}

// take takes what has changed of clusters, nil for all.
func (k *kept) take(ctx context.Context, clusters []domain.ClusterName) error {
	changed, err := k.set.Follow(ctx, k.source, clusters)
	if changed {
		k.answer = k.answer.stale()
	}
	return err
}

// complete has tables that take long take what they have left, as far as there is time, and is the answer then.
func (k *kept) complete(ctx context.Context, most time.Duration) (*tablesAnswer, error) {
	if k.source != nil && k.set.Whole() {
		k.tryAgain()
		if k.set.Behind() {
			if !k.set.Unfinished() {
				most = policy.TablesRetry
			}
			short, cancel := context.WithTimeout(ctx, most)
			defer cancel()
			k.caught.Add(1)
			changed, err := k.set.CatchUp(short, k.source)
			if changed {
				k.answer = k.answer.stale()
			}
			if err != nil && short.Err() == nil {
				return nil, err
			}
		}
	}
	unread := slices.Concat(k.intents, k.unlabels)
	if k.answer == nil || k.answer.old || !slices.Equal(k.answer.unread, unread) {
		a, err := k.encoded()
		if err != nil {
			// The last one is of use to who asks when there is room, unless it takes what the next one needs.
			if !fail.Is(err, fail.Exhausted) || k.room != nil && k.streams.Load() == 0 {
				k.answer = nil
			}
			return nil, harmless{err}
		}
		k.answer, a.unread = a, unread
	}
	return k.answer, nil
}

// tryAgain has tables that were given up evaluated again from time to time: it may have been the machine that took so long.
func (k *kept) tryAgain() {
	now := k.tables.lifecycle.now()
	switch {
	case !k.set.GivenUp():
		k.retry, k.backoff = time.Time{}, 0
	case k.retry.IsZero():
		k.backoff = retries.After(0)
		k.retry = now.Add(k.backoff)
	case now.After(k.retry):
		k.set.Retry()
		k.backoff = retries.After(k.backoff)
		k.retry = now.Add(k.backoff)
	}
}

// madeOf is the same for groups whose sets are made of the same: then what differs is in rows alone.
func madeOf(g *combined.Group, collectors map[string]combined.Collector) any {
	type collector struct{ Name, Made string }
	s := struct {
		Deleting, Over bool
		Intents        []domain.StatusIntentSpec
		Collectors     []collector
	}{Deleting: g.Status.Deleting(), Over: g.Status.Over()}
	for _, i := range g.Intents {
		s.Intents = append(s.Intents, i.Spec)
	}
	for _, name := range slices.Sorted(maps.Keys(collectors)) {
		s.Collectors = append(s.Collectors, collector{name, collectors[name].Made})
	}
	return s
}

func labelsOf(g *combined.Group) (labels []any) {
	for _, c := range slices.SortedFunc(maps.Keys(g.Labels), domain.ClusterName.Compare) {
		labels = append(labels, c, g.Labels[c])
	}
	return labels
}

func planOf(i *domain.Instance) domain.Digest {
	if i == nil {
		return ""
	}
	return i.Plan
}

// encoded is the answer as the set stands. What has not changed since the last one is not encoded again.
func (k *kept) encoded() (*tablesAnswer, error) {
	if k.key.extent.objects || k.room != nil && k.streams.Load() == 0 && k.answered()+encodedTwice*mostJSON > k.room.all.sizes.each() {
		k.answer = nil // nothing is taken of it, or there may be no room for two
	}
	held := k.answered()
	room := func(encoded int64) error { return k.hold(held + encoded) }
	if k.key.extent.objects {
		return encodeObjects(k.key.group, k.set, room)
	}
	last := map[*combined.CombinedStatus][]byte{}
	if k.answer != nil {
		for _, i := range k.answer.items {
			last[i.of] = i.data
		}
	}
	return encodeTables(k.key.group, k.set, last, room)
}

// encodeTables makes the answer of the tables of a group. Last is what is encoded already, and room has room for so many bytes. Invalid for more than
// limits.TablesJSON; the errors of room.
func encodeTables(group domain.Key, set *combined.Set, last map[*combined.CombinedStatus][]byte, room func(bytes int64) error) (*tablesAnswer, error) {
	a := &tablesAnswer{head: listHead(combined.APIVersion, combined.ListKind)}
	for d := range set.Documents() {
		data := last[d]
		if data == nil {
			var err error
			if data, err = json.Marshal(d); err != nil {
				return nil, fail.Wrap(err, fail.Internal, "a combined status cannot be encoded")
			}
		}
		if err := a.add(group, tablesItem{d.Metadata.Name, d, data}, room); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// encodeObjects is encodeTables for the objects of a group.
func encodeObjects(group domain.Key, set *combined.Set, room func(bytes int64) error) (*tablesAnswer, error) {
	a := &tablesAnswer{head: listHead(combined.ObjectsVersion, combined.ObjectsKind)}
	for name, o := range set.Shown() {
		data, err := json.Marshal(o)
		if err != nil {
			return nil, fail.Wrap(err, fail.Internal, "an object cannot be encoded")
		}
		if err := a.add(group, tablesItem{name: name, data: data}, room); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// listHead begins a list as encoding/json writes it.
func listHead(apiVersion, kind string) string {
	return `{"apiVersion":"` + apiVersion + `","kind":"` + kind + `","metadata":{},"items":[`
}
