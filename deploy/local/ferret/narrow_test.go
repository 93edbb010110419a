package ferret_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"

	"github.com/drover-io/drover/deploy/local/ferret"
)

// TestConditionsBesideAnID: an update with an _id and more meets a document if and only if that fits, whether the front knows the
// condition or leaves it to FerretDB.
func TestConditionsBesideAnID(t *testing.T) {
	c := collection(t)
	at, id := time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC), bson.NewObjectID()
	document := bson.M{
		"_id": "x", "n": int64(7), "small": int32(3), "part": 1.5, "text": "abc", "at": at, "token": id, "yes": true, "no": nil,
		"list": bson.A{"a", "b"}, "turn": bson.M{"began": int64(10), "rank": 2}, "sealed": []byte{1, 2},
	}
	if _, err := c.InsertOne(t.Context(), document); err != nil {
		t.Fatal(err)
	}
	insert(t, c, 100)
	lt := func(n any) bson.M { return bson.M{"$lt": n} }
	for _, x := range []struct {
		condition bson.D
		want      int64
	}{
		{bson.D{{Key: "n", Value: 7}}, 1},
		{bson.D{{Key: "n", Value: int32(7)}}, 1},
		{bson.D{{Key: "n", Value: 7.0}}, 1},
		{bson.D{{Key: "n", Value: 8}}, 0},
		{bson.D{{Key: "n", Value: "7"}}, 0},
		{bson.D{{Key: "n", Value: nil}}, 0},
		{bson.D{{Key: "part", Value: 1.5}}, 1},
		{bson.D{{Key: "part", Value: 1}}, 0},
		{bson.D{{Key: "text", Value: "abc"}}, 1},
		{bson.D{{Key: "text", Value: "abd"}}, 0},
		{bson.D{{Key: "at", Value: at}}, 1},
		{bson.D{{Key: "at", Value: at.Add(time.Millisecond)}}, 0},
		{bson.D{{Key: "at", Value: at.UnixMilli()}}, 0},
		{bson.D{{Key: "token", Value: id}}, 1},
		{bson.D{{Key: "token", Value: bson.NewObjectID()}}, 0},
		{bson.D{{Key: "yes", Value: true}}, 1},
		{bson.D{{Key: "yes", Value: false}}, 0},
		{bson.D{{Key: "no", Value: nil}}, 1},
		{bson.D{{Key: "missing", Value: nil}}, 1},
		{bson.D{{Key: "missing", Value: 1}}, 0},
		{bson.D{{Key: "missing", Value: lt(1)}}, 0},
		{bson.D{{Key: "list", Value: "b"}}, 1},
		{bson.D{{Key: "list", Value: "c"}}, 0},
		{bson.D{{Key: "sealed", Value: []byte{1, 2}}}, 1},
		{bson.D{{Key: "sealed", Value: []byte{1, 3}}}, 0},
		{bson.D{{Key: "sealed", Value: bson.Binary{Subtype: 5, Data: []byte{1, 2}}}}, 0},
		{bson.D{{Key: "sealed", Value: "AQI="}}, 0},
		{bson.D{{Key: "text", Value: []byte("abc")}}, 0},
		{bson.D{{Key: "missing", Value: []byte{1, 2}}}, 0},
		{bson.D{{Key: "turn.began", Value: lt(11)}}, 1},
		{bson.D{{Key: "turn.began", Value: lt(10)}}, 0},
		{bson.D{{Key: "turn.began", Value: lt("z")}}, 0},
		{bson.D{{Key: "turn.began", Value: bson.M{"$lte": 10, "$gt": 9}}}, 1},
		{bson.D{{Key: "turn.began", Value: bson.M{"$gte": 10, "$ne": 10}}}, 0},
		{bson.D{{Key: "turn.began.deep", Value: 1}}, 0},
		{bson.D{{Key: "n", Value: 7}, {Key: "text", Value: "abc"}}, 1},
		{bson.D{{Key: "n", Value: 7}, {Key: "text", Value: "x"}}, 0},
		{bson.D{{Key: "$or", Value: bson.A{bson.D{{Key: "turn.began", Value: lt(10)}}, bson.D{{Key: "turn.began", Value: 10}, {Key: "turn.rank", Value: bson.M{"$lte": 2}}}}}}, 1},
		{bson.D{{Key: "$or", Value: bson.A{bson.D{{Key: "turn.began", Value: lt(10)}}, bson.D{{Key: "turn.began", Value: 10}, {Key: "turn.rank", Value: bson.M{"$lte": 1}}}}}}, 0},
		{bson.D{{Key: "$or", Value: bson.A{bson.D{{Key: "turn.began", Value: 10}, {Key: "$or", Value: bson.A{bson.D{{Key: "missing", Value: nil}}, bson.D{{Key: "missing", Value: lt(1)}}}}}}}}, 1},
		{bson.D{{Key: "$or", Value: bson.A{bson.D{{Key: "turn.began", Value: 10}, {Key: "$or", Value: bson.A{bson.D{{Key: "n", Value: nil}}, bson.D{{Key: "n", Value: lt(7)}}}}}}}}, 0},
		{bson.D{{Key: "$or", Value: bson.A{bson.D{{Key: "turn.began", Value: 10}, {Key: "$or", Value: bson.A{bson.D{{Key: "n", Value: nil}}, bson.D{{Key: "n", Value: lt(8)}}}}}}}}, 1},
	} {
		t.Run(fmt.Sprint(x.condition), func(t *testing.T) {
			r, err := c.UpdateOne(t.Context(), append(bson.D{{Key: "_id", Value: "x"}}, x.condition...), bson.M{"$inc": bson.M{"met": 1}})
			if err != nil {
				t.Fatal(err)
			}
			if r.MatchedCount != x.want || r.ModifiedCount != x.want {
				t.Errorf("%d matched and %d changed, not %d", r.MatchedCount, r.ModifiedCount, x.want)
			}
		})
	}
	t.Run("a document that is not there", func(t *testing.T) {
		filter := bson.D{{Key: "_id", Value: "y"}, {Key: "n", Value: 7}}
		r, err := c.UpdateOne(t.Context(), filter, bson.M{"$set": bson.M{"a": 1}})
		if err != nil || r.MatchedCount != 0 {
			t.Errorf("%+v, %v", r, err)
		}
		if r, err = c.UpdateOne(t.Context(), filter, bson.M{"$set": bson.M{"a": 1}}, options.UpdateOne().SetUpsert(true)); err != nil || r.UpsertedCount != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("delete", func(t *testing.T) {
		for n, want := range map[int]int64{6: 0, 7: 1} {
			r, err := c.DeleteOne(t.Context(), bson.D{{Key: "_id", Value: "x"}, {Key: "n", Value: n}})
			if err != nil || r.DeletedCount != want {
				t.Errorf("n %d: %+v, %v", n, r, err)
			}
		}
	})
}

// TestFindsOfSomeIDs: whether few or many are found, they are the same, in the same order.
func TestFindsOfSomeIDs(t *testing.T) {
	c := collection(t)
	insert(t, c, 5000)
	odd := []string{"q/", "q/<a", "q/Ä", "q/a", "q/a\"b", "q/a b", "q0", "q", "q/b/c", "q.", "q/~"}
	for _, id := range odd {
		if _, err := c.InsertOne(t.Context(), bson.M{"_id": id, "n": 1, "m": 2}); err != nil {
			t.Fatal(err)
		}
	}
	ids := func(filter any, opts ...options.Lister[options.FindOptions]) (found []string) {
		for _, d := range mustFind(t, c, filter, append(opts, options.Find().SetSort(bson.M{"_id": 1}))...) {
			found = append(found, d["_id"].(string))
		}
		return found
	}
	same := func(name string, got, want []string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
	}
	below := func(p string) bson.D {
		return bson.D{{Key: "_id", Value: bson.D{{Key: "$gt", Value: p + "/"}, {Key: "$lt", Value: p + "0"}}}}
	}
	var want []string
	for _, id := range odd {
		if id > "q/" && id < "q0" {
			want = append(want, id)
		}
	}
	slices.Sort(want)
	same("below q", ids(below("q")), want)
	same("the first two", ids(below("q"), options.Find().SetLimit(2)), want[:2])
	same("nothing", ids(below("r")), nil)
	same("what JSON spells otherwise", ids(below("q/<a")), nil)
	if got := len(ids(below("/p/0007"))); got != 100 {
		t.Errorf("%d below /p/0007", got)
	}
	if got := len(ids(below("/p"))); got != 5000 {
		t.Errorf("%d below /p", got)
	}
	same("among", ids(bson.M{"_id": bson.M{"$in": bson.A{"q/b/c", "none", "q", "q"}}}), []string{"q", "q/b/c"})
	if got := mustFind(t, c, below("q"), options.Find().SetProjection(bson.M{"_id": 0, "m": 1}).SetLimit(1)); len(got) != 1 || len(got[0]) != 1 || got[0]["m"] != int32(2) {
		t.Errorf("only a member: %v", got)
	}
	if got := mustFind(t, c, below("q"), options.Find().SetSort(bson.M{"_id": -1}).SetLimit(1)); got[0]["_id"] != want[len(want)-1] {
		t.Errorf("the last one: %v", got)
	}
	if err := c.Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	same("after a drop", ids(below("q")), nil)
	if _, err := c.InsertOne(t.Context(), bson.M{"_id": "q/new"}); err != nil {
		t.Fatal(err)
	}
	same("made anew", ids(below("q")), []string{"q/new"})
}

// TestFindsByTexts: whether few or many are found, they are what FerretDB would find, in the same order.
func TestFindsByTexts(t *testing.T) {
	parents := []string{"p", "q", "<q>", "p/q", "", "Ä", "p\"q", "p q"}
	documents := []any{bson.M{"_id": "x/none"}, bson.M{"_id": "x/null", "of": nil}, bson.M{"_id": "x/number", "of": 1}, bson.M{"_id": "x/object", "of": bson.M{"p": 1}}}
	for i, p := range parents {
		for n := range i + 1 {
			documents = append(documents, bson.M{"_id": fmt.Sprintf("%c/%d", 'z'-i, n), "of": p, "other": p, "n": n})
		}
	}
	for n := range 1000 {
		documents = append(documents, bson.M{"_id": fmt.Sprintf("many/%04d", n), "of": "many", "other": "many"})
	}
	put := func(t *testing.T, c *mongo.Collection) {
		t.Helper()
		if _, err := c.InsertMany(t.Context(), documents); err != nil {
			t.Fatal(err)
		}
	}
	plain := collection(t)
	put(t, plain)
	for name, config := range map[string]ferret.Config{
		"a collection of the start":  {Database: "test", Collections: []ferret.Collection{{Name: "documents", Indexes: []string{"of"}}}},
		"one that a client has made": {},
		"one without an index":       {Database: "test", Collections: []ferret.Collection{{Name: "documents"}}},
	} {
		t.Run(name, func(t *testing.T) {
			config.Dir, config.Texts = t.TempDir(), []string{"of"}
			c := connect(t, start(t, config).URI()).Database("test").Collection("documents")
			if config.Collections == nil {
				if _, err := c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "of", Value: 1}}}); err != nil {
					t.Fatal(err)
				}
			}
			put(t, c)
			filters := []bson.D{
				{{Key: "of", Value: "none"}}, {{Key: "of", Value: "many"}}, {{Key: "of", Value: 1}}, {{Key: "of", Value: nil}}, {{Key: "other", Value: "p"}},
				{{Key: "of", Value: "p"}, {Key: "n", Value: 0}}, {{Key: "of", Value: bson.M{"$gt": "p"}}}, {{Key: "of", Value: bson.M{"$in": bson.A{"p", "<q>", "p", "none"}}}},
				{{Key: "of", Value: bson.M{"$in": bson.A{"p", 1}}}}, {{Key: "of", Value: bson.M{"$in": bson.A{}}}}, {{Key: "of", Value: bson.M{"$nin": bson.A{"many", "Ä"}}}},
				{{Key: "of", Value: bson.M{"$nin": bson.A{"p"}}}}, {{Key: "of", Value: bson.M{"$in": bson.A{"p"}, "$nin": bson.A{"q"}}}},
				{{Key: "_id", Value: bson.M{"$gte": ""}}, {Key: "of", Value: bson.M{"$nin": bson.A{"many", "Ä"}}}}, {{Key: "_id", Value: bson.M{"$gte": ""}}, {Key: "of", Value: "p"}},
				{{Key: "_id", Value: bson.M{"$gte": "v"}}, {Key: "of", Value: "p"}}, {{Key: "_id", Value: bson.M{"$gt": ""}}, {Key: "of", Value: "p"}},
			}
			for _, p := range parents {
				filters = append(filters, bson.D{{Key: "of", Value: p}})
			}
			for _, filter := range filters {
				for _, with := range []options.Lister[options.FindOptions]{options.Find(), options.Find().SetLimit(2), options.Find().SetProjection(bson.M{"n": 1, "_id": 0})} {
					sorted := options.Find().SetSort(bson.M{"_id": 1})
					if got, want := mustFind(t, c, filter, with, sorted), mustFind(t, plain, filter, with, sorted); !reflect.DeepEqual(got, want) {
						t.Errorf("%v: %v, not %v", filter, got, want)
					}
				}
			}
		})
	}
}

// TestFindsAsTheStoreAsks: what a client says of confirmation and of an index changes nothing. It keeps no find from being answered by what is
// remembered, which here differs from what is stored.
func TestFindsAsTheStoreAsks(t *testing.T) {
	config := prepared(t.TempDir())
	config.Texts = []string{"of"}
	db := start(t, config)
	c := connect(t, db.URI()).Database("test", options.Database().SetReadConcern(readconcern.Majority())).Collection("documents")
	for n := range 100 {
		id := fmt.Sprint("x/", n)
		if _, err := c.InsertOne(t.Context(), bson.M{"_id": id, "of": "p", "n": n}); err != nil {
			t.Fatal(err)
		}
		mustFind(t, c, bson.M{"_id": id}) // so that it is remembered
	}
	behind := connect(t, db.Behind()).Database("test").Collection("documents")
	if _, err := behind.UpdateMany(t.Context(), bson.M{}, bson.M{"$set": bson.M{"n": -1}}); err != nil {
		t.Fatal(err)
	}
	hint := bson.D{{Key: "_id", Value: 1}, {Key: "of", Value: 1}}
	for name, filter := range map[string]bson.D{
		"by _id":                 {{Key: "_id", Value: "x/7"}},
		"below a prefix":         {{Key: "_id", Value: bson.D{{Key: "$gt", Value: "x/"}, {Key: "$lt", Value: "x0"}}}},
		"by a text":              {{Key: "of", Value: "p"}},
		"by a text, and any _id": {{Key: "_id", Value: bson.D{{Key: "$gte", Value: ""}}}, {Key: "of", Value: "p"}},
		"by no text":             {{Key: "_id", Value: bson.D{{Key: "$gte", Value: ""}}}, {Key: "of", Value: bson.D{{Key: "$nin", Value: bson.A{"q"}}}}},
	} {
		found := mustFind(t, c, filter, options.Find().SetHint(hint).SetSort(bson.M{"_id": 1}))
		if len(found) == 0 || found[0]["n"] == int32(-1) {
			t.Errorf("%s: %d found, and FerretDB was asked", name, len(found))
		}
	}
}

// TestFindsByTextsUseTheIndex whether it was made at the start or by a client.
func TestFindsByTextsUseTheIndex(t *testing.T) {
	for name, at := range map[string]ferret.Config{
		"a collection of the start":         {Database: "test", Collections: []ferret.Collection{{Name: "documents", Indexes: []string{"of"}}}},
		"one that a client has made":        {},
		"one that an older server has made": {},
	} {
		t.Run(name, func(t *testing.T) {
			at.Dir, at.Texts = t.TempDir(), []string{"of"}
			if name == "one that an older server has made" {
				at.Database, at.Collections = "test", []ferret.Collection{{Name: "documents", Indexes: []string{"of"}}}
				older := at
				older.Texts = nil
				db, err := ferret.Start(t.Context(), older)
				if err != nil {
					t.Fatal(err)
				}
				if err := db.Stop(); err != nil {
					t.Fatal(err)
				}
			}
			c := connect(t, start(t, at).URI()).Database("test").Collection("documents")
			if _, err := c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "of", Value: 1}}}); err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open("sqlite", "file:"+filepath.Join(at.Dir, "test.sqlite")+"?mode=ro")
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			var table string
			if err := db.QueryRowContext(t.Context(), "SELECT table_name FROM _ferretdb_collections").Scan(&table); err != nil {
				t.Fatal(err)
			}
			plan := func(member string, none bool) (text string) {
				rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+ferret.ByTextQuery(table, member, none, "a", "b"), `"a"`, `"b"`, 1)
				if err != nil {
					t.Fatal(err)
				}
				defer rows.Close()
				for rows.Next() {
					var detail string
					var rest any
					if err := rows.Scan(&rest, &rest, &rest, &detail); err != nil {
						t.Fatal(err)
					}
					text += detail + "\n"
				}
				return text
			}
			if got := plan("of", false); !strings.Contains(got, "SEARCH") || !strings.Contains(got, "of_1") {
				t.Errorf("of one of some: %s", got)
			}
			if got := plan("other", false); strings.Contains(got, "SEARCH") {
				t.Errorf("what has no index: %s", got)
			}
		})
	}
}

// TestNumbersBesideIDs are answered from an index, and are what FerretDB would answer.
func TestNumbersBesideIDs(t *testing.T) {
	for name, config := range map[string]ferret.Config{
		"a collection of the start":        {Database: "test", Collections: []ferret.Collection{{Name: "documents", Covering: [][]string{{"_id", "size", "more"}}}}},
		"one that a client has made":       {},
		"one that has no index but on _id": {Database: "test", Collections: []ferret.Collection{{Name: "documents"}}},
	} {
		t.Run(name, func(t *testing.T) {
			config.Dir, config.Beside, config.Texts = t.TempDir(), []string{"size", "more"}, []string{"of"}
			c := connect(t, start(t, config).URI()).Database("test").Collection("documents")
			if config.Collections == nil {
				if _, err := c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "_id", Value: 1}, {Key: "size", Value: 1}, {Key: "more", Value: 1}}}); err != nil {
					t.Fatal(err)
				}
			}
			for _, d := range []bson.M{
				{"_id": "q/b", "size": int64(1) << 40, "more": int64(0), "text": "x"}, {"_id": "q/a\"b", "size": int64(-2)}, {"_id": "q/", "size": int64(9)},
				{"_id": "q/a", "more": int64(3)}, {"_id": "q0", "size": int64(9)}, {"_id": "q", "size": int64(9)}, {"_id": "q/Ä"},
			} {
				if _, err := c.InsertOne(t.Context(), d); err != nil {
					t.Fatal(err)
				}
			}
			below := bson.D{{Key: "_id", Value: bson.D{{Key: "$gt", Value: "q/"}, {Key: "$lt", Value: "q0"}}}}
			want := []bson.M{{"_id": "q/a", "more": int64(3)}, {"_id": "q/a\"b", "size": int64(-2)}, {"_id": "q/b", "size": int64(1) << 40, "more": int64(0)}, {"_id": "q/Ä"}}
			both := options.Find().SetProjection(bson.M{"size": 1, "more": 1}).SetSort(bson.M{"_id": 1})
			if got := mustFind(t, c, below, both); !reflect.DeepEqual(got, want) {
				t.Errorf("both: %v, not %v", got, want)
			}
			if got := mustFind(t, c, below, both, options.Find().SetLimit(2)); !reflect.DeepEqual(got, want[:2]) {
				t.Errorf("the first two: %v, not %v", got, want[:2])
			}
			one := mustFind(t, c, below, options.Find().SetProjection(bson.M{"_id": 1, "size": 1}).SetSort(bson.M{"_id": 1}))
			if len(one) != 4 || one[2]["size"] != int64(1)<<40 || one[2]["more"] != nil {
				t.Errorf("one: %v", one)
			}
			ids := mustFind(t, c, below, options.Find().SetProjection(bson.M{"_id": 1}).SetSort(bson.M{"_id": 1}))
			if len(ids) != 4 || len(ids[0]) != 1 || ids[1]["_id"] != "q/a\"b" {
				t.Errorf("ids: %v", ids)
			}
			if got := mustFind(t, c, below, options.Find().SetProjection(bson.M{"text": 1}).SetSort(bson.M{"_id": 1})); len(got) != 4 || got[2]["text"] != "x" {
				t.Errorf("what is in no index: %v", got)
			}
			if got := mustFind(t, c, below, options.Find().SetProjection(bson.M{"_id": 0, "size": 1}).SetSort(bson.M{"_id": 1})); len(got) != 4 || len(got[0]) != 0 {
				t.Errorf("without ids: %v", got)
			}
			for _, d := range []bson.M{{"_id": "t1", "of": "a", "size": int64(1)}, {"_id": "t2", "of": "b\"c", "size": int64(2)}, {"_id": "t3", "of": "d"}} {
				if _, err := c.InsertOne(t.Context(), d); err != nil {
					t.Fatal(err)
				}
			}
			sizes := options.Find().SetProjection(bson.M{"size": 1}).SetSort(bson.M{"_id": 1})
			if got := mustFind(t, c, bson.D{{Key: "of", Value: bson.M{"$in": bson.A{"d", "b\"c"}}}}, sizes); !reflect.DeepEqual(got, []bson.M{{"_id": "t2", "size": int64(2)}, {"_id": "t3"}}) {
				t.Errorf("by a text: %v", got)
			}
			if got := mustFind(t, c, bson.D{{Key: "of", Value: "a"}}, sizes); !reflect.DeepEqual(got, []bson.M{{"_id": "t1", "size": int64(1)}}) {
				t.Errorf("by one text: %v", got)
			}
			// Seven have no such member, and are what is wanted, too.
			if got := mustFind(t, c, bson.D{{Key: "of", Value: bson.M{"$nin": bson.A{"d", "a"}}}}, sizes); len(got) != 8 || got[7]["_id"] != "t2" || got[7]["size"] != int64(2) || got[0]["_id"] != "q" {
				t.Errorf("by none of some: %v", got)
			}
			// A member of another kind than promised is FerretDB's to answer.
			if _, err := c.InsertOne(t.Context(), bson.M{"_id": "q/c", "size": 1.5}); err != nil {
				t.Fatal(err)
			}
			if got := mustFind(t, c, below, both); len(got) != 5 || got[3]["size"] != 1.5 {
				t.Errorf("with a part: %v", got)
			}
		})
	}
}

// TestNoDocumentIsReadForWhatIsBesideItsID: SQLite computes nothing from a document for it.
func TestNoDocumentIsReadForWhatIsBesideItsID(t *testing.T) {
	members := []string{"size", "more"}
	for name, at := range map[string]ferret.Config{
		"a collection of the start":  {Database: "test", Collections: []ferret.Collection{{Name: "documents", Covering: [][]string{{"_id", "size", "more"}, {"_id", "of", "size", "more"}}}}},
		"one that a client has made": {},
	} {
		t.Run(name, func(t *testing.T) {
			at.Dir = t.TempDir()
			c := connect(t, start(t, at).URI()).Database("test").Collection("documents")
			if _, err := c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "_id", Value: 1}, {Key: "size", Value: 1}, {Key: "more", Value: 1}}}); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "_id", Value: 1}, {Key: "of", Value: 1}, {Key: "size", Value: 1}, {Key: "more", Value: 1}}}); err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open("sqlite", "file:"+filepath.Join(at.Dir, "test.sqlite")+"?mode=ro")
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			var table string
			if err := db.QueryRowContext(t.Context(), "SELECT table_name FROM _ferretdb_collections").Scan(&table); err != nil {
				t.Fatal(err)
			}
			for _, wanted := range [][]string{members, members[:1], nil} {
				if steps := functions(t, db, ferret.BesideQuery(table, wanted), "a", "b"); steps != 0 {
					t.Errorf("%v: %d steps compute something from a document", wanted, steps)
				}
				if steps := functions(t, db, ferret.AllQuery(table, wanted)); steps != 0 {
					t.Errorf("%v of all: %d steps compute something from a document", wanted, steps)
				}
				for _, none := range []bool{false, true} {
					if steps := functions(t, db, ferret.BesideTextQuery(table, wanted, "of", none, "a", "b"), `"a"`, `"b"`); steps != 0 {
						t.Errorf("%v by a text (none %v): %d steps compute something from a document", wanted, none, steps)
					}
				}
			}
			if functions(t, db, ferret.BesideQuery(table, []string{"text"}), "a", "b") == 0 {
				t.Error("what is in no index is computed, and this test does not see it")
			}
		})
	}
}

// functions is how many steps of a query compute a function.
func functions(t *testing.T, db *sql.DB, query string, bounds ...any) (n int) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "EXPLAIN "+query, bounds...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var opcode string
		var rest any
		if err := rows.Scan(&rest, &opcode, &rest, &rest, &rest, &rest, &rest, &rest); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(opcode, "Function") {
			n++
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRanges of plain ids are answered as FerretDB would, and what is not plain, or large, is FerretDB's to answer.
func TestRanges(t *testing.T) {
	db := start(t, ferret.Config{Dir: t.TempDir(), Plain: []string{"lines-"}})
	c, other := connect(t, db.URI()).Database("test").Collection("lines-1"), connect(t, db.URI()).Database("test").Collection("documents")
	behind := connect(t, db.Behind()).Database("test")
	for _, id := range []string{"20261123T00.1/a-b/1", "20261123T00.1/a-b/2", "20261123T00.1/a-bc/1", "20261123T00.2/a-b/3", "2026", "20261124", "x"} {
		for _, c := range []*mongo.Collection{c, other} {
			if _, err := c.InsertOne(t.Context(), bson.M{"_id": id, "text": id}); err != nil {
				t.Fatal(err)
			}
		}
	}
	sorted := options.Find().SetSort(bson.M{"_id": 1})
	for name, bounds := range map[string]bson.D{
		"from one on":        {{Key: "$gte", Value: "20261123T00.1/a-b/2"}},
		"between two":        {{Key: "$gte", Value: "20261123T00.1/a-b"}, {Key: "$lt", Value: "20261123T00.2"}},
		"up to one":          {{Key: "$lt", Value: "20261123T00.1/a-bc/1"}},
		"of nothing":         {{Key: "$gte", Value: "y"}},
		"of all":             {{Key: "$gte", Value: ""}},
		"with what is quote": {{Key: "$gte", Value: `2026"`}},
		"of another kind":    {{Key: "$gt", Value: "2026"}, {Key: "$lte", Value: "20261124"}},
	} {
		filter := bson.D{{Key: "_id", Value: bounds}}
		want := mustFind(t, behind.Collection("lines-1"), filter, sorted)
		for _, c := range []*mongo.Collection{c, other} {
			if got := mustFind(t, c, filter, sorted); !reflect.DeepEqual(got, want) {
				t.Errorf("%s of %s: %v, not %v", name, c.Name(), got, want)
			}
		}
		if got := mustFind(t, c, filter, sorted, options.Find().SetLimit(2)); !reflect.DeepEqual(got, want[:min(2, len(want))]) {
			t.Errorf("%s, the first two: %v, not %v", name, got, want[:min(2, len(want))])
		}
	}
}
