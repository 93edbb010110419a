package ferret_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// beside is the same collection through the front, and past it.
func beside(t *testing.T) (front, behind *mongo.Collection) {
	t.Helper()
	c := prepared(t.TempDir())
	c.Texts, c.Lists = []string{"parent"}, []string{"refs"}
	db := start(t, c)
	return connect(t, db.URI()).Database("test").Collection("documents"), connect(t, db.Behind()).Database("test").Collection("documents")
}

// TestRememberedIsStored: whatever the commands, a find says what FerretDB would have said.
func TestRememberedIsStored(t *testing.T) {
	front, behind := beside(t)
	ctx := t.Context()
	r := rand.New(rand.NewPCG(7, 11))
	name := func() string { return fmt.Sprintf("p%d/%d", r.IntN(3), r.IntN(4)) }
	document := func(id string) bson.D {
		return bson.D{{Key: "_id", Value: id}, {Key: "parent", Value: id[:2]}, {Key: "revision", Value: int64(r.IntN(3))}, {Key: "spec", Value: bson.D{{Key: "n", Value: r.IntN(100)}}},
			{Key: "refs", Value: []any{nil, bson.A{}, bson.A{name()}, bson.A{name(), "p1/1"}}[r.IntN(4)]}}
	}
	upsert := options.Replace().SetUpsert(true)
	writes := map[string]func(string) (any, error){
		"insert": func(id string) (any, error) { return front.InsertOne(ctx, document(id)) },
		"insert several": func(id string) (any, error) {
			return front.InsertMany(ctx, []bson.D{document(id), document(name()), document(name())}, options.InsertMany().SetOrdered(r.IntN(2) == 0))
		},
		"insert, _id last": func(id string) (any, error) {
			return front.InsertOne(ctx, bson.D{{Key: "revision", Value: int64(1)}, {Key: "_id", Value: id}})
		},
		"replace":              func(id string) (any, error) { return front.ReplaceOne(ctx, bson.M{"_id": id}, document(id)) },
		"replace, without _id": func(id string) (any, error) { return front.ReplaceOne(ctx, bson.M{"_id": id}, document(id)[1:]) },
		"upsert":               func(id string) (any, error) { return front.ReplaceOne(ctx, bson.M{"_id": id}, document(id), upsert) },
		"replace of a revision": func(id string) (any, error) {
			return front.ReplaceOne(ctx, bson.M{"_id": id, "revision": r.IntN(3)}, document(id))
		},
		"replace by parent": func(id string) (any, error) {
			return front.ReplaceOne(ctx, bson.M{"parent": id[:2]}, bson.M{"parent": id[:2], "any": 1})
		},
		"set": func(id string) (any, error) {
			return front.UpdateOne(ctx, bson.M{"_id": id}, bson.M{"$set": bson.M{"spec.n": r.IntN(100)}})
		},
		"set of a parent": func(id string) (any, error) {
			return front.UpdateMany(ctx, bson.M{"parent": id[:2]}, bson.M{"$inc": bson.M{"revision": 1}})
		},
		"several": func(id string) (any, error) {
			return front.BulkWrite(ctx, []mongo.WriteModel{
				mongo.NewReplaceOneModel().SetFilter(bson.M{"_id": id}).SetReplacement(document(id)),
				mongo.NewReplaceOneModel().SetFilter(bson.M{"_id": name()}).SetReplacement(bson.M{"m": 1}).SetUpsert(r.IntN(2) == 0),
			})
		},
		"find and modify": func(id string) (any, error) {
			return front.FindOneAndUpdate(ctx, bson.M{"_id": id}, bson.M{"$inc": bson.M{"revision": 1}}).Raw()
		},
		"delete":               func(id string) (any, error) { return front.DeleteOne(ctx, bson.M{"_id": id}) },
		"delete of a revision": func(id string) (any, error) { return front.DeleteOne(ctx, bson.M{"_id": id, "revision": r.IntN(3)}) },
		"delete of a parent":   func(id string) (any, error) { return front.DeleteMany(ctx, bson.M{"parent": id[:2]}) },
		"delete below":         func(id string) (any, error) { return front.DeleteMany(ctx, below(id[:2])) },
		"delete some": func(id string) (any, error) {
			return front.DeleteMany(ctx, bson.M{"_id": bson.M{"$in": bson.A{id, name()}}})
		},
		"drop": func(string) (any, error) { return nil, front.Drop(ctx) },
	}
	var names []string
	for n := range writes {
		names = append(names, n)
	}
	read := func(c *mongo.Collection, id string) [8]any {
		one := func(opts ...options.Lister[options.FindOneOptions]) bson.D {
			var d bson.D
			_ = c.FindOne(ctx, bson.M{"_id": id}, opts...).Decode(&d)
			return d
		}
		list := func(filter bson.M, opts ...options.Lister[options.FindOptions]) []bson.M {
			return mustFind(t, c, filter, append(opts, options.Find().SetSort(bson.M{"_id": 1}))...)
		}
		ids := bson.M{"_id": 1}
		return [8]any{
			one(), one(options.FindOne().SetProjection(bson.M{"revision": 1})), list(below(id[:2])),
			list(bson.M{"parent": id[:2]}), list(bson.M{"_id": bson.M{"$in": bson.A{id, "p1/1"}}}), list(bson.M{}),
			list(bson.M{}, options.Find().SetProjection(ids)), list(bson.M{"refs": id}, options.Find().SetLimit(1).SetProjection(ids)),
		}
	}
	for i := range 150 {
		what, id := names[r.IntN(len(names))], name()
		if what == "drop" && r.IntN(5) > 0 {
			continue
		}
		if _, err := writes[what](id); err != nil && what != "insert" && what != "insert several" && what != "insert, _id last" && what != "find and modify" {
			t.Fatal(what, err)
		}
		for range 2 { // the second time it is remembered
			if id := name(); !reflect.DeepEqual(read(front, id), read(behind, id)) {
				t.Fatalf("command %d, %s: of %s\n%v, but there is\n%v", i, what, id, read(front, id), read(behind, id))
			}
		}
		if got, is := read(front, id), read(behind, id); !reflect.DeepEqual(got, is) {
			t.Fatalf("command %d, %s of %s:\n%v, but there is\n%v", i, what, id, got, is)
		}
	}
}

// TestRememberedAsSent: what a document says comes back as it was sent, whether it is remembered or read.
func TestRememberedAsSent(t *testing.T) {
	front, behind := beside(t)
	document := bson.D{
		{Key: "_id", Value: bson.NewObjectID()}, {Key: "int", Value: int32(3)}, {Key: "long", Value: int64(3)}, {Key: "double", Value: 3.0}, {Key: "text", Value: "a\x00<ü>"},
		{Key: "binary", Value: bson.Binary{Subtype: 4, Data: []byte{1, 2}}}, {Key: "at", Value: bson.NewDateTimeFromTime(time.UnixMilli(1_700_000_000_123))}, {Key: "yes", Value: true},
		{Key: "null", Value: nil}, {Key: "list", Value: bson.A{int32(1), "a", bson.D{{Key: "b", Value: bson.A{}}}}}, {Key: "empty", Value: bson.D{}}, {Key: "", Value: "no name"},
	}
	if _, err := front.InsertOne(t.Context(), document); err != nil {
		t.Fatal(err)
	}
	want, err := bson.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	for where, c := range map[string]*mongo.Collection{"remembered": front, "stored": behind} {
		if got, err := c.FindOne(t.Context(), bson.M{"_id": document[0].Value}).Raw(); err != nil || !reflect.DeepEqual([]byte(got), want) {
			t.Error(where, err, got)
		}
	}
}

// TestRememberedBesideWrites: while many write, nobody reads what is older than what he has read or written before.
func TestRememberedBesideWrites(t *testing.T) {
	front, behind := beside(t)
	ctx := t.Context()
	const documents, writers, rounds = 4, 4, 60
	var written [documents]atomic.Int64 // acknowledged
	revision := func(c *mongo.Collection, id int) int64 {
		found, err := c.FindOne(ctx, bson.M{"_id": fmt.Sprint(id)}).Raw()
		if err != nil {
			return 0
		}
		return found.Lookup("revision").Int64()
	}
	var all sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		all.Go(func() {
			var seen [documents]int64
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id := i % documents
				before := max(written[id].Load(), seen[id])
				if seen[id] = revision(front, id); seen[id] < before {
					t.Errorf("document %d has revision %d, and had %d before", id, seen[id], before)
					return
				}
			}
		})
	}
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range rounds {
				id := (w + i) % documents
				is := revision(front, id)
				next := bson.D{{Key: "_id", Value: fmt.Sprint(id)}, {Key: "revision", Value: is + 1}}
				if is == 0 {
					if _, err := front.InsertOne(ctx, next); err != nil {
						continue // another one was before
					}
				} else if r, err := front.ReplaceOne(ctx, bson.M{"_id": fmt.Sprint(id), "revision": is}, next); err != nil {
					t.Error(err)
					return
				} else if r.MatchedCount == 0 {
					continue
				}
				for was := written[id].Load(); was < is+1 && !written[id].CompareAndSwap(was, is+1); was = written[id].Load() {
				}
			}
		})
	}
	writing.Wait()
	close(stop)
	all.Wait()
	for id := range documents {
		if got, is := revision(front, id), revision(behind, id); got != is || is != written[id].Load() || is == 0 {
			t.Errorf("document %d is remembered with revision %d, stored with %d, and %d was written", id, got, is, written[id].Load())
		}
	}
}
