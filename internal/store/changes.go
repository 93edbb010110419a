package store

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/policy"
)

// The changes of what clusters say of an app context are a chain: each has the version before it in its _id, its own version,
// and what has changed. A reader at a version finds what came after by _id alone, without a range, and a writer that comes
// second finds the place taken. Who cannot follow the chain from where it is to the version that there is reads everything.
//
// An entry is removed when it is old. A writer puts nothing at a place that it has not known to be the last one for long, so
// that it never takes the place of an entry that was removed, and a reader that has not looked for long reads everything. A time for which its machine
// was suspended counts.
const (
	// maxSteps bounds how far anybody follows it.
	maxSteps = 1000
	// trimmedAtOnce is how many old entries are removed by one call.
	trimmedAtOnce = 64
	// keptChains and keptTold are how many app contexts and observations a writer remembers.
	keptChains, keptTold = 1024, 1 << 16
)

// changeDoc is an entry of the chain.
type changeDoc struct {
	ID      string        `bson:"_id"` // changeID
	Version bson.ObjectID `bson:"version"`
	Of      []string      `bson:"of"` // observationIDs
}

const changesName = "observation-changes"

func (s *Store) changes(contextID string) *mongo.Collection {
	return s.partition(changesName, contextID)
}

// changeID is the _id of what comes after a version, zero for the first one.
func changeID(contextID string, after bson.ObjectID) string { return contextID + "/" + after.Hex() }

// observedChange is an observation that has changed.
type observedChange struct{ contextID, id string }

// chains is what a writer knows of the chains that it has written to.
type chains struct {
	mu   sync.Mutex
	last *simplelru.LRU[string, *chain]
	// told has the observations of which this process has said that they changed, or are as it knows them: what a process
	// has stored and not told of, because it died in between, is told of by the next one that says the same.
	told *simplelru.LRU[string, struct{}]
}

type chain struct {
	tail    bson.ObjectID
	at      lease.Instant // when it was the last one
	adopted bool          // whether what others have left of it was taken
	entries []chainEntry
}

// chainEntry is one that this process has written, or found.
type chainEntry struct {
	id string
	at time.Time
}

func newChains() *chains {
	// The numbers are positive, which is all that they can fail for.
	last, _ := simplelru.NewLRU[string, *chain](keptChains, nil)
	told, _ := simplelru.NewLRU[string, struct{}](keptTold, nil)
	return &chains{last: last, told: told}
}

// news says whether this process has not told of an observation yet.
func (c *chains) news(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.told.Contains(id)
}

func (c *chains) tell(ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		c.told.Add(id, struct{}{})
	}
}

func (c *chains) forget(contextID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last.Remove(contextID)
}

// of is the chain of a context, the zero chain where this process has not read or written it.
func (c *chains) of(contextID string) *chain {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.last.Get(contextID)
	if !ok {
		known = &chain{}
		c.last.Add(contextID, known)
	}
	return known
}

// putChanges adds to the chain of a context what has changed, and has the version go there. Only the one call of a
// gatherer comes here at a time.
func (s *Store) putChanges(ctx context.Context, contextID string, ids []string) error {
	c := s.chains.of(contextID)
	if c.at == (lease.Instant{}) || s.moment().Since(c.at) > policy.TailAge {
		if err := s.findTail(ctx, contextID, c); err != nil {
			return err
		}
	}
	doc := changeDoc{Version: bson.NewObjectIDFromTimestamp(s.now()), Of: ids}
	for steps := 0; ; steps++ {
		doc.ID = changeID(contextID, c.tail)
		inserted, err := s.insertOnce(ctx, s.changes(contextID), doc)
		if err != nil {
			return err
		}
		if inserted {
			break
		}
		if steps == maxSteps {
			return fail.New(fail.Unavailable, "what clusters say of app context %s changes too fast to be noted", contextID)
		}
		if err := s.step(ctx, contextID, c); err != nil {
			return err
		}
	}
	before := c.tail
	c.tail, c.at = doc.Version, s.moment()
	c.entries = append(c.entries, chainEntry{doc.ID, s.now()})
	if err := s.moveVersion(ctx, contextID, before, doc.Version); err != nil {
		return err
	}
	s.chains.tell(ids)
	if c.adopted {
		return s.trim(ctx, contextID, c, trimmedAtOnce)
	}
	if err := s.adopt(ctx, contextID, c); err != nil {
		return err
	}
	return s.trim(ctx, contextID, c, 0)
}

// moveVersion makes an entry the version of a context, or one that came after it. The version follows the chain and never goes back: of two
// writers the one that added first may be the last to say so, and who reads the version then would miss what the other one has added.
func (s *Store) moveVersion(ctx context.Context, contextID string, before, to bson.ObjectID) error {
	end := to
	for range maxSteps {
		moved, err := s.replaceVersion(ctx, contextID, before, end)
		if err != nil || moved {
			return err
		}
		var now versionDoc
		err = s.findOne(ctx, s.versions(), contextID, &now)
		if err != nil && !fail.Is(err, fail.NotFound) {
			return err
		}
		past, last, err := s.passed(ctx, contextID, to, now.Version)
		if err != nil || past {
			return err
		}
		before, end = now.Version, last // those who have added what is before it have not said so yet
	}
	return fail.New(fail.Unavailable, "what clusters say of app context %s changes too fast to be noted", contextID)
}

// replaceVersion puts a version in place of another one, zero for none; false when that is not the one that there is.
func (s *Store) replaceVersion(ctx context.Context, contextID string, before, to bson.ObjectID) (bool, error) {
	now := versionDoc{contextID, to}
	if before.IsZero() {
		return s.insertOnce(ctx, s.versions(), now)
	}
	return s.replaceIf(ctx, s.versions(), append(byID(contextID), bson.E{Key: "version", Value: before}), now)
}

// passed follows the chain from an entry, and says whether a version is that entry or came after it; else where the chain ends.
func (s *Store) passed(ctx context.Context, contextID string, from, version bson.ObjectID) (past bool, end bson.ObjectID, err error) {
	end = from
	for range maxSteps {
		if end == version {
			return true, end, nil
		}
		var next changeDoc
		err := s.findOne(ctx, s.changes(contextID), changeID(contextID, end), &next)
		if fail.Is(err, fail.NotFound) {
			return false, end, nil
		}
		if err != nil {
			return false, end, err
		}
		end = next.Version
	}
	return false, end, nil
}

// findTail reads where the chain ends, or ended a moment ago.
func (s *Store) findTail(ctx context.Context, contextID string, c *chain) error {
	var d versionDoc
	err := s.findOne(ctx, s.versions(), contextID, &d)
	if err != nil && !fail.Is(err, fail.NotFound) {
		return err
	}
	c.tail, c.at = d.Version, s.moment()
	return nil
}

// step goes to where another writer was first.
func (s *Store) step(ctx context.Context, contextID string, c *chain) error {
	var next changeDoc
	err := s.findOne(ctx, s.changes(contextID), changeID(contextID, c.tail), &next)
	if fail.Is(err, fail.NotFound) { // removed meanwhile: it was no end
		return s.findTail(ctx, contextID, c)
	}
	c.tail = next.Version
	return err
}

// adopt takes what others have left of the chain that is old, to be trimmed with what this process has added.
func (s *Store) adopt(ctx context.Context, contextID string, c *chain) error {
	var found []chainEntry
	old := s.now().Add(-policy.ChangesKept)
	err := each(ctx, s, s.changes(contextID), below(contextID), func() *changeDoc { return &changeDoc{} }, func(d *changeDoc) {
		if d.Version.Timestamp().Before(old) {
			found = append(found, chainEntry{d.ID, d.Version.Timestamp()})
		}
	})
	if err != nil {
		return err
	}
	c.entries, c.adopted = append(found, c.entries...), true
	return nil
}

// trim removes what is old of the chain, if it is so many entries or more.
func (s *Store) trim(ctx context.Context, contextID string, c *chain, least int) error {
	n, old := 0, s.now().Add(-policy.ChangesKept)
	for n < len(c.entries) && c.entries[n].at.Before(old) {
		n++
	}
	if n < least {
		return nil
	}
	for part := range slices.Chunk(c.entries[:n], trimmedAtOnce) {
		ids := bson.A{}
		for _, e := range part {
			ids = append(ids, e.id)
		}
		if err := s.deleteMany(ctx, s.changes(contextID), byID(bson.D{{Key: "$in", Value: ids}})); err != nil {
			return err
		}
	}
	c.entries = slices.Clone(c.entries[n:])
	return nil
}

// ObservationsSince says what has changed of what clusters say of a context since a version that ObservationsVersion, or an
// earlier call, has given at a time.
func (s *Store) ObservationsSince(ctx context.Context, contextID, version string, at lease.Instant) (domain.ObservedChanges, error) {
	now, err := s.ObservationsVersion(ctx, contextID)
	if err != nil {
		return domain.ObservedChanges{}, err
	}
	c := domain.ObservedChanges{Version: now, Known: now == version}
	if c.Known {
		return c, nil
	}
	ids, known, err := s.changedBetween(ctx, contextID, version, now, at)
	if err != nil || !known {
		return c, err
	}
	c.Known = true
	for _, id := range ids {
		deployment, _, _ := strings.Cut(id, "/")
		_, app, _ := strings.Cut(deployment, "-")
		c.Of = append(c.Of, domain.ObservedApp{ContextID: contextID, App: app, Cluster: clusterOf(id)})
	}
	return c, nil
}

// changedBetween follows the chain from one version to another; known is false when the one does not lead to the other, or
// was the last one too long ago.
func (s *Store) changedBetween(ctx context.Context, contextID, from, to string, at lease.Instant) (ids []string, known bool, err error) {
	if s.moment().Since(at) > policy.FollowAge {
		return nil, false, nil
	}
	place, placeErr := bson.ObjectIDFromHex(cmp.Or(from, bson.NilObjectID.Hex()))
	end, endErr := bson.ObjectIDFromHex(to) // "" when there was a version, and there is none: the context is deleted
	if placeErr != nil || endErr != nil {
		return nil, false, nil //nolint:nilerr // what is no version leads nowhere
	}
	seen := map[string]bool{}
	for range maxSteps {
		var next changeDoc
		err := s.findOne(ctx, s.changes(contextID), changeID(contextID, place), &next)
		if fail.Is(err, fail.NotFound) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		for _, id := range next.Of {
			if !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
		if place = next.Version; place == end {
			return ids, true, nil
		}
	}
	return nil, false, nil
}
