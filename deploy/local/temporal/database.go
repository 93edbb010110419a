package temporal

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"

	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/persistence/sql"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/resolver"
	schema "go.temporal.io/server/schema/sqlite"
)

// visibilitySuffix, appended to the name of the main database file, is that of
// the visibility file: what listing and searching workflows reads. It is a
// database of its own because one database means one connection, and a third of
// the time on it would go into visibility.
const visibilitySuffix = ".visibility"

// unusedIndexes are indexes of the visibility table that cost every start and
// close of a workflow and speed up queries that nobody makes locally; with them
// a child workflow takes a fifth longer. The queries themselves still work.
const unusedIndexes = `
	by_execution_time by_history_length by_history_size_bytes by_execution_duration
	by_state_transition_count by_task_queue by_parent_run_id by_root_run_id
	by_batcher_user by_temporal_scheduled_start_time by_temporal_scheduled_by_id
	by_temporal_schedule_paused by_temporal_namespace_division by_temporal_pause_info
	by_temporal_worker_deployment by_temporal_worker_deployment_version
	by_temporal_workflow_versioning_behavior
	by_bool_01 by_bool_02 by_bool_03 by_datetime_01 by_datetime_02 by_datetime_03
	by_double_01 by_double_02 by_double_03 by_int_01 by_int_02 by_int_03
	by_temporal_bool_01 by_temporal_bool_02 by_temporal_datetime_01 by_temporal_datetime_02
	by_temporal_double_01 by_temporal_double_02 by_temporal_int_01 by_temporal_int_02
	by_temporal_keyword_01 by_temporal_keyword_02 by_temporal_keyword_03 by_temporal_keyword_04
	by_temporal_low_cardinality_keyword_01`

// database is one database with the server's schema.
//
// The server's driver for SQLite opens one connection per database name and keeps it for
// the life of the process, whoever closes what; a second database of the same
// name in the same process shares it.
type database struct {
	config *config.SQL
	admin  sqlplugin.AdminDB // of SQLite; PostgreSQL needs none while the server runs
}

// memoryDatabases numbers the databases in memory, whose names have to differ
// within the process.
var memoryDatabases atomic.Int64

// openDatabase opens, or creates, the database in file; an empty name means one
// in memory.
func openDatabase(file string) (*database, error) {
	cfg, err := sqlConfig(file)
	if err != nil {
		return nil, err
	}
	admin, err := sql.NewSQLAdminDB(sqlplugin.DbKindMain, cfg, resolver.NewNoopResolver(),
		log.NewNoopLogger(), metrics.NoopMetricsHandler)
	if err != nil {
		return nil, fmt.Errorf("open temporal database %s: %w", file, err)
	}
	db := &database{config: cfg, admin: admin}
	if err := db.ensureSchema(); err != nil {
		return nil, errors.Join(fmt.Errorf("set up temporal database %s: %w", file, err), db.close())
	}
	return db, nil
}

func sqlConfig(file string) (*config.SQL, error) {
	cfg := &config.SQL{PluginName: sqlite.PluginName}
	if file == "" {
		cfg.DatabaseName = fmt.Sprintf("drover-%d", memoryDatabases.Add(1))
		cfg.ConnectAttributes = map[string]string{"mode": "memory", "cache": "shared"}
		return cfg, nil
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("temporal database %s: %w", file, err)
	}
	cfg.DatabaseName = (&url.URL{Path: path}).EscapedPath() // it becomes part of a URI
	cfg.ConnectAttributes = map[string]string{
		"mode": "rwc",
		// A commit appends to the log and does not wait for the disk, which
		// makes 27 ms for a child workflow 10. When the process dies nothing is
		// lost; when the machine does the last moments may be, and what is left
		// is consistent.
		"journal_mode": "wal",
		"synchronous":  "normal",
	}
	return cfg, nil
}

// ensureSchema creates the tables in an empty database, all or none.
func (db *database) ensureSchema() error {
	// Through the one connection, BEGIN and COMMIT are statements like any other.
	if err := db.admin.Exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	tables, err := db.admin.ListTables("")
	if err == nil && len(tables) == 0 {
		err = db.createSchema()
	}
	if err != nil {
		return errors.Join(err, db.admin.Exec("ROLLBACK"))
	}
	return db.admin.Exec("COMMIT")
}

func (db *database) createSchema() error {
	if err := schema.SetupSchemaOnDB(db.admin); err != nil {
		return err
	}
	for _, index := range strings.Fields(unusedIndexes) {
		if err := db.admin.Exec("DROP INDEX IF EXISTS " + index); err != nil {
			return err
		}
	}
	return nil
}

// close moves what is in SQLite's log into the database file. The connection
// itself stays open, see database.
func (db *database) close() error {
	if db.admin == nil {
		return nil
	}
	err := db.admin.Exec("PRAGMA wal_checkpoint(TRUNCATE)")
	return errors.Join(err, db.admin.Close())
}
