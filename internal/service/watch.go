package service

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/view"
)

// Snapshot gathers what queries of an extent ask for. Their documents and rows read the rest of what they need with ctx.
func (l *Lifecycle) Snapshot(ctx context.Context, key domain.Key, e status.Extent) (*status.Source, error) {
	d, err := l.document(ctx, key, func() (status.Query, error) { return e.Query(), nil })
	if err != nil {
		return nil, err
	}
	return &d.source, nil
}

// sign is what a status depends on, as cheap as it can be had. Counts are nil while nobody can tell them.
type sign struct {
	Made     time.Time
	Revision int64
	Instance *domain.Instance             `json:",omitempty"`
	Counts   map[domain.ResourceState]int `json:",omitempty"`
	Observed string                       `json:",omitempty"`
	Contacts string                       `json:",omitempty"` // a digest
	Rules    int                          // of readiness, by number
}

// Sign is a short text that changes when the answers to queries of an extent may have changed. Two changes do not show in it:
// what open leaves say of their clusters beyond their counts, and what a cluster said in the moment in which the process that
// heard it died. So whoever compares signs looks at the status itself from time to time.
func (l *Lifecycle) Sign(ctx context.Context, key domain.Key, e status.Extent) (string, error) {
	s, err := l.signOf(ctx, key, e)
	if err != nil {
		return "", err
	}
	return digestOf(s)
}

func (l *Lifecycle) signOf(ctx context.Context, key domain.Key, e status.Extent) (*sign, error) {
	owner, err := l.owner(ctx, key)
	if err != nil {
		return nil, err
	}
	s := &sign{Made: owner.Base().Made, Revision: owner.Base().Revision}
	contextID, err := e.Query().ContextID(*owner.Track())
	if err != nil {
		return nil, err
	}
	cloud, ok := owner.(*domain.LogicalCloud)
	if contextID != "" && (!ok || !cloud.Admin()) { // there is nothing but its document
		err = l.signContext(ctx, s, key, contextID, e)
	}
	return s, err
}

// digestOf is short, and another one for another value.
func digestOf(v any) (string, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return "", fail.Wrap(err, fail.Internal, "sign of a status")
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

func (l *Lifecycle) signContext(ctx context.Context, s *sign, key domain.Key, contextID string, e status.Extent) error {
	i, err := l.instance(ctx, key, contextID)
	if err != nil {
		return err
	}
	s.Instance = i
	if i.Status.InProgress() {
		s.Counts = l.countsNow(ctx, working(i))
	}
	if !e.Reported || i.Plan == "" {
		return nil
	}
	if s.Observed, err = l.heard.ObservationsVersion(ctx, i.LabelID()); err != nil {
		return err
	}
	rules, err := l.heard.Rules(ctx)
	if err != nil {
		return err
	}
	s.Rules = l.recent.number(rules)
	s.Contacts, err = l.contactsOf(ctx, i.Plan)
	return err
}

// countsNow are the counts of a running operation. That there are none is a sign too: it has not begun, is over, or no
// worker takes care of it.
func (l *Lifecycle) countsNow(ctx context.Context, s domain.Scope) map[domain.ResourceState]int {
	ctx, cancel := context.WithTimeout(ctx, policy.SignCounts)
	defer cancel()
	counts, err := l.engine.Counts(ctx, s)
	if err != nil {
		return nil
	}
	return counts
}

// contactsOf tells which clusters of a plan are heard.
func (l *Lifecycle) contactsOf(ctx context.Context, digest domain.Digest) (string, error) {
	watches, err := l.recent.get(ctx, l.heard, l.now)
	if err != nil {
		return "", err
	}
	return l.contactsAt(ctx, digest, watches, l.now())
}

// contactsAt is a digest of which clusters of a plan are heard at a time; of those that are, not when.
func (l *Lifecycle) contactsAt(ctx context.Context, digest domain.Digest, watches map[domain.ClusterName]domain.Watch, now time.Time) (string, error) {
	clusters, err := l.recall.clusters(ctx, l.records, digest)
	if err != nil {
		return "", err
	}
	return l.contacts.at(digest, clusters, watches, now), nil
}

// contacts keeps what contactsAt has said of the watches that it was asked about last: they are a map that nobody changes, and the
// same one as long as nothing else is said.
type contacts struct {
	mu      sync.Mutex
	watches map[domain.ClusterName]domain.Watch
	of      map[domain.Digest]contactsDigest // by plan
}

// contactsDigest is what holds of a plan from a time to another one, at which a cluster is not heard any more.
type contactsDigest struct {
	from, to time.Time
	digest   string
}

func (k *contacts) at(plan domain.Digest, clusters []domain.ClusterName, watches map[domain.ClusterName]domain.Watch, now time.Time) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil || reflect.ValueOf(watches).Pointer() != reflect.ValueOf(k.watches).Pointer() {
		k.watches, k.of = watches, map[domain.Digest]contactsDigest{}
	}
	kept, ok := k.of[plan]
	if !ok || now.Before(kept.from) || now.After(kept.to) {
		kept = contactsNow(clusters, watches, now)
		k.of[plan] = kept
	}
	return kept.digest
}

// contactsNow is what holds from now on.
func contactsNow(clusters []domain.ClusterName, watches map[domain.ClusterName]domain.Watch, now time.Time) contactsDigest {
	d := contactsDigest{from: now, to: now.Add(domain.PulseLife)}
	all := make([]byte, 0, len(clusters))
	for _, name := range clusters {
		w := watches[name]
		c := view.ContactAt(w, now)
		if c.Heard {
			if until := w.Until(); until.Before(d.to) {
				d.to = until
			}
			all = append(all, 1)
			continue
		}
		all = binary.AppendVarint(append(all, 0), c.LastSeen.Unix())
		all = binary.AppendVarint(all, int64(c.LastSeen.Nanosecond()))
		all = append(binary.AppendUvarint(all, uint64(len(c.Reason))), c.Reason...)
	}
	sum := sha256.Sum256(all)
	d.digest = hex.EncodeToString(sum[:])
	return d
}

// recent keeps the last answers of Heard. Callers that find the watches too old wait a moment for newer ones, and go on with
// the old ones when that takes long, as it does with thousands of clusters: who looks often must not be kept by it.
type recent struct {
	mu      sync.Mutex
	at      time.Time
	watches map[domain.ClusterName]domain.Watch
	reading chan struct{} // closed when those that are being read are there; nil while none are
	failed  error         // of the last reading
	rules   *readiness.Rules
	changes int // of rules
}

// recentMost is how old watches may get at the most.
const recentMost = domain.PulseEvery

// number is that of rules: another one when they are not those of the last time.
func (r *recent) number(rules *readiness.Rules) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rules != rules {
		r.rules = rules
		r.changes++
	}
	return r.changes
}

func (r *recent) get(ctx context.Context, heard Heard, now Clock) (map[domain.ClusterName]domain.Watch, error) {
	kept, reading, enough := r.begin(ctx, heard, now)
	if reading == nil {
		return kept, nil
	}
	select {
	case <-reading:
	case <-enough:
		return kept, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil {
		return nil, r.failed
	}
	return r.watches, nil
}

// begin gives what is kept. Where it is too old, it has newer ones read: reading says when they are there, and enough when
// they have been waited for long enough, never where what is kept is no good.
func (r *recent) begin(ctx context.Context, heard Heard, now Clock) (kept map[domain.ClusterName]domain.Watch, reading <-chan struct{}, enough <-chan time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := now().Sub(r.at)
	if r.watches != nil && old < policy.SignWatches {
		return r.watches, nil, nil
	}
	if r.reading == nil {
		r.reading = make(chan struct{})
		go r.read(context.WithoutCancel(ctx), heard, now())
	}
	if r.watches != nil && old < recentMost {
		enough = time.After(policy.SignWatchesWait)
	}
	return r.watches, r.reading, enough
}

// read reads the watches for all who wait. The store bounds it.
func (r *recent) read(ctx context.Context, heard Heard, begun time.Time) {
	watches, err := panics.Value(ctx, func() (map[domain.ClusterName]domain.Watch, error) { return heard.Watches(ctx, nil) })
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed = err; err == nil {
		r.at, r.watches = begun, watches
	}
	close(r.reading)
	r.reading = nil
}
