package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/mongotest"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// TestUsage: what is below a project counts, with its files, and nothing else does: not the project, and not that of another one whose
// name begins alike.
func TestUsage(t *testing.T) {
	s := storetest.Open(t, store.Config{})
	for _, project := range []string{"p", "p2"} {
		require.NoError(t, s.Create(t.Context(), &domain.Project{Metadata: domain.Metadata{Name: project}}))
	}
	const p, other = domain.Key("projects/p"), domain.Key("projects/p2")
	count := func(project domain.Key) (int, int64) {
		t.Helper()
		documents, bytes, err := s.Usage(t.Context(), project)
		require.NoError(t, err)
		return documents, bytes
	}
	documents, bytes := count(p)
	require.Zero(t, documents)
	require.Zero(t, bytes)
	composite := &domain.CompositeApp{Identity: domain.Identity{Parent: p}, Metadata: domain.Metadata{Name: "ca"}}
	composite.Spec.Version = "v1"
	require.NoError(t, s.Create(t.Context(), composite))
	documents, small := count(p)
	require.Equal(t, 1, documents)
	require.Positive(t, small)
	app := &domain.App{Identity: domain.Identity{Parent: domain.KeyOf(composite), Uploaded: 5 << 20}, Metadata: domain.Metadata{Name: "a"}}
	require.NoError(t, s.Create(t.Context(), app))
	documents, large := count(p)
	require.Equal(t, 2, documents)
	require.Greater(t, large-small, int64(5<<20))
	require.Less(t, large-small, int64(5<<20+10_000))
	documents, _ = count(other)
	require.Zero(t, documents)
}

// composites creates composite apps of project p, and makes them what v0.1.0 has written, which stored no sizes.
func composites(t *testing.T, config store.Config, many int) (*store.Store, []domain.Object) {
	t.Helper()
	s := storetest.Open(t, config)
	require.NoError(t, s.Create(t.Context(), project("p")))
	for n := range many {
		composite := &domain.CompositeApp{Identity: domain.Identity{Parent: "projects/p"}, Metadata: domain.Metadata{Name: fmt.Sprint("ca", n)}}
		composite.Spec.Version = "v1"
		require.NoError(t, s.Create(t.Context(), composite))
		unsize(t, config, domain.KeyOf(composite))
	}
	list, err := s.List(t.Context(), domain.CompositeApps, "projects/p")
	require.NoError(t, err)
	require.Len(t, list, many)
	return s, list
}

// unsize takes the size out of a composite app, out of what is sealed too.
func unsize(t *testing.T, config store.Config, key domain.Key) {
	t.Helper()
	c := rawDatabase(t, config).Collection(domain.CompositeApps.Kind)
	var document, members bson.D
	require.NoError(t, c.FindOne(t.Context(), bson.D{{Key: "_id", Value: key}}).Decode(&document))
	isSize := func(e bson.E) bool { return e.Key == "size" }
	document = slices.DeleteFunc(document, isSize)
	place, sealed := "", 0
	for i, e := range document {
		switch e.Key {
		case "revision":
			place = fmt.Sprintf("%s/%s#%d", domain.CompositeApps.Kind, key, e.Value)
		case "sealed":
			sealed = i
		}
	}
	plain, err := storetest.Keys.OpenBytes(place, document[sealed].Value.(bson.Binary).Data)
	require.NoError(t, err)
	require.NoError(t, bson.Unmarshal(plain, &members))
	plain, err = bson.Marshal(slices.DeleteFunc(members, isSize))
	require.NoError(t, err)
	document[sealed].Value, err = storetest.Keys.SealBytes(place, plain)
	require.NoError(t, err)
	_, err = c.ReplaceOne(t.Context(), bson.D{{Key: "_id", Value: key}}, document)
	require.NoError(t, err)
}

// unsized is how many composite apps have no size.
func unsized(t *testing.T, config store.Config) int64 {
	t.Helper()
	n, err := rawDatabase(t, config).Collection(domain.CompositeApps.Kind).CountDocuments(t.Context(), bson.D{{Key: "size", Value: nil}})
	require.NoError(t, err)
	return n
}

// TestUsageOfDocumentsWithoutASize: what v0.1.0 has stored is read once, and has a size then. Otherwise it stays as it was, also for
// two who look at the same time, and where the answer to the write is lost.
func TestUsageOfDocumentsWithoutASize(t *testing.T) {
	const many = 5
	for name, c := range map[string]struct {
		fault *mongotest.Fault
		looks int // at the same time
	}{
		"one look":         {looks: 1},
		"many looks":       {looks: 4},
		"the answer lost":  {looks: 1, fault: &mongotest.Fault{Lost: true}},
		"the write twice":  {looks: 1, fault: &mongotest.Fault{Twice: true}},
		"the write later":  {looks: 2, fault: &mongotest.Fault{After: 3}},
		"two in one order": {looks: 2, fault: &mongotest.Fault{UntilNext: true}},
	} {
		t.Run(name, func(t *testing.T) {
			config := shared(t)
			s, was := composites(t, config, many)
			require.EqualValues(t, many, unsized(t, config))
			proxy, behind := mongotest.NewProxy(t, config.URI), config
			behind.URI = proxy.URI()
			if c.fault != nil {
				proxy.Meet(domain.CompositeApps.Kind, 1, *c.fault)
			}
			var looking errgroup.Group
			for range c.looks {
				look := storetest.Open(t, behind)
				looking.Go(func() error {
					documents, bytes, err := look.Usage(t.Context(), "projects/p")
					if err == nil && (documents != many || bytes < many*100 || bytes > many*2000) {
						err = fmt.Errorf("%d documents with %d bytes", documents, bytes)
					}
					return err
				})
			}
			require.NoError(t, looking.Wait())
			_, unmet := proxy.Flush()
			require.False(t, unmet)
			require.Zero(t, unsized(t, config))
			proxy.Asked()
			documents, bytes, err := storetest.Open(t, behind).Usage(t.Context(), "projects/p")
			require.NoError(t, err)
			require.Equal(t, many, documents)
			require.Greater(t, bytes, int64(many*100))
			for q := range proxy.Asked() {
				require.NotEqual(t, "_id among", q.By, "%s is read again", q.Collection)
				require.NotContains(t, []string{"update", "insert"}, q.Command)
			}
			is, err := s.List(t.Context(), domain.CompositeApps, "projects/p")
			require.NoError(t, err)
			require.Equal(t, was, is)
			require.NoError(t, s.Replace(t.Context(), is[0]), "their revisions are what they were")
		})
	}
}

// TestASizeTakesNobodysPlace: what somebody stores between the look at a document and the write of its size stays.
func TestASizeTakesNobodysPlace(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, s *store.Store, o *domain.CompositeApp){
		"replaced": func(t *testing.T, s *store.Store, o *domain.CompositeApp) {
			o.Description = "other"
			require.NoError(t, s.Replace(t.Context(), o))
		},
		"made anew": func(t *testing.T, s *store.Store, o *domain.CompositeApp) { // with the revision that it had
			require.NoError(t, s.Delete(t.Context(), o.Noun(), domain.KeyOf(o), 0))
			o.Description = "other"
			require.NoError(t, s.Create(t.Context(), o))
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := shared(t)
			s, was := composites(t, config, 1)
			changed := was[0].(*domain.CompositeApp)
			proxy, behind := mongotest.NewProxy(t, config.URI), config
			behind.URI = proxy.URI()
			proxy.Meet(domain.CompositeApps.Kind, 1, mongotest.Fault{Before: func() { change(t, s, changed) }})
			documents, _, err := storetest.Open(t, behind).Usage(t.Context(), "projects/p")
			require.NoError(t, err)
			require.Equal(t, 1, documents)
			require.True(t, proxy.Met())
			is, err := s.Get(t.Context(), domain.CompositeApps, domain.KeyOf(changed))
			require.NoError(t, err)
			require.Equal(t, "other", is.(*domain.CompositeApp).Description)
			require.Equal(t, changed.Revision, is.Base().Revision)
		})
	}
}

// TestWhatCannotBeReadCounts as long as it is, and stays as it is.
func TestWhatCannotBeReadCounts(t *testing.T) {
	for name, set := range map[string]bson.D{
		"damaged":              {{Key: "sealed", Value: []byte("nothing")}},
		"of a newer build":     {{Key: "v", Value: int64(1_000)}},
		"changed by somebody":  {{Key: "uploaded", Value: int64(7)}},
		"of an unknown member": {{Key: "other", Value: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			config := shared(t)
			s, _ := composites(t, config, 2)
			c := rawDatabase(t, config).Collection(domain.CompositeApps.Kind)
			_, err := c.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: "projects/p/composite-apps/ca0/v1"}}, bson.D{{Key: "$set", Value: set}})
			require.NoError(t, err)
			var before, after bson.D
			first := func(d *bson.D) {
				require.NoError(t, c.FindOne(t.Context(), bson.D{}, options.FindOne().SetSort(bson.D{{Key: "_id", Value: 1}})).Decode(d))
			}
			first(&before)
			for range 2 {
				documents, bytes, err := s.Usage(t.Context(), "projects/p")
				require.NoError(t, err)
				require.Equal(t, 2, documents)
				require.Greater(t, bytes, int64(200))
			}
			first(&after)
			require.Equal(t, before, after)
			require.EqualValues(t, 1, unsized(t, config))
		})
	}
}

// BenchmarkUsage is of projects with few and many documents, short ones and long ones: it is to cost the same for all sizes. Beside them
// is another project, as there always is.
func BenchmarkUsage(b *testing.B) {
	for _, of := range []struct{ many, kib int }{{500, 1}, {500, 16}, {500, 64}, {5_000, 1}} {
		b.Run(fmt.Sprintf("%dx%dKiB", of.many, of.kib), func(b *testing.B) {
			s := storetest.Open(b, store.Config{})
			require.NoError(b, s.EnsureIndexes(b.Context()))
			composite := &domain.CompositeApp{Metadata: domain.Metadata{Name: "ca"}}
			composite.Spec.Version = "v1"
			var creating errgroup.Group
			creating.SetLimit(8)
			for _, parent := range []domain.Key{"projects/p", "projects/other"} {
				composite.Parent = parent
				key := domain.KeyOf(composite)
				for n := range of.many {
					creating.Go(func() error {
						app := &domain.App{Identity: domain.Identity{Parent: key}, Metadata: domain.Metadata{Name: fmt.Sprint("a", n)}}
						app.Description = strings.Repeat("d", of.kib<<10)
						return s.Create(b.Context(), app)
					})
				}
			}
			require.NoError(b, creating.Wait())
			for b.Loop() {
				documents, bytes, err := s.Usage(b.Context(), "projects/p")
				require.NoError(b, err)
				require.Equal(b, of.many, documents)
				require.Greater(b, bytes, int64(of.many*of.kib<<10))
			}
		})
	}
}
