package ferret

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"slices"
	"strings"
)

// Collection is one that Start makes.
type Collection struct {
	Name string
	// Indexes are members that clients ask for indexes on, beside that on _id. FerretDB says that there are such indexes, and asks SQLite for
	// nothing but _id: only those of texts are made (see Config.Texts).
	Indexes []string
	// Covering are indexes of several members each, which have all that some query asks for (see Config.Beside).
	Covering [][]string
}

// prepare makes the collections that a database does not have, before FerretDB opens its file, and returns the names of those
// whose _id has an index that SQLite can use.
//
// FerretDB makes a collection by itself when something is put into it: in five statements, while nobody else gets anything.
// After each of them every connection reads the names of all tables and indexes anew. Where much is new at the same time,
// that takes seconds. Here all are made in one transaction, each with one index on _id and not two (see indexes).
func prepare(ctx context.Context, dir, database string, collections []Collection, texts []string) (indexed map[string]bool, err error) {
	db, err := sql.Open("sqlite", sqliteURL(filepath.Join(dir, database+".sqlite")))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS "_ferretdb_collections" (`+
		`name TEXT NOT NULL UNIQUE CHECK(name != ''), table_name TEXT NOT NULL UNIQUE CHECK(table_name != ''), `+
		`settings TEXT NOT NULL CHECK(settings != '')) STRICT`)
	if err != nil {
		return nil, err
	}
	there, err := namesIn(ctx, tx, `SELECT name FROM _ferretdb_collections`)
	if err != nil {
		return nil, err
	}
	for _, c := range collections {
		if there[c.Name] {
			continue
		}
		if err := c.create(ctx, tx); err != nil {
			return nil, fmt.Errorf("make collection %s: %w", c.Name, err)
		}
	}
	if err := indexTexts(ctx, tx, collections, texts); err != nil {
		return nil, err
	}
	indexed, err = namesIn(ctx, tx, `SELECT name FROM _ferretdb_collections WHERE table_name IN (`+usable+`)`, idColumn)
	if err != nil {
		return nil, err
	}
	return indexed, tx.Commit()
}

func namesIn(ctx context.Context, tx *sql.Tx, query string, args ...any) (names map[string]bool, err error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names = map[string]bool{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names[name] = true
	}
	return names, rows.Err()
}

// indexTexts makes the indexes of texts that are not there, under the names that FerretDB gives them.
func indexTexts(ctx context.Context, tx *sql.Tx, collections []Collection, texts []string) error {
	for _, c := range collections {
		for _, member := range c.Indexes {
			if !slices.Contains(texts, member) {
				continue
			}
			var table string
			if err := tx.QueryRowContext(ctx, `SELECT table_name FROM _ferretdb_collections WHERE name = ?`, c.Name).Scan(&table); err != nil {
				return fmt.Errorf("find collection %s: %w", c.Name, err)
			}
			if _, err := tx.ExecContext(ctx, fmt.Sprintf(`CREATE INDEX IF NOT EXISTS %q ON %q (%s)`,
				table+"_"+member+"_1", table, indexColumns([]string{member})[0])); err != nil {
				return fmt.Errorf("make index %s of %s: %w", member, c.Name, err)
			}
		}
	}
	return nil
}

// create makes what FerretDB would make, but for the spelling of the index.
func (c *Collection) create(ctx context.Context, tx *sql.Tx) error {
	h := fnv.New32a()
	h.Write([]byte(c.Name))
	table := fmt.Sprintf("%s_%08x", strings.ToLower(c.Name), h.Sum32())
	settings, err := c.settings()
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf(`CREATE TABLE %q (_ferretdb_sjson TEXT NOT NULL CHECK(_ferretdb_sjson != '')) STRICT`, table)); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf(`CREATE UNIQUE INDEX %q ON %q (%s)`, table+"__id_", table, idColumn)); err != nil {
		return err
	}
	for _, members := range c.Covering {
		columns := strings.Join(indexColumns(members), ", ")
		if _, err := tx.ExecContext(ctx, fmt.Sprintf(`CREATE INDEX %q ON %q (%s)`, table+"_"+nameOf(members), table, columns)); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO _ferretdb_collections (name, table_name, settings) VALUES (?, ?, ?)`, c.Name, table, settings)
	return err
}

// nameOf is what clients call an index on members.
func nameOf(members []string) string { return strings.Join(members, "_1_") + "_1" }

// settings are what FerretDB keeps of a collection.
func (c *Collection) settings() (string, error) {
	type field struct {
		Field      string `json:"field"`
		Descending bool   `json:"descending"`
	}
	type index struct {
		Name   string  `json:"name"`
		Key    []field `json:"key"`
		Unique bool    `json:"unique"`
	}
	indexes := []index{{Name: "_id_", Key: []field{{Field: "_id"}}, Unique: true}}
	for _, member := range c.Indexes {
		indexes = append(indexes, index{Name: member + "_1", Key: []field{{Field: member}}})
	}
	for _, members := range c.Covering {
		covering := index{Name: nameOf(members)}
		for _, member := range members {
			covering.Key = append(covering.Key, field{Field: member})
		}
		indexes = append(indexes, covering)
	}
	data, err := json.Marshal(map[string]any{"uuid": newUUID(), "indexes": indexes, "cappedSize": 0, "cappedDocuments": 0})
	return string(data), err
}

// newUUID is a random one, version 4.
func newUUID() string {
	var u [16]byte
	_, _ = rand.Read(u[:]) // it never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	text := hex.EncodeToString(u[:])
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-")
}
