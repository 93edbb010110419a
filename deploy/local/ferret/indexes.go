package ferret

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	_ "modernc.org/sqlite" // the driver FerretDB uses
)

// idColumn is a document's _id as FerretDB spells it in queries.
const idColumn = `_ferretdb_sjson->'$._id'`

// indexColumns are members of documents as FerretDB spells them in the indexes that clients ask for.
func indexColumns(members []string) []string {
	columns := make([]string, len(members))
	for i, m := range members {
		columns[i] = fmt.Sprintf(`_ferretdb_sjson->%q`, m)
	}
	return columns
}

// usable finds the tables that have an index on the column that is the argument.
const usable = `SELECT tbl_name FROM sqlite_schema WHERE type = 'index' AND instr(sql, '(' || ? || ')') > 0`

// indexes gives every collection an index on _id that SQLite can use.
//
// FerretDB makes one, but spells the expression in it ->"_id" and that in its
// queries ->'$._id'. To SQLite those have nothing to do with each other, and so
// every find, update and delete of one document reads all of them.
type indexes struct {
	dir string

	mu   sync.Mutex // also held while an index is made, so that forget comes before or after
	done map[string]bool
}

func newIndexes(dir string) *indexes { return &indexes{dir: dir, done: map[string]bool{}} }

// note takes the collections of a database that have one.
func (x *indexes) note(database string, collections map[string]bool) {
	for c := range collections {
		x.done[database+"."+c] = true
	}
}

// ensure makes the index of the collection unless it has it. A collection that
// does not exist is left for later.
func (x *indexes) ensure(ctx context.Context, database, collection string) error {
	key := database + "." + collection
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.done[key] {
		return nil
	}
	exists, err := x.create(ctx, filepath.Join(x.dir, database+".sqlite"), collection)
	if err != nil {
		return fmt.Errorf("make index of %s: %w", key, err)
	}
	x.done[key] = exists
	return nil
}

// forget is for when a command may have dropped a collection.
func (x *indexes) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.done)
}

func (x *indexes) create(ctx context.Context, file, collection string) (exists bool, err error) {
	db, err := sql.Open("sqlite", sqliteURL(file)+"&mode=rw")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	var table string
	err = db.QueryRowContext(ctx, `SELECT table_name FROM _ferretdb_collections WHERE name = ?`, collection).Scan(&table)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var indexed bool
	err = db.QueryRowContext(ctx, `SELECT ? IN (`+usable+`)`, table, idColumn).Scan(&indexed)
	if err != nil || indexed {
		return indexed, err
	}
	_, err = db.ExecContext(ctx, fmt.Sprintf(`CREATE INDEX IF NOT EXISTS %q ON %q (%s)`, table+"_drover_id", table, idColumn))
	return err == nil, err
}
