package harness

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/postgrestest"
)

// Postgres is a PostgreSQL server with the settings it is installed with.
type Postgres struct{ *postgrestest.Server }

// StartPostgres starts a PostgreSQL server, which ends with the test. It skips the test where PostgreSQL is
// not installed.
func StartPostgres(t testing.TB) *Postgres {
	t.Helper()
	return &Postgres{postgrestest.Start(t)}
}

// CPU is the time that the server and the processes of its connections have spent on processors, user and
// system.
func (p *Postgres) CPU(t testing.TB) time.Duration {
	t.Helper()
	spent, err := withChildren(p.PID)
	require.NoError(t, err)
	return spent
}
