package temporal

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"

	"go.temporal.io/server/api/historyservice/v1"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/persistence/sql"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	"go.temporal.io/server/common/resolver"
)

// Hold takes the one connection to a running server's database until release is
// called: to the server the database is busy.
func Hold(t *testing.T, file string) (release func()) {
	t.Helper()
	cfg, err := sqlConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.NewSQLDB(sqlplugin.DbKindMain, cfg, resolver.NewNoopResolver(), log.NewNoopLogger(), metrics.NoopMetricsHandler)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Patient is a client of the history service as the server's services have it.
func Patient(c historyservice.HistoryServiceClient) historyservice.HistoryServiceClient {
	return patientHistory{c}
}

// Logger is the logger of the server, and says whether that runs.
func Logger(l *slog.Logger) (log.Logger, *atomic.Bool) {
	running := &atomic.Bool{}
	return newLogger(l, running), running
}
