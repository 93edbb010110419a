// Package store keeps documents, blobs and the records of operations in MongoDB's wire protocol. It uses
// nothing that a small server lacks: no transactions, no change streams, no $lookup. Concurrency is by
// natural keys (a second create is a duplicate key) and by compare-and-set on a revision.
package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/internal/share"
)

// Defaults of Config.
const (
	defaultCache = 128 << 20
	// defaultAtOnce is how many commands a process has a database do at a time, where its URI says nothing else (maxPoolSize). What waits
	// for its turn here can still be given up by who asked for it; what has been sent cannot.
	defaultAtOnce = 32
)

// Config says where the store is.
type Config struct {
	URI      string // mongodb:// or mongodb+srv://
	Database string
	Keys     *secret.Sealer   // seals what documents say; required
	Timeout  time.Duration    // of one call to the database, 10 s when 0
	Cache    int64            // bytes of blobs kept in memory, 128 MiB when 0
	Now      func() time.Time // time.Now when nil
	Moment   lease.Clock      // what the clocks of this machine tell, with Now as its time of day when nil
}

// Store is a connection to the database. Its methods may be called concurrently; their errors are those
// of package fail.
type Store struct {
	client  *mongo.Client
	keys    *secret.Sealer
	root    atomic.Pointer[root]
	db      *mongo.Database
	timeout time.Duration
	now     func() time.Time
	moment  lease.Clock // now's, with the time for which the machine was suspended
	cache   *blobCache
	chunk   int      // bytes of a blob in one document
	sizes   []func() // end what is measured
	// The calls of many activities and many readers at a time are made few.
	leafWrites  *gatherer[leafRecord]
	leafLookups *gatherer[*leafRead]
	leafReads   *share.Reads[[]domain.Leaf]
	markReads   *share.Reads[map[string]string]
	// standingReads are of one key, "".
	standingReads *share.Reads[[]domain.Standing]
	childReads    *gatherer[*childrenRead]
	// Who asks for the same thing at the same time, as many do who wait for the same operation, shares what is read, and
	// those who ask for what clusters say soon after have it from memory.
	documentReads *share.Reads[bson.Raw]
	observedReads *share.Reads[*saidOfApp]
	observedIDs   *share.Reads[map[string][]domain.ObservedApp] // by context, see Observed
	observedApps  *bounded[string, *saidOfApp]                  // by deployment
	versionReads  *share.Reads[string]
	watchReads    *share.Reads[*said]
	watchesSaid   atomic.Pointer[said]
	// pulsesChanged counts pulses that this Store has written.
	pulsesChanged atomic.Int64
	// Clusters that are heard, or not any more, at the same time give watches one new version.
	watchWrites *gatherer[struct{}]
	// Clusters that say something new of one app context at the same time give it one new version.
	versionWrites *gatherer[observedChange]
	chains        *chains
	// What tenants' clusters say runs there, and what follows from that.
	workloads, matches *ledgers
	livesSeen          *lru.Cache[string, noted]
	notedSeen          *lru.Cache[string, noted]
	standing           *lru.Cache[string, standing] // by context
	keptHomes          keptHomes
	unread             *unread
}

// Collections that hold no nouns and are not divided (see partition).
const (
	instances = "instances"
	contacts  = "contacts" // clusters that do not answer
	watches   = "watches"  // whether clusters are heard
	pulses    = "pulses"   // when those who watch were alive
	versions  = "versions" // of what clusters say of app contexts, of labels, of watches, and of homes
	probes    = "probes"   // written to see whether that is possible
	renewals  = "renewals" // clusters whose registrations were replaced
	streams   = "streams"  // the last one of each tenant
	settings  = "settings" // tenants whose rules or hosts were changed
	behind    = "behind"   // tenants for which something may be due
	homes     = "homes"    // namespaces of tenants in clusters
	sessions  = "sessions" // logins at the page
	layouts   = "layout"   // of this database

	certificates = "certificates" // of users of logical clouds
)

// Open makes a store. It does not connect: Ping says whether the database answers.
func Open(c Config) (*Store, error) {
	if c.Keys == nil {
		return nil, errors.New("the store needs keys to seal with")
	}
	if c.Timeout == 0 {
		c.Timeout = policy.StoreCall
	}
	if c.Cache == 0 {
		c.Cache = defaultCache
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Moment == nil {
		c.Moment = lease.By(c.Now)
	}
	connection := options.Client().ApplyURI(c.URI)
	if connection.MaxPoolSize == nil {
		connection.SetMaxPoolSize(defaultAtOnce)
	}
	if err := sure(connection); err != nil {
		return nil, err
	}
	client, err := mongo.Connect(connection.
		SetAppName("drover").
		SetServerSelectionTimeout(c.Timeout).
		SetBSONOptions(&options.BSONOptions{UseJSONStructTags: true}).
		SetRegistry(registry).
		SetMonitor(monitor()).
		SetServerMonitor(serverMonitor()))
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", kindOf(err))
	}
	s := &Store{
		client: client, keys: c.Keys, db: client.Database(c.Database), timeout: c.Timeout, now: c.Now, moment: c.Moment,
		cache: newBlobCache(c.Cache), chunk: limits.Chunk, documentReads: share.New[bson.Raw](), leafReads: share.New[[]domain.Leaf](), markReads: share.New[map[string]string](),
		standingReads: share.New[[]domain.Standing](),
		observedReads: share.New[*saidOfApp](), observedIDs: share.New[map[string][]domain.ObservedApp](), versionReads: share.New[string](), watchReads: share.New[*said](),
		observedApps: newBounded[string](measure.CacheObserved, observedBytes, (*saidOfApp).size),
	}
	s.leafWrites, s.leafLookups = newGatherer(s.insertLeaves), newGatherer(s.lookUp)
	s.childReads = newGatherer(s.readChildren)
	s.versionWrites, s.chains = newLastingGatherer(s.putVersions), newChains()
	s.watchWrites = newLastingGatherer(s.putWatchesVersion)
	s.sizes = []func(){
		measure.Size(measure.CacheBlobs, s.cache.len), measure.Size(measure.CacheObserved, s.observedApps.len),
	}
	s.workloads, s.matches = newLedgers(s, workloadsName), newLedgers(s, matchesName)
	s.livesSeen = lru.New[string, noted](livesSeen)
	s.notedSeen = lru.New[string, noted](notedSeen)
	s.standing = lru.New[string, standing](standingKept)
	s.unread = &unread{now: s.now, at: map[unreadID]time.Time{}}
	s.sizes = append(s.sizes, measure.Read(s.unread.say, measure.Unreadable))
	return s, nil
}

// sure has what is written stay written, and what is read be the last that was written and stay so: compare-and-set needs both. It refuses a URI
// that says otherwise.
//
// What only the primary has is gone when another member takes its place, so it is not read: a ledger would be written on behind an entry that is taken back,
// and a write that nobody confirmed would be found and believed. Whoever wrote finds what he wrote all the same: a write is confirmed once a majority
// has it, and the primary then reads it. So it is with what a write ran into, another document with its _id or another revision: MongoDB says so only when
// a majority has what it saw. A read that no write has preceded may miss, for a moment after an election, what the last primary confirmed; a write that
// follows from it then does not fit, and is decided anew.
func sure(connection *options.ClientOptions) error {
	if p := connection.ReadPreference; p != nil && p.Mode() != readpref.PrimaryMode {
		return fmt.Errorf("the URI of the database says readPreference=%s: what is stored is read from the primary alone", p.Mode())
	}
	if r := connection.ReadConcern; r != nil && r.Level != "" && r.Level != readconcern.Majority().Level {
		return fmt.Errorf("the URI of the database says readConcernLevel=%s: what is stored is read with majority, as anything else may be taken back", r.Level)
	}
	if w := connection.WriteConcern; w != nil && w.W != nil && w.W != writeconcern.Majority().W {
		return fmt.Errorf("the URI of the database says w=%v: what is stored needs w=majority", w.W)
	}
	if w := connection.WriteConcern; w != nil && w.Journal != nil && !*w.Journal {
		return errors.New("the URI of the database says journal=false: what is stored has to outlast a power failure")
	}
	if connection.WriteConcern == nil {
		connection.SetWriteConcern(writeconcern.Majority())
	} else {
		connection.WriteConcern.W = writeconcern.Majority().W
	}
	connection.SetReadPreference(readpref.Primary()).SetReadConcern(readconcern.Majority())
	connection.Timeout = nil // of calls without a deadline, see ensureIndex; all others have Config's
	return nil
}

// Close waits until ctx ends for what is being written, and closes the connections. Calls for leaves and observations are refused
// afterwards.
func (s *Store) Close(ctx context.Context) error {
	s.leafWrites.close(ctx)
	s.leafLookups.close(ctx)
	s.childReads.close(ctx)
	s.versionWrites.close(ctx)
	s.watchWrites.close(ctx)
	s.workloads.adds.close(ctx)
	s.matches.adds.close(ctx)
	for _, end := range s.sizes {
		end()
	}
	return kindOf(s.client.Disconnect(ctx))
}

// Ping says whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	return kindOf(s.db.RunCommand(ctx, bson.D{{Key: "ping", Value: 1}}).Err())
}

// Ready says whether the database answers, and takes what is written: a full disk is noticed by no ping.
func (s *Store) Ready(ctx context.Context) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	set := bson.D{{Key: "$set", Value: bson.D{{Key: "at", Value: s.now()}}}}
	_, err := s.db.Collection(probes).UpdateOne(ctx, byID("ready"), set, options.UpdateOne().SetUpsert(true))
	return kindOf(err)
}

// deadline bounds one call.
func (s *Store) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.timeout)
}
