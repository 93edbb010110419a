package store_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/mongotest"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// TestStanding: of many records those are read that have changed, and what is said is what they say.
func TestStanding(t *testing.T) {
	ctx, proxy, name := t.Context(), mongotest.NewProxy(t, mongotest.URI(t)), mongotest.Database(t)
	s, other := storetest.Open(t, store.Config{URI: proxy.URI(), Database: name}), storetest.Open(t, store.Config{Database: name})
	require.NoError(t, other.EnsureIndexes(ctx))
	const n = 300 // more than the local database takes ids of at a time
	for i := range n {
		in := instanceOf(fmt.Sprintf("c%03d", i), domain.Key(fmt.Sprintf("projects/p/composite-apps/ca/v1/deployment-intent-groups/g%03d", i)), domain.ContextInstantiated)
		in.Plan, in.Namespace = domain.Digest(fmt.Sprintf("plan%03d", i)), "default"
		require.NoError(t, other.PutInstance(ctx, in))
	}
	require.NoError(t, other.PutInstance(ctx, instanceOf("over", group, domain.ContextTerminated)))
	// look says what stands, and how many records were asked for.
	look := func() (stand []domain.Standing, asked int) {
		t.Helper()
		proxy.Asked()
		stand, err := s.Standing(ctx)
		require.NoError(t, err)
		slices.SortFunc(stand, func(a, b domain.Standing) int { return strings.Compare(a.ContextID, b.ContextID) })
		for q, answers := range proxy.Asked() {
			if q.Command == "find" && q.By == "_id among" {
				asked += answers.N
			}
		}
		return stand, asked
	}
	stand, asked := look()
	require.Len(t, stand, n)
	require.Positive(t, asked)
	require.Equal(t, domain.Standing{ContextID: "c007", Owner: "projects/p/composite-apps/ca/v1/deployment-intent-groups/g007", Namespace: "default", Plan: "plan007"}, stand[7])
	again, asked := look()
	require.Equal(t, stand, again)
	require.Zero(t, asked, "nothing has changed")

	require.NoError(t, other.UpdateInstance(ctx, "c007", func(i *domain.Instance) error { i.Plan = "trimmed"; return nil }))
	require.NoError(t, other.UpdateInstance(ctx, "c008", func(i *domain.Instance) error { i.Status = domain.ContextTerminated; return nil }))
	require.NoError(t, other.DeleteInstance(ctx, "c009"))
	require.NoError(t, other.PutInstance(ctx, instanceOf("new", group, domain.ContextInstantiating)))
	stand, asked = look()
	require.Len(t, stand, n-1)
	require.Equal(t, 1, asked)
	require.Equal(t, domain.Digest("trimmed"), stand[7].Plan)
	require.Equal(t, "c010", stand[8].ContextID)
	require.Equal(t, domain.Standing{ContextID: "new", Owner: group, Namespace: "ns", Plan: instanceOf("new", group, "").Plan}, stand[n-2])
}

// TestActiveRecordsAreReadInTheOrderOfID, by an index that has all that they are looked for by: in that of status a record that changes meanwhile may be missed.
func TestActiveRecordsAreReadInTheOrderOfID(t *testing.T) {
	proxy, name := mongotest.NewProxy(t, mongotest.URI(t)), mongotest.Database(t)
	s := storetest.Open(t, store.Config{URI: proxy.URI(), Database: name})
	require.NoError(t, s.EnsureIndexes(t.Context()))
	require.NoError(t, s.PutInstance(t.Context(), instanceOf("c", group, domain.ContextInstantiated)))
	asked := make(chan bson.Raw, 10)
	proxy.See(func(command string, body bson.Raw) {
		if _, err := body.LookupErr("filter", "status"); err == nil && command == "find" {
			asked <- body
		}
	})
	_, err := s.Standing(t.Context())
	require.NoError(t, err)
	active, err := s.ActiveInstances(t.Context())
	require.NoError(t, err)
	require.Len(t, active, 1)
	require.Len(t, asked, 2)
	for range 2 {
		body := <-asked
		hint, ok := body.Lookup("hint").DocumentOK()
		require.True(t, ok, "%s", body)
		var index []string
		elements, err := hint.Elements()
		require.NoError(t, err)
		for _, e := range elements {
			index = append(index, e.Key())
		}
		at := slices.IndexFunc(store.Collections(), func(c store.Collection) bool { return c.Name == "instances" })
		require.Contains(t, store.Collections()[at].Covering, index, "MongoDB refuses the hint of an index that is not there")
		require.Equal(t, "_id", index[0])
		_, err = body.LookupErr("filter", "_id")
		require.NoError(t, err, "else the index is not looked into for the status")
	}
}

// TestAnIndexOfActiveRecordsThatIsGone is made again by who asks for them: it may be dropped while processes run, and MongoDB refuses the hint then.
func TestAnIndexOfActiveRecordsThatIsGone(t *testing.T) {
	ctx, proxy, name := t.Context(), mongotest.NewProxy(t, mongotest.URI(t)), mongotest.Database(t)
	s := storetest.Open(t, store.Config{URI: proxy.URI(), Database: name})
	require.NoError(t, s.EnsureIndexes(ctx))
	require.NoError(t, s.PutInstance(ctx, instanceOf("c", group, domain.ContextInstantiated)))
	var gone, stays atomic.Bool // whether there is no such index, and there will be none
	var asked atomic.Int64
	proxy.Refuse(func(command string, body bson.Raw) string {
		switch _, err := body.LookupErr("hint"); {
		case command == "createIndexes" && body.Lookup(command).StringValue() == "instances":
			gone.Store(stays.Load())
		case command == "find" && err == nil && gone.Load():
			asked.Add(1)
			return "error processing query: planner returned error :: caused by :: hint provided does not correspond to an existing index"
		}
		return ""
	})
	gone.Store(true)
	stand, err := s.Standing(ctx)
	require.NoError(t, err)
	require.Len(t, stand, 1)
	require.EqualValues(t, 1, asked.Load())

	gone.Store(true)
	require.Equal(t, []string{"c"}, contexts(t)(s.ActiveInstances(ctx)))
	require.EqualValues(t, 2, asked.Load())

	gone.Store(true)
	stays.Store(true)
	_, err = s.ActiveInstances(ctx)
	require.ErrorContains(t, err, "hint provided")
	require.EqualValues(t, 4, asked.Load(), "it is asked for once more, and not again")
}

// BenchmarkStanding is of 1,000 records of which one has changed, beside reading them all.
func BenchmarkStanding(b *testing.B) {
	ctx, s := b.Context(), storetest.Open(b, store.Config{})
	require.NoError(b, s.EnsureIndexes(ctx))
	for i := range 1000 {
		require.NoError(b, s.PutInstance(ctx, instanceOf(fmt.Sprintf("c%03d", i), group, domain.ContextInstantiated)))
	}
	touch := func() {
		require.NoError(b, s.UpdateInstance(ctx, "c500", func(i *domain.Instance) error { i.Reason += "x"; return nil }))
	}
	b.Run("what has changed", func(b *testing.B) {
		for b.Loop() {
			touch()
			_, err := s.Standing(ctx)
			require.NoError(b, err)
		}
	})
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			touch()
			_, err := s.ActiveInstances(ctx)
			require.NoError(b, err)
		}
	})
}
