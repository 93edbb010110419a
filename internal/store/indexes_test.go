package store

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/drover-io/drover/internal/mongotest"
)

// TestAnIndexMayTakeItsTime has no deadline sent with what makes one: MongoDB would break off that of a large collection, again and again. Nor does it wait for
// members that are down.
func TestAnIndexMayTakeItsTime(t *testing.T) {
	var asked, bounded, byMajority atomic.Int64
	watched := options.Client().ApplyURI(mongotest.URI(t)).SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if e.CommandName != "createIndexes" {
				return
			}
			asked.Add(1)
			if _, err := e.Command.LookupErr("maxTimeMS"); err == nil {
				bounded.Add(1)
			}
			if quorum, _ := e.Command.Lookup("commitQuorum").StringValueOK(); quorum == "majority" {
				byMajority.Add(1)
			}
		},
	})
	client, err := mongo.Connect(watched)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) })
	s := &Store{db: client.Database(mongotest.Database(t)), timeout: 10 * time.Second}
	require.NoError(t, s.ensureIndex(t.Context(), "things", "parent"))
	require.EqualValues(t, 1, asked.Load())
	require.Zero(t, bounded.Load())
	require.EqualValues(t, 1, byMajority.Load())
}

// TestAnIndexOfAServerInNoSet is made by that server alone: MongoDB refuses to be told of a majority there.
func TestAnIndexOfAServerInNoSet(t *testing.T) {
	proxy := mongotest.NewProxy(t, mongotest.URI(t))
	proxy.Refuse(func(command string, body bson.Raw) string {
		if _, err := body.LookupErr("commitQuorum"); err == nil && command == "createIndexes" {
			return "Standalones can't specify commitQuorum"
		}
		return ""
	})
	client, err := mongo.Connect(options.Client().ApplyURI(proxy.URI()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) })
	s := &Store{db: client.Database(mongotest.Database(t)), timeout: 10 * time.Second}
	require.NoError(t, s.ensureIndex(t.Context(), "things", "parent"))
	made, err := s.db.Collection("things").Indexes().ListSpecifications(t.Context())
	require.NoError(t, err)
	require.Len(t, made, 2)
	require.Equal(t, "parent_1", made[1].Name)
}
