package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/storetest"
	"github.com/drover-io/drover/internal/version"
)

// TestWhatANewerBuildHasWritten is refused, each way of reading and writing, and takes nothing else with it. What says no version is read.
func TestWhatANewerBuildHasWritten(t *testing.T) {
	config := shared(t)
	s := storetest.Open(t, config)
	db := rawDatabase(t, config)
	set := func(collection, id string, version int) {
		t.Helper()
		r, err := db.Collection(collection).UpdateOne(t.Context(), bson.D{{Key: "_id", Value: id}}, bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: version}}}})
		require.NoError(t, err)
		require.Equal(t, int64(1), r.ModifiedCount)
	}
	newer := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, version.ErrNewer)
		requireKind(t, err, fail.Unavailable)
	}
	require.NoError(t, s.Create(t.Context(), project("a")))
	require.NoError(t, s.Create(t.Context(), project("b")))
	set("projects", "projects/b", 2)
	_, err := s.Get(t.Context(), domain.Projects, "projects/b")
	newer(err)
	require.ErrorContains(t, err, `document "projects/b" of projects has version 2`)
	require.ErrorContains(t, err, version.Of().Version)
	list, err := s.List(t.Context(), domain.Projects, "")
	newer(err)
	require.Len(t, list, 1)
	ids, err := domain.UnreadableOf(err)
	require.NoError(t, err)
	require.Equal(t, []string{"projects/b"}, ids)

	owner := domain.Key("projects/p/composite-apps/ca/v1/deployment-intent-groups/g")
	require.NoError(t, s.PutInstance(t.Context(), instanceOf("1", owner, domain.ContextInstantiated)))
	set("instances", "1", 2)
	newer(s.UpdateInstance(t.Context(), "1", func(i *domain.Instance) error { i.Reason = "lost"; return nil }))

	leaf := leafOf("1", "app", 1)
	require.NoError(t, s.PutLeaf(t.Context(), leaf))
	leaf.ID = domain.LeafID("1", "app", leaf.Cluster)
	read, err := s.Leaf(t.Context(), leaf.ID)
	require.NoError(t, err, "it has no version, which is the first one")
	require.Equal(t, leaf.Marks, read.Marks)
	for _, part := range parts(t, db, "leaves") {
		_, err := part.UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: 2}}}})
		require.NoError(t, err)
	}
	_, err = s.Leaf(t.Context(), leaf.ID)
	newer(err)
}
