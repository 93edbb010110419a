package ferret_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/drover-io/drover/deploy/local/ferret"
)

// schema is how often names of tables and indexes have changed in the file of a database, and those that there are.
func schema(t *testing.T, dir string) (version int, names string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "test.sqlite")+"?mode=ro")
	if err == nil {
		defer db.Close()
		err = db.QueryRowContext(t.Context(), "PRAGMA schema_version").Scan(&version)
	}
	if err == nil {
		err = db.QueryRowContext(t.Context(), "SELECT group_concat(name, ' ') FROM (SELECT name FROM sqlite_schema ORDER BY name)").Scan(&names)
	}
	if err != nil {
		t.Fatal(err)
	}
	return version, names
}

// use does all that clients do.
func use(t *testing.T, c *mongo.Collection, key string) {
	t.Helper()
	ctx := t.Context()
	if _, err := c.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "parent", Value: 1}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.InsertOne(ctx, bson.M{"_id": key, "parent": "p"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.InsertOne(ctx, bson.M{"_id": key}); !mongo.IsDuplicateKeyError(err) {
		t.Fatalf("a second insert of an _id: %v", err)
	}
	if err := replace(ctx, c, key); err != nil {
		t.Fatal(err)
	}
	if _, err := c.UpdateOne(ctx, bson.M{"_id": key, "n": 1}, bson.M{"$set": bson.M{"n": 2}}); err != nil {
		t.Fatal(err)
	}
	if found := mustFind(t, c, bson.M{"_id": key}); len(found) != 1 || found[0]["n"] != int32(2) {
		t.Fatalf("found %v", found)
	}
	if _, err := c.DeleteOne(ctx, bson.M{"_id": key + "none"}); err != nil {
		t.Fatal(err)
	}
}

// TestNothingIsMadeWhileClientsWork in a database whose collections are made at the start: after each change of the names of tables and
// indexes, each of up to a hundred connections reads all of them anew.
func TestNothingIsMadeWhileClientsWork(t *testing.T) {
	dir := t.TempDir()
	var before int
	var names string
	for _, key := range []string{"a", "b"} { // the second time on the data of the first
		db := start(t, prepared(dir))
		version, found := schema(t, dir)
		if names == "" {
			before, names = version, found
		}
		c := connect(t, db.URI()).Database("test").Collection("documents")
		use(t, c, key)
		if now, found := schema(t, dir); now != before || found != names || version != before {
			t.Errorf("the schema was changed: version %d, then %d and %d\n%s\n%s", before, version, now, names, found)
		}
		if strings.Count(names, "documents_") != 2 {
			t.Errorf("one table with one index is enough: %s", names)
		}
	}
}

// TestCollectionsOfAnEarlierServer stay as they are, and those that it had not are made beside them.
func TestCollectionsOfAnEarlierServer(t *testing.T) {
	dir := t.TempDir()
	earlier, err := ferret.Start(t.Context(), ferret.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	use(t, connect(t, earlier.URI()).Database("test").Collection("documents"), "a")
	if err := earlier.Stop(); err != nil {
		t.Fatal(err)
	}
	db := connect(t, start(t, prepared(dir)).URI()).Database("test")
	before, names := schema(t, dir)
	use(t, db.Collection("documents"), "b")
	use(t, db.Collection("others"), "a")
	if n := len(mustFind(t, db.Collection("documents"), bson.M{})); n != 2 {
		t.Errorf("%d documents", n)
	}
	if now, found := schema(t, dir); now != before || strings.Count(found, "others_") != 2 {
		t.Errorf("the schema was changed: version %d, then %d\n%s\n%s", before, now, names, found)
	}
}
