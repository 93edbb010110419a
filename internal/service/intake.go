package service

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
)

// Said is one message of a tenant's stream.
type Said struct {
	Sync   bool               // Put is all that there is
	Put    []*domain.Workload // without the tenant
	Delete []string
	// TooLarge are those of Put that have more bytes than a workload may have. A message may say several of one id, of which each counts for itself.
	TooLarge map[*domain.Workload]bool

	// unfit is what merge has left out, by id. A word of the same id that was said before it counts, and is in Put or Delete.
	unfit map[string]domain.LeftOut
}

// Intake takes what a stream of a tenant says. Its methods are called one after another, but for Context.
type Intake struct {
	matcher *Matcher
	stream  *domain.Stream
	ctx     context.Context
	end     context.CancelCauseFunc
	left    map[string]domain.LeftOut // of the last sync and since, by leftKey; the streams before begin it
	unnamed int                       // how many more those have left out, of which no id is known
	broken  bool                      // something was not stored, or what follows from it was not
	wrote   bool                      // something was stored of it
	ended   bool
	over    chan struct{}                 // closed when its end is noted, or was tried to be
	lacks   map[string]domain.Room        // what there was not for those that this stream has said, by leftKey
	least   atomic.Pointer[[]domain.Room] // the least of those, with another place and without; for Context's end
}

// errGone ends the stream of a tenant that was deleted.
func errGone(tenant string) error {
	return fail.New(fail.Precondition, "tenant %q not found: it was deleted", tenant)
}

// errDisplaced ends a stream.
func errDisplaced(tenant string) error {
	return fail.New(fail.Aborted, "a newer stream of tenant %q has taken the place of this one", tenant)
}

// errCut ends a stream that others took for lost, since this process had no pulse for a while.
func errCut(tenant string) error {
	return fail.New(fail.Unavailable, "the stream of tenant %q was taken for lost: connect again", tenant)
}

// errRoom ends a stream that has left something out: only a sync says that again, with which each stream begins.
func errRoom(tenant string) error {
	return fail.New(fail.Unavailable, "tenant %q has room again for what was left out: connect again", tenant)
}

// Begin begins a stream of a tenant, and displaces the one that there is. What follows from what that has said is seen to first:
// its process may have died before, and what this stream says again is no difference. Precondition when there is no such tenant.
func (m *Matcher) Begin(ctx context.Context, tenant string) (*Intake, error) {
	if _, err := m.store.Get(ctx, domain.Tenants, domain.TenantKey(tenant)); err != nil {
		if fail.Is(err, fail.NotFound) {
			return nil, fail.New(fail.Precondition, "tenant %q not found", tenant)
		}
		return nil, err
	}
	// A stream is lost when its process has no pulse: there is one before it begins.
	if err := m.store.Pulse(ctx, m.process, m.now()); err != nil {
		return nil, err
	}
	m.handOver(ctx, tenant)
	in, err := m.open(ctx, tenant)
	if err != nil {
		return nil, err
	}
	stream := in.stream
	m.count(tenant, func(c *TenantCounts) { c.Streams, c.LeftOut = c.Streams+1, stream.LeftOutCount })
	m.work.Go(in.stand)
	if stream.Unsettled {
		if err := panics.Do(ctx, func() error { return in.inherit(ctx) }); err != nil {
			return nil, errors.Join(err, in.End(ctx))
		}
	}
	return in, nil
}

// open begins a stream in the store and takes note of it. Until then dropped leaves it alone.
func (m *Matcher) open(ctx context.Context, tenant string) (*Intake, error) {
	m.beginning(tenant, 1)
	defer m.beginning(tenant, -1)
	stream, err := m.store.BeginStream(ctx, tenant, m.process)
	if err != nil {
		return nil, err
	}
	in := &Intake{
		matcher: m, stream: stream, left: map[string]domain.LeftOut{}, unnamed: stream.LeftOutCount - len(stream.LeftOut), over: make(chan struct{}),
		lacks: map[string]domain.Room{},
	}
	for _, one := range stream.LeftOut {
		in.left[leftKey(one.ID)] = one
	}
	in.ctx, in.end = context.WithCancelCause(context.WithoutCancel(ctx))
	m.mu.Lock()
	older := m.intakes[tenant]
	if older != nil && older.stream.Begun > stream.Begun { // two began at once, and the other one is the last of the store's
		older = in
	} else {
		m.intakes[tenant], m.sighted[tenant] = in, m.sighting(tenant, stream.Token)
	}
	m.mu.Unlock()
	if older != nil {
		older.displace(errDisplaced(tenant))
	}
	return in, nil
}

// beginning counts the streams of a tenant that begin.
func (m *Matcher) beginning(tenant string, more int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.begins[tenant] += more; m.begins[tenant] == 0 {
		delete(m.begins, tenant)
	}
}

// handOver ends the tenant's stream that this process reads, and waits until that is noted: after an end in order BeginStream has
// nothing to write. An agent that connects again at once often does so before the end of the connection that it lost has arrived.
// When it takes longer, or the other stream is another process's, BeginStream keeps that from storing more.
func (m *Matcher) handOver(ctx context.Context, tenant string) {
	m.mu.Lock()
	older := m.intakes[tenant]
	m.mu.Unlock()
	if older == nil {
		return
	}
	older.displace(errDisplaced(tenant))
	late := time.NewTimer(policy.StreamHandOver)
	defer late.Stop()
	select {
	case <-older.over:
	case <-late.C:
	case <-ctx.Done():
	}
}

// inherit sees to what the stream before has said.
func (in *Intake) inherit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), policy.Answer)
	defer cancel()
	in.broken = true // as long as it has not come to its end
	err := in.matcher.look(ctx, in.stream.Tenant, scope{})
	in.broken = err != nil
	return err
}

// Context ends when the stream is displaced, or has ended. Its cause is what it ends with.
func (in *Intake) Context() context.Context { return in.ctx }

// displace ends the stream: nothing of it is stored any more.
func (in *Intake) displace(cause error) { in.end(cause) }

// stand looks now and then whether the stream is the last one still: one that says nothing would not notice. All streams of a
// process look at the same time, and share a read.
func (in *Intake) stand() {
	m := in.matcher
	for {
		next := time.NewTimer(policy.StreamStands - time.Since(m.began)%policy.StreamStands)
		select {
		case <-in.ctx.Done():
			next.Stop()
			return
		case <-next.C:
		}
		_ = panics.Do(in.ctx, func() error { // what fails is done the next time
			tokens, err := m.standing.Get(in.ctx, "", m.store.StandingStreams)
			switch {
			case err != nil:
				return err
			case tokens[in.stream.Tenant] != in.stream.Token:
				in.displace(in.lost(in.ctx))
				return nil
			default:
				return in.makeGood(in.ctx)
			}
		})
	}
}

// lost is why nothing of the stream is stored any more.
func (in *Intake) lost(ctx context.Context) error {
	tenant := in.stream.Tenant
	if err := in.matcher.exists(ctx, domain.Tenants, domain.TenantKey(tenant)); fail.Is(err, fail.NotFound) {
		return errGone(tenant)
	}
	last, _, err := in.matcher.store.StreamStands(ctx, in.stream)
	if last && err == nil || fail.Is(err, fail.NotFound) { // of none nothing is known: the tenant was deleted, and made anew
		return errCut(tenant)
	}
	return errDisplaced(tenant)
}

// makeGood ends the stream when there is room for something that it has left out, whoever has made that: what is removed after its time, or
// released, makes room, too. What is gone and stays for a time gives its place up.
func (in *Intake) makeGood(ctx context.Context) error {
	m, tenant := in.matcher, in.stream.Tenant
	least := in.least.Load()
	if least == nil || len(*least) == 0 {
		return nil
	}
	m.mu.Lock()
	last, before := m.again[tenant]
	m.mu.Unlock()
	if before && m.now().Sub(last) < policy.StreamAgain {
		return nil
	}
	count, bytes, err := m.store.CountWorkloads(ctx, tenant)
	if err != nil {
		return err
	}
	gone, err := m.store.GoneRoom(ctx, tenant)
	if err != nil {
		return err
	}
	count, bytes = count-gone.Count, bytes-gone.Bytes
	if !slices.ContainsFunc(*least, func(r domain.Room) bool {
		return (r.Count == 0 || count+r.Count <= limits.TenantWorkloads) && bytes+r.Bytes <= limits.Tenants
	}) {
		return nil
	}
	m.mu.Lock()
	m.again[tenant] = m.now()
	m.mu.Unlock()
	in.displace(errRoom(tenant))
	return nil
}

// lacked keeps what there was no room for.
func (in *Intake) lacked(said *Said, lacks map[string]domain.Room) {
	if said.Sync {
		clear(in.lacks)
	}
	for _, one := range said.Put {
		delete(in.lacks, leftKey(one.ID))
	}
	for _, id := range said.Delete {
		delete(in.lacks, leftKey(id))
	}
	for id, room := range lacks {
		if len(in.lacks) < limits.LeftOutCounted {
			in.lacks[leftKey(id)] = room
		}
	}
	least := map[int]domain.Room{} // by count
	for _, room := range in.lacks {
		if one, ok := least[room.Count]; !ok || room.Bytes < one.Bytes {
			least[room.Count] = room
		}
	}
	all := slices.Collect(maps.Values(least))
	in.least.Store(&all)
}

// SpokenBy says who speaks on the stream: it ends within policy.StreamStands when that one may not any more. What arrives after that is
// not stored.
func (in *Intake) SpokenBy(s *Speaker) {
	if s.token == "" && s.Until.IsZero() {
		return
	}
	own := *s
	in.matcher.work.Go(func() { in.listen(&own) })
}

// listen looks now and then whether a speaker may still speak.
func (in *Intake) listen(s *Speaker) {
	for {
		wait := policy.StreamStands
		if !s.Until.IsZero() {
			wait = max(min(wait, s.Until.Sub(in.matcher.now())), policy.StreamLeast)
		}
		next := time.NewTimer(wait)
		select {
		case <-in.ctx.Done():
			next.Stop()
			return
		case <-next.C:
		}
		err := panics.Do(in.ctx, func() error { return in.matcher.speaks(in.ctx, s) })
		if fail.Is(err, fail.Unauthorized) {
			in.displace(err)
			return
		}
	}
}

// Take stores what messages say, in their order, and sees to what follows from it. An error ends the stream: Aborted when it
// was displaced, Unavailable when the store does not answer. What was taken before stays.
func (in *Intake) Take(ctx context.Context, messages []*Said) error {
	if err := context.Cause(in.ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), policy.Answer)
	defer cancel()
	for _, said := range merge(messages) {
		err := panics.Do(ctx, func() error { return in.take(ctx, said) }) // so that what follows from it is seen to by the next stream
		if err != nil {
			in.broken = true
			if fail.Is(err, fail.Aborted) {
				in.displace(err)
			}
			if fail.Is(err, fail.Timeout) { // the store's, not the caller's
				err = fail.Wrap(err, fail.Unavailable, "%s", fail.MessageOf(err))
			}
			return err
		}
	}
	in.matcher.count(in.stream.Tenant, func(c *TenantCounts) { c.Messages += int64(len(messages)) })
	return nil
}

func (in *Intake) take(ctx context.Context, said *Said) error {
	m, tenant := in.matcher, in.stream.Tenant
	s, err := in.settings(ctx, said)
	if err != nil {
		return err
	}
	w, left := said.write(s.tenant)
	w.Begun = in.stream.Begun
	if grace := s.tenant.Grace(); grace > 0 {
		w.Gone = m.now().UTC().Truncate(time.Millisecond)
	}
	written, err := m.store.WriteWorkloads(ctx, tenant, w)
	if err != nil {
		if fail.Is(err, fail.Aborted) {
			err = in.lost(ctx)
		}
		return err
	}
	in.wrote = in.wrote || len(written.Changed) > 0
	m.count(tenant, func(c *TenantCounts) {
		c.Workloads, c.Changed = written.Count, c.Changed+int64(len(written.Changed))
		if len(written.Held) > 0 {
			c.Held++
		}
	})
	in.lacked(said, written.Lacks)
	for _, one := range w.Put {
		if _, over := slices.BinarySearch(written.Over, one.ID); over {
			left[one.ID] = leftOut(one, "the tenant has as many workloads as it may have, or as many bytes of them")
		}
	}
	if len(written.Changed) > 0 {
		if err := m.look(ctx, tenant, in.scopeOf(written.Changed)); err != nil {
			return err
		}
	}
	return in.note(ctx, said, left)
}

// settings are those of the tenant. What only tells of workloads that are there is not concerned with spec.deleteGuard and
// spec.deleteAfter, so that what was known last will do: what follows from it is looked for after the write, by what is stored.
// A tenant that has gone since is found by the write, once there are entries: its end is one, too.
func (in *Intake) settings(ctx context.Context, said *Said) (*settings, error) {
	if known, ok := in.matcher.known.Get(in.stream.Tenant); ok && in.wrote && !said.Sync && len(said.Delete) == 0 {
		return known, nil
	}
	s, err := in.matcher.settings(ctx, in.stream.Tenant)
	if fail.Is(err, fail.NotFound) {
		return nil, errGone(in.stream.Tenant)
	}
	return s, err
}

// manyChanged is from how many workloads on all of a tenant are looked at: their records are read at once then.
const manyChanged = 200

func (in *Intake) scopeOf(changed []string) scope {
	if len(changed) >= manyChanged {
		return scope{}
	}
	return scope{workloads: changed, written: true}
}

// note keeps what was left out where it is asked for, when that is not as before.
func (in *Intake) note(ctx context.Context, said *Said, left map[string]domain.LeftOut) error {
	now, unnamed := maps.Clone(in.left), in.unnamed
	if said.Sync {
		now, unnamed = map[string]domain.LeftOut{}, 0
	}
	for _, one := range said.Put {
		delete(now, leftKey(one.ID))
	}
	for _, id := range said.Delete {
		delete(now, leftKey(id))
	}
	for _, id := range slices.Sorted(maps.Keys(left)) {
		if len(now)+unnamed < limits.LeftOutCounted {
			now[leftKey(id)] = left[id]
		}
	}
	if maps.Equal(now, in.left) && unnamed == in.unnamed { // what streams before this one have left out stands until there is a sync
		return nil
	}
	in.left, in.unnamed = now, unnamed
	count := len(now) + unnamed
	in.matcher.count(in.stream.Tenant, func(c *TenantCounts) { c.LeftOut = count })
	first := slices.SortedFunc(maps.Values(now), func(a, b domain.LeftOut) int { return cmp.Compare(a.ID, b.ID) })
	return in.matcher.store.NoteStream(ctx, in.stream, first[:min(len(first), limits.LeftOut)], count)
}

// End notes that the stream has ended, however that was: from then on the tenant is shown stale.
func (in *Intake) End(ctx context.Context) error {
	if in.ended {
		return nil
	}
	in.ended = true
	m := in.matcher
	in.end(context.Canceled)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), policy.Plain)
	defer cancel()
	err := m.store.EndStream(ctx, in.stream, !in.broken)
	m.mu.Lock()
	if m.intakes[in.stream.Tenant] == in {
		delete(m.intakes, in.stream.Tenant)
	}
	m.mu.Unlock()
	close(in.over)
	return err
}

// write is what is to be stored of what merge has made, and what is left out of it.
func (s *Said) write(t *domain.Tenant) (w *domain.WorkloadWrite, left map[string]domain.LeftOut) {
	w = &domain.WorkloadWrite{
		Delete: s.Delete, Whole: s.Sync, Guard: t.Spec.DeleteGuard, Count: limits.TenantWorkloads, Bytes: limits.Tenants,
	}
	for _, one := range s.Put {
		of := *one
		of.Tenant = t.Name
		w.Put = append(w.Put, &of)
	}
	w.Keep = slices.Sorted(maps.Keys(s.unfit))
	w.Keep = slices.DeleteFunc(w.Keep, func(id string) bool { return strings.ContainsRune(id, 0) }) // v0.1.0 has stored these; no list could go on behind one
	return w, maps.Clone(s.unfit)
}

// unfitFor is why a workload that is said is left out; "" where it is not.
func (s *Said) unfitFor(one *domain.Workload) string {
	switch {
	case !one.Supported():
		return "its type is not " + domain.KindPod + " of Kubernetes"
	case len(one.ID) > limits.WorkloadID:
		return "its id is too long"
	case strings.ContainsRune(one.ID, 0): // which places of lists have between their parts
		return "its id has the character 0"
	case s.TooLarge[one]:
		return "it is too large"
	case unstorable(one):
		return "a name in its labels, annotations or other data has the character 0"
	default:
		return ""
	}
}

// unstorable says whether a workload has a name that the store has not: no label of Kubernetes is so.
func unstorable(w *domain.Workload) bool {
	nul := func(name string) bool { return strings.ContainsRune(name, 0) }
	for name, data := range w.Extra {
		for member := range data {
			if nul(member) {
				return true
			}
		}
		if nul(name) {
			return true
		}
	}
	return false
}

// leftOut keeps nothing of a long text but its beginning: what is left out may be as large as a message.
func leftOut(w *domain.Workload, reason string) domain.LeftOut {
	cut := func(s string) string {
		return strings.Clone(strings.ToValidUTF8(s[:min(len(s), limits.WorkloadID)], ""))
	}
	return domain.LeftOut{ID: cut(w.ID), Pod: cut(w.ResourceNamespace + "/" + w.ResourceName), Reason: reason}
}

// leftKey stands for an id, which may be as large as a message.
func leftKey(id string) string {
	if len(id) <= limits.WorkloadID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return string(sum[:])
}

// merge makes one of messages that follow each other: of each workload the last word counts that is not left out, also where a message has
// several. A sync begins anew.
func merge(messages []*Said) []*Said {
	var merged []*Said
	for begin := 0; begin < len(messages); {
		end := begin + 1
		for !messages[begin].Sync && end < len(messages) && !messages[end].Sync {
			end++
		}
		merged = append(merged, together(messages[begin:end]))
		begin = end
	}
	return merged
}

// together is one message of several of which none is a sync, or of one.
func together(messages []*Said) *Said {
	one, later := &Said{Sync: messages[0].Sync, unfit: map[string]domain.LeftOut{}}, map[string]bool{}
	bare := map[string]*domain.Workload{} // of which a state may have been said before
	for _, said := range slices.Backward(messages) {
		for _, id := range said.Delete {
			switch {
			case later[id]:
			case bare[id] != nil: // it is another one of that id
				later[id], bare[id].Bare = true, false
			default:
				later[id], one.Delete = true, append(one.Delete, id)
			}
		}
		for _, w := range slices.Backward(said.Put) {
			if later[w.ID] {
				continue
			}
			reason := said.unfitFor(w)
			if _, known := one.unfit[w.ID]; reason != "" && !known {
				one.unfit[w.ID] = leftOut(w, reason)
			}
			switch {
			case reason != "" || w.Bare && bare[w.ID] != nil:
			case w.Bare:
				bare[w.ID], one.Put = w, append(one.Put, w)
			default:
				later[w.ID], one.Put = true, append(one.Put, w)
			}
		}
	}
	slices.Reverse(one.Put)
	return one
}

// TenantCounts are what this process has counted of a tenant.
type TenantCounts struct {
	Streams     int64 // that have begun
	Messages    int64 // that were taken
	Changed     int64 // workloads that were stored or removed
	Held        int64 // syncs of which deletions were held
	MatchWrites int64 // records of matches that were written
	// Workloads and LeftOut are as of the last message, and 0 while it reads no stream; Connected is 1 while it reads one.
	Workloads, LeftOut, Connected int
}

func (m *Matcher) count(tenant string, add func(*TenantCounts)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.stats[tenant]
	if c == nil {
		c = &TenantCounts{}
		m.stats[tenant] = c
	}
	add(c)
}

// Counts are what this process has counted, by tenant.
func (m *Matcher) Counts() map[string]TenantCounts {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[string]TenantCounts, len(m.stats))
	for t, c := range m.stats {
		one := *c
		if one.Connected = 1; m.intakes[t] == nil {
			one.Workloads, one.LeftOut, one.Connected = 0, 0, 0
		}
		all[t] = one
	}
	return all
}
