package store_test

import (
	"sync"
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
	_, err = s.Unread(t.Context(), domain.Projects, "projects/b")
	newer(err) // it can be read by who is newer: it must not be deleted as if it were damaged
	require.Empty(t, s.CountUnread())
	list, err := s.List(t.Context(), domain.Projects, "")
	newer(err)
	require.Len(t, list, 1)
	ids, err := domain.UnreadableOf(err)
	require.NoError(t, err)
	require.Equal(t, []string{"projects/b"}, ids)

	for _, tenant := range []string{"old", "new"} {
		require.NoError(t, s.Create(t.Context(), &domain.Host{Identity: below(domain.TenantKey(tenant)), Metadata: named("h")}))
	}
	newHost := &domain.Host{Identity: below(domain.TenantKey("new")), Metadata: named("h")}
	set(domain.Hosts.Kind, string(domain.KeyOf(newHost)), 2)
	_, err = s.Children(t.Context(), domain.Hosts, domain.TenantKey("new"))
	newer(err)
	var wg sync.WaitGroup
	for range 20 { // some share a read with who asks for the other one
		wg.Go(func() { _, _ = s.Children(t.Context(), domain.Hosts, domain.TenantKey("new")) })
		wg.Go(func() {
			found, err := s.Children(t.Context(), domain.Hosts, domain.TenantKey("old"))
			if err != nil || len(found) != 1 {
				t.Errorf("the other parent's are %v, %v", found, err)
			}
		})
	}
	wg.Wait()

	owner := domain.Key("projects/p/composite-apps/ca/v1/deployment-intent-groups/g")
	require.NoError(t, s.PutInstance(t.Context(), instanceOf("1", owner, domain.ContextInstantiated)))
	set("instances", "1", 2)
	newer(s.UpdateInstance(t.Context(), "1", func(i *domain.Instance) error { i.Reason = "lost"; return nil }))

	home := domain.Home{Tenant: "t", ContextID: "2", Cluster: domain.ClusterName{Provider: "p", Name: "c"}, Namespace: "n"}
	require.NoError(t, s.PutHome(t.Context(), home))
	set("homes", home.ID(), 2)
	_, err = s.Home(t.Context(), home.ID())
	newer(err)
	_, err = s.HomesOf(t.Context(), "2")
	newer(err)

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
	_, err = s.LeafMarks(t.Context(), "1")
	newer(err)
	leaf.Turn.Began++
	newer(s.PutLeaf(t.Context(), leaf))
	for _, part := range parts(t, db, "leaves") {
		_, err := part.UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: 1}}}})
		require.NoError(t, err)
	}
	read, err = s.Leaf(t.Context(), leaf.ID)
	require.NoError(t, err)
	require.Equal(t, leaf.Turn.Began-1, read.Turn.Began, "nothing was written over it")
	require.NoError(t, s.PutLeaf(t.Context(), leaf), "the first version, said openly")
}
