package door

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/rights"
)

// TestEveryVerbHasAClass: a verb that package rights does not know would be forbidden to everybody.
func TestEveryVerbHasAClass(t *testing.T) {
	known := []string{rights.Use} // which no request has
	for v := range verbs {
		known = append(known, string(v))
	}
	require.ElementsMatch(t, known, rights.Verbs())
}

// office has the bindings, which tests change, and a clock.
type office struct {
	mu    sync.Mutex
	bound []*domain.RoleBinding
	err   error
	reads int
	at    lease.Instant
}

func (o *office) read(context.Context) (*rights.Book, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reads++
	return rights.NewBook(nil, o.bound), o.err
}

func (o *office) now() lease.Instant {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.at
}

func (o *office) passes(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.at.Boot, o.at.Wall = o.at.Boot+d, o.at.Wall+d
}

func (o *office) set(err error, roles ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err, o.bound = err, nil
	for _, r := range roles {
		o.bound = append(o.bound, &domain.RoleBinding{
			Identity: domain.Identity{Parent: "projects/p"},
			Spec:     domain.RoleBindingSpec{Role: r, Subjects: []domain.RightSubject{{Kind: domain.SubjectUser, Name: "alice"}}},
		})
	}
}

func newOffice(roles ...string) (*office, *Rights) {
	o := &office{at: lease.Instant{Boot: time.Hour, Wall: time.Duration(1e18)}}
	o.set(nil, roles...)
	return o, NewRights(o.read, o.now)
}

func as(ctx context.Context, who caller.Identity) context.Context {
	return caller.WithIdentity(ctx, who, nil)
}

var alice = caller.Identity{Kind: caller.User, Name: "alice"}

// done is what is behind the step.
func done(context.Context) error { return nil }

func TestAuthorised(t *testing.T) {
	_, step := newOffice("viewer")
	group := &Request{Verb: Get, Noun: domain.LogicalClouds, Parent: "projects/p", Name: "lc"}
	require.NoError(t, step.Authorised(as(t.Context(), alice), group, func(ctx context.Context) error {
		require.True(t, rights.Of(ctx).May("get", domain.LogicalClouds, "projects/p"))
		require.False(t, rights.Of(ctx).May("get", domain.LogicalClouds, "projects/q"))
		return nil
	}))
	never := func(context.Context) error {
		t.Error("it went on")
		return nil
	}
	put := *group
	put.Verb = Put
	require.True(t, fail.Is(step.Authorised(as(t.Context(), alice), &put, never), fail.Forbidden))
	require.True(t, fail.Is(step.Authorised(as(t.Context(), caller.Identity{Kind: caller.User, Name: "bob"}), group, never), fail.NotFound))
	proven := fail.New(fail.Unauthorized, "it is none")
	require.ErrorIs(t, step.Authorised(caller.WithIdentity(t.Context(), caller.Identity{}, proven), group, never), proven)
	require.NoError(t, step.Authorised(as(t.Context(), caller.Identity{Kind: caller.Open}), &put, func(ctx context.Context) error {
		require.True(t, rights.Of(ctx).Everything())
		return nil
	}))
}

// TestRightsAreKept: bindings are read at times, not for each request; at once after one was written here; and when they cannot be
// read nobody goes by old ones for long.
func TestRightsAreKept(t *testing.T) {
	o, step := newOffice("project-admin")
	ask := func() error {
		return step.Authorised(as(t.Context(), alice), &Request{Verb: Get, Noun: domain.LogicalClouds, Parent: "projects/p", Name: "lc"}, done)
	}
	for range 100 {
		require.NoError(t, ask())
	}
	require.Equal(t, 1, o.reads)
	o.set(nil)
	require.NoError(t, ask(), "not known yet")
	o.passes(policy.BookGood)
	require.True(t, fail.Is(ask(), fail.NotFound))

	o.set(nil, "project-admin")
	o.passes(policy.BookGood)
	require.NoError(t, step.Authorised(as(t.Context(), alice), &Request{Verb: Delete, Noun: domain.ProjectRoleBindings, Parent: "projects/p", Name: "b"}, func(context.Context) error {
		o.set(nil)
		return nil
	}))
	require.True(t, fail.Is(ask(), fail.NotFound), "what was written here holds at once")

	o.set(nil, "viewer")
	o.passes(policy.BookGood)
	require.NoError(t, ask())
	o.set(nil)
	o.at.Wall += time.Hour // a hypervisor has hidden a pause from the other clock
	require.True(t, fail.Is(ask(), fail.NotFound), "rights of before it are not used")

	o.set(nil, "viewer")
	o.passes(policy.BookGood)
	require.NoError(t, ask())
	o.set(fail.New(fail.Unavailable, "no database"), "viewer")
	o.passes(policy.BookFresh)
	require.NoError(t, ask(), "for a while")
	o.passes(policy.BookGood)
	require.True(t, fail.Is(ask(), fail.Unavailable))
	o.set(nil, "viewer")
	require.NoError(t, ask())
}

// TestMetricsAreSeenWithoutBindings: metrics say that the store is away, so who had a right to them has it for an hour in which bindings cannot
// be read. It is as all other rights when they can be.
func TestMetricsAreSeenWithoutBindings(t *testing.T) {
	o, step := newOffice()
	bind := func(err error, role string) {
		o.set(err, role)
		o.bound[0].Parent = ""
	}
	ask := func(r *Request) error { return step.Authorised(as(t.Context(), alice), r, done) }
	metrics := &Request{Verb: Get, Noun: domain.Metrics}
	bind(nil, "viewer")
	require.NoError(t, ask(metrics))
	bind(fail.New(fail.Unavailable, "no database"), "viewer")
	o.passes(policy.ScrapeGood - time.Second)
	require.NoError(t, ask(metrics))
	require.True(t, fail.Is(ask(&Request{Verb: List, Noun: domain.Projects}), fail.Unavailable))
	require.True(t, fail.Is(step.Authorised(as(t.Context(), caller.Identity{Kind: caller.User, Name: "bob"}), metrics, done), fail.NotFound))
	o.passes(time.Second)
	require.True(t, fail.Is(ask(metrics), fail.Unavailable), "not for ever")
	bind(nil, "viewer")
	require.NoError(t, ask(metrics))
	o.set(nil)
	o.passes(policy.BookGood)
	require.True(t, fail.Is(ask(metrics), fail.NotFound), "it was withdrawn")
}

// TestRightsAreReadAnewForWhoGivesSome: who has lost his own right in another process gives nothing by what is known here.
func TestRightsAreReadAnewForWhoGivesSome(t *testing.T) {
	o := &office{at: lease.Instant{Boot: time.Hour, Wall: time.Duration(1e18)}}
	admin := &domain.RoleBinding{Spec: domain.RoleBindingSpec{Role: domain.RoleAdmin, Subjects: []domain.RightSubject{{Kind: domain.SubjectUser, Name: "alice"}}}}
	step := NewRights(o.read, o.now)
	for _, r := range []*Request{
		{Verb: Create, Noun: domain.RoleBindings},
		{Verb: Put, Noun: domain.ProjectRoleBindings, Parent: "projects/p", Name: "b"},
		{Verb: Create, Noun: domain.Roles},
		{Verb: Create, Noun: domain.ServiceAccounts},
		{Verb: Create, Noun: domain.ServiceAccountTokens, Parent: "service-accounts/admin"},
		{Verb: Create, Noun: domain.TenantTokens, Parent: "tenants/t"},
	} {
		t.Run(r.Noun.Kind, func(t *testing.T) {
			o.passes(policy.BookGood)
			o.bound = []*domain.RoleBinding{admin}
			require.NoError(t, step.Authorised(as(t.Context(), alice), r, done))
			require.NoError(t, step.Authorised(as(t.Context(), alice), &Request{Verb: Get, Noun: domain.Projects, Name: "p"}, done))
			o.bound = nil // elsewhere
			o.passes(policy.BookFresh - time.Millisecond)
			err := step.Authorised(as(t.Context(), alice), r, func(context.Context) error {
				t.Error("it went on")
				return nil
			})
			require.True(t, fail.Is(err, fail.NotFound) || fail.Is(err, fail.Forbidden), "%v", err)
		})
	}
	t.Run("a reading that began before is not for it", func(t *testing.T) {
		o.bound = []*domain.RoleBinding{admin}
		hang, hung := make(chan struct{}), make(chan struct{})
		reads := 0
		step := NewRights(func(ctx context.Context) (*rights.Book, error) {
			book, err := o.read(ctx)
			if reads++; reads == 2 {
				close(hung)
				<-hang
			}
			return book, err
		}, o.now)
		get := &Request{Verb: Get, Noun: domain.Projects, Name: "p"}
		require.NoError(t, step.Authorised(as(t.Context(), alice), get, done))
		o.passes(policy.BookFresh)
		require.NoError(t, step.Authorised(as(t.Context(), alice), get, done), "it goes by what is known, while that is read again")
		<-hung
		step.mu.Lock()
		hanging := step.reading
		step.mu.Unlock()
		o.bound = nil
		err := step.Authorised(as(t.Context(), alice), &Request{Verb: Create, Noun: domain.RoleBindings}, done)
		require.True(t, fail.Is(err, fail.NotFound) || fail.Is(err, fail.Forbidden), "%v", err)

		step.changed()
		step.mu.Lock()
		early := step.book
		step.mu.Unlock()
		close(hang)
		<-hanging.done
		step.mu.Lock()
		defer step.mu.Unlock()
		require.Same(t, early, step.book, "what was read before a change is not kept, though another reading has begun since")
	})
}

// TestWhoGivesRightsSharesReadings: of any number of commands that give rights at once one reading goes on and one waits, which all take that came
// before it began.
func TestWhoGivesRightsSharesReadings(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	o, _ := newOffice("viewer")
	began, end := make(chan struct{}, 200), make(chan struct{})
	step := NewRights(func(ctx context.Context) (*rights.Book, error) {
		book, err := o.read(ctx)
		began <- struct{}{}
		<-end
		return book, err
	}, o.now)
	first := step.ordered(ctx)
	<-began
	o.set(nil, "project-admin")
	second := step.ordered(ctx)
	require.NotSame(t, first, second, "what began before may not have what was changed since")
	for range 100 {
		require.Same(t, second, step.ordered(ctx))
	}
	end <- struct{}{}
	book, err := first.wait(ctx)
	require.NoError(t, err)
	require.False(t, book.Of(alice).May("put", domain.LogicalClouds, "projects/p"))
	<-began
	third := step.ordered(ctx)
	require.NotSame(t, second, third, "it has begun")
	close(end)
	for _, reading := range []*bookReading{second, third} {
		book, err = reading.wait(ctx)
		require.NoError(t, err)
		require.True(t, book.Of(alice).May("put", domain.LogicalClouds, "projects/p"))
	}
	require.Equal(t, 3, o.reads)
	require.NotSame(t, third, step.ordered(ctx), "it is over")
}

// TestRefusedWritesChangeNothing: who may not write bindings does not have them read again, for which all others would wait.
func TestRefusedWritesChangeNothing(t *testing.T) {
	o, step := newOffice("viewer")
	ask := func() error {
		return step.Authorised(as(t.Context(), alice), &Request{Verb: Get, Noun: domain.LogicalClouds, Parent: "projects/p", Name: "lc"}, done)
	}
	require.NoError(t, ask())
	unbind := &Request{Verb: Delete, Noun: domain.ProjectRoleBindings, Parent: "projects/p", Name: "b"}
	for range 10 {
		require.True(t, fail.Is(step.Authorised(as(t.Context(), alice), unbind, done), fail.Forbidden))
		require.True(t, fail.Is(step.Authorised(as(t.Context(), caller.Identity{Kind: caller.User, Name: "bob"}), unbind, done), fail.NotFound))
		require.NoError(t, ask())
	}
	require.Equal(t, 1, o.reads)
}

// TestSlowBindings: a reading that takes longer than what is read stays new, or during which bindings are changed again and again,
// is good for who has waited for it.
func TestSlowBindings(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	o, _ := newOffice("viewer")
	var step *Rights
	step = NewRights(func(ctx context.Context) (*rights.Book, error) {
		book, err := o.read(ctx)
		o.passes(policy.BookTime)
		step.changed()
		return book, err
	}, o.now)
	for range 3 {
		book, err := step.current(ctx, policy.BookFresh)
		require.NoError(t, err)
		require.True(t, book.Of(alice).May("get", domain.LogicalClouds, "projects/p"))
	}
	require.Equal(t, 3, o.reads)
}

// TestReadingsDoNotQueue: who asks while a reading goes on that began too long ago does not wait for that one first.
func TestReadingsDoNotQueue(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	o, _ := newOffice("viewer")
	hang, hung := make(chan struct{}), make(chan struct{})
	var once sync.Once
	step := NewRights(func(ctx context.Context) (*rights.Book, error) {
		first := false
		once.Do(func() { first = true })
		if first {
			close(hung)
			<-hang
		}
		return o.read(ctx)
	}, o.now)
	first := make(chan error, 1)
	go func() {
		_, err := step.current(ctx, policy.BookFresh)
		first <- err
	}()
	<-hung
	o.passes(policy.BookFresh)
	_, err := step.current(ctx, policy.BookFresh)
	require.NoError(t, err)
	close(hang)
	require.NoError(t, <-first)
	require.Equal(t, o.now(), step.at, "what began later stays")
}

// TestWhatIsShownBeside: what goes on ends with the right to what its answer shows beside, and not as long as that holds.
func TestWhatIsShownBeside(t *testing.T) {
	t.Parallel()
	o, step := newOffice("project-admin")
	stream := &Request{Verb: Watch, Noun: domain.LogicalClouds, Parent: "projects/p", Name: "lc"}
	of := func(role string) error {
		return step.Authorised(as(t.Context(), alice), stream, func(ctx context.Context) error {
			Shows(ctx, domain.AuditRecords, "projects/p")
			o.set(nil, role)
			o.passes(policy.BookFresh)
			select {
			case <-ctx.Done():
			case <-time.After(policy.Standing + policy.Standing/2):
			}
			return ctx.Err()
		})
	}
	require.NoError(t, of("project-admin"))
	require.True(t, fail.Is(of("viewer"), fail.Forbidden))
}

// TestWithdrawnRights: a request that goes on ends when its right does, and so it is answered. What has been done stays done.
func TestWithdrawnRights(t *testing.T) {
	o, step := newOffice("viewer")
	stream := &Request{Verb: Watch, Noun: domain.LogicalClouds, Parent: "projects/p", Name: "lc"}
	err := step.Authorised(as(t.Context(), alice), stream, func(ctx context.Context) error {
		o.set(nil)
		o.passes(policy.BookFresh)
		<-ctx.Done()
		return ctx.Err()
	})
	require.True(t, fail.Is(err, fail.NotFound), err)

	o.set(nil, "operator")
	o.passes(policy.BookGood)
	stop := &Request{Verb: Stop, Noun: domain.LogicalClouds, Parent: "projects/p", Name: "lc"}
	require.NoError(t, step.Authorised(as(t.Context(), alice), stop, func(ctx context.Context) error {
		o.set(nil, "viewer")
		o.passes(policy.BookFresh)
		<-ctx.Done()
		return nil
	}))
}
