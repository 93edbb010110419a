package door_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/rights"
)

// TestRefusedComeBackOneAfterTheOther: of many requests at once those that find no slot are told different times, as many in
// 2 s as there are slots; who comes when nobody else is to come is told 2 s again.
func TestRefusedComeBackOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places = 4
		d := door.New(door.Parts{}, door.NewRooms(places).Slots)
		end := make(chan struct{})
		var working sync.WaitGroup
		ask := func() error {
			return d.Pass(t.Context(), &door.Request{Verb: door.Terminate, Noun: domain.LogicalClouds}, func(context.Context, door.Service) error {
				<-end
				return nil
			})
		}
		for range places {
			working.Go(func() { require.NoError(t, ask()) })
		}
		synctest.Wait()
		refused := func(n int) map[time.Duration]int {
			var mu sync.Mutex
			var asking sync.WaitGroup
			told := map[time.Duration]int{}
			for range n {
				asking.Go(func() {
					err := ask()
					require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
					mu.Lock()
					defer mu.Unlock()
					told[fail.RetryAfterOf(err)]++
				})
			}
			asking.Wait()
			return told
		}
		const each = 2 * time.Second / places
		told := refused(3 * places)
		require.Len(t, told, 3*places, "no two are told the same")
		for i := range time.Duration(3 * places) {
			require.Equal(t, 1, told[2*time.Second+i*each], "%v", told)
		}
		require.Equal(t, 30*time.Second, largest(refused(100)), "nobody is sent away for longer")
		<-time.After(time.Minute) // of the bubble: nobody waits
		require.Equal(t, map[time.Duration]int{2 * time.Second: 1}, refused(1))
		close(end)
		working.Wait()
	})
}

func largest(told map[time.Duration]int) (most time.Duration) {
	for after := range told {
		most = max(most, after)
	}
	return most
}

// TestNobodyLeavesTimeToWhoAsksForNothing: a project has all slots while others ask who they are, or may do nothing, however often; not while one asks
// who has a right. What tenants ask for counts, though nothing is bound to them.
func TestNobodyLeavesTimeToWhoAsksForNothing(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	identity := func(kind caller.Kind, name string) context.Context {
		return caller.WithIdentity(t.Context(), caller.Identity{Kind: kind, Name: name}, nil)
	}
	book := rights.NewBook(nil, []*domain.RoleBinding{{Spec: domain.RoleBindingSpec{
		Role: domain.RoleViewer, Subjects: []domain.RightSubject{{Kind: domain.SubjectUser, Name: "alice"}},
	}}})
	holding := func(ctx context.Context) context.Context {
		who, _ := caller.IdentityOf(ctx)
		return rights.With(ctx, book.Of(who))
	}
	whoami, clusters := &door.Request{Verb: door.Get, Noun: domain.Whoami}, &door.Request{Verb: door.List, Noun: domain.ClusterProviders}
	for name, c := range map[string]struct {
		ctx    context.Context
		asks   *door.Request
		counts bool
	}{
		"who he is":                          {holding(identity(caller.User, "alice")), whoami, false},
		"of clusters":                        {holding(identity(caller.User, "alice")), clusters, true},
		"of clusters, without a right":       {holding(identity(caller.User, "bob")), clusters, false},
		"an account without a right":         {holding(identity(caller.ServiceAccount, "service-accounts/ci")), clusters, false},
		"a tenant":                           {holding(identity(caller.Tenant, "t")), clusters, true},
		"while nobody is asked who they are": {holding(identity(caller.Open, "")), clusters, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := door.New(door.Parts{}, door.NewRooms(0).Slots)
				end := make(chan struct{})
				var working atomic.Int32
				var loud sync.WaitGroup
				flood := func() {
					loud.Go(func() {
						r := &door.Request{Verb: door.Status, Noun: domain.LogicalClouds, Parent: "projects/loud", Name: "c"}
						err := d.Pass(as(context.Background(), "anna"), r, func(context.Context, door.Service) error {
							working.Add(1)
							<-end
							return nil
						})
						if err != nil {
							t.Error(err)
						}
					})
				}
				flood()
				synctest.Wait()
				require.NoError(t, d.Pass(c.ctx, c.asks, func(context.Context, door.Service) error { return nil }))
				flood()
				synctest.Wait()
				want := int32(2)
				if c.counts {
					want = 1
				}
				require.Equal(t, want, working.Load())
				close(end)
				loud.Wait()
			})
		})
	}
}

// TestWhoFloodsLeavesOthersTime: a project has all slots as long as it is alone. While another one asks it has as many requests at work as
// half of the processors, but for those that last, which wait for something else. When the other one asks no more it has all again.
func TestWhoFloodsLeavesOthersTime(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	synctest.Test(t, func(t *testing.T) {
		const beside = 1 // of two processors
		d := door.New(door.Parts{}, door.NewRooms(0).Slots)
		var mu sync.Mutex
		working := map[string]int{}
		end := map[string]chan struct{}{"loud": make(chan struct{}), "quiet": make(chan struct{})}
		refused := 0
		var asking sync.WaitGroup
		ask := func(project string) {
			r := &door.Request{Verb: door.Status, Noun: domain.LogicalClouds, Parent: domain.Key("projects/" + project), Name: "c"}
			asking.Go(func() {
				err := d.Pass(as(t.Context(), "alice"), r, func(context.Context, door.Service) error {
					mu.Lock()
					working[project]++
					mu.Unlock()
					<-end[project]
					mu.Lock()
					working[project]--
					mu.Unlock()
					return nil
				})
				mu.Lock()
				defer mu.Unlock()
				if fail.Is(err, fail.Exhausted) {
					refused++
				} else if err != nil && t.Context().Err() == nil {
					t.Error(err)
				}
			})
		}
		at := func(project string) int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return working[project]
		}
		finish := func(project string) {
			end[project] <- struct{}{}
			synctest.Wait()
		}
		for range beside + 5 {
			ask("loud")
		}
		require.Equal(t, beside+5, at("loud"), "it is alone")
		ask("quiet")
		require.Equal(t, 1, at("quiet"), "others find a slot at once")
		for range beside + 5 {
			finish("loud")
			ask("loud")
		}
		require.Equal(t, beside, at("loud"), "of its own as many as it may have beside others")
		<-time.After(150 * time.Millisecond)
		require.Equal(t, 2*beside, at("loud"), "those that last are waited for by nobody")
		<-time.After(time.Second)
		require.Equal(t, beside+5, at("loud"), "the other one asks no more")

		<-time.After(300 * time.Millisecond) // nobody is young
		ask("quiet")
		for range 3 {
			finish("loud")
		}
		left := at("loud")
		for range beside + 150 {
			ask("loud")
		}
		require.Equal(t, left+beside, at("loud"))
		require.Equal(t, 2, at("quiet"))
		for range 120 { // it goes on asking
			<-time.After(100 * time.Millisecond)
			ask("quiet")
		}
		require.Equal(t, 122, at("quiet"))
		mu.Lock()
		sent := refused
		mu.Unlock()
		require.Positive(t, sent, "who waits for too long is sent away")
		close(end["loud"])
		close(end["quiet"])
		asking.Wait()
	})
}

// TestStreamsLeaveOthersTime: what is evaluated for the streams of a project has slots as its requests have. While others ask, the two together
// are as many at work as half of the processors; others do not wait for those who only look whether something has changed.
func TestStreamsLeaveOthersTime(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	synctest.Test(t, func(t *testing.T) {
		const beside, many = 1, 20 // of two processors
		rooms := door.NewRooms(0)
		d := door.New(door.Parts{}, rooms.Slots)
		var working, most, waited atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		var going sync.WaitGroup
		evaluate := func(asks bool, takes time.Duration) {
			going.Go(func() {
				for ctx.Err() == nil {
					leave, err := rooms.Turn(ctx, "projects/loud/composite-apps/ca/v1/deployment-intent-groups/g", asks)
					if err != nil {
						if ctx.Err() == nil {
							t.Error(err)
						}
						return
					}
					most.Store(max(most.Load(), working.Add(1)))
					time.Sleep(takes) //nolint:forbidigo // in synctest's time
					working.Add(-1)
					leave()
				}
			})
		}
		ask := func() {
			begun := time.Now()
			r := &door.Request{Verb: door.Status, Noun: domain.LogicalClouds, Parent: "projects/quiet", Name: "c"}
			err := d.Pass(as(t.Context(), "alice"), r, func(context.Context, door.Service) error {
				waited.Store(max(waited.Load(), int64(time.Since(begun))))
				time.Sleep(time.Millisecond) //nolint:forbidigo // in synctest's time
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		for range many {
			evaluate(true, 20*time.Millisecond)
		}
		time.Sleep(time.Second) //nolint:forbidigo // in synctest's time
		require.EqualValues(t, many, most.Load(), "it is alone")
		ask()
		time.Sleep(50 * time.Millisecond) //nolint:forbidigo // in synctest's time
		most.Store(0)
		for range 50 {
			ask()
			time.Sleep(50 * time.Millisecond) //nolint:forbidigo // in synctest's time
		}
		require.EqualValues(t, beside, most.Load())
		require.Zero(t, waited.Load(), "the other one waits for none of them")
		stop()
		going.Wait()

		time.Sleep(2 * time.Second) //nolint:forbidigo // in synctest's time
		ctx, stop = context.WithCancel(t.Context())
		evaluate(false, 20*time.Millisecond) // looks alone
		var asking sync.WaitGroup
		for range many {
			asking.Go(ask)
		}
		asking.Wait()
		require.Zero(t, waited.Load(), "nobody leaves time to who looks")
		stop()
		going.Wait()
	})
}

// TestMetricsHaveSlotsOfTheirOwn: so many requests for metrics are at work at a time, of one caller half as many; others take no slots
// from them, so that they are answered when everything else is full.
func TestMetricsHaveSlotsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := door.New(door.Parts{}, door.NewRooms(0).Slots)
		end := make(chan struct{})
		var atWork sync.WaitGroup
		var working atomic.Int32
		ask := func(who string, r *door.Request) error {
			return d.Pass(as(t.Context(), who), r, func(context.Context, door.Service) error {
				working.Add(1)
				<-end
				return nil
			})
		}
		metrics := &door.Request{Verb: door.Get, Noun: domain.Metrics}
		flood := func(n int, who string, r *door.Request) (refused chan error) {
			refused = make(chan error, n)
			for range n {
				atWork.Go(func() {
					if err := ask(who, r); err != nil {
						refused <- err
					}
				})
			}
			<-time.After(time.Minute) // of the bubble: who finds no slot is told so
			return refused
		}
		flood(300, "loud", &door.Request{Verb: door.List, Noun: domain.Projects})
		require.EqualValues(t, 256, working.Swap(0), "all slots that others have")
		refused := flood(1000, "vera", metrics)
		require.EqualValues(t, limits.Gathers/2, working.Load())
		err := <-refused
		require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
		require.Positive(t, fail.RetryAfterOf(err))
		require.Empty(t, flood(limits.Gathers/2, "scrapes", metrics), "another one has the others")
		require.Len(t, flood(1, "otto", metrics), 1, "and no more than that are at work")
		close(end)
		atWork.Wait()
		require.NoError(t, ask("vera", metrics))
	})
}
