package trail

import (
	"time"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/lru"
)

// Whoever reaches the port can be refused as often as they like, and each record is kept for long. So refusals that come too fast
// are counted, and one record says how many there were.
//
// Who has not shown a name is bounded for a second and for a day: an address that goes on for ever gets its first records, and then a
// few. An address of which there is no record yet has room of its own, so that some who go on hide nobody else.
var (
	refusedPace   = pace{10, 100}         // of all that have not shown a name; and of each identity
	refusedByDay  = pace{0.1, 10_000}     // of the former, for long: some 8,600 a day
	firstPace     = pace{0.1, 100}        // of addresses that have no record yet, beyond both
	hostPace      = pace{2, 20}           // of one address, an IPv6 network of 64 bits being one
	hostPaceByDay = pace{1.0 / 60, 1_000} // of that, for long: 1,440 a day
)

const (
	// mostRefused is how many records of refusals may wait for the store: what came of commands needs room, too.
	mostRefused = 1_000
	// mostBuckets bounds what is kept of addresses, and of identities: the one that was not refused for longest is forgotten first.
	mostBuckets = 10_000
)

// refusals is under Trail.mu.
type refusals struct {
	waiting          int // in Trail.waiting and Trail.kept
	soon, day, first bucket
	hosts            *lru.Cache[string, *host]
	named            *lru.Cache[string, *bucket]
	over             map[string]int64 // those that have no record, by outcome
}

// host is what an address has left whose callers have not shown a name.
type host struct {
	soon, day bucket
	recorded  bool // there is a record of it
}

func newRefusals() refusals {
	return refusals{
		soon: bucket{pace: refusedPace}, day: bucket{pace: refusedByDay}, first: bucket{pace: firstPace},
		hosts: lru.New[string, *host](mostBuckets), named: lru.New[string, *bucket](mostBuckets),
	}
}

// Admits says whether a refusal may have a record of its own. If not, it is counted.
func (t *Trail) Admits(r audit.Record) bool {
	r, now := r.Bounded(), t.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refused.admits(r, now) {
		return true
	}
	t.refused.more(r)
	return false
}

func (f *refusals) admits(r audit.Record, now time.Time) bool {
	if r.Who.Proven() {
		who := r.Who.Speaker()
		b, known := f.named.Get(who)
		if !known {
			b = &bucket{pace: refusedPace}
			f.named.Add(who, b)
		}
		return take(now, b)
	}
	from := authn.Host(r.From)
	h, known := f.hosts.Get(from)
	if !known {
		h = &host{soon: bucket{pace: hostPace}, day: bucket{pace: hostPaceByDay}}
		f.hosts.Add(from, h)
	}
	if !take(now, &h.soon, &h.day, &f.soon, &f.day) && (h.recorded || !take(now, &f.first)) {
		return false
	}
	h.recorded = true
	return true
}

// more counts a refusal that has no record.
func (f *refusals) more(r audit.Record) {
	if f.over == nil {
		f.over = map[string]int64{}
	}
	f.over[r.Result]++
}

// tellRefused records how many refusals have no record.
func (t *Trail) tellRefused() {
	t.mu.Lock()
	over := t.refused.over
	t.refused.over = nil
	t.mu.Unlock()
	for result, n := range over {
		t.Later(audit.Record{Event: audit.Answered, Result: result, More: n})
	}
}

// refusal says whether an entry, for which nobody waits, tells of nothing but that a request was refused.
func (e entry) refusal() bool {
	r := e.record
	return e.outcome == nil && r.Event == audit.Answered && r.Begun == 0 && r.Result != audit.Done && r.More == 0
}

// pace is how many records there may be a second, and how many at once after none.
type pace struct{ rate, burst float64 }

// bucket has as many tokens as refusals may be recorded now.
type bucket struct {
	pace
	tokens float64
	at     time.Time
}

// take takes a token of each of some buckets, or of none where one has none.
func take(now time.Time, of ...*bucket) bool {
	for _, b := range of {
		if b.fill(now); b.tokens < 1 {
			return false
		}
	}
	for _, b := range of {
		b.tokens--
	}
	return true
}

func (b *bucket) fill(now time.Time) {
	if b.at.IsZero() {
		b.tokens, b.at = b.burst, now
	}
	if passed := now.Sub(b.at); passed > 0 {
		b.tokens, b.at = min(b.tokens+passed.Seconds()*b.rate, b.burst), now
	}
}
