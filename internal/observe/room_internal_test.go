package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/plan"
)

func keptAll(string) bool { return true }

// hold has a cluster say that an app has an object of so many KiB.
func hold(t *testing.T, x *objects, app, name string, kib int) {
	t.Helper()
	at := plan.ResourceID{Kind: "ConfigMap", Namespace: "n", Name: app + name}
	require.NoError(t, x.put("1-"+app, at, &domain.ObservedResource{JSON: make(json.RawMessage, kib<<10)}))
}

// TestClustersShareARoom: who comes when there is none any more, and would have most, is left out until others have gone.
func TestClustersShareARoom(t *testing.T) {
	t.Parallel()
	room := NewRoom(1 << 20)
	first, second := newObjects(newQueue(0), keptAll, room), newObjects(newQueue(0), keptAll, room)
	list := func() {
		t.Helper()
		hold(t, second, "a", "", 300)
		hold(t, second, "b", "", 310)
	}
	hold(t, first, "a", "", 300)
	hold(t, first, "b", "", 300)
	list()
	require.Empty(t, first.out)
	require.Equal(t, map[string]bool{"1-b": true}, second.out)
	require.Equal(t, fail.TextOf(errLeftOut), second.observation("1-b").Error)
	require.Equal(t, 900<<10, room.bytes)
	require.False(t, second.hasRoom())

	first.end()
	require.True(t, second.hasRoom())
	require.True(t, second.retry())
	list()
	second.retryEnds()
	require.Empty(t, second.out)
	require.Len(t, second.observation("1-b").Resources, 1)
	require.Equal(t, 610<<10, room.bytes)
	for _, name := range []string{"a", "b"} {
		second.remove(plan.ResourceID{Kind: "ConfigMap", Namespace: "n", Name: name})
	}
	require.Zero(t, room.bytes)
	require.Empty(t, room.of)
}

// TestTheLargestClusterYields to one that has less, what is largest there, and no more than has to be.
func TestTheLargestClusterYields(t *testing.T) {
	t.Parallel()
	room := NewRoom(1 << 20)
	q := newQueue(0)
	large, medium, small := newObjects(q, keptAll, room), newObjects(newQueue(0), keptAll, room), newObjects(newQueue(0), keptAll, room)
	for i := range 6 {
		hold(t, large, fmt.Sprint(i), "", 100+i)
	}
	hold(t, medium, "a", "", 400)
	clear(q.due) // they were reported
	hold(t, small, "a", "", 200)
	require.Empty(t, small.out)
	require.Empty(t, medium.out, "it has less than the other one")
	require.Equal(t, map[string]bool{"1-4": true, "1-5": true}, large.out)
	require.Contains(t, q.due, "1-5", "that it is left out is reported")
	require.NotContains(t, q.due, "1-0")
	require.LessOrEqual(t, room.bytes, room.most)
	require.False(t, large.hasRoom(), "there is none")

	hold(t, small, "a", "", 100) // it has shrunk, and the share of the others is more
	require.True(t, large.retry())
	hold(t, large, "4", "", 104)
	large.retryEnds()
	require.Equal(t, map[string]bool{"1-5": true}, large.out)
	require.Empty(t, medium.out)
}

// TestAClusterHasItsShareAgain: what is left out comes back, though there is no room, where it has less than others, which yield.
func TestAClusterHasItsShareAgain(t *testing.T) {
	t.Parallel()
	room := NewRoom(1 << 20)
	x, other := newObjects(newQueue(0), keptAll, room), newObjects(newQueue(0), keptAll, room)
	for i := range 6 {
		hold(t, x, fmt.Sprint(i), "", 100)
	}
	for i := range 10 {
		hold(t, other, fmt.Sprint(i), "", 50)
	}
	require.Equal(t, map[string]bool{"1-5": true}, x.out)
	shrunk := func() {
		t.Helper()
		for i := range 5 {
			hold(t, x, fmt.Sprint(i), "", 60)
		}
	}
	shrunk()
	for i := range 10 {
		hold(t, other, fmt.Sprint(i, "-late"), "", 50)
	}
	yielded := len(other.out)
	require.Equal(t, 1000<<10, room.bytes)
	require.True(t, x.retry())
	shrunk()
	hold(t, x, "5", "", 100)
	x.retryEnds()
	require.Empty(t, x.out)
	require.Equal(t, 400<<10, x.bytes)
	require.Greater(t, len(other.out), yielded)
	require.LessOrEqual(t, room.bytes, room.most)
	require.False(t, other.hasRoom(), "what has yielded is not listed again and again")
}

// TestShares are what each may have for all that the others have.
func TestShares(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		others      []int
		share, free int
	}{
		"alone":                              {nil, 120, 120},
		"with small ones":                    {[]int{10, 20}, 90, 90},
		"with large ones":                    {[]int{60, 60}, 40, 0},
		"with both":                          {[]int{10, 50, 60}, 36, 0},
		"with one that has less than shares": {[]int{30, 90}, 45, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			room := NewRoom(120)
			for _, bytes := range c.others {
				room.of[&objects{}] = bytes
				room.bytes += bytes
			}
			share, free := room.share(&objects{})
			require.Equal(t, c.share, share)
			require.Equal(t, c.free, free)
		})
	}
}

// TestARoomIsNeverOverfull, whatever many clusters say at a time.
func TestARoomIsNeverOverfull(t *testing.T) {
	t.Parallel()
	room := NewRoom(1 << 20)
	held := func() (bytes int) {
		room.mu.Lock()
		defer room.mu.Unlock()
		for _, b := range room.of {
			bytes += b
		}
		if room.bytes < bytes || room.bytes > room.most {
			t.Errorf("%d are held and %d taken of %d", bytes, room.bytes, room.most)
		}
		return bytes
	}
	clusters := make([]*objects, 6)
	var all sync.WaitGroup
	for i := range clusters {
		x := newObjects(newQueue(0), func(id string) bool { return id < "1-5" }, room)
		clusters[i] = x
		for feed := range 2 {
			all.Go(func() {
				dice := rand.New(rand.NewPCG(uint64(i), uint64(feed))) // #nosec G404 -- to be the same each time
				for range 500 {
					at := plan.ResourceID{Kind: fmt.Sprint(feed), Name: fmt.Sprint(dice.IntN(20))}
					switch dice.IntN(8) {
					case 0:
						x.remove(at)
					case 1:
						x.retry()
					default:
						o := &domain.ObservedResource{JSON: make(json.RawMessage, dice.IntN((i+1)<<14))}
						if x.put(fmt.Sprint("1-", dice.IntN(10)), at, o) != nil {
							t.Error("it is refused")
						}
					}
					held()
				}
			})
		}
	}
	all.Wait()
	require.Equal(t, room.bytes, held(), "nothing is taken that is not held")
	for _, x := range clusters {
		x.mu.Lock()
		require.Equal(t, x.bytes, room.of[x])
		x.mu.Unlock()
		x.end()
	}
	require.Zero(t, room.bytes)
}

// away is a cluster that nobody reaches.
type away struct{}

func (away) Get(context.Context, domain.ClusterName) (*kube.Cluster, error) {
	return nil, errors.New("it is away")
}

// TestWhoIsHeardInAnotherWayLeavesTheRoom, and so does a watch that ends.
func TestWhoIsHeardInAnotherWayLeavesTheRoom(t *testing.T) {
	t.Parallel()
	room := NewRoom(1 << 20)
	for name, leave := range map[string]func(*Watcher){
		"by an agent": func(w *Watcher) { w.hearAgent(newLease(w.config.Silence)) },
		"anew":        func(w *Watcher) { w.hearResources() },
		"no more": func(w *Watcher) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			w.config.Clusters = away{}
			require.ErrorIs(t, w.Run(ctx), context.Canceled)
		},
	} {
		w, err := New(Config{Report: domain.ReportAgentless, Room: room, Sink: &keeper{}})
		require.NoError(t, err, name)
		hold(t, w.source.(*agentless).objects, "a", "", 100)
		require.Equal(t, 100<<10, room.bytes, name)
		leave(w)
		require.Zero(t, room.bytes, name)
		require.Empty(t, room.of, name)
	}
}

// TestWhoHasLeftYieldsNothing: one that was to yield, and has left meanwhile, does not come back, and what is read for it holds nothing.
func TestWhoHasLeftYieldsNothing(t *testing.T) {
	t.Parallel()
	room := NewRoom(1 << 20)
	large, small := newObjects(newQueue(0), keptAll, room), newObjects(newQueue(0), keptAll, room)
	for i := range 4 {
		hold(t, large, fmt.Sprint(i), "", 200)
	}
	picked, short := room.largest(small, 300<<10)
	require.Same(t, large, picked)
	large.end()
	picked.yield(short)
	hold(t, large, "late", "", 100)
	require.Zero(t, room.bytes)
	require.Empty(t, room.of)
}
