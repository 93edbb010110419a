package store_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/internal/storetest"
)

// TestWhatCannotBeReadIsCounted as it was read last, and forgotten when it can be read again, is gone, or was not read for an hour.
func TestWhatCannotBeReadIsCounted(t *testing.T) {
	config := shared(t)
	var ahead time.Duration
	config.Now = func() time.Time { return time.Now().Add(ahead) }
	s := storetest.Open(t, config)
	damaged, err := secret.Parse("test:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("o", 32))))
	require.NoError(t, err)
	config.Keys = damaged // of the same name as the stores' own
	other := storetest.Open(t, config)
	require.NoError(t, s.Create(t.Context(), project("a")))
	for _, name := range []string{"b", "c", "d"} {
		require.NoError(t, other.Create(t.Context(), project(name)))
	}
	require.Empty(t, s.CountUnread())
	for range 2 {
		_, err := s.List(t.Context(), domain.Projects, "")
		requireKind(t, err, fail.Internal)
	}
	require.Equal(t, map[string]int{"projects": 3}, s.CountUnread())

	put := func(name string) { // somebody puts it back from a backup
		t.Helper()
		require.NoError(t, other.Delete(t.Context(), domain.Projects, domain.Key("projects/"+name), 0))
		require.NoError(t, s.Create(t.Context(), project(name)))
	}
	put("b")
	_, err = s.Get(t.Context(), domain.Projects, "projects/b")
	require.NoError(t, err)
	require.Equal(t, map[string]int{"projects": 2}, s.CountUnread())

	raw, err := s.Unread(t.Context(), domain.Projects, "projects/c")
	require.NoError(t, err)
	_, err = s.Unread(t.Context(), domain.Projects, "projects/a")
	requireKind(t, err, fail.Conflict)
	_, err = s.Unread(t.Context(), domain.Projects, "projects/none")
	requireKind(t, err, fail.NotFound)
	require.NoError(t, s.Discard(t.Context(), domain.Projects, "projects/c", raw))
	requireKind(t, s.Discard(t.Context(), domain.Projects, "projects/c", raw), fail.NotFound)
	require.Equal(t, map[string]int{"projects": 1}, s.CountUnread())
	require.NoError(t, s.PutBack(t.Context(), domain.Projects, "projects/c", raw))
	c, err := other.Get(t.Context(), domain.Projects, "projects/c")
	require.NoError(t, err, "it is as it was")
	require.NoError(t, other.Replace(t.Context(), c))
	requireKind(t, s.Discard(t.Context(), domain.Projects, "projects/c", raw), fail.Conflict)
	requireKind(t, s.PutBack(t.Context(), domain.Projects, "projects/c", raw), fail.Conflict)

	ahead = 2 * time.Hour
	require.Empty(t, s.CountUnread())
	_, err = rawDatabase(t, config).Collection("projects").InsertOne(t.Context(), bson.D{{Key: "_id", Value: "projects/e"}, {Key: "name", Value: "open"}})
	require.NoError(t, err)
	raw, err = s.Unread(t.Context(), domain.Projects, "projects/e")
	require.NoError(t, err, "what is not sealed cannot be read either")
	require.Equal(t, map[string]int{"projects": 1}, s.CountUnread())
	require.NoError(t, s.Discard(t.Context(), domain.Projects, "projects/e", raw))
	require.Empty(t, s.CountUnread())
}
