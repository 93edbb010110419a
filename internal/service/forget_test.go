package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// unwatching notes for which contexts watches are ended.
type unwatching struct {
	service.Engine
	contexts []string
	err      error
}

func (u *unwatching) StopWatching(_ context.Context, contextID string) error {
	u.contexts = append(u.contexts, contextID)
	return u.err
}

// TestForget: what a terminate that failed has left is not watched for a group that is not there any more.
func TestForget(t *testing.T) {
	db := storetest.Open(t, store.Config{})
	engine := &unwatching{err: fail.New(fail.Unavailable, "the workflow engine is not available")}
	l := service.NewLifecycle(db, db, nil, engine, time.Now)
	key := domain.KeyOf(group("dig"))
	for _, i := range []*domain.Instance{
		{ContextID: "1", Status: domain.ContextTerminated},
		{ContextID: "2", Status: domain.ContextUpdated},
		{ContextID: "3", Status: domain.ContextTerminateFailed, Label: "2"},
	} {
		i.Owner = key
		require.NoError(t, db.PutInstance(t.Context(), i))
	}
	found, err := l.Forget(t.Context(), key)
	require.ErrorIs(t, err, engine.err)
	require.True(t, found)
	require.Equal(t, []string{"2"}, engine.contexts, "it is watched for by its label")
	left, err := db.InstancesOf(t.Context(), key)
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestWhatADeletedGroupLeaves is said with the deletion: a group goes though its terminate was stopped, and what is in its clusters stays.
func TestWhatADeletedGroupLeaves(t *testing.T) {
	o := newOwned(t)
	o.has(t, theGroup, "Instantiated 1", "TerminateStopped 1")
	p := plan.Plan{ContextID: "1", Owner: theGroup, Apps: []plan.App{{Name: "app", Resources: make([]plan.ResourceID, 3)}}}
	for n := range 8 {
		c := domain.ClusterName{Provider: "p", Name: fmt.Sprintf("edge%02d", n)}
		p.Apps[0].Targets = append(p.Apps[0].Targets, plan.Target{ClusterName: c})
		marks := domain.Marks{domain.MarkDoomed, domain.MarkDeleted, domain.MarkUndeleted}
		if n == 0 {
			marks = domain.Marks{domain.MarkDeleted, domain.MarkKept, domain.MarkIdle}
		}
		require.NoError(t, o.store.PutLeaf(t.Context(), domain.Leaf{
			ID: domain.LeafID("1", "app", c), ContextID: "1", Operation: domain.OpTerminate, App: "app", Cluster: c, Marks: marks.Encode(),
		}))
	}
	data, err := json.Marshal(p)
	require.NoError(t, err)
	digest, err := o.store.PutBlob(t.Context(), data)
	require.NoError(t, err)
	require.NoError(t, o.store.PutInstance(t.Context(), &domain.Instance{
		ContextID: "1", Owner: theGroup, Origin: domain.OpInstantiate, Operation: domain.OpTerminate, Status: domain.ContextTerminateFailed, Plan: digest,
	}))
	left, err := o.verbs.Remove(t.Context(), domain.DeploymentIntentGroups, theGroup)
	require.NoError(t, err)
	require.Equal(t, []string{"up to 14 of its resources stay in clusters, and nothing deletes them any more: " +
		"p+edge01 (2), p+edge02 (2), p+edge03 (2), p+edge04 (2), p+edge05 (2) and 2 more"}, left)
	_, err = o.store.Get(t.Context(), domain.DeploymentIntentGroups, theGroup)
	require.True(t, fail.Is(err, fail.NotFound))

	o.has(t, givenTo, "Instantiated 2", "Terminated 2")
	o.record(t, domain.Instance{ContextID: "2", Owner: givenTo, Origin: domain.OpInstantiate, Operation: domain.OpTerminate, Status: domain.ContextTerminated}, "edge01")
	left, err = o.verbs.Remove(t.Context(), domain.DeploymentIntentGroups, givenTo)
	require.NoError(t, err)
	require.Empty(t, left)
}

// unfinished is a group whose terminate has failed on a cluster that does not come back.
func unfinished(t *testing.T) *owned {
	t.Helper()
	o := newOwned(t)
	o.has(t, theGroup, "Instantiated 1", "TerminateStopped 1")
	o.record(t, domain.Instance{ContextID: "1", Owner: theGroup, Origin: domain.OpInstantiate, Operation: domain.OpTerminate, Status: domain.ContextTerminateFailed}, "edge01")
	require.NoError(t, o.store.PutLeaf(t.Context(), domain.Leaf{
		ID: domain.LeafID("1", "app", domain.ClusterName{Provider: "p", Name: "edge01"}), ContextID: "1", Operation: domain.OpTerminate, App: "app",
		Cluster: domain.ClusterName{Provider: "p", Name: "edge01"}, Marks: domain.Marks{domain.MarkUndeleted}.Encode(),
	}))
	return o
}

var errLost = fail.New(fail.Timeout, "the database does not answer in time")

// TestADeletionWhoseAnswerIsLost is done: nothing that was recorded stays. Where its process dies, the one that is tried again does that.
func TestADeletionWhoseAnswerIsLost(t *testing.T) {
	o := unfinished(t)
	o.store.after = func(context.Context) error { return errLost }
	left, err := o.verbs.Remove(t.Context(), domain.DeploymentIntentGroups, theGroup)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Nil(t, o.instance(t, "1"))

	o = unfinished(t)
	require.NoError(t, o.store.Store.Delete(t.Context(), domain.DeploymentIntentGroups, theGroup, 0))
	require.NotNil(t, o.instance(t, "1"))
	require.NoError(t, o.deleteCluster(t.Context(), "edge01"), "the group is gone")
	left, err = o.verbs.Remove(t.Context(), domain.DeploymentIntentGroups, theGroup)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Contains(t, left[0], "p+edge01 (1)")
	require.Nil(t, o.instance(t, "1"))
	leaves, err := o.store.Leaves(t.Context(), "1")
	require.NoError(t, err)
	require.Empty(t, leaves)
	_, err = o.verbs.Remove(t.Context(), domain.DeploymentIntentGroups, theGroup)
	require.True(t, fail.Is(err, fail.NotFound), "%v", err)
	_, err = o.verbs.Remove(t.Context(), domain.DeploymentIntentGroups, theGroup+"x")
	require.True(t, fail.Is(err, fail.NotFound), "%v", err)

	// So it is of a cluster, which is deleted in a way of its own.
	edge := domain.Key("cluster-providers/p/clusters/edge02")
	o.has(t, edge, "Applied 2", "TerminateStopped 2")
	o.record(t, domain.Instance{ContextID: "2", Owner: edge, Origin: domain.OpInstantiate, Operation: domain.OpTerminate, Status: domain.ContextTerminateFailed}, "edge02")
	require.NoError(t, o.store.Store.Delete(t.Context(), domain.ClustersNoun, edge, 0))
	_, err = o.verbs.RemoveCluster(t.Context(), edge, false)
	require.NoError(t, err)
	require.Nil(t, o.instance(t, "2"))
}

// TestANewOwnerHasNothingOfTheOneBefore: whoever has deleted that has died before all of it had gone.
func TestANewOwnerHasNothingOfTheOneBefore(t *testing.T) {
	o := newOwned(t)
	edge := &domain.Cluster{Identity: identity("cluster-providers/p"), Metadata: domain.Metadata{Name: "edge02"}}
	standard := cloud("lc1")
	standard.Spec = domain.LogicalCloudSpec{Level: domain.LevelStandard, Namespace: "ns"}
	for id, owner := range map[string]domain.Object{"1": group("dig"), "2": standard, "3": edge} {
		key := domain.KeyOf(owner)
		require.NoError(t, o.store.Store.Delete(t.Context(), owner.Noun(), key, 0))
		o.record(t, domain.Instance{ContextID: id, Owner: key, Origin: domain.OpInstantiate, Operation: domain.OpTerminate, Status: domain.ContextTerminateFailed}, "edge01")
		require.NoError(t, o.verbs.Create(t.Context(), owner))
		require.Nil(t, o.instance(t, id), key)
		o.record(t, domain.Instance{ContextID: id, Owner: key, Origin: domain.OpInstantiate, Operation: domain.OpInstantiate, Status: domain.ContextInstantiated}, "edge01")
		require.True(t, fail.Is(o.verbs.Create(t.Context(), owner), fail.Conflict))
		require.NotNil(t, o.instance(t, id), "what is recorded of %s, which is there, stays", key)
	}
}

// TestAnOwnerIsNotBlamedForTheOneBefore: a group that somebody has made while the one before was deleted has nothing in a cluster by what is
// recorded of that one.
func TestAnOwnerIsNotBlamedForTheOneBefore(t *testing.T) {
	o := unfinished(t)
	require.True(t, fail.Is(o.deleteCluster(t.Context(), "edge01"), fail.Conflict))
	require.NoError(t, o.store.Store.Delete(t.Context(), domain.DeploymentIntentGroups, theGroup, 0))
	again := group("dig")
	again.History = domain.NewHistory(time.Unix(2, 0))
	require.NoError(t, o.store.Store.Create(t.Context(), again))
	o.engine.operations[domain.OpTerminate] = true
	require.True(t, fail.Is(o.deleteCluster(t.Context(), "edge01"), fail.Conflict), "what runs may send something")
	o.engine.operations[domain.OpTerminate] = false
	require.NoError(t, o.deleteCluster(t.Context(), "edge01"))
}

// TestANewClusterHasNothingOfTheOneBefore: an API that dies while a cluster is removed leaves its labels, which would select the next one of
// its name.
func TestANewClusterHasNothingOfTheOneBefore(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, f.Create(t.Context(), &domain.ClusterProvider{Metadata: domain.Metadata{Name: "p"}}))
	children := func() []domain.Object {
		return []domain.Object{
			&domain.ClusterLabel{Identity: identity(theEdge), Label: "gpu"},
			&domain.ClusterKV{Identity: identity(theEdge), Metadata: domain.Metadata{Name: "kv"}, Spec: domain.KVSpec{KV: []map[string]string{{"a": "b"}}}},
		}
	}
	for _, o := range children() {
		require.NoError(t, f.store.Store.Create(t.Context(), o))
	}
	cluster := func() *domain.Cluster {
		return &domain.Cluster{Identity: identity("cluster-providers/p"), Metadata: domain.Metadata{Name: "edge01"}}
	}
	there := func(o domain.Object) bool {
		found, err := f.store.Exists(t.Context(), o.Noun(), domain.KeyOf(o))
		require.NoError(t, err)
		return found
	}
	require.NoError(t, f.Create(t.Context(), cluster()))
	for _, o := range children() {
		require.False(t, there(o), domain.KeyOf(o))
		require.NoError(t, f.Create(t.Context(), o))
	}
	require.True(t, fail.Is(f.Create(t.Context(), cluster()), fail.Conflict))
	for _, o := range children() {
		require.True(t, there(o), "what is below a cluster that is there stays: %s", domain.KeyOf(o))
	}
}
