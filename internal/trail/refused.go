package trail

import (
	"strings"
	"time"

	"github.com/drover-io/drover/internal/audit"
)

// Whoever reaches the port can be refused as often as they like, and each record is kept for long. So refusals that come too fast
// are counted, and one record says how many there were.
const (
	// refusedRate and refusedBurst bound the records of what nobody has shown their name for, and those of each identity.
	refusedRate, refusedBurst = 10, 100
	// hostRate and hostBurst bound those of one address among the former.
	hostRate, hostBurst = 2, 20
	// mostRefused is how many records of refusals may wait for the store: what came of commands needs room, too.
	mostRefused = 1_000
	// mostBuckets bounds what is kept of addresses and identities: then all begin anew.
	mostBuckets = 10_000
)

// refusals is under Trail.mu.
type refusals struct {
	waiting int               // in Trail.waiting and Trail.kept
	nobody  bucket            // of those who have not shown who they are
	buckets map[string]bucket // by address or identity
	over    map[string]int64  // those that have no record, by outcome
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
	if r.Who != nil && r.Who.Name != "" {
		return f.bucket("who "+r.Who.Text(), now, refusedRate, refusedBurst)
	}
	host := r.From
	if port := strings.LastIndexByte(host, ':'); port >= 0 {
		host = host[:port]
	}
	return f.bucket("from "+host, now, hostRate, hostBurst) && f.nobody.take(now, refusedRate, refusedBurst)
}

func (f *refusals) bucket(of string, now time.Time, rate, burst float64) bool {
	if f.buckets == nil || len(f.buckets) >= mostBuckets {
		f.buckets = map[string]bucket{}
	}
	b := f.buckets[of]
	ok := b.take(now, rate, burst)
	f.buckets[of] = b
	return ok
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

// bucket has as many tokens as refusals may be recorded now.
type bucket struct {
	tokens float64
	at     time.Time
}

func (b *bucket) take(now time.Time, rate, burst float64) bool {
	if b.at.IsZero() {
		b.tokens, b.at = burst, now
	}
	if passed := now.Sub(b.at); passed > 0 {
		b.tokens, b.at = min(b.tokens+passed.Seconds()*rate, burst), now
	}
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
