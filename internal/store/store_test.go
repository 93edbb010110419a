package store_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/mongotest"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// open gives the test a database of its own.
func open(t testing.TB) *store.Store {
	t.Helper()
	c := storetest.Config(t)
	s := storetest.Open(t, c)
	require.NoError(t, s.Ping(t.Context()))
	require.NoError(t, s.EnsureIndexes(t.Context()))
	hasNoOther(t, c)
	return s
}

// hasNoOther sees to it that a test makes no collection that Collections leaves out: local databases, which have everybody wait
// while one is made, make those of that list before anybody works.
func hasNoOther(t testing.TB, c store.Config) {
	t.Helper()
	known := map[string]bool{}
	for _, one := range store.Collections() {
		require.False(t, known[one.Name], "collection %s is listed twice", one.Name)
		known[one.Name] = true
	}
	db := rawDatabase(t, c)
	t.Cleanup(func() {
		names, err := db.ListCollectionNames(context.WithoutCancel(t.Context()), bson.D{})
		require.NoError(t, err)
		for _, name := range names {
			require.True(t, known[name] || strings.HasPrefix(name, "audit-"), "collection %s is made and not in store.Collections", name)
		}
	})
}

func requireKind(t testing.TB, err error, kind fail.Kind) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, kind, fail.KindOf(err), "%v", err)
}

func TestIndexesCanBeEnsuredAgain(t *testing.T) {
	s := open(t)
	require.NoError(t, s.EnsureIndexes(t.Context()))
}

func TestOpenRefusesWhatIsNoURI(t *testing.T) {
	_, err := store.Open(store.Config{URI: "http://127.0.0.1", Database: "x", Keys: storetest.Keys})
	require.Error(t, err)
}

// TestTheURIBoundsNoIndex: a time in it would be a deadline of those calls that have none on purpose.
func TestTheURIBoundsNoIndex(t *testing.T) {
	uri := mongotest.URI(t)
	join := "?"
	if strings.Contains(uri, "?") {
		join = "&"
	}
	s := storetest.Open(t, store.Config{URI: uri + join + "timeoutMS=1", Database: mongotest.Database(t)})
	require.NoError(t, s.EnsureIndexes(t.Context()))
}

func TestOpenRefusesWhatLosesWrites(t *testing.T) {
	for option, ok := range map[string]bool{
		"readPreference=secondary": false, "readPreference=primaryPreferred": false, "w=0": false, "w=1": false, "w=2": false, "journal=false": false, "journal=true": true,
		"readPreference=primary": true, "w=majority": true, "wtimeoutMS=5000": true,
		"readConcernLevel=local": false, "readConcernLevel=available": false, "readConcernLevel=linearizable": false, "readConcernLevel=majority": true,
	} {
		t.Run(option, func(t *testing.T) {
			s, err := store.Open(store.Config{URI: "mongodb://127.0.0.1:1/?" + option, Database: "x", Keys: storetest.Keys})
			if !ok {
				require.ErrorContains(t, err, "the URI of the database says")
				return
			}
			require.NoError(t, err)
			require.NoError(t, s.Close(t.Context()))
		})
	}
}

// TestOnlyWhatAMajorityHasIsRead, in finds and in counts.
func TestOnlyWhatAMajorityHasIsRead(t *testing.T) {
	proxy := mongotest.NewProxy(t, mongotest.URI(t))
	s := storetest.Open(t, store.Config{URI: proxy.URI(), Database: mongotest.Database(t)})
	var mu sync.Mutex
	asked := map[string]int{}
	proxy.See(func(command string, body bson.Raw) {
		if command != "find" && command != "aggregate" && command != "count" {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		asked[command]++
		if level, _ := body.Lookup("readConcern", "level").StringValueOK(); level != "majority" {
			t.Errorf("%s is asked with the level %q", body, level)
		}
	})
	_, err := s.Get(t.Context(), domain.Projects, "projects/a")
	requireKind(t, err, fail.NotFound)
	_, err = s.List(t.Context(), domain.Projects, "")
	require.NoError(t, err)
	_, err = s.Count(t.Context(), domain.Projects, "")
	require.NoError(t, err)
	mu.Lock()
	defer mu.Unlock()
	require.NotZero(t, asked["find"])
	require.NotZero(t, asked["aggregate"])
}

// TestWhatIsThereAndNotConfirmed: what a second attempt meets may be what the first one has written, and no majority has. So nobody says that it is there.
func TestWhatIsThereAndNotConfirmed(t *testing.T) {
	proxy, name := mongotest.NewProxy(t, mongotest.URI(t)), mongotest.Database(t)
	s := storetest.Open(t, store.Config{URI: proxy.URI(), Database: name})
	ctx := t.Context()
	line, _, err := audit.NewChain("writer").Add(audit.Record{Event: audit.Answered}, time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC), nil)
	require.NoError(t, err)
	for what, put := range map[string]func() error{
		"leaves-*":  func() error { return s.PutLeaf(ctx, leafOf("1", "app", 1)) },
		"instances": func() error { return s.PutInstance(ctx, instanceOf("c", group, domain.ContextInstantiating)) },
		"projects":  func() error { return s.Create(ctx, project("a")) },
		"audit-*": func() error {
			stored, err := s.PutAudit(ctx, []audit.Line{line})
			require.Equal(t, err == nil, stored == 1)
			return err
		},
	} {
		for _, attempt := range []string{"the first", "the second"} {
			proxy.Meet(what, 1, mongotest.Fault{Unconfirmed: true})
			requireKind(t, put(), fail.Timeout)
			require.True(t, proxy.Met(), "%s attempt of %s", attempt, what)
		}
		if what == "projects" {
			requireKind(t, put(), fail.Conflict)
		} else {
			require.NoError(t, put(), "once it is confirmed")
		}
	}
}

func TestADatabaseThatIsNotThere(t *testing.T) {
	s := storetest.Open(t, store.Config{URI: "mongodb://127.0.0.1:1", Database: "x", Timeout: 200 * time.Millisecond})
	leaf := leafOf("1", "app", 1)
	for name, call := range map[string]func(context.Context) error{
		"ping":   s.Ping,
		"get":    func(ctx context.Context) error { _, err := s.Get(ctx, domain.Projects, "projects/a"); return err },
		"list":   func(ctx context.Context) error { _, err := s.List(ctx, domain.Projects, ""); return err },
		"create": func(ctx context.Context) error { return s.Create(ctx, project("a")) },
		"leaf":   func(ctx context.Context) error { return s.PutLeaf(ctx, leaf) },
		"blob":   func(ctx context.Context) error { _, err := s.PutBlob(ctx, []byte("x")); return err },
	} {
		t.Run(name+" is unavailable", func(t *testing.T) { requireKind(t, call(t.Context()), fail.Unavailable) })
		t.Run(name+" passes cancellation through", func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, call(ctx), context.Canceled)
		})
	}
}
