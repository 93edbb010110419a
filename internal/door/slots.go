package door

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/rights"
)

// How many requests are at work at a time. What is taken beyond what the machine can do is answered too late for
// everybody: 500 operations at once on two cores, none refused, were 129 answers after 30 to 60 s. So what finds no slot
// soon is refused, and nothing of it is done.
const (
	// DefaultOperations is for those that begin an operation, of which two cores take some ten a second.
	DefaultOperations = 32
	// requestsAtOnce is for those that have no room of their own, but streams; uploadsAtOnce for those whose bodies may be
	// large, and come slowly.
	requestsAtOnce, uploadsAtOnce = 256, 32
	// tellingAtOnce is for those that read audit records, of which an export may last for minutes; openingAtOnce for those that have
	// payloads of histories opened, which are in memory several times.
	tellingAtOnce, openingAtOnce = 4, 4
	// askingAtOnce is for those that ask a cluster what it is like: it may take its time, and say much.
	askingAtOnce = 8
)

// room is a set of slots. Requests of different rooms do not wait for each other: who wants to end something must not
// wait for those who begin.
type room int

const (
	anyRoom     room = iota // of what is in none of the others
	beginning               // of an operation: it is answered when everything is rendered and placed
	approving               // which renders too, and nobody but the user waits for it
	terminating             // of what has begun
	stopping                // of an operation
	uploading               // of a document with its file, the reading of which is included
	telling                 // of audit records, which may be read for long
	opening                 // of payloads of histories
	questioning             // of a cluster, which may not answer
	measuring               // of metrics
)

// newRooms has rooms for a number of operations that are being begun at a time. Where requests may last, as one whose body comes
// slowly, and a caller's share is no smaller than the room, half of it is for others.
func newRooms(operations int) map[room]*slots {
	return map[room]*slots{
		anyRoom: newShared(requestsAtOnce, max(1, runtime.GOMAXPROCS(0)/2)), uploading: newHalved(min(operations, uploadsAtOnce)),
		beginning: newHalved(operations), terminating: newSlots(operations), stopping: newSlots(operations),
		approving: newHalved((operations + 3) / 4), // it costs processor time, and nothing else
		telling:   newHalved(tellingAtOnce),
		opening:   newHalved(openingAtOnce), questioning: newHalved(askingAtOnce), measuring: newHalved(limits.Gathers),
	}
}

// slots are those of requests that are at work, and when those come back that found none. When there is none, the next one is given to
// the holder that has the fewest: who asks for much waits for itself, and others wait for one of its requests at the most.
type slots struct {
	mu      sync.Mutex
	most    int
	each    int // that a holder, or a caller, may have
	used    int
	taken   map[string]int // by holder and by caller, those that have one
	waiting []*waiter      // in the order in which they came
	refused turns

	// beside is how many requests a holder may have that have just begun, as long as others ask, too: those that take processor time.
	// 0 is no limit.
	beside int
	young  map[string]int // by holder
	asked  [2]asking      // the last holders that have asked, two different ones
	wake   *time.Timer    // when it is looked again whether others still ask; nil when nobody waits for that
}

// asking is when a holder has asked last.
type asking struct {
	holder string
	at     time.Time
}

// visit is a request that has a slot.
type visit struct {
	asker
	young bool
	ages  *time.Timer // nil where nobody is young
}

// asker is for whom a slot is asked: who has it, a project if there is one, and who asks, "" where nobody is known. For one that is slight
// nobody need leave time.
type asker struct {
	holder, caller string
	slight         bool
}

type waiter struct {
	*visit
	let chan struct{} // closed when it has its slot
}

func newSlots(n int) *slots { return &slots{most: n, each: n, taken: map[string]int{}} }

// newHalved has slots of which nobody gets more than half, though all others are free.
func newHalved(n int) *slots { return &slots{most: n, each: max(1, n/2), taken: map[string]int{}} }

// newShared has slots that a holder may have all of, as long as it is alone; while others ask it has no more than so many young ones. Who
// floods with requests that cost processor time then leaves others theirs, though there are slots.
func newShared(n, beside int) *slots {
	p := newSlots(n)
	p.beside, p.young = beside, map[string]int{}
	return p
}

// turns are when those come back that were refused.
type turns struct{ last time.Time }

// next is when one that is refused now may come again. Those that are refused come back one after the other, each some time after the
// one before: told the same time, they would all be there at once again, and be refused again.
func (t *turns) next(now time.Time, least, each time.Duration) time.Duration {
	after := min(max(least, t.last.Add(each).Sub(now)), policy.AdmitLatest)
	t.last = now.Add(after)
	return after
}

// enter takes a slot, which leave gives back.
func (p *slots) enter(ctx context.Context, who asker) (leave func(), err error) {
	v := &visit{asker: who}
	leave = func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.give(v)
	}
	p.mu.Lock()
	if !who.slight {
		p.asks(who.holder)
	}
	if p.free(who) {
		p.take(v)
		p.mu.Unlock()
		return leave, nil
	}
	w := &waiter{v, make(chan struct{})}
	p.waiting = append(p.waiting, w)
	p.look()
	p.mu.Unlock()
	waited := p.wait(ctx, w, policy.AdmitWait)
	p.mu.Lock()
	paced := p.beside > 0 && p.used < p.most
	p.mu.Unlock()
	if !waited && paced && ctx.Err() == nil {
		waited = p.wait(ctx, w, policy.PacedWait-policy.AdmitWait)
	}
	if waited {
		return leave, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.waiting, w)
	switch {
	case at < 0 && ctx.Err() == nil:
		return leave, nil // it was given one at the same time
	case at < 0:
		p.give(v)
	default:
		p.waiting = slices.Delete(p.waiting, at, at+1)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if p.used < p.most && p.beside > 0 {
		return nil, &fail.Error{
			Kind: fail.Exhausted, RetryAfter: p.refused.next(time.Now(), policy.ShareLater, policy.ShareLater/time.Duration(p.most)),
			Message: "others ask, too, and your requests wait for each other; nothing was done, send fewer at a time and try again later",
		}
	}
	return nil, &fail.Error{
		Kind: fail.Unavailable, Undone: true, RetryAfter: p.refused.next(time.Now(), policy.AdmitLater, policy.AdmitLater/time.Duration(p.most)),
		Message: "too many requests are at work at the moment; nothing was done, try again later",
	}
}

// wait waits for a slot, and says whether it was given one.
func (p *slots) wait(ctx context.Context, w *waiter, most time.Duration) bool {
	full := time.NewTimer(most)
	defer full.Stop()
	select {
	case <-w.let:
		return true
	case <-full.C:
	case <-ctx.Done():
	}
	return false
}

// free says whether there is a slot for somebody.
func (p *slots) free(who asker) bool {
	return p.used < p.most && p.taken[who.holder] < p.each && (who.caller == "" || p.taken[who.caller] < p.each) &&
		(p.beside == 0 || p.young[who.holder] < p.beside || p.alone(who.holder))
}

func (p *slots) take(v *visit) {
	p.used++
	p.count(v.asker, 1)
	if p.beside == 0 {
		return
	}
	v.young = true
	p.young[v.holder]++
	v.ages = time.AfterFunc(policy.YoungFor, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.age(v)
		p.hand()
	})
}

// age has a request be no longer young, if it is.
func (p *slots) age(v *visit) {
	if !v.young {
		return
	}
	v.young = false
	if p.young[v.holder]--; p.young[v.holder] == 0 {
		delete(p.young, v.holder)
	}
}

// asks notes that a holder asks now.
func (p *slots) asks(holder string) {
	if p.asked[0].holder != holder {
		p.asked[1] = p.asked[0]
	}
	p.asked[0] = asking{holder, time.Now()}
}

// alone says whether nobody else has asked for some time.
func (p *slots) alone(holder string) bool {
	other := p.asked[0]
	if other.holder == holder {
		other = p.asked[1]
	}
	return other.at.IsZero() || time.Since(other.at) >= policy.AsksFor
}

// look sees to it that those who wait only since others ask, too, do not wait for longer than these ask.
func (p *slots) look() {
	if p.beside == 0 || p.wake != nil || len(p.waiting) == 0 {
		return
	}
	p.wake = time.AfterFunc(policy.AsksFor, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.wake = nil
		p.hand()
		p.look()
	})
}

// count counts what a holder has, and the caller, who may be the holder.
func (p *slots) count(who asker, n int) {
	for _, by := range slices.Compact([]string{who.holder, who.caller}) {
		if by == "" {
			continue
		}
		if p.taken[by] += n; p.taken[by] == 0 {
			delete(p.taken, by)
		}
	}
}

// give takes a slot back, and hands on what is free.
func (p *slots) give(v *visit) {
	p.used--
	p.count(v.asker, -1)
	if v.ages != nil {
		v.ages.Stop()
		p.age(v)
	}
	p.hand()
}

// hand gives what is free to those that wait: first to the one whose holder has the fewest, to the first of those.
func (p *slots) hand() {
	for p.used < p.most {
		next := -1
		for i, w := range p.waiting {
			if p.free(w.asker) && (next < 0 || p.taken[w.holder] < p.taken[p.waiting[next].holder]) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		w := p.waiting[next]
		p.waiting = slices.Delete(p.waiting, next, next+1)
		p.take(w.visit)
		close(w.let)
	}
}

// slight are the nouns of which to ask takes hardly any time, and for which nobody needs a right.
var slight = []*domain.Noun{domain.Whoami, domain.Sessions}

// askerOf is for whom a request has its slot: the project that it is about has it, else who asks. While nobody
// is asked who they are, projects alone are told apart. Who has no right at all gets empty lists, and takes nobody's time by asking for them.
func askerOf(ctx context.Context, r *Request) asker {
	who, _ := caller.IdentityOf(ctx)
	by := asker{holder: "of " + string(r.project()), slight: slices.Contains(slight, r.Noun) || rights.Of(ctx).Nothing()}
	if who.Kind != caller.Open {
		by.caller = "who " + who.String()
	}
	if r.project() == "" {
		by.holder = "who " + who.String()
	}
	return by
}

// Rooms have the slots of one process.
type Rooms struct{ of map[room]*slots }

// NewRooms has slots for so many operations that are being begun at a time, DefaultOperations when 0, and for others rooms of their own.
func NewRooms(operations int) *Rooms {
	if operations == 0 {
		operations = DefaultOperations
	}
	return &Rooms{newRooms(operations)}
}

// Slots is the step that has requests wait for a slot: those that begin an operation for one of theirs, and others in rooms of their own. No
// project waits for another one's requests but one, and nobody has more than half of a room that slow requests can fill. Streams have one
// whenever there is something to do for them (Turn). What is still to come of a request is received before it has a slot, but for uploads,
// whose slots are for that.
func (r *Rooms) Slots(ctx context.Context, asked *Request, next Next) error {
	if asked.Verb.Streams() {
		return next(ctx)
	}
	in := verbs[asked.Verb].room
	if asked.Renders {
		in = approving
	}
	switch asked.Noun {
	case domain.AuditRecords:
		in = telling
	case domain.Histories:
		in = opening
	case domain.Metrics: // which are looked at when others have no slots
		in = measuring
	case domain.ClustersNoun:
		if asked.Verb == Query {
			in = questioning
		}
	}
	if asked.uploads() {
		in = uploading
	} else if asked.Receive != nil {
		if err := asked.Receive(ctx); err != nil {
			return err
		}
	}
	leave, err := r.of[in].enter(ctx, askerOf(ctx, asked))
	if err != nil {
		return err
	}
	defer leave()
	return next(ctx)
}

// Turn is a slot for what is to be done for streams that tell of an owner, "" for those of the fleet: the owner's project has it, as it has
// those of its requests, among which it counts. It asks when something is evaluated; who only looks whether something has changed need not
// be left time by others. Exhausted and Unavailable as for requests.
func (r *Rooms) Turn(ctx context.Context, owner domain.Key, asks bool) (leave func(), err error) {
	by := asker{holder: "streams of the fleet", slight: !asks}
	if scope := domain.ScopeOf(owner); scope != "" {
		by.holder = "of " + string(scope)
	}
	return r.of[anyRoom].enter(ctx, by)
}
