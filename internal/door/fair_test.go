package door_test

import (
	"context"
	"fmt"
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
)

// used is what projects have.
type used struct {
	mu        sync.Mutex
	running   int
	documents int
	bytes     int64
	err       error
}

func (u *used) CountRunning(context.Context, string) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.running, u.err
}

func (u *used) Usage(context.Context, domain.Key) (int, int64, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.documents, u.bytes, u.err
}

func (u *used) set(running, documents int, bytes int64, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.running, u.documents, u.bytes, u.err = running, documents, bytes, err
}

// fair asks through the step. What it asks for goes on until hold is closed, when there is one.
type fair struct {
	t      *testing.T
	shares *door.Shares
	door   *door.Door
}

func newFair(t *testing.T, l limits.Fair, u door.Usage) *fair {
	s := door.NewShares(l, u, time.Now)
	return &fair{t, s, door.New(door.Parts{}, s.Fair)}
}

func as(ctx context.Context, name string) context.Context {
	who := caller.Identity{Kind: caller.User, Name: name}
	if name == "" {
		who = caller.Identity{Kind: caller.Open}
	}
	return caller.WithIdentity(ctx, who, nil)
}

func (f *fair) ask(who string, verb door.Verb, project string, hold <-chan struct{}) error {
	r := &door.Request{Verb: verb, Noun: domain.CompositeApps, Parent: domain.Key("projects/" + project)}
	if verb == door.Instantiate {
		r.Noun = domain.LogicalClouds
	}
	return f.door.Pass(as(f.t.Context(), who), r, func(context.Context, door.Service) error {
		if hold != nil {
			<-hold
		}
		return nil
	})
}

// asked says how many of so many are let in, and what the others are told.
func (f *fair) asked(n int, who string, verb door.Verb, project string) (let int, refused []error) {
	for range n {
		if err := f.ask(who, verb, project, nil); err == nil {
			let++
		} else {
			require.True(f.t, fail.Is(err, fail.Exhausted), "%v", err)
			require.Positive(f.t, fail.RetryAfterOf(err))
			refused = append(refused, err)
		}
	}
	return let, refused
}

// TestRequestsASecond: a caller, and a project, may make so many; others are not touched by that. Those that are refused come back one
// after the other.
func TestRequestsASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFair(t, limits.Fair{CallerRate: 10, ProjectRate: 20}, nil)
		let, refused := f.asked(50, "alice", door.Get, "p")
		require.Equal(t, 40, let, "four seconds at once")
		require.ErrorContains(t, refused[0], "requests for user alice come faster than 10 a second (--caller-rate)")
		told := map[time.Duration]bool{}
		for _, err := range refused {
			told[fail.RetryAfterOf(err)] = true
		}
		require.Len(t, told, 10, "no two are told the same")
		let, _ = f.asked(50, "bob", door.Get, "p")
		require.Equal(t, 40, let)
		let, refused = f.asked(50, "carol", door.Get, "p")
		require.Equal(t, 0, let, "the project has had its share")
		require.ErrorContains(t, refused[0], "requests for project p come faster than 20 a second (--project-rate)")
		let, _ = f.asked(10, "dave", door.Get, "q")
		require.Equal(t, 10, let)
		<-time.After(time.Second) // of the bubble
		let, _ = f.asked(50, "alice", door.Get, "q")
		require.Equal(t, 10, let)
		require.Equal(t, map[string]int64{"callerRate": 10 + 10 + 40 + 10, "projectRate": 40}, f.shares.Refused())
	})
}

// TestAtATime: requests and streams are counted apart, and are given back when they end.
func TestAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFair(t, limits.Fair{CallerRequests: 2, CallerStreams: 1, ProjectRequests: 3, ProjectStreams: 2}, nil)
		hold := make(chan struct{})
		var holding sync.WaitGroup
		keep := func(who string, verb door.Verb) {
			holding.Go(func() { require.NoError(t, f.ask(who, verb, "p", hold)) })
			synctest.Wait()
		}
		refused := func(who string, verb door.Verb, project, says string) {
			t.Helper()
			err := f.ask(who, verb, project, nil)
			require.True(t, fail.Is(err, fail.Exhausted), "%v", err)
			require.ErrorContains(t, err, says)
		}
		keep("alice", door.Get)
		keep("alice", door.Get)
		refused("alice", door.Get, "q", "2 requests are at work for user alice, and more there may not be (--caller-requests)")
		keep("alice", door.Watch)
		refused("alice", door.Watch, "q", "1 streams are open for user alice")
		keep("bob", door.Get)
		refused("carol", door.Get, "p", "3 requests are at work for project p, and more there may not be (--project-requests)")
		keep("bob", door.Watch)
		refused("carol", door.Watch, "p", "2 streams are open for project p")
		require.NoError(t, f.ask("carol", door.Get, "q", nil))
		close(hold)
		holding.Wait()
		for _, verb := range []door.Verb{door.Get, door.Watch} {
			require.NoError(t, f.ask("alice", verb, "p", nil))
			require.NoError(t, f.ask("carol", verb, "p", nil))
		}
	})
}

// TestWhoHasNoShare: with --auth=off nobody is known, so that projects alone have shares; a tenant's calls have limits of their own, and
// what is looked at when everything is full is always let in.
func TestWhoHasNoShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFair(t, limits.Fair{CallerRate: 1, ProjectRate: 2}, nil)
		let, _ := f.asked(20, "", door.Get, "p")
		require.Equal(t, 8, let)
		none := newFair(t, limits.Fair{}, nil)
		let, _ = none.asked(1000, "alice", door.Get, "p")
		require.Equal(t, 1000, let)
		ctx := caller.WithIdentity(t.Context(), caller.Identity{Kind: caller.Tenant, Name: "t"}, nil)
		for range 100 {
			require.NoError(t, f.door.Pass(ctx, &door.Request{Verb: door.Get, Noun: domain.Tenants}, nothing))
			require.NoError(t, f.door.Pass(as(t.Context(), "scrapes"), &door.Request{Verb: door.Get, Noun: domain.Metrics}, nothing))
		}
	})
}

func nothing(context.Context, door.Service) error { return nil }

// TestWhatAProjectHas: operations that go on, documents and bytes are counted behind what asks for more, and what cannot be counted
// refuses nobody.
func TestWhatAProjectHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &used{}
		f := newFair(t, limits.Fair{ProjectOperations: 10, ProjectDocuments: 100, ProjectBytes: 1000}, u)
		let, refused := f.asked(12, "alice", door.Instantiate, "p")
		synctest.Wait()
		require.Equal(t, 10, let, "what is begun counts at once")
		require.ErrorContains(t, refused[0], "10 operations of project p go on, and more may not (--project-operations)")
		u.set(8, 95, 0, nil)
		<-time.After(3 * time.Second) // of the bubble
		require.Error(t, f.ask("alice", door.Instantiate, "p", nil), "it has them counted, and does not wait")
		synctest.Wait()
		let, _ = f.asked(12, "alice", door.Instantiate, "p")
		require.Equal(t, 2, let)
		u.set(0, 95, 0, nil)
		let, _ = f.asked(5, "alice", door.Instantiate, "q")
		require.Equal(t, 5, let)

		require.NoError(t, f.ask("alice", door.Create, "p", nil))
		synctest.Wait()
		let, refused = f.asked(20, "alice", door.Create, "p")
		require.Equal(t, 4, let)
		require.ErrorContains(t, refused[0], "project p has 100 documents, and may have 100 (--project-documents): delete some")
		require.NoError(t, f.ask("alice", door.Put, "p", nil), "what is there may be changed")
		u.set(0, 50, 1000, nil)
		<-time.After(time.Minute) // of the bubble
		_ = f.ask("alice", door.Create, "p", nil)
		synctest.Wait()
		for _, verb := range []door.Verb{door.Create, door.Put} {
			require.ErrorContains(t, f.ask("alice", verb, "p", nil), "the documents of project p have 1000 bytes with their files, and may have 1000 (--project-bytes)")
		}
		require.NoError(t, f.ask("alice", door.Delete, "p", nil))
		u.set(0, 0, 0, fail.New(fail.Unavailable, "the database is away"))
		require.NoError(t, f.ask("alice", door.Create, "new", nil))
		synctest.Wait()
		require.NoError(t, f.ask("alice", door.Create, "new", nil))
	})
}

// TestWhatCameToNothing takes nobody's place: neither operations that were refused further in, nor documents that are there already.
func TestWhatCameToNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &used{err: fail.New(fail.Timeout, "visibility is slow")}
		f := newFair(t, limits.Fair{ProjectOperations: 10, ProjectDocuments: 10, ProjectBytes: 1000}, u)
		request := map[door.Verb]*door.Request{
			door.Instantiate: {Verb: door.Instantiate, Noun: domain.LogicalClouds, Parent: "projects/p", Name: "c"},
			door.Create:      {Verb: door.Create, Noun: domain.CompositeApps, Parent: "projects/p"},
		}
		refuse := func(verb door.Verb) {
			err := f.door.Pass(as(t.Context(), "alice"), request[verb], func(context.Context, door.Service) error {
				return fail.New(fail.Conflict, "no")
			})
			require.True(t, fail.Is(err, fail.Conflict), "%v", err)
		}
		for i := range 100 {
			refuse(door.Instantiate)
			refuse(door.Create)
			if i%10 == 5 {
				<-time.After(3 * time.Second) // of the bubble: it is counted again, in vain
			}
		}
		for verb := range request {
			let, _ := f.asked(12, "alice", verb, "p")
			require.Equal(t, 10, let, "%s", verb)
		}
		err := f.door.Pass(as(t.Context(), "alice"), &door.Request{Verb: door.Instantiate, Noun: domain.LogicalClouds, Parent: "projects/q", Name: "c"},
			func(context.Context, door.Service) error { panic("a bug") })
		require.ErrorContains(t, err, "a bug")
		let, _ := f.asked(12, "alice", door.Instantiate, "q")
		require.Equal(t, 10, let)

		// While it is counted some are under way: those that fail then are in what was counted, or not, but never twice.
		u.set(10, 0, 0, nil)
		hold := make(chan struct{})
		var holding sync.WaitGroup
		holding.Go(func() {
			_ = f.door.Pass(as(t.Context(), "alice"), &door.Request{Verb: door.Instantiate, Noun: domain.LogicalClouds, Parent: "projects/r", Name: "c"},
				func(context.Context, door.Service) error {
					<-hold
					return fail.New(fail.Conflict, "no")
				})
		})
		synctest.Wait()
		<-time.After(3 * time.Second) // of the bubble
		require.Error(t, f.ask("alice", door.Instantiate, "r", nil))
		synctest.Wait()
		close(hold)
		holding.Wait()
		let, _ = f.asked(1, "alice", door.Instantiate, "r")
		require.Zero(t, let, "10 go on")
	})
}

// TestWhatCannotBeCounted for long refuses nobody: what had begun may be over. It is counted again soon.
func TestWhatCannotBeCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &used{err: fail.New(fail.Timeout, "visibility is slow")}
		f := newFair(t, limits.Fair{ProjectOperations: 10, ProjectDocuments: 100, ProjectBytes: 1000}, u)
		let, _ := f.asked(12, "alice", door.Instantiate, "p")
		require.Equal(t, 10, let)
		<-time.After(2 * time.Minute) // of the bubble
		let, _ = f.asked(12, "alice", door.Instantiate, "p")
		require.Equal(t, 12, let)
		synctest.Wait()
		u.set(4, 99, 0, nil)
		<-time.After(3 * time.Second) // of the bubble
		require.NoError(t, f.ask("alice", door.Instantiate, "p", nil))
		synctest.Wait()
		let, _ = f.asked(12, "alice", door.Instantiate, "p")
		require.Equal(t, 5, let, "four go on, and one was begun")

		u.set(0, 0, 0, fail.New(fail.Timeout, "the database is slow"))
		require.NoError(t, f.ask("alice", door.Create, "d", nil))
		synctest.Wait()
		u.set(0, 100, 0, nil)
		<-time.After(time.Minute) // of the bubble
		require.NoError(t, f.ask("alice", door.Create, "d", nil))
		synctest.Wait()
		require.ErrorContains(t, f.ask("alice", door.Create, "d", nil), "project d has 101 documents")
	})
}

// TestWhatComesIsCountedAtOnce: bytes that are stored count before they are counted again.
func TestWhatComesIsCountedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFair(t, limits.Fair{ProjectBytes: 1000}, &used{})
		put := func() error {
			r := &door.Request{Verb: door.Put, Noun: domain.Apps, Parent: "projects/p/composite-apps/a/v1", Name: "n"}
			return f.door.Pass(as(t.Context(), "alice"), r, func(context.Context, door.Service) error {
				r.Bytes = 400
				return nil
			})
		}
		require.NoError(t, put())
		synctest.Wait()
		require.NoError(t, put())
		require.NoError(t, put())
		require.ErrorContains(t, put(), "and may have 1000 (--project-bytes)")
		<-time.After(time.Minute) // of the bubble
		_ = put()
		synctest.Wait()
		require.NoError(t, put(), "it was counted, and is not there any more")
	})
}

// TestManyCallers: what is kept is bounded, and those that do not ask any more make room for others.
func TestManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFair(t, limits.Fair{CallerRate: 10}, nil)
		for i := range 10_000 {
			require.NoError(t, f.ask(fmt.Sprint("user", i), door.Get, "", nil))
		}
		let, refused := 0, 0
		for i := range 100 {
			if f.ask(fmt.Sprint("another", i), door.Get, "", nil) == nil {
				let++
			} else {
				refused++
			}
		}
		require.Equal(t, []int{40, 60}, []int{let, refused}, "they are taken for one")
		<-time.After(time.Minute) // of the bubble
		for i := range 100 {
			require.NoError(t, f.ask(fmt.Sprint("another", i), door.Get, "", nil))
		}
	})
}

// TestSlotsAreShared: who asks for much waits for itself. The next slot is another project's, however many of the first wait before it.
func TestSlotsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places = 4
		d := door.New(door.Parts{}, door.NewRooms(places).Slots)
		var mu sync.Mutex
		var order []string
		end := make(chan struct{})
		var asking sync.WaitGroup
		ask := func(project string) {
			r := &door.Request{Verb: door.Terminate, Noun: domain.LogicalClouds, Parent: domain.Key("projects/" + project), Name: "c"}
			asking.Go(func() {
				require.NoError(t, d.Pass(as(t.Context(), "alice"), r, func(context.Context, door.Service) error {
					mu.Lock()
					order = append(order, project)
					mu.Unlock()
					<-end
					return nil
				}))
			})
			synctest.Wait()
		}
		for range places + 3 {
			ask("loud")
		}
		ask("quiet")
		ask("calm")
		for range places + 5 {
			end <- struct{}{}
			synctest.Wait()
		}
		asking.Wait()
		require.Equal(t, []string{"loud", "loud", "loud", "loud", "quiet", "calm", "loud", "loud", "loud"}, order)
	})
}

// TestNobodyFillsARoom: of a room that slow requests can fill a project has half at the most, and so has a caller, whatever the projects
// that it asks for. Others find a slot at once, and who waits has the next one of its own, though others are free.
func TestNobodyFillsARoom(t *testing.T) {
	const inProject = domain.Key("projects/p")
	for name, c := range map[string]struct {
		request door.Request
		half    int
	}{
		"upload":  {door.Request{Verb: door.Create, Noun: domain.Apps, Parent: inProject}, 16},
		"begin":   {door.Request{Verb: door.Instantiate, Noun: domain.LogicalClouds, Parent: inProject, Name: "c"}, 16},
		"approve": {door.Request{Verb: door.Approve, Noun: domain.DeploymentIntentGroups, Parent: inProject, Name: "g"}, 4},
		"preview": {door.Request{Verb: door.Query, Noun: domain.DeploymentIntentGroups, Parent: inProject, Name: "g", Renders: true}, 4},
		"audit":   {door.Request{Verb: door.List, Noun: domain.AuditRecords}, 2},
		"check":   {door.Request{Verb: door.Query, Noun: domain.ClustersNoun, Name: "c"}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := door.New(door.Parts{}, door.NewRooms(0).Slots)
				end := make(chan struct{})
				var asking sync.WaitGroup
				var working atomic.Int32
				ask := func(who, project string) (let bool) {
					r, before := c.request, working.Load()
					if r.Parent != "" {
						r.Parent = domain.Key("projects/" + project)
					}
					asking.Go(func() {
						err := d.Pass(as(t.Context(), who), &r, func(context.Context, door.Service) error {
							working.Add(1)
							<-end
							return nil
						})
						require.True(t, err == nil || fail.Is(err, fail.Unavailable), "%v", err)
					})
					synctest.Wait()
					return working.Load() > before
				}
				for i := range c.half {
					require.True(t, ask("mallory", fmt.Sprint("p", i%2)), "%d", i)
				}
				require.False(t, ask("mallory", "another"), "the caller has half")
				require.True(t, ask("bob", "another"))
				for i := range c.half - 1 {
					require.True(t, ask(fmt.Sprint("user", i%2), "loud"), "%d", i)
				}
				require.False(t, ask("bob", "another"), "the room is full")
				end <- struct{}{} // one of whom it is, the two that wait may take it
				synctest.Wait()
				require.EqualValues(t, 2*c.half+1, working.Load())
				close(end)
				asking.Wait()

				end = make(chan struct{})
				working.Store(0)
				for i := range c.half {
					require.True(t, ask("", "loud"), "%d", i)
				}
				require.Equal(t, c.request.Parent == "", !ask("", "quiet"), "while nobody is known projects alone are told apart")
				before := working.Load()
				require.False(t, ask("", "loud"))
				end <- struct{}{}
				end <- struct{}{}
				synctest.Wait()
				require.Greater(t, working.Load(), before)
				close(end)
				asking.Wait()
			})
		})
	}
}
