package store_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/mongotest"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

const marked = "xyzzy-sesame"

// sealer has keys, of which the first one seals.
func sealer(t testing.TB, ids ...string) *secret.Sealer {
	t.Helper()
	var lines []string
	for _, id := range ids {
		lines = append(lines, id+":"+base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(id[:1]), 32)))
	}
	s, err := secret.Parse(strings.Join(lines, "\n"))
	require.NoError(t, err)
	return s
}

// everything is what a store holds, with a marked word in each text that may hold a secret.
type everything struct {
	objects     []domain.Object
	instance    *domain.Instance
	leaf        domain.Leaf
	blobs       []domain.Digest
	data        [][]byte
	observation *domain.Observation
	watch       domain.Watch
	workload    *domain.Workload
	match       domain.Match
	session     *domain.Session
}

func fill(t testing.TB, s *store.Store) *everything {
	t.Helper()
	s.SetChunk(64 << 10)
	return fillWith(t, s, 100<<10) // which is in chunks
}

// fillWith is fill with a blob of so many bytes, which is what takes longest.
func fillWith(t testing.TB, s *store.Store, large int) *everything {
	t.Helper()
	ctx := t.Context()
	e := &everything{
		instance: instanceOf("4711", "projects/p/composite-apps/ca/v1/deployment-intent-groups/g", domain.ContextInstantiated),
		leaf:     leafOf("4711", "app", 1),
		data:     [][]byte{[]byte("password: " + marked), append([]byte(marked), noise(large)...)},
		observation: observationOf("4711", "app", clusterAt("p", "c"),
			resourceOf("small", marked), resourceOf("large", strings.Repeat(marked, 3)+text(1<<20))),
		workload: workload(1), match: match(1),
	}
	for _, o := range nounCases() {
		if m, ok := o.(interface{ LocalName() string }); ok && m.LocalName() != "" {
			e.objects = append(e.objects, o)
		}
	}
	group := &domain.DeploymentIntentGroup{Identity: below("projects/p/composite-apps/ca/v1"), Metadata: domain.Metadata{Name: "marked", UserData1: marked}}
	e.objects = append(e.objects, group)
	for _, o := range e.objects {
		require.NoError(t, s.Create(ctx, o))
	}
	e.instance.Reason = marked
	e.instance.NotStarted = map[string]string{"app": marked}
	require.NoError(t, s.PutInstance(ctx, e.instance))
	e.leaf.Notes = []domain.Note{{Index: 1, Message: marked}}
	e.leaf.Warnings = []domain.Note{{Index: domain.WholeCluster, Message: marked}}
	e.leaf.LastError, e.leaf.Report = marked, marked
	require.NoError(t, s.PutLeaf(ctx, e.leaf))
	for _, data := range e.data {
		digest, err := s.PutBlob(ctx, data)
		require.NoError(t, err)
		e.blobs = append(e.blobs, digest)
	}
	e.observation.Kinds, e.observation.Error = []string{"Pod", marked}, marked
	e.observation.Unheard = []domain.UnheardKind{{Kind: "Secret", Reason: marked}}
	require.NoError(t, s.PutObservation(ctx, e.observation))
	e.watch = domain.Watch{Cluster: clusterAt("p", "c"), Reason: marked}
	require.NoError(t, s.PutWatch(ctx, "watcher", &e.watch))
	e.workload.Extra = map[string]map[string]string{domain.ExtraLabels: {"x": marked}}
	stream := begin(t, s)
	_, err := s.WriteWorkloads(ctx, "t", &domain.WorkloadWrite{Begun: stream.Begun, Put: []*domain.Workload{e.workload}})
	require.NoError(t, err)
	e.session = &domain.Session{ID: "session", Token: marked, Refresh: marked}
	require.NoError(t, s.PutSession(ctx, e.session))
	matches := []domain.Match{e.match}
	require.NoError(t, s.WriteMatches(ctx, "t", matches, nil))
	e.match = matches[0]
	return e
}

// requireThere reads all of it.
func (e *everything) requireThere(t testing.TB, s *store.Store) {
	t.Helper()
	ctx := t.Context()
	session, err := s.Session(ctx, e.session.ID)
	require.NoError(t, err)
	require.Equal(t, e.session.Token, session.Token)
	for _, o := range e.objects {
		got, err := s.Get(ctx, o.Noun(), domain.KeyOf(o))
		require.NoError(t, err)
		require.Equal(t, o.Base().Revision, got.Base().Revision)
	}
	in, err := s.Instance(ctx, e.instance.ContextID)
	require.NoError(t, err)
	require.Equal(t, []string{marked, marked}, []string{in.Reason, in.NotStarted["app"]})
	leaf, err := s.Leaf(ctx, e.leaf.ID)
	if e.leaf.ID == "" {
		leaf, err = s.Leaf(ctx, domain.LeafID(e.leaf.ContextID, e.leaf.App, e.leaf.Cluster))
	}
	require.NoError(t, err)
	require.Equal(t, e.leaf.Notes, leaf.Notes)
	require.Equal(t, []string{marked, marked, marked}, []string{leaf.Warnings[0].Message, leaf.LastError, leaf.Report})
	for i, digest := range e.blobs {
		data, err := s.Blob(ctx, digest)
		require.NoError(t, err)
		require.True(t, bytes.Equal(e.data[i], data))
	}
	observed := read(t, s, "4711", "app", nil)
	require.Len(t, observed, 1)
	for i, r := range e.observation.Resources {
		require.JSONEq(t, string(r.JSON), string(observed[0].Resources[i].JSON))
	}
	require.Equal(t, e.observation.Kinds, observed[0].Kinds)
	require.Equal(t, e.observation.Unheard, observed[0].Unheard)
	require.Equal(t, marked, observed[0].Error)
	watches, err := s.Watches(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, marked, watches[e.watch.Cluster].Reason)
	w, err := s.Workload(ctx, "t", e.workload.ID)
	require.NoError(t, err)
	require.Equal(t, marked, w.Extra[domain.ExtraLabels]["x"])
	matches, err := s.Matches(ctx, "t")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff([]domain.Match{e.match}, matches))
}

// dump is all that a database holds, as it is stored.
func dump(t testing.TB, db *mongo.Database) map[string][]byte {
	t.Helper()
	names, err := db.ListCollectionNames(t.Context(), bson.D{})
	require.NoError(t, err)
	all := map[string][]byte{}
	for _, name := range names {
		cursor, err := db.Collection(name).Find(t.Context(), bson.D{})
		require.NoError(t, err)
		for cursor.Next(t.Context()) {
			all[name] = append(all[name], cursor.Current...)
		}
		require.NoError(t, cursor.Err())
	}
	return all
}

func TestWhatIsStoredSaysNothing(t *testing.T) {
	c := shared(t)
	s := storetest.Open(t, c)
	fill(t, s).requireThere(t, storetest.Open(t, c))
	found := dump(t, rawDatabase(t, c))
	require.NotEmpty(t, found)
	for name, data := range found {
		require.NotContains(t, string(data), marked, name)
	}
}

// TestNamesOfBlobsAreNobodysGuess: who sees the database alone cannot find out what a small secret is by trying.
func TestNamesOfBlobsAreNobodysGuess(t *testing.T) {
	one, other := storetest.Open(t, shared(t)), storetest.Open(t, shared(t))
	here, err := one.PutBlob(t.Context(), []byte("1234"))
	require.NoError(t, err)
	there, err := other.PutBlob(t.Context(), []byte("1234"))
	require.NoError(t, err)
	require.NotEqual(t, here, there)
}

// TestWhatIsSealedHasItsPlace: who can write to the database cannot slip anything in, nor put what is sealed elsewhere, nor bring an
// older document back.
func TestWhatIsSealedHasItsPlace(t *testing.T) {
	for name, meddle := range map[string]func(t *testing.T, c *mongo.Collection, before bson.Raw){
		"what was never sealed": func(t *testing.T, c *mongo.Collection, _ bson.Raw) {
			_, err := c.ReplaceOne(t.Context(), bson.D{{Key: "_id", Value: "projects/a"}}, bson.D{{Key: "revision", Value: int64(2)}, {Key: "metadata", Value: bson.D{}}})
			require.NoError(t, err)
		},
		"another document's": func(t *testing.T, c *mongo.Collection, _ bson.Raw) {
			other, err := c.FindOne(t.Context(), bson.D{{Key: "_id", Value: "projects/b"}}).Raw()
			require.NoError(t, err)
			set(t, c, "sealed", other.Lookup("sealed"))
		},
		"that of an earlier revision": func(t *testing.T, c *mongo.Collection, before bson.Raw) {
			set(t, c, "sealed", before.Lookup("sealed"))
		},
		"another revision": func(t *testing.T, c *mongo.Collection, _ bson.Raw) { set(t, c, "revision", int64(7)) },
		"another parent":   func(t *testing.T, c *mongo.Collection, _ bson.Raw) { set(t, c, "parent", "projects/b") },
		"other references": func(t *testing.T, c *mongo.Collection, _ bson.Raw) { set(t, c, "refs", bson.A{"projects/b"}) },
		"other uploads":    func(t *testing.T, c *mongo.Collection, _ bson.Raw) { set(t, c, "uploaded", int64(-1)) },
		"another member":   func(t *testing.T, c *mongo.Collection, _ bson.Raw) { set(t, c, "expires", time.Now()) },
		"what is cut off":  func(t *testing.T, c *mongo.Collection, _ bson.Raw) { set(t, c, "sealed", []byte{1}) },
	} {
		t.Run(name, func(t *testing.T) {
			config := shared(t)
			s := storetest.Open(t, config)
			a := project("a")
			require.NoError(t, s.Create(t.Context(), a))
			require.NoError(t, s.Create(t.Context(), project("b")))
			c := rawDatabase(t, config).Collection("projects")
			before, err := c.FindOne(t.Context(), bson.D{{Key: "_id", Value: "projects/a"}}).Raw()
			require.NoError(t, err)
			require.NoError(t, s.Replace(t.Context(), a))
			_, err = s.Get(t.Context(), domain.Projects, "projects/a")
			require.NoError(t, err)
			meddle(t, c, before)
			_, err = s.Get(t.Context(), domain.Projects, "projects/a")
			requireKind(t, err, fail.Internal)
			require.ErrorContains(t, err, "projects/a")
			_, err = s.ListUnder(t.Context(), domain.Projects, "")
			requireKind(t, err, fail.Internal)
		})
	}
}

func set(t *testing.T, c *mongo.Collection, member string, value any) {
	t.Helper()
	_, err := c.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: "projects/a"}}, bson.D{{Key: "$set", Value: bson.D{{Key: member, Value: value}}}})
	require.NoError(t, err)
}

// TestWhatIsOpenIsWhatIsSealed: of tokens, app contexts and leaves, too.
func TestWhatIsOpenIsWhatIsSealed(t *testing.T) {
	c := shared(t)
	s := storetest.Open(t, c)
	e := fill(t, s)
	account := &domain.ServiceAccountToken{Identity: below("projects/p/service-accounts/robot"), Metadata: domain.Metadata{Name: "first"}}
	account.Hash = []byte("first")
	require.NoError(t, s.Create(t.Context(), account))
	db, at := rawDatabase(t, c), time.UnixMilli(4711).UTC()
	require.NoError(t, s.NoteUse(t.Context(), account.Noun(), domain.KeyOf(account), account.Hash, at))
	got, err := s.Get(t.Context(), account.Noun(), domain.KeyOf(account))
	require.NoError(t, err)
	require.Equal(t, at, got.(*domain.ServiceAccountToken).LastUsed.UTC())
	meddle := func(c *mongo.Collection, id, member string, value any) {
		t.Helper()
		r, err := c.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: id}}, bson.D{{Key: "$set", Value: bson.D{{Key: member, Value: value}}}})
		require.NoError(t, err)
		require.EqualValues(t, 1, r.MatchedCount, id)
	}
	meddle(db.Collection(account.Noun().Kind), string(domain.KeyOf(account)), "hash", []byte("other"))
	_, err = s.Get(t.Context(), account.Noun(), domain.KeyOf(account))
	requireKind(t, err, fail.Internal)

	meddle(db.Collection("instances"), "4711", "owner", "projects/p/composite-apps/ca/v1/deployment-intent-groups/other")
	_, err = s.Instance(t.Context(), "4711")
	requireKind(t, err, fail.Internal)

	id := domain.LeafID(e.leaf.ContextID, e.leaf.App, e.leaf.Cluster)
	record, leaves := leafCollection(t, db, id)
	for member, value := range map[string]any{"turn.rank": e.leaf.Turn.Rank + 1, "err": "anything"} {
		before, err := leaves.FindOne(t.Context(), bson.D{{Key: "_id", Value: record}}).Raw()
		require.NoError(t, err)
		meddle(leaves, record, member, value)
		_, err = s.Leaf(t.Context(), id)
		requireKind(t, err, fail.Internal)
		_, err = leaves.ReplaceOne(t.Context(), bson.D{{Key: "_id", Value: record}}, before)
		require.NoError(t, err)
		_, err = s.Leaf(t.Context(), id)
		require.NoError(t, err)
	}
}

// leafCollection finds the record of a leaf.
func leafCollection(t *testing.T, db *mongo.Database, leaf string) (id string, c *mongo.Collection) {
	t.Helper()
	names, err := db.ListCollectionNames(t.Context(), bson.D{})
	require.NoError(t, err)
	for _, name := range names {
		if !strings.HasPrefix(name, "leaves") {
			continue
		}
		var d struct {
			ID string `bson:"_id"`
		}
		err := db.Collection(name).FindOne(t.Context(), bson.D{{Key: "_id", Value: bson.D{{Key: "$gt", Value: leaf + "#"}, {Key: "$lt", Value: leaf + "$"}}}}).Decode(&d)
		if err == nil {
			return d.ID, db.Collection(name)
		}
		require.ErrorIs(t, err, mongo.ErrNoDocuments)
	}
	t.Fatalf("no record of leaf %s", leaf)
	return "", nil
}

// idOf is the id of the installation that has a store.
func idOf(t *testing.T, s *store.Store) string {
	t.Helper()
	root, err := s.Root(t.Context())
	require.NoError(t, err)
	require.Regexp(t, "^[0-9a-f]{16}$", root.ID())
	return root.ID()
}

func TestEverythingIsSealedAnew(t *testing.T) {
	c := shared(t)
	c.Keys = sealer(t, "old")
	e := fill(t, storetest.Open(t, c))
	running := storetest.Open(t, c) // which has things in memory
	e.requireThere(t, running)
	id := idOf(t, running)
	require.NotEqual(t, id, idOf(t, storetest.Open(t, store.Config{})), "another database is another installation")

	c.Keys = sealer(t, "new", "old")
	s := storetest.Open(t, c)
	s.SetChunk(64 << 10)
	used, err := s.SealedBy(t.Context(), func(store.Resealing) {})
	require.NoError(t, err)
	require.Equal(t, []string{"old"}, keysOf(used))
	said := 0
	sealed, damaged, err := s.Reseal(t.Context(), func(r store.Resealing) { said += r.Sealed })
	require.NoError(t, err)
	require.Empty(t, damaged)
	require.Equal(t, used["old"], sealed)
	require.Positive(t, said)
	used, err = s.SealedBy(t.Context(), func(store.Resealing) {})
	require.NoError(t, err)
	require.Equal(t, map[string]int{"new": sealed}, used)
	again, _, err := s.Reseal(t.Context(), func(store.Resealing) {})
	require.NoError(t, err)
	require.Zero(t, again, "done is done")

	c.Keys = sealer(t, "new")
	alone := storetest.Open(t, c)
	e.requireThere(t, alone)
	require.Equal(t, id, idOf(t, alone), "the installation is the same by whatever key it is sealed")
	digest, err := alone.PutBlob(t.Context(), e.data[0])
	require.NoError(t, err)
	require.Equal(t, e.blobs[0], digest, "what is shared stays so")
	db := rawDatabase(t, c)
	require.EqualValues(t, 2, count(t, db, "blob-chunks"), "what was sealed before is gone")
	for name, data := range dump(t, db) {
		require.NotContains(t, string(data), "\x01\x03old", name)
	}
}

// TestALargeDocumentIsSealedAnew: what is sealed of it, as it was and anew, is together more than the 16 MiB that MongoDB takes of a write.
func TestALargeDocumentIsSealedAnew(t *testing.T) {
	c := shared(t)
	c.Keys = sealer(t, "old")
	large := project("large")
	large.UserData1 = strings.Repeat("x", 9<<20)
	require.NoError(t, storetest.Open(t, c).Create(t.Context(), large))
	c.Keys = sealer(t, "new", "old")
	proxy, behind := mongotest.NewProxy(t, c.URI), c
	behind.URI = proxy.URI()
	sealed, damaged, err := storetest.Open(t, behind).Reseal(t.Context(), func(store.Resealing) {})
	require.NoError(t, err)
	require.Empty(t, damaged)
	require.Equal(t, 1, sealed)
	written := proxy.Asked()[mongotest.Question{Command: "update", Collection: domain.Projects.Kind}]
	require.Equal(t, 1, written.N)
	require.Less(t, written.Longest, 16<<20)
	c.Keys = sealer(t, "new")
	is, err := storetest.Open(t, c).Get(t.Context(), domain.Projects, "projects/large")
	require.NoError(t, err)
	require.Equal(t, large.UserData1, is.(*domain.Project).UserData1)
}

func keysOf(used map[string]int) (ids []string) {
	for id := range used {
		ids = append(ids, id)
	}
	return ids
}

// TestSealingAnewLeavesNoChunks of an observation that is sealed anew just when it is replaced.
func TestSealingAnewLeavesNoChunks(t *testing.T) {
	c := shared(t)
	var calls atomic.Int32 // of the clock, from when on they count
	calls.Store(math.MinInt32)
	c.Keys = sealer(t, "new", "old")
	anew := storetest.Open(t, c)
	c.Keys, c.Now = sealer(t, "old", "new"), func() time.Time {
		if calls.Add(1) == 2 { // the first one is before what there is is read
			sealed, _, err := anew.Reseal(t.Context(), func(store.Resealing) {})
			require.NoError(t, err)
			require.Positive(t, sealed)
		}
		return time.Now()
	}
	running := storetest.Open(t, c)
	large := func(n int) *domain.Observation {
		return observationOf("4711", "app", clusterAt("p", "c"), resourceOf("large", fmt.Sprint(n)+text(100<<10)))
	}
	require.NoError(t, running.PutObservation(t.Context(), large(1)))
	calls.Store(0)
	require.NoError(t, running.PutObservation(t.Context(), large(2)))
	require.Greater(t, calls.Load(), int32(2))
	require.EqualValues(t, 1, count(t, rawDatabase(t, c), "observation-chunks"))
	require.JSONEq(t, string(large(2).Resources[0].JSON), string(read(t, running, "4711", "app", nil)[0].Resources[0].JSON))
}

// TestSealingAnewGoesOn where it was broken off, while the product writes.
func TestSealingAnewGoesOn(t *testing.T) {
	c := shared(t)
	c.Keys = sealer(t, "old", "new")
	running := storetest.Open(t, c)
	e := fillWith(t, running, 1<<10)
	for n := range 10 {
		require.NoError(t, running.Create(t.Context(), project(fmt.Sprint("p", n))))
	}
	c.Keys = sealer(t, "new", "old")
	s := storetest.Open(t, c)
	for kinds := 1; ; kinds += 25 {
		ctx, cancel := context.WithCancel(t.Context())
		left := kinds
		_, _, err := s.Reseal(ctx, func(store.Resealing) {
			if left--; left == 0 {
				cancel()
			}
		})
		cancel()
		if err == nil {
			break
		}
		require.ErrorIs(t, err, context.Canceled)
		e.requireThere(t, storetest.Open(t, c))
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			o, err := running.Get(t.Context(), domain.Projects, domain.Key(fmt.Sprint("projects/p", n%10)))
			if err == nil {
				err = running.Replace(t.Context(), o)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 5 {
		_, _, err := s.Reseal(t.Context(), func(store.Resealing) {})
		require.NoError(t, err)
	}
	close(stop)
	wg.Wait()
	_, _, err := s.Reseal(t.Context(), func(store.Resealing) {})
	require.NoError(t, err)
	used, err := s.SealedBy(t.Context(), func(store.Resealing) {})
	require.NoError(t, err)
	require.Equal(t, []string{"new"}, keysOf(used))
	e.requireThere(t, storetest.Open(t, c))
}
