package ferret_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/drover-io/drover/deploy/local/ferret"
)

// start runs a database until the test ends.
func start(tb testing.TB, c ferret.Config) *ferret.DB {
	tb.Helper()
	db, err := ferret.Start(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := db.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return db
}

func connect(tb testing.TB, uri string) *mongo.Client {
	tb.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(tb.Context())) })
	return client
}

// collection is an empty collection of a new database server, which has made it at the start.
func collection(tb testing.TB) *mongo.Collection {
	tb.Helper()
	return connect(tb, start(tb, prepared(tb.TempDir())).URI()).Database("test").Collection("documents")
}

// prepared is a server that has collections from the start.
func prepared(dir string) ferret.Config {
	return ferret.Config{Dir: dir, Database: "test", Collections: []ferret.Collection{{Name: "documents", Indexes: []string{"parent"}}, {Name: "others", Indexes: []string{"parent"}}}}
}

// insert fills a collection with n documents whose _id are of the form
// /p/<i/100>/<i>.
func insert(tb testing.TB, c *mongo.Collection, n int) {
	tb.Helper()
	all := make([]bson.D, n)
	for i := range all {
		all[i] = bson.D{{Key: "_id", Value: id(i)}, {Key: "parent", Value: i / 100}, {Key: "revision", Value: 1},
			{Key: "spec", Value: bson.D{{Key: "n", Value: i}, {Key: "text", Value: strings.Repeat("x", 100)}}}}
	}
	for part := range slices.Chunk(all, 1000) {
		if _, err := c.InsertMany(tb.Context(), part); err != nil {
			tb.Fatal(err)
		}
	}
}

func id(i int) string { return fmt.Sprintf("/p/%04d/%06d", i/100, i) }

// below selects what is below a path; '0' comes right after '/'.
func below(path string) bson.M { return bson.M{"_id": bson.M{"$gt": path + "/", "$lt": path + "0"}} }

func mustFind(tb testing.TB, c *mongo.Collection, filter any, opts ...options.Lister[options.FindOptions]) []bson.M {
	tb.Helper()
	cursor, err := c.Find(tb.Context(), filter, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	var found []bson.M
	if err := cursor.All(tb.Context(), &found); err != nil {
		tb.Fatal(err)
	}
	return found
}

func TestDataSurvivesRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "with space")
	for i := range 3 {
		db, err := ferret.Start(t.Context(), ferret.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		c := connect(t, db.URI()).Database("test").Collection("documents")
		if n := len(mustFind(t, c, bson.M{})); n != i {
			t.Errorf("start %d finds %d documents", i, n)
		}
		if _, err := c.InsertOne(t.Context(), bson.M{"_id": id(i)}); err != nil {
			t.Error(err)
		}
		if err := db.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// TestNothingIsWrittenBesideTheData: a process that is killed could not remove it.
func TestNothingIsWrittenBesideTheData(t *testing.T) {
	beside := t.TempDir()
	t.Setenv("TMPDIR", beside)
	client := connect(t, start(t, ferret.Config{Dir: t.TempDir()}).URI())
	if _, err := client.Database("test").Collection("documents").InsertOne(t.Context(), bson.D{{Key: "_id", Value: "a"}}); err != nil {
		t.Fatal(err)
	}
	found, err := os.ReadDir(beside)
	if err != nil || len(found) > 0 {
		t.Fatal(found, err)
	}
}

func TestDirWithOddNameIsRefused(t *testing.T) {
	if _, err := ferret.Start(t.Context(), ferret.Config{Dir: filepath.Join(t.TempDir(), "a%20b")}); err == nil {
		t.Error("started")
	}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	_, err = ferret.Start(t.Context(), ferret.Config{Dir: t.TempDir(), Port: port})
	if err == nil || !strings.Contains(err.Error(), strconv.Itoa(port)) || !strings.Contains(err.Error(), "MongoDB") {
		t.Errorf("error %v should name port %d and its purpose", err, port)
	}
}

func TestStopLeavesNothingRunning(t *testing.T) {
	run := func() {
		db, err := ferret.Start(t.Context(), ferret.Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		// A client that stays connected does not keep the server up, which Stop would say.
		client := connect(t, db.URI())
		if err := client.Ping(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := db.Stop(); err != nil {
			t.Error(err)
		}
		_ = client.Disconnect(t.Context())
	}
	run() // whatever is made once per process exists from here on
	before := runtime.NumGoroutine()
	run()
	deadline := time.Now().Add(time.Minute)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before, now %d:\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
		}
		runtime.Gosched()
	}
}

func TestDuplicateKey(t *testing.T) {
	c := collection(t)
	insert(t, c, 1)
	_, err := c.InsertOne(t.Context(), bson.M{"_id": id(0)})
	if !mongo.IsDuplicateKeyError(err) {
		t.Errorf("a second insert of an _id: %v", err)
	}

	t.Run("InsertMany unordered says which", func(t *testing.T) {
		documents := []bson.M{{"_id": "a"}, {"_id": id(0)}, {"_id": "b"}}
		_, err := c.InsertMany(t.Context(), documents, options.InsertMany().SetOrdered(false))
		var bulk mongo.BulkWriteException
		if !errors.As(err, &bulk) || len(bulk.WriteErrors) != 1 || bulk.WriteErrors[0].Index != 1 || bulk.WriteErrors[0].Code != 11000 {
			t.Errorf("error %v", err)
		}
		if n := len(mustFind(t, c, bson.M{})); n != 3 {
			t.Errorf("%d documents, want the two new ones and the old", n)
		}
	})
}

// Of all who insert, or compare and set, at the same time, one succeeds.
func TestOneWriterWins(t *testing.T) {
	const writers, rounds = 8, 30
	c := collection(t)
	ctx := t.Context()
	if _, err := c.InsertOne(ctx, bson.M{"_id": "x", "revision": 0, "n": 0}); err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(round int) (bool, error){
		"InsertOne": func(round int) (bool, error) {
			_, err := c.InsertOne(ctx, bson.M{"_id": fmt.Sprint("new", round)})
			if mongo.IsDuplicateKeyError(err) {
				return false, nil
			}
			return err == nil, err
		},
		"UpdateOne": func(round int) (bool, error) {
			r, err := c.UpdateOne(ctx, bson.M{"_id": "x", "revision": round}, bson.M{"$inc": bson.M{"revision": 1}})
			return err == nil && r.ModifiedCount == 1, err
		},
		"ReplaceOne": func(round int) (bool, error) {
			r, err := c.ReplaceOne(ctx, bson.M{"_id": "x", "revision": round}, bson.M{"revision": round + 1})
			return err == nil && r.MatchedCount == 1, err
		},
		"FindOneAndUpdate": func(round int) (bool, error) {
			err := c.FindOneAndUpdate(ctx, bson.M{"_id": "x", "revision": round}, bson.M{"$set": bson.M{"revision": round + 1}}).Err()
			if errors.Is(err, mongo.ErrNoDocuments) {
				return false, nil
			}
			return err == nil, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := c.UpdateOne(ctx, bson.M{"_id": "x"}, bson.M{"$set": bson.M{"revision": 0}}); err != nil {
				t.Fatal(err)
			}
			for round := range rounds {
				var won atomic.Int32
				var wg sync.WaitGroup
				for range writers {
					wg.Go(func() {
						ok, err := write(round)
						if err != nil {
							t.Error(err)
						}
						if ok {
							won.Add(1)
						}
					})
				}
				wg.Wait()
				if won.Load() != 1 {
					t.Fatalf("round %d: %d writers succeeded", round, won.Load())
				}
			}
		})
	}
}

func TestConcurrentWritersAllGetThrough(t *testing.T) {
	const writers, writes = 16, 40
	c := collection(t)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range writes {
				key := bson.M{"_id": fmt.Sprintf("%d/%d", w, i)}
				if _, err := c.InsertOne(t.Context(), key); err != nil {
					t.Error(err)
				}
				if _, err := c.UpdateOne(t.Context(), key, bson.M{"$set": bson.M{"done": true}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	n, err := c.CountDocuments(t.Context(), bson.M{"done": true})
	if err != nil || n != writers*writes {
		t.Errorf("%d documents done, %v", n, err)
	}
}

func TestUpdates(t *testing.T) {
	c := collection(t)
	ctx := t.Context()

	r, err := c.ReplaceOne(ctx, bson.M{"_id": "a"}, bson.M{"n": 1}, options.Replace().SetUpsert(true))
	if err != nil || r.UpsertedCount != 1 || r.UpsertedID != "a" {
		t.Errorf("upsert of a new document: %+v, %v", r, err)
	}
	r, err = c.ReplaceOne(ctx, bson.M{"_id": "a"}, bson.M{"n": 2}, options.Replace().SetUpsert(true))
	if err != nil || r.UpsertedCount != 0 || r.MatchedCount != 1 || r.ModifiedCount != 1 {
		t.Errorf("upsert of an old document: %+v, %v", r, err)
	}
	r, err = c.UpdateOne(ctx, bson.M{"_id": "a", "n": 1}, bson.M{"$set": bson.M{"n": 3}})
	if err != nil || r.MatchedCount != 0 {
		t.Errorf("compare and set with the wrong value: %+v, %v", r, err)
	}
	r, err = c.UpdateOne(ctx, bson.M{"_id": "b"}, bson.M{"$setOnInsert": bson.M{"n": 1}, "$push": bson.M{"list": "x"}}, options.UpdateOne().SetUpsert(true))
	if err != nil || r.UpsertedCount != 1 {
		t.Errorf("upsert by operators: %+v, %v", r, err)
	}
	var got bson.M
	err = c.FindOneAndUpdate(ctx, bson.M{"_id": "b"}, bson.M{"$inc": bson.M{"n": 1}, "$unset": bson.M{"list": ""}},
		options.FindOneAndUpdate().SetReturnDocument(options.After)).Decode(&got)
	if err != nil || got["n"] != int32(2) || got["list"] != nil {
		t.Errorf("findOneAndUpdate: %v, %v", got, err)
	}
}

func TestQueries(t *testing.T) {
	c := collection(t)
	ctx := t.Context()
	insert(t, c, 1000)

	t.Run("range of _id, sorted, projected", func(t *testing.T) {
		found := mustFind(t, c, below("/p/0003"), options.Find().
			SetSort(bson.D{{Key: "_id", Value: -1}}).SetLimit(3).SetSkip(1).SetProjection(bson.M{"spec.n": 1}))
		if len(found) != 3 || found[0]["_id"] != id(398) || found[0]["parent"] != nil || found[0]["spec"] == nil {
			t.Errorf("found %v", found)
		}
	})
	t.Run("$in", func(t *testing.T) {
		if n := len(mustFind(t, c, bson.M{"_id": bson.M{"$in": bson.A{id(1), id(999), "none"}}})); n != 2 {
			t.Errorf("%d found", n)
		}
	})
	t.Run("nested field and $ne", func(t *testing.T) {
		if n := len(mustFind(t, c, bson.M{"spec.n": bson.M{"$ne": 5}, "parent": 0})); n != 99 {
			t.Errorf("%d found", n)
		}
	})
	t.Run("count", func(t *testing.T) {
		n, err := c.CountDocuments(ctx, below("/p/0003"))
		if err != nil || n != 100 {
			t.Errorf("%d, %v", n, err)
		}
	})
	t.Run("batches", func(t *testing.T) {
		if n := len(mustFind(t, c, bson.M{}, options.Find().SetBatchSize(7))); n != 1000 {
			t.Errorf("%d found", n)
		}
	})
	t.Run("delete a range of _id", func(t *testing.T) {
		r, err := c.DeleteMany(ctx, below("/p/0003"))
		if err != nil || r.DeletedCount != 100 {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("secondary indexes can be made, twice", func(t *testing.T) {
		for range 2 {
			if _, err := c.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "parent", Value: 1}}}); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestLargeBinary(t *testing.T) {
	c := collection(t)
	want := bytes.Repeat([]byte{0, 1, 0xfe, 0xff}, 2<<20) // 8 MiB
	if _, err := c.InsertOne(t.Context(), bson.M{"_id": "blob", "data": want}); err != nil {
		t.Fatal(err)
	}
	var got struct{ Data []byte }
	if err := c.FindOne(t.Context(), bson.M{"_id": "blob"}).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Data, want) {
		t.Error("the data came back different")
	}
}

// Names of fields must not have dots; MongoDB has allowed them since 5.0.
func TestDotInFieldNameIsRefused(t *testing.T) {
	c := collection(t)
	if _, err := c.InsertOne(t.Context(), bson.M{"labels": bson.M{"app.kubernetes.io/name": "x"}}); err == nil {
		t.Error("a label was accepted as the name of a field")
	}
}

// MongoDB takes a hundred thousand.
func TestTooManyUpdatesInOneCommandAreRefused(t *testing.T) {
	c := collection(t)
	insert(t, c, 100)
	upserts := func(n int) error {
		models := make([]mongo.WriteModel, n)
		for i := range models {
			models[i] = mongo.NewReplaceOneModel().SetFilter(bson.M{"_id": id(i)}).SetReplacement(bson.M{"n": i}).SetUpsert(true)
		}
		_, err := c.BulkWrite(t.Context(), models, options.BulkWrite().SetOrdered(false))
		return err
	}
	if err := upserts(50); err != nil {
		t.Errorf("50 updates: %v", err)
	}
	var refused mongo.CommandError
	if err := upserts(100); !errors.As(err, &refused) || !strings.Contains(refused.Message, "limit is 50") {
		t.Errorf("100 updates: %v", err)
	}
}

// Whatever finds a document by its _id does so by an index: it takes about the
// same time in a large collection as in a small one.
func TestTimePerDocumentDoesNotGrow(t *testing.T) {
	const small, large = 100, 20_000
	ctx := t.Context()
	db := connect(t, start(t, ferret.Config{Dir: t.TempDir()}).URI()).Database("test")
	insert(t, db.Collection("small"), small)
	insert(t, db.Collection("large"), large)

	for _, c := range []struct { // in this order: none finds what was deleted
		name string
		op   func(c *mongo.Collection, id string) error
	}{
		{"find", func(c *mongo.Collection, id string) error { return c.FindOne(ctx, bson.M{"_id": id}).Err() }},
		{"find below a prefix", func(c *mongo.Collection, id string) error {
			found, err := c.Find(ctx, bson.M{"_id": bson.D{{Key: "$gt", Value: id + "/"}, {Key: "$lt", Value: id + "0"}}}, options.Find().SetSort(bson.M{"_id": 1}))
			if err != nil {
				return err
			}
			var none []bson.M
			if err := found.All(ctx, &none); err != nil || len(none) > 0 {
				return fmt.Errorf("%d below %s: %w", len(none), id, err)
			}
			return nil
		}},
		{"replace a revision", func(c *mongo.Collection, id string) error {
			r, err := c.ReplaceOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "revision", Value: 1}}, bson.M{"revision": 2})
			if err == nil && r.ModifiedCount != 1 {
				err = fmt.Errorf("%s was not replaced", id)
			}
			return err
		}},
		{"replace a revision that there is not", func(c *mongo.Collection, id string) error {
			r, err := c.ReplaceOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "revision", Value: 1}}, bson.M{"revision": 3})
			if err == nil && r.MatchedCount != 0 {
				err = fmt.Errorf("%s was replaced", id)
			}
			return err
		}},
		{"delete a revision that there is not", func(c *mongo.Collection, id string) error {
			r, err := c.DeleteOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "revision", Value: 1}})
			if err == nil && r.DeletedCount != 0 {
				err = fmt.Errorf("%s was deleted", id)
			}
			return err
		}},
		{"replace", func(c *mongo.Collection, id string) error { return replace(ctx, c, id) }},
		{"delete", func(c *mongo.Collection, id string) error {
			_, err := c.DeleteOne(ctx, bson.M{"_id": id})
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sameTime(t, func(i int) error { return c.op(db.Collection("small"), id(small-1-i)) },
				func(i int) error { return c.op(db.Collection("large"), id(large-1-i)) })
		})
	}
}

func replace(ctx context.Context, c *mongo.Collection, id string) error {
	_, err := c.ReplaceOne(ctx, bson.M{"_id": id}, bson.M{"n": 1}, options.Replace().SetUpsert(true))
	return err
}

// sameTime fails the test when none of a hundred calls among many documents takes about as little time as one among few.
// A machine may be busy, but not each time.
func sameTime(t *testing.T, few, many func(i int) error) {
	t.Helper()
	took := func(f func(i int) error, i int) time.Duration {
		begin := time.Now()
		if err := f(i); err != nil {
			t.Fatal(err)
		}
		return time.Since(begin)
	}
	a, b := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for i := range 100 {
		a, b = min(a, took(few, i)), min(b, took(many, i))
		if i >= 10 && b <= 10*a {
			t.Logf("%v among few documents, %v among many", a, b)
			return
		}
	}
	t.Errorf("%v among few documents and %v among many", a, b)
}

// An index is there again after its collection was dropped.
func TestDroppedCollectionIsIndexedAgain(t *testing.T) {
	const small, large = 100, 20_000
	c := collection(t)
	insert(t, c, 1)
	if err := c.Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	insert(t, c, large)
	other := c.Database().Collection("small")
	insert(t, other, small)
	sameTime(t, func(i int) error { return other.FindOne(t.Context(), bson.M{"_id": id(small - 1 - i)}).Err() },
		func(i int) error { return c.FindOne(t.Context(), bson.M{"_id": id(large - 1 - i)}).Err() })
}

func TestListensOnLoopbackOnly(t *testing.T) {
	uri := start(t, ferret.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}).URI()
	if !strings.HasPrefix(uri, "mongodb://127.0.0.1:") {
		t.Errorf("URI %s", uri)
	}
}
