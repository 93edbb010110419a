package store_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

func TestLayoutOfAnEmptyDatabaseIsOurs(t *testing.T) {
	c := storetest.Config(t)
	stores := []*store.Store{storetest.Open(t, c), storetest.Open(t, c), storetest.Open(t, c)}
	errs := make([]error, len(stores))
	var starts sync.WaitGroup
	for i, s := range stores { // as processes that start at the same time, of which one is at work before the others have looked
		starts.Go(func() {
			if errs[i] = s.EnsureLayout(t.Context()); errs[i] == nil {
				errs[i] = s.Create(t.Context(), &domain.Project{Metadata: domain.Metadata{Name: []string{"a", "b", "c"}[i]}})
			}
		})
	}
	starts.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.NoError(t, storetest.Open(t, c).EnsureLayout(t.Context()), "a later start finds it")
}

func TestAnotherLayoutIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		layout any // nil: none
		text   string
	}{
		"a newer one":                        {store.Layout + 1, "newer Drover"},
		"an older one":                       {store.Layout - 1, "older Drover"},
		"one from before there were layouts": {nil, "no layout"},
	} {
		t.Run(name, func(t *testing.T) {
			config := storetest.Config(t)
			db := rawDatabase(t, config)
			if c.layout != nil {
				_, err := db.Collection("layout").InsertOne(t.Context(), bson.D{{Key: "_id", Value: "layout"}, {Key: "layout", Value: c.layout}})
				require.NoError(t, err)
			} else {
				_, err := db.Collection("projects").InsertOne(t.Context(), bson.D{{Key: "_id", Value: "projects/p"}})
				require.NoError(t, err)
			}
			s := storetest.Open(t, config)
			for range 2 { // a start that was refused has changed nothing
				err := s.EnsureLayout(t.Context())
				requireKind(t, err, fail.Precondition)
				require.ErrorContains(t, err, c.text)
			}
		})
	}
}
