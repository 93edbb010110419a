package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/storetest"
)

// TestWhatCannotBeReadIsNamed: one that is damaged, of documents, records of app contexts and leaves, takes nothing else with it, and who
// asks for all of them learns which one it is.
func TestWhatCannotBeReadIsNamed(t *testing.T) {
	config := shared(t)
	s := storetest.Open(t, config)
	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, s.Create(t.Context(), project(name)))
	}
	config.Keys = sealer(t, "other")
	other := storetest.Open(t, config) // who has it can read what nobody else can
	require.NoError(t, other.Create(t.Context(), project("aa")))
	c := rawDatabase(t, config).Collection("projects")
	_, err := c.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: "projects/b"}}, bson.D{{Key: "$set", Value: bson.D{{Key: "revision", Value: int64(7)}}}})
	require.NoError(t, err)

	list, err := s.List(t.Context(), domain.Projects, "")
	requireKind(t, err, fail.Internal)
	ids, err := domain.UnreadableOf(err)
	require.NoError(t, err)
	require.Equal(t, []string{"projects/aa", "projects/b"}, ids)
	require.Len(t, list, 2)
	handed := 0
	ids, err = domain.UnreadableOf(s.Each(t.Context(), domain.Projects, "", func(domain.Object) error { handed++; return nil }))
	require.NoError(t, err)
	require.Equal(t, []string{"projects/aa", "projects/b"}, ids)
	require.Equal(t, 2, handed)
	page, _, err := s.Page(t.Context(), domain.Projects, "", "projects/a", 2, 1<<20)
	require.Empty(t, page)
	ids, err = domain.UnreadableOf(err)
	require.NoError(t, err)
	require.Equal(t, []string{"projects/aa", "projects/b"}, ids)

	owner := domain.Key("projects/p/composite-apps/ca/v1/deployment-intent-groups/g")
	require.NoError(t, s.PutInstance(t.Context(), instanceOf("1", owner, domain.ContextInstantiated)))
	require.NoError(t, other.PutInstance(t.Context(), instanceOf("2", owner, domain.ContextInstantiated)))
	records, err := s.InstancesByID(t.Context(), []string{"1", "2", "3"})
	require.Len(t, records, 1)
	ids, err = domain.UnreadableOf(err)
	require.NoError(t, err)
	require.Equal(t, []string{"2"}, ids)

	good, bad := leafOf("1", "app", 1), leafOf("1", "app", 2)
	bad.LastError = "quoted"
	require.NoError(t, s.PutLeaf(t.Context(), good))
	require.NoError(t, other.PutLeaf(t.Context(), bad))
	leaves, err := s.Leaves(t.Context(), "1")
	require.Len(t, leaves, 1)
	ids, err = domain.UnreadableOf(err)
	require.NoError(t, err)
	require.Equal(t, []string{domain.LeafID("1", "app", bad.Cluster) + "#" + string(bad.Operation)}, ids)
	handed = 0
	again, err := domain.UnreadableOf(s.EachLeaf(t.Context(), "1", func(domain.Leaf) error { handed++; return nil }))
	require.NoError(t, err)
	require.Equal(t, ids, again)
	require.Equal(t, 1, handed)
	marks, err := s.LeafMarks(t.Context(), "1")
	require.NoError(t, err, "marks are not sealed")
	require.Len(t, marks, 2)
}
