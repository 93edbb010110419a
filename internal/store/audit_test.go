package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// TestPutAuditAgain: lines of which a part is stored, since the answer was lost, are stored once; another line in the place of one is
// an error, and what is before it is said to be there.
func TestPutAuditAgain(t *testing.T) {
	s := storetest.Open(t, store.Config{})
	chain := audit.NewChain("writer")
	at := time.Date(2026, 11, 23, 23, 59, 59, 0, time.UTC)
	lines := make([]audit.Line, 200)
	for i := range lines {
		if i == 150 {
			at = at.Add(time.Hour)
		}
		var err error
		lines[i], _, err = chain.Add(audit.Record{Event: audit.Answered, Key: fmt.Sprint(i)}, at, nil)
		require.NoError(t, err)
	}
	for _, n := range []int{70, 70, 120, 170, 200, 200} {
		stored, err := s.PutAudit(t.Context(), lines[:n])
		require.NoError(t, err)
		require.Equal(t, n, stored)
	}
	var have []audit.Line
	require.NoError(t, s.AuditLines(t.Context(), "", "", false, func(l audit.Line) (bool, error) {
		have = append(have, l)
		return true, nil
	}))
	require.Equal(t, lines, have)
	lines[160].Text = []byte("another")
	stored, err := s.PutAudit(t.Context(), lines)
	require.True(t, fail.Is(err, fail.Internal), "%v", err)
	require.Equal(t, 160, stored)
}

// TestAPresenceThatCannotBeRead is one of which nothing is known but the name: others start all the same.
func TestAPresenceThatCannotBeRead(t *testing.T) {
	c := storetest.Config(t)
	s := storetest.Open(t, c)
	good := audit.Presence{Writer: "api-1", Checkpoint: "{}", Seen: time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)}
	require.NoError(t, s.PutAuditor(t.Context(), good))
	client, err := mongo.Connect(options.Client().ApplyURI(c.URI))
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Disconnect(context.WithoutCancel(t.Context()))) }()
	_, err = client.Database(c.Database).Collection("auditors").InsertOne(t.Context(), bson.D{{Key: "_id", Value: "worker-2"}, {Key: "seen", Value: "yesterday"}})
	require.NoError(t, err)
	present, err := s.Auditors(t.Context())
	require.NoError(t, err)
	require.Len(t, present, 2)
	require.Equal(t, good, present[0])
	require.Contains(t, present[1].Writer, "worker-2")
	require.Zero(t, present[1].Seen)
	require.Empty(t, present[1].Checkpoint)
}

// TestTheDatabasesClock is that of this machine here.
func TestTheDatabasesClock(t *testing.T) {
	s := storetest.Open(t, store.Config{})
	at, err := s.AuditClock(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), at, 10*time.Minute)
}
