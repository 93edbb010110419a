package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/mongotest"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// two are two processes with one database.
func two(t testing.TB) (a, b *store.Store) {
	t.Helper()
	c := storetest.Config(t)
	a, b = storetest.Open(t, c), storetest.Open(t, c)
	require.NoError(t, a.EnsureIndexes(t.Context()))
	hasNoOther(t, c)
	return a, b
}

func workload(n int) *domain.Workload {
	return &domain.Workload{
		Tenant: "t", ID: fmt.Sprintf("w-%05d", n), Orchestrator: domain.Kubernetes, ResourceType: domain.KindPod,
		ResourceNamespace: "default", ResourceName: fmt.Sprint("pod-", n), NodeName: "node", Ready: true,
		Extra: map[string]map[string]string{
			domain.ExtraLabels:      {"app.kubernetes.io/name": "web", "pod-template-hash": fmt.Sprintf("%08x", n*2654435761)},
			domain.ExtraAnnotations: {"example.com/config": strings.Repeat("x", 200)},
		},
	}
}

func workloads(from, to int) (all []*domain.Workload) {
	for n := from; n < to; n++ {
		all = append(all, workload(n))
	}
	return all
}

func begin(t testing.TB, s *store.Store) *domain.Stream {
	t.Helper()
	stream, err := s.BeginStream(t.Context(), "t", "owner")
	require.NoError(t, err)
	return stream
}

func begunBy(s *domain.Stream, w domain.WorkloadWrite) *domain.WorkloadWrite {
	w.Begun = s.Begun
	return &w
}

func ids(all []*domain.Workload) []string {
	found := []string{}
	for _, w := range all {
		found = append(found, w.ID)
	}
	return found
}

func storedIDs(t testing.TB, s *store.Store) []string {
	t.Helper()
	all, err := s.Workloads(t.Context(), "t")
	require.NoError(t, err)
	return ids(all)
}

func TestWorkloadsAreWhatWasSaidLast(t *testing.T) {
	a, b := two(t)
	stream := begin(t, a)
	write := func(w domain.WorkloadWrite) domain.WorkloadsWritten {
		t.Helper()
		written, err := a.WriteWorkloads(t.Context(), "t", begunBy(stream, w))
		require.NoError(t, err)
		require.Equal(t, storedIDs(t, a), storedIDs(t, b), "another process reads the same")
		return written
	}
	require.Empty(t, storedIDs(t, b))
	require.Len(t, write(domain.WorkloadWrite{Whole: true, Put: workloads(0, 5)}).Changed, 5)
	before, err := b.WorkloadsVersion(t.Context(), "t")
	require.NoError(t, err)
	require.Empty(t, write(domain.WorkloadWrite{Whole: true, Put: workloads(0, 5)}).Changed)
	after, err := b.WorkloadsVersion(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, before, after, "no difference writes nothing")

	other := workload(2)
	other.NodeName = "other"
	written := write(domain.WorkloadWrite{Put: []*domain.Workload{workload(2), other}, Delete: []string{"w-00004", "nobody"}})
	require.Equal(t, []string{"w-00002", "w-00004"}, written.Changed)
	require.Equal(t, 4, written.Count)
	got, err := b.Workload(t.Context(), "t", "w-00002")
	require.NoError(t, err)
	require.Equal(t, other, got, "the last one counts")
	_, err = b.Workload(t.Context(), "t", "w-00004")
	requireKind(t, err, fail.NotFound)

	written = write(domain.WorkloadWrite{Whole: true, Put: workloads(1, 2), Keep: []string{"w-00003", "w-00777"}})
	require.Equal(t, []string{"w-00000", "w-00002"}, written.Changed)
	require.Equal(t, []string{"w-00001", "w-00003"}, storedIDs(t, b))
	write(domain.WorkloadWrite{Whole: true})
	require.Empty(t, storedIDs(t, b))
}

func TestWhatIsTooMuchIsLeftOut(t *testing.T) {
	s := open(t)
	stream := begin(t, s)
	written, err := s.WriteWorkloads(t.Context(), "t", &domain.WorkloadWrite{Begun: stream.Begun, Put: workloads(0, 5), Count: 3})
	require.NoError(t, err)
	require.Equal(t, []string{"w-00003", "w-00004"}, written.Over)
	changed := workload(1)
	changed.Ready = false
	written, err = s.WriteWorkloads(t.Context(), "t", &domain.WorkloadWrite{Begun: stream.Begun,
		Whole: true, Put: []*domain.Workload{workload(9), changed, workload(8), workload(7)}, Count: 3,
	})
	require.NoError(t, err)
	require.Equal(t, []string{"w-00007"}, written.Over, "what a sync takes away makes room")
	require.Equal(t, []string{"w-00001", "w-00008", "w-00009"}, storedIDs(t, s))
	_, bytes, err := s.CountWorkloads(t.Context(), "t")
	require.NoError(t, err)
	written, err = s.WriteWorkloads(t.Context(), "t", &domain.WorkloadWrite{Begun: stream.Begun, Put: workloads(0, 1), Bytes: bytes + 10})
	require.NoError(t, err)
	require.Equal(t, []string{"w-00000"}, written.Over)
	written, err = s.WriteWorkloads(t.Context(), "t", &domain.WorkloadWrite{Begun: stream.Begun,
		Put: []*domain.Workload{workload(5), workload(8)}, Delete: []string{"w-00008", "w-00009"}, Count: 3, Bytes: bytes + 10,
	})
	require.NoError(t, err)
	require.Empty(t, written.Over, "what is deleted makes room for what takes its place")
	require.Equal(t, []string{"w-00001", "w-00005"}, storedIDs(t, s), "of one that is said twice its end counts")
}

// TestWhatIsGoneGivesWay: what stays for a time after it is gone keeps nothing out that is there. What has been gone for longest goes first, and no more
// than has to.
func TestWhatIsGoneGivesWay(t *testing.T) {
	s := open(t)
	stream := begin(t, s)
	write := func(w domain.WorkloadWrite) domain.WorkloadsWritten {
		t.Helper()
		w.Begun, w.Count = stream.Begun, 4
		written, err := s.WriteWorkloads(t.Context(), "t", &w)
		require.NoError(t, err)
		require.Len(t, storedIDs(t, s), written.Count)
		return written
	}
	write(domain.WorkloadWrite{Put: workloads(0, 4)})
	write(domain.WorkloadWrite{Delete: []string{"w-00002"}, Gone: time.UnixMilli(1000)})
	write(domain.WorkloadWrite{Delete: []string{"w-00000", "w-00001"}, Gone: time.UnixMilli(2000)})
	written := write(domain.WorkloadWrite{Put: workloads(4, 5), Gone: time.UnixMilli(3000)})
	require.Equal(t, []string{"w-00002", "w-00004"}, written.Changed)
	require.Equal(t, []string{"w-00000", "w-00001", "w-00003", "w-00004"}, storedIDs(t, s))
	written = write(domain.WorkloadWrite{Put: []*domain.Workload{workload(5), workload(0)}, Gone: time.UnixMilli(3000)})
	require.Empty(t, written.Over)
	require.Equal(t, []string{"w-00000", "w-00003", "w-00004", "w-00005"}, storedIDs(t, s), "one that is back is there")
	written = write(domain.WorkloadWrite{Put: workloads(6, 7), Gone: time.UnixMilli(4000)})
	require.Equal(t, []string{"w-00006"}, written.Over)
	require.Equal(t, 1, written.Lacks["w-00006"].Count)
	written = write(domain.WorkloadWrite{Put: workloads(6, 7), Delete: []string{"w-00003"}, Gone: time.UnixMilli(4000)})
	require.Empty(t, written.Over)
	require.Equal(t, []string{"w-00000", "w-00004", "w-00005", "w-00006"}, storedIDs(t, s))
}

func TestAGuardHoldsDeletions(t *testing.T) {
	s := open(t)
	stream := begin(t, s)
	sync := func(to, guard int) domain.WorkloadsWritten {
		t.Helper()
		written, err := s.WriteWorkloads(t.Context(), "t", &domain.WorkloadWrite{Begun: stream.Begun, Whole: true, Put: workloads(0, to), Guard: guard})
		require.NoError(t, err)
		return written
	}
	held := func() []string {
		t.Helper()
		all, err := s.Workloads(t.Context(), "t")
		require.NoError(t, err)
		found := []string{}
		for _, w := range all {
			if w.Held {
				found = append(found, w.ID)
			}
		}
		return found
	}
	sync(10, 20)
	require.Empty(t, sync(8, 20).Held, "as many percent as are allowed")
	require.Len(t, storedIDs(t, s), 8)
	require.Equal(t, []string{"w-00005", "w-00006", "w-00007"}, sync(5, 20).Held)
	require.Equal(t, []string{"w-00005", "w-00006", "w-00007"}, held())
	require.Len(t, storedIDs(t, s), 8)
	require.Empty(t, sync(5, 20).Changed, "held already")
	require.Empty(t, sync(8, 20).Held, "listed again")
	require.Empty(t, held())
	sync(4, 20)
	require.Len(t, held(), 4)
	_, err := s.WriteWorkloads(t.Context(), "t", &domain.WorkloadWrite{Begun: stream.Begun, Keep: []string{"w-00004"}})
	require.NoError(t, err)
	require.Equal(t, []string{"w-00005", "w-00006", "w-00007"}, held(), "its cluster has it, though not as it may be stored")
	sync(4, 20)
	removed, err := s.RemoveHeld(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, []string{"w-00004", "w-00005", "w-00006", "w-00007"}, removed)
	require.Empty(t, sync(0, 0).Held, "no guard")
	require.Empty(t, storedIDs(t, s))
}

func TestWhatGoesMayStayForATime(t *testing.T) {
	s := open(t)
	stream := begin(t, s)
	at := time.UnixMilli(1e12).UTC()
	write := func(w domain.WorkloadWrite) []string {
		t.Helper()
		written, err := s.WriteWorkloads(t.Context(), "t", begunBy(stream, w))
		require.NoError(t, err)
		return written.Changed
	}
	write(domain.WorkloadWrite{Put: workloads(0, 4)})
	require.Len(t, write(domain.WorkloadWrite{Delete: []string{"w-00000", "w-00001"}, Gone: at}), 2)
	require.Empty(t, write(domain.WorkloadWrite{Delete: []string{"w-00000"}, Gone: at.Add(time.Second)}), "since when it is gone does not change")
	require.Len(t, write(domain.WorkloadWrite{Whole: true, Put: workloads(1, 3), Gone: at.Add(time.Second)}), 2)
	all, err := s.Workloads(t.Context(), "t")
	require.NoError(t, err)
	require.Len(t, all, 4)
	require.Equal(t, at, all[0].Gone.UTC())
	require.Zero(t, all[1].Gone, "it has come back")
	require.Equal(t, at.Add(time.Second), all[3].Gone.UTC())
	// Its cluster has what it says so of, though not as it may be stored, or where there is room.
	gone := func(n int) bool {
		one, err := s.Workload(t.Context(), "t", fmt.Sprintf("w-%05d", n))
		require.NoError(t, err)
		return !one.Gone.IsZero()
	}
	require.True(t, gone(3))
	write(domain.WorkloadWrite{Keep: []string{"w-00003"}, Gone: at})
	require.False(t, gone(3))
	write(domain.WorkloadWrite{Delete: []string{"w-00003"}, Gone: at.Add(time.Second)})
	require.True(t, gone(3))
	write(domain.WorkloadWrite{Put: workloads(3, 4), Bytes: 1, Gone: at})
	require.False(t, gone(3))
	write(domain.WorkloadWrite{Delete: []string{"w-00003"}, Keep: []string{"w-00003"}, Gone: at.Add(time.Second)})
	require.True(t, gone(3), "what is deleted by the same word goes")
	removed, err := s.RemoveGone(t.Context(), "t", at)
	require.NoError(t, err)
	require.Equal(t, []string{"w-00000"}, removed)
}

// TestADisplacedStreamStoresNothing: two processes, of which one begins a stream while the other one writes in its own, as
// fast as it can. What the first one was told is stored comes before, and after that nothing of it does.
func TestADisplacedStreamStoresNothing(t *testing.T) {
	a, b := two(t)
	for range 10 {
		first := begin(t, a)
		writing := make(chan error, 1)
		wrote := make(chan struct{})
		go func() {
			var once sync.Once
			for n := 0; ; n++ {
				_, err := a.WriteWorkloads(context.Background(), "t", &domain.WorkloadWrite{Begun: first.Begun, Put: workloads(1000+n, 1001+n)})
				if err != nil {
					writing <- err
					return
				}
				once.Do(func() { close(wrote) })
			}
		}()
		<-wrote
		second := begin(t, b)
		_, err := b.WriteWorkloads(t.Context(), "t", &domain.WorkloadWrite{Begun: second.Begun, Whole: true, Put: workloads(0, 3)})
		require.NoError(t, err)
		requireKind(t, <-writing, fail.Aborted)
		require.Equal(t, ids(workloads(0, 3)), storedIDs(t, a))
		require.NoError(t, a.EndStream(t.Context(), first, true))
		stands, _, err := b.StreamStands(t.Context(), second)
		require.NoError(t, err)
		require.True(t, stands, "the end of the first one says nothing of the second")
	}
}

// TestWhoSleptWritesNothingThatIsLost: a process that knows the ledger as it was long ago writes where entries have been and have gone.
func TestWhoSleptWritesNothingThatIsLost(t *testing.T) {
	a, b := two(t)
	stream := begin(t, a)
	write := func(s *store.Store, from, to int) {
		t.Helper()
		_, err := s.WriteWorkloads(t.Context(), "t", begunBy(stream, domain.WorkloadWrite{Put: workloads(from, to)}))
		require.NoError(t, err)
	}
	write(b, 0, 1)
	const many = 300 // so that a begins anew with a whole entry, more than once
	for n := range many {
		write(a, 1+n, 2+n)
	}
	write(b, many+1, many+2)
	require.Equal(t, ids(workloads(0, many+2)), storedIDs(t, a))
	require.Equal(t, ids(workloads(0, many+2)), storedIDs(t, b))
}

// TestAHeadDoesNotGoBack: a process has written a whole entry and is frozen, or the database takes its time with what it was told, while
// another one writes so much that it begins with a whole entry, too. What the first one writes then is not lost.
func TestAHeadDoesNotGoBack(t *testing.T) {
	for name, before := range map[string][]*domain.Workload{
		"the first head": nil,
		"a later head":   {large("first", 100<<10)},
	} {
		t.Run(name, func(t *testing.T) {
			c := storetest.Config(t)
			proxy, slow := mongotest.NewProxy(t, c.URI), c
			slow.URI = proxy.URI()
			a, b := storetest.Open(t, slow), storetest.Open(t, c)
			stream := begin(t, b)
			write := func(s *store.Store, put ...*domain.Workload) {
				t.Helper()
				_, err := s.WriteWorkloads(t.Context(), "t", begunBy(stream, domain.WorkloadWrite{Put: put}))
				require.NoError(t, err)
			}
			write(b, before...)
			require.Len(t, storedIDs(t, a), len(before))
			proxy.Meet("workloads-*", 3, mongotest.Fault{After: 1_000}) // after an entry and the whole one
			write(a, large("a", 300<<10))
			require.True(t, proxy.Met())
			write(b, large("b", 900<<10))
			proxy.Flush()
			write(a, workload(7))
			for _, s := range []*store.Store{a, b, storetest.Open(t, c)} {
				require.Equal(t, append([]string{"a", "b"}, append(ids(before), "w-00007")...), storedIDs(t, s))
			}
		})
	}
}

// large is a workload that is worth a whole entry, if it is larger than what there is.
func large(id string, bytes int) *domain.Workload {
	w := noisy(1, bytes)[0]
	w.ID = id
	return w
}

// TestStandingStreams are those that may still say something.
func TestStandingStreams(t *testing.T) {
	a, b := two(t)
	requireStanding := func(want map[string]string) {
		t.Helper()
		standing, err := b.StandingStreams(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, standing)
	}
	requireStanding(map[string]string{})
	begin(t, a)
	last := begin(t, b)
	requireStanding(map[string]string{"t": last.Token})
	require.NoError(t, a.CutStream(t.Context(), last))
	requireStanding(map[string]string{})
	last = begin(t, a)
	requireStanding(map[string]string{"t": last.Token})
	require.NoError(t, a.EndStream(t.Context(), last, true))
	requireStanding(map[string]string{})
}

// TestOfManyStreamsOneIsTheLast: they begin at the same time on two processes, after one that has ended in order.
func TestOfManyStreamsOneIsTheLast(t *testing.T) {
	a, b := two(t)
	for range 5 {
		var all [8]*domain.Stream
		var g errgroup.Group
		for i := range all {
			g.Go(func() (err error) {
				all[i], err = []*store.Store{a, b}[i%2].BeginStream(t.Context(), "t", "owner")
				return err
			})
		}
		require.NoError(t, g.Wait())
		var last *domain.Stream
		for i, stream := range all {
			_, err := []*store.Store{a, b}[i%2].WriteWorkloads(t.Context(), "t", &domain.WorkloadWrite{Begun: stream.Begun, Whole: true, Put: workloads(i, i+1)})
			if err == nil {
				require.Nil(t, last, "two may write")
				last = stream
				continue
			}
			requireKind(t, err, fail.Aborted)
		}
		require.NotNil(t, last)
		stands, _, err := a.StreamStands(t.Context(), last)
		require.NoError(t, err)
		require.True(t, stands)
		require.NoError(t, b.EndStream(t.Context(), last, true))
	}
}

// TestALedgerIsRewritten: what is read stays the same however many entries there were, for those too who have not read for long.
func TestALedgerIsRewritten(t *testing.T) {
	a, b := two(t)
	stream := begin(t, a)
	want := map[string]bool{}
	var late *store.Store
	for n := range 600 {
		w := workload(n % 50)
		w.NodeName = fmt.Sprint("node-", n)
		write := domain.WorkloadWrite{Put: []*domain.Workload{w}}
		want[w.ID] = true
		if n%7 == 0 {
			gone := fmt.Sprintf("w-%05d", (n+3)%50)
			write.Delete = []string{gone}
			delete(want, gone)
		}
		_, err := a.WriteWorkloads(t.Context(), "t", begunBy(stream, write))
		require.NoError(t, err)
		if n == 3 {
			late = b
			require.Len(t, storedIDs(t, late), len(want))
		}
	}
	require.Len(t, storedIDs(t, a), len(want))
	require.Equal(t, storedIDs(t, a), storedIDs(t, late))
	for _, id := range storedIDs(t, a) {
		mine, err := a.Workload(t.Context(), "t", id)
		require.NoError(t, err)
		others, err := late.Workload(t.Context(), "t", id)
		require.NoError(t, err)
		require.Equal(t, mine, others)
	}
	_, err := b.WriteWorkloads(t.Context(), "t", &domain.WorkloadWrite{Begun: stream.Begun, Put: workloads(7, 8)})
	require.NoError(t, err, "which stream is the last one is known after that too")
	require.NoError(t, b.ForgetTenant(t.Context(), "t"))
	require.Empty(t, storedIDs(t, a))
	_, err = a.WriteWorkloads(t.Context(), "t", &domain.WorkloadWrite{Begun: stream.Begun, Put: workloads(7, 8)})
	requireKind(t, err, fail.Aborted)
	again := begin(t, b)
	_, err = b.WriteWorkloads(t.Context(), "t", &domain.WorkloadWrite{Begun: again.Begun, Put: workloads(7, 8)})
	require.NoError(t, err)
	require.Equal(t, []string{"w-00007"}, storedIDs(t, a))
}

// TestANamesakeIsNotForgotten: a process that cleans up after a tenant sleeps between its look and its write. What another tenant of the name
// has said and made meanwhile stays.
func TestANamesakeIsNotForgotten(t *testing.T) {
	for name, collection := range map[string]string{"its workloads": "workloads-*", "its matches": "matches-*", "its stream": "streams", "that something is due": "behind"} {
		t.Run(name, func(t *testing.T) {
			c := storetest.Config(t)
			proxy, slow := mongotest.NewProxy(t, c.URI), c
			slow.URI = proxy.URI()
			sleeper, awake := storetest.Open(t, slow), storetest.Open(t, c)
			_, err := awake.WriteWorkloads(t.Context(), "t", begunBy(begin(t, awake), domain.WorkloadWrite{Put: workloads(1, 2)}))
			require.NoError(t, err)
			require.NoError(t, awake.WriteMatches(t.Context(), "t", []domain.Match{match(1)}, nil))
			require.NoError(t, awake.PutBehind(t.Context(), "t"))
			made := match(7)
			made.Made = &domain.Made{}
			proxy.Meet(collection, 1, mongotest.Fault{Before: func() {
				require.NoError(t, awake.Create(t.Context(), &domain.Tenant{Metadata: domain.Metadata{Name: "t"}}))
				_, err := awake.WriteWorkloads(t.Context(), "t", begunBy(begin(t, awake), domain.WorkloadWrite{Put: workloads(7, 8)}))
				require.NoError(t, err)
				require.NoError(t, awake.WriteMatches(t.Context(), "t", []domain.Match{made}, nil))
				require.NoError(t, awake.PutBehind(t.Context(), "t"))
			}})
			require.NoError(t, sleeper.ForgetTenant(t.Context(), "t"))
			require.True(t, proxy.Met())
			require.Contains(t, storedIDs(t, awake), "w-00007")
			matches, err := awake.Matches(t.Context(), "t")
			require.NoError(t, err)
			require.True(t, slices.ContainsFunc(matches, func(m domain.Match) bool { return m.Workload == made.Workload && m.Made != nil }), "%+v", matches)
			streams, err := awake.StandingStreams(t.Context())
			require.NoError(t, err)
			require.Contains(t, streams, "t")
			due, err := awake.BehindToken(t.Context(), "t")
			require.NoError(t, err)
			require.NotEmpty(t, due)
		})
	}
}

// noisy are so many workloads with so many bytes each, which compression hardly makes less.
func noisy(count, bytes int) (all []*domain.Workload) {
	for n := range count {
		w := workload(n)
		noise := make([]byte, bytes)
		state := uint64(n + 1)
		for i := range noise {
			state = state*6364136223846793005 + 1442695040888963407
			noise[i] = ' ' + byte(state>>33)%95
		}
		w.Extra[domain.ExtraAnnotations]["noise"] = string(noise)
		all = append(all, w)
	}
	return all
}

// TestALargeLedgerIsNotRewrittenForLittle: a tenant that says much, and changes little of it at a time, has the database write what changes, and not
// all that it has. Who has not read for long reads what came since.
func TestALargeLedgerIsNotRewrittenForLittle(t *testing.T) {
	c := storetest.Config(t)
	a, b := storetest.Open(t, c), storetest.Open(t, c)
	stream := begin(t, a)
	_, err := a.WriteWorkloads(t.Context(), "t", &domain.WorkloadWrite{Begun: stream.Begun, Whole: true, Put: noisy(30, 150<<10)})
	require.NoError(t, err)
	client, err := mongo.Connect(options.Client().ApplyURI(c.URI))
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Disconnect(context.Background())) }()
	whole := func() (ids []string) {
		names, err := client.Database(c.Database).ListCollectionNames(t.Context(), bson.D{})
		require.NoError(t, err)
		for _, name := range names {
			if !strings.HasPrefix(name, "workloads-") {
				continue
			}
			cursor, err := client.Database(c.Database).Collection(name).Find(t.Context(), bson.D{{Key: "whole", Value: true}})
			require.NoError(t, err)
			for cursor.Next(t.Context()) {
				ids = append(ids, cursor.Current.Lookup("_id").StringValue())
			}
			require.NoError(t, cursor.Err())
		}
		return ids
	}
	before := whole()
	require.Len(t, before, 1, "the sync is all that there is")
	require.Len(t, storedIDs(t, b), 30)
	const changes = 200
	for n := range changes {
		w := workload(100 + n%10)
		w.NodeName = fmt.Sprint("node-", n)
		_, err := a.WriteWorkloads(t.Context(), "t", begunBy(stream, domain.WorkloadWrite{Put: []*domain.Workload{w}}))
		require.NoError(t, err)
	}
	require.Equal(t, before, whole())
	late := storetest.Open(t, c)
	for _, s := range []*store.Store{b, late} {
		require.Len(t, storedIDs(t, s), 40)
		for n := range 10 {
			w, err := s.Workload(t.Context(), "t", fmt.Sprintf("w-%05d", 100+n))
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint("node-", changes-10+n), w.NodeName)
		}
	}
	_, err = b.WriteWorkloads(t.Context(), "t", begunBy(stream, domain.WorkloadWrite{Put: workloads(7, 8)}))
	require.NoError(t, err)
}

// TestLargeSyncs: one that is larger than a chunk is read as it was written.
func TestLargeSyncs(t *testing.T) {
	a, b := two(t)
	stream := begin(t, a)
	many := noisy(30, 400<<10) // 12 MB, and more than a chunk when it is compressed
	_, err := a.WriteWorkloads(t.Context(), "t", &domain.WorkloadWrite{Begun: stream.Begun, Whole: true, Put: many})
	require.NoError(t, err)
	got, err := b.Workloads(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, many, got)
}

func match(n int) domain.Match {
	return domain.Match{Tenant: "t", Rule: "tenants/t/workload-rules/r", Workload: fmt.Sprint("w-", n), Mark: domain.MarkPending, Wanted: &domain.Wanted{Spec: "s"}}
}

func TestMatchesAreComparedAndSet(t *testing.T) {
	a, b := two(t)
	now := time.UnixMilli(1e12).UTC()
	written := []domain.Match{match(1), match(2)}
	written[0].Due, written[1].Due = now, now.Add(time.Minute)
	require.NoError(t, a.WriteMatches(t.Context(), "t", written, nil))
	require.Equal(t, int64(1), written[0].Revision)
	got, err := b.MatchesByID(t.Context(), "t", []string{written[1].ID(), "t/none", written[0].ID()})
	require.NoError(t, err)
	require.Equal(t, []domain.Match{written[1], written[0]}, got)

	mine, others := written[0], got[1]
	mine.Mark = domain.MarkSent
	require.NoError(t, a.WriteMatches(t.Context(), "t", []domain.Match{mine}, nil))
	others.Mark = domain.MarkDoomed
	requireKind(t, b.WriteMatches(t.Context(), "t", []domain.Match{others, match(3)}, nil), fail.Conflict)
	requireKind(t, b.WriteMatches(t.Context(), "t", nil, []domain.Match{others}), fail.Conflict)
	requireKind(t, b.WriteMatches(t.Context(), "t", []domain.Match{match(2)}, nil), fail.Conflict)
	all, err := b.Matches(t.Context(), "t")
	require.NoError(t, err)
	require.Len(t, all, 2, "all or none")
	require.NoError(t, b.WriteMatches(t.Context(), "t", []domain.Match{match(3)}, all))
	all, err = a.Matches(t.Context(), "t")
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "w-3", all[0].Workload)
}

// TestEveryWriteOfAMatchCounts: on two processes, each on top of what it has read.
func TestEveryWriteOfAMatchCounts(t *testing.T) {
	a, b := two(t)
	require.NoError(t, a.WriteMatches(t.Context(), "t", []domain.Match{match(1), match(2)}, nil))
	var g errgroup.Group
	const writers, writes = 6, 15
	for i := range writers {
		s := []*store.Store{a, b}[i%2]
		g.Go(func() error {
			for done := 0; done < writes; {
				all, err := s.Matches(t.Context(), "t")
				if err != nil {
					return err
				}
				all[i%2].Attempts++
				err = s.WriteMatches(t.Context(), "t", all[i%2:i%2+1], nil)
				switch {
				case err == nil:
					done++
				case !fail.Is(err, fail.Conflict):
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	all, err := b.Matches(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, writers*writes, all[0].Attempts+all[1].Attempts)
}

func TestBehind(t *testing.T) {
	s := open(t)
	token, err := s.BehindToken(t.Context(), "t")
	require.NoError(t, err)
	require.Empty(t, token)
	require.NoError(t, s.EndBehind(t.Context(), "t", token))
	require.NoError(t, s.PutBehind(t.Context(), "t"))
	token, err = s.BehindToken(t.Context(), "t")
	require.NoError(t, err)
	require.NoError(t, s.PutBehind(t.Context(), "t"))
	require.NoError(t, s.EndBehind(t.Context(), "t", token))
	all, err := s.Behind(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, token, all["t"], "what has become due meanwhile counts")
	require.NoError(t, s.EndBehind(t.Context(), "t", all["t"]))
	all, err = s.Behind(t.Context())
	require.NoError(t, err)
	require.Empty(t, all)
}

func TestSettings(t *testing.T) {
	now := time.UnixMilli(1e12).UTC()
	s := storetest.Open(t, store.Config{Now: func() time.Time { return now }})
	version := func(changing bool) string {
		t.Helper()
		v, is, err := s.SettingsVersion(t.Context(), "t")
		require.NoError(t, err)
		require.Equal(t, changing, is)
		return v
	}
	change := func(tenant string) string {
		t.Helper()
		token, err := s.ChangeSettings(t.Context(), tenant)
		require.NoError(t, err)
		return token
	}
	first := version(false)
	a, b := change("t"), change("t")
	require.NotEqual(t, first, version(true))
	require.NoError(t, s.SettingsChanged(t.Context(), "t", b))
	version(true) // the other one has not ended
	require.NoError(t, s.SettingsChanged(t.Context(), "t", a))
	second := version(false)
	require.NotEqual(t, first, second)
	change("other")
	require.Equal(t, second, version(false))
	operators := change("")
	require.NotEqual(t, second, version(true), "the operator's rules are for all")
	now = now.Add(time.Minute)
	unfinished, err := s.UnfinishedSettings(t.Context(), time.Minute)
	require.NoError(t, err)
	require.Len(t, unfinished, 2)
	require.Equal(t, []string{operators}, unfinished[""])
	require.NoError(t, s.SettingsChanged(t.Context(), "", operators))
	require.NotEqual(t, second, version(false))
}

// TestSweepSettings removes those of tenants that are gone, and what somebody knows of a former tenant is not what a new one of its name has.
func TestSweepSettings(t *testing.T) {
	now := time.Now()
	s := storetest.Open(t, store.Config{Now: func() time.Time { return now }})
	version := func(tenant string) string {
		t.Helper()
		v, _, err := s.SettingsVersion(t.Context(), tenant)
		require.NoError(t, err)
		return v
	}
	sweep := func() int {
		t.Helper()
		n, err := s.SweepSettings(t.Context(), time.Hour)
		require.NoError(t, err)
		return n
	}
	first := version("gone")
	require.NoError(t, s.Create(t.Context(), &domain.Tenant{Metadata: domain.Metadata{Name: "there"}}))
	for _, tenant := range []string{"there", "gone", "goes", ""} {
		token, err := s.ChangeSettings(t.Context(), tenant)
		require.NoError(t, err)
		if tenant != "goes" {
			require.NoError(t, s.SettingsChanged(t.Context(), tenant, token))
		}
	}
	second, stays := version("gone"), version("there")
	require.Zero(t, sweep(), "they are young")
	require.Equal(t, stays, version("there"), "nobody reads anything anew for nothing")
	now = now.Add(2 * time.Hour)
	require.Equal(t, 1, sweep(), "one that is there stays, as does one that is being changed")
	require.NotContains(t, []string{first, second}, version("gone"))
	unfinished, err := s.UnfinishedSettings(t.Context(), 0)
	require.NoError(t, err)
	require.Len(t, unfinished, 1)
	require.Zero(t, sweep())
	last := version("gone")
	require.Zero(t, sweep())
	require.Equal(t, last, version("gone"))
}

// TestSweptSettingsHadNoOperators: where nothing was ever noted of the operator's rules, a version from before the first note does not come back either.
func TestSweptSettingsHadNoOperators(t *testing.T) {
	now := time.Now()
	s := storetest.Open(t, store.Config{Now: func() time.Time { return now }})
	first, _, err := s.SettingsVersion(t.Context(), "t")
	require.NoError(t, err)
	require.NoError(t, s.ForgetTenant(t.Context(), "t"))
	now = now.Add(2 * time.Hour)
	n, err := s.SweepSettings(t.Context(), time.Hour)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	then, changing, err := s.SettingsVersion(t.Context(), "t")
	require.NoError(t, err)
	require.False(t, changing)
	require.NotEqual(t, first, then)
}

func TestStreamsThatAreLost(t *testing.T) {
	now := time.UnixMilli(1e12).UTC()
	s := storetest.Open(t, storeAt(store.Config{}, &now, 0))
	is := func() domain.TenantStream {
		t.Helper()
		stream, err := s.TenantStream(t.Context(), "t")
		require.NoError(t, err)
		return stream
	}
	lost := func() []*domain.Stream {
		t.Helper()
		all, err := s.LostStreams(t.Context())
		require.NoError(t, err)
		return all
	}
	require.Zero(t, is())
	require.NoError(t, s.Pulse(t.Context(), "owner", now))
	first := begin(t, s)
	require.True(t, is().Connected)
	require.Empty(t, lost())
	require.NoError(t, s.NoteStream(t.Context(), first, []domain.LeftOut{{ID: "a", Reason: "too large"}}, 3))
	now = now.Add(domain.PulseLife + time.Second)
	require.False(t, is().Connected)
	require.Equal(t, now.Add(-domain.PulseLife-time.Second), is().Ended.UTC(), "when its process was last alive")
	require.Equal(t, 3, is().LeftOutCount)
	require.Len(t, lost(), 1)
	require.NoError(t, s.SettleStream(t.Context(), lost()[0]))
	require.Empty(t, lost())
	require.NoError(t, s.Pulse(t.Context(), "owner", now))
	second := begin(t, s)
	require.NoError(t, s.EndStream(t.Context(), first, true))
	require.True(t, is().Connected)
	require.NoError(t, s.EndStream(t.Context(), second, false))
	require.False(t, is().Connected)
	require.Len(t, lost(), 1, "it has ended, and what follows from it has not been stored")
}

// TestAStreamThatAClockThatIsAheadHasBegun began when it did: who waits until it has said what is there does not wait for that clock.
func TestAStreamThatAClockThatIsAheadHasBegun(t *testing.T) {
	const ahead = time.Hour
	c, now := storetest.Config(t), time.UnixMilli(1e12).UTC()
	of, other := storetest.Open(t, storeAt(c, &now, ahead)), storetest.Open(t, storeAt(c, &now, 0))
	since := func() time.Time {
		t.Helper()
		is, err := other.TenantStream(t.Context(), "t")
		require.NoError(t, err)
		require.True(t, is.Connected)
		return is.Since.UTC()
	}
	begun := now
	require.NoError(t, of.Pulse(t.Context(), "owner", now.Add(ahead)))
	begin(t, of)
	for now.Before(begun.Add(2 * ahead)) {
		require.Equal(t, begun, since(), "after %s", now.Sub(begun))
		now = now.Add(ahead / 4)
		require.NoError(t, of.Pulse(t.Context(), "owner", now.Add(ahead)))
	}
}

// TestNoStreamIsOlderThanItIs for who has read it first by a clock that was behind, and was set right; nor for whose read has taken long.
func TestNoStreamIsOlderThanItIs(t *testing.T) {
	const after = 2 * time.Second
	for name, off := range map[string]time.Duration{"an hour": -time.Hour, "some seconds": -9 * time.Second} {
		t.Run(name, func(t *testing.T) {
			c, now := storetest.Config(t), time.UnixMilli(1e12).UTC()
			of := storetest.Open(t, storeAt(c, &now, 0))
			other := storetest.Open(t, storeBy(c, &now, &off))
			lost := domain.ClusterName{Provider: "p", Name: "lost"}
			is := func() (since, seen time.Time) {
				t.Helper()
				stream, err := other.TenantStream(t.Context(), "t")
				require.NoError(t, err)
				require.True(t, stream.Connected)
				heard, err := other.Watches(t.Context(), nil)
				require.NoError(t, err)
				return stream.Since.UTC(), heard[lost].LastSeen.UTC()
			}
			begun := now
			require.NoError(t, of.Pulse(t.Context(), "owner", now))
			require.NoError(t, of.PutWatch(t.Context(), "owner", &domain.Watch{Cluster: lost, Reason: "lost", LastSeen: now}))
			begin(t, of)
			is()
			off, now = 0, now.Add(after)
			require.NoError(t, of.Pulse(t.Context(), "owner", now))
			since, seen := is()
			require.Equal(t, begun, since)
			require.Equal(t, begun, seen)
		})
	}
	t.Run("a slow read", func(t *testing.T) {
		c, now := storetest.Config(t), time.UnixMilli(1e12).UTC()
		c.Now = func() time.Time { return now }
		of := storetest.Open(t, c)
		const took = 9 * time.Second
		asked := 0
		c.Now = func() time.Time {
			if asked++; asked == 1 {
				return now.Add(-took)
			}
			return now
		}
		other := storetest.Open(t, c)
		require.NoError(t, of.Pulse(t.Context(), "owner", now))
		begin(t, of)
		asked = 0
		for range 2 {
			is, err := other.TenantStream(t.Context(), "t")
			require.NoError(t, err)
			require.Equal(t, now, is.Since.UTC())
		}
	})
}

// TestAStreamEndsWhenItsProcessDid for who has seen the last pulse by a clock that was behind, and was set right since. Till then it is not lost for that.
func TestAStreamEndsWhenItsProcessDid(t *testing.T) {
	for name, off := range map[string]time.Duration{"an hour": -time.Hour, "some seconds": -9 * time.Second, "right": 0} {
		t.Run(name, func(t *testing.T) {
			c, now := storetest.Config(t), time.UnixMilli(1e12).UTC()
			of, other := storetest.Open(t, storeAt(c, &now, 0)), storetest.Open(t, storeBy(c, &now, &off))
			cluster := domain.ClusterName{Provider: "p", Name: "c"}
			is := func() (stream domain.TenantStream, pulse time.Time, lost int) {
				t.Helper()
				stream, err := other.TenantStream(t.Context(), "t")
				require.NoError(t, err)
				heard, err := other.Watches(t.Context(), nil)
				require.NoError(t, err)
				streams, err := other.LostStreams(t.Context())
				require.NoError(t, err)
				return stream, heard[cluster].Pulse.UTC(), len(streams)
			}
			died := now
			require.NoError(t, of.Pulse(t.Context(), "owner", now))
			require.NoError(t, of.PutWatch(t.Context(), "owner", &domain.Watch{Cluster: cluster, Connected: true, LastSeen: now}))
			begin(t, of)
			is()
			off, now = 0, now.Add(domain.PulseLife)
			stream, pulse, lost := is()
			require.True(t, stream.Connected)
			require.Zero(t, lost)
			require.Equal(t, died, pulse)
			now = now.Add(time.Second)
			stream, pulse, lost = is()
			require.False(t, stream.Connected)
			require.Equal(t, died, stream.Ended.UTC())
			require.Equal(t, 1, lost)
			require.Equal(t, died, pulse)
		})
	}
}

// TestAStreamThatAClockThatIsAheadHasEnded ended when it did, and not before it began, for whoever reads it first.
func TestAStreamThatAClockThatIsAheadHasEnded(t *testing.T) {
	const ahead = time.Hour
	for name, end := range map[string]func(of, other *store.Store, stream *domain.Stream) error{
		"by its own process": func(of, _ *store.Store, stream *domain.Stream) error { return of.EndStream(t.Context(), stream, true) },
		"by another one":     func(_, other *store.Store, stream *domain.Stream) error { return other.CutStream(t.Context(), stream) },
	} {
		t.Run(name, func(t *testing.T) {
			c, now := storetest.Config(t), time.UnixMilli(1e12).UTC()
			of, other := storetest.Open(t, storeAt(c, &now, ahead)), storetest.Open(t, storeAt(c, &now, 0))
			later := func(d time.Duration) {
				t.Helper()
				now = now.Add(d)
				require.NoError(t, of.Pulse(t.Context(), "owner", now.Add(ahead)))
			}
			later(0)
			stream := begin(t, of)
			later(10 * time.Minute)
			ended := now
			require.NoError(t, end(of, other, stream))
			later(20 * time.Minute)
			for range 2 {
				is, err := other.TenantStream(t.Context(), "t")
				require.NoError(t, err)
				require.False(t, is.Connected)
				require.Equal(t, ended, is.Ended.UTC())
				require.False(t, is.Since.After(is.Ended), "%s", is.Since)
				later(2 * ahead)
			}
		})
	}
}

// TestStreamsOfAHostWhoseClockIsOff are no more lost than others: one process has the time of day of another one that is some seconds later, or
// earlier, and both of them have pulses.
func TestStreamsOfAHostWhoseClockIsOff(t *testing.T) {
	for name, off := range map[string]time.Duration{"slow": -20 * time.Second, "fast": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			c, now := storetest.Config(t), time.UnixMilli(1e12).UTC()
			b, a := storetest.Open(t, storeAt(c, &now, 0)), storetest.Open(t, storeAt(c, &now, off))
			lost := func() int {
				t.Helper()
				all, err := b.LostStreams(t.Context())
				require.NoError(t, err)
				is, err := b.TenantStream(t.Context(), "t")
				require.NoError(t, err)
				require.Equal(t, len(all) == 0, is.Connected)
				return len(all)
			}
			require.NoError(t, a.Pulse(t.Context(), "owner", now.Add(off)))
			begin(t, a)
			for range 10 {
				require.Zero(t, lost())
				now = now.Add(domain.PulseLife - time.Second)
				require.NoError(t, a.Pulse(t.Context(), "owner", now.Add(off)))
			}
			require.Zero(t, lost())
			now = now.Add(domain.PulseLife)
			require.Zero(t, lost())
			now = now.Add(time.Second)
			require.Equal(t, 1, lost(), "its process has died")
			require.NoError(t, a.Pulse(t.Context(), "owner", now.Add(off)))
			require.Zero(t, lost())
			now = now.Add(10 * time.Minute)
			late := storetest.Open(t, storeAt(c, &now, 0))
			all, err := late.LostStreams(t.Context())
			require.NoError(t, err)
			require.Len(t, all, 1, "no clock is that far off: who has never looked before need not wait")
			require.NoError(t, a.EndPulse(t.Context(), "owner"))
			require.Equal(t, 1, lost())
		})
	}
}

// storeAt is a store on a machine whose time of day is off.
func storeAt(c store.Config, now *time.Time, off time.Duration) store.Config {
	return storeBy(c, now, &off)
}

// storeBy is storeAt where the time of day is set meanwhile.
func storeBy(c store.Config, now *time.Time, off *time.Duration) store.Config {
	c.Now = func() time.Time { return now.Add(*off) }
	c.Moment = func() lease.Instant {
		return lease.Instant{Boot: time.Duration(now.UnixNano()), Wall: time.Duration(c.Now().UnixNano())}
	}
	return c
}
