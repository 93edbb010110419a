package store_test

import (
	"context"
	"fmt"
	"slices"
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
	at, err := s.Clock(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), at, 10*time.Minute)
}

// TestALineAmongThoseOfAnotherDay has an ID of that day, which no record has, so that it is seen where it is: also page by page.
func TestALineAmongThoseOfAnotherDay(t *testing.T) {
	c := storetest.Config(t)
	s := storetest.Open(t, c)
	client, err := mongo.Connect(options.Client().ApplyURI(c.URI))
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Disconnect(context.WithoutCancel(t.Context()))) }()
	for collection, ids := range map[string][]string{
		"audit-20261122": {"20261122T010000.000/api/000000000001"},
		"audit-20261123": {
			"20261121T010000.000/api/000000000002", "20261123/odd", "20261123T010000.000/api/000000000003", "20261123T020000.000/api/000000000004",
			"20261123~/odd", "20261124T010000.000/api/000000000005", "20261125T010000.000/api/000000000006",
		},
		"audit-20261124": {"20261124T000000.000/api/000000000007"},
		"audit-2026":     {"20261124T000000.000/api/000000000008"},
	} {
		for _, id := range ids {
			_, err = client.Database(c.Database).Collection(collection).InsertOne(t.Context(), bson.D{{Key: "_id", Value: id}, {Key: "text", Value: id}})
			require.NoError(t, err)
		}
	}
	places := []string{
		"20261122T010000.000/api/000000000001",
		"20261123/20261121T010000.000/api/000000000002", "20261123/20261123/odd", "20261123T010000.000/api/000000000003", "20261123T020000.000/api/000000000004",
		"20261123~/20261123~/odd", "20261123~/20261124T010000.000/api/000000000005", "20261123~/20261125T010000.000/api/000000000006",
		"20261124T000000.000/api/000000000007",
	}
	read := func(from, to string, backwards bool, most int) (ids []string) {
		t.Helper()
		require.NoError(t, s.AuditLines(t.Context(), from, to, backwards, func(l audit.Line) (bool, error) {
			ids = append(ids, l.ID)
			return len(ids) < most, nil
		}))
		return ids
	}
	require.Equal(t, places, read("", "", false, 100))
	require.Equal(t, places[:8], read("20261122T000000.000", "20261124", false, 100))
	require.Equal(t, places[3:8], read("20261123T000000.000", "20261124", false, 100), "of a day a part of which is asked for, those of the time")
	require.Equal(t, places[4:], read("20261123T020000.000", "", false, 100))
	for _, size := range []int{1, 2, 3} {
		var pages []string
		for page := read("", "", true, size); len(page) > 0; page = read("", page[len(page)-1], true, size) {
			require.LessOrEqual(t, len(pages), len(places), "it comes to an end")
			pages = append(pages, page...)
		}
		slices.Reverse(pages)
		require.Equal(t, places, pages, "pages of %d", size)
	}
}
