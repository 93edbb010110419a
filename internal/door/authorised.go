package door

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/rights"
)

// Rights is the step that lets pass what its caller has a right to. It keeps what the installation has of roles and bindings.
type Rights struct {
	read func(ctx context.Context) (*rights.Book, error)
	now  lease.Clock // a time that the machine was suspended counts, too

	mu      sync.Mutex
	book    *rights.Book
	at      lease.Instant // when the reading of book began
	reading *bookReading
	changes int          // how often bindings were changed here
	giving  *bookReading // the one that goes on for who gives rights
	queued  *bookReading // the next one for them, which begins when that is over
}

// bookReading is a reading that goes on.
type bookReading struct {
	at   lease.Instant // when it began
	done chan struct{} // closed when it is over
	book *rights.Book
	err  error
	// changes is that of Rights when it began: what was changed since it may not have.
	changes int
	begin   func() // of one that waits
}

// NewRights makes the step. read reads all roles and bindings.
func NewRights(read func(ctx context.Context) (*rights.Book, error), now lease.Clock) *Rights {
	return &Rights{read: read, now: now}
}

// Authorised is the step. A caller that may not do what it asks for gets NotFound when it may not know of the thing either, else
// Forbidden with the right that is missing. What it may see and name is in the context of those behind it (rights.Of). When the
// right is withdrawn while the request goes on, or that to what its answer shows beside (Shows), the request ends. While the API asks
// nobody who they are, everybody passes.
func (k *Rights) Authorised(ctx context.Context, r *Request, next Next) error {
	who, err := caller.IdentityOf(ctx)
	if err != nil {
		return err
	}
	if r.Verb.Command() && (r.Noun.Bounds || slices.Contains(givesRights, r.Noun)) {
		command := next
		next = func(ctx context.Context) error {
			defer k.changed() // not by who is refused: each time all others wait
			return command(ctx)
		}
	}
	if who.Kind == caller.Open {
		return next(ctx)
	}
	asked := rights.Request{Verb: string(r.Verb), Noun: r.Noun, Key: r.Key()}
	if who.Kind == caller.Tenant { // nothing is bound to one
		granted := rights.NewBook(nil, nil).Of(who)
		if err := granted.Refusal(asked); err != nil {
			return err
		}
		return next(rights.With(ctx, granted))
	}
	book, err := k.current(ctx, policy.BookGood)
	if fail.Is(err, fail.Unavailable) && r.Noun == domain.Metrics { // by which it is seen that bindings cannot be read
		if last := k.last(policy.ScrapeGood); last != nil {
			book, err = last, nil
		}
	}
	if err != nil {
		return err
	}
	granted := book.Of(who)
	if err := granted.Refusal(asked); err != nil {
		return err
	}
	if r.Verb.Command() && slices.Contains(givesForGood, r.Noun) { // not for who is refused: each time bindings are read
		if book, err = k.anew(ctx); err != nil {
			return err
		}
		if granted = book.Of(who); granted.Refusal(asked) != nil {
			return granted.Refusal(asked)
		}
	}
	also := &beside{}
	standing, leave := While(context.WithValue(rights.With(ctx, granted), besideKey{}, also), time.Time{}, func(ctx context.Context) error {
		book, err := k.current(ctx, policy.BookFresh)
		if err != nil {
			return err
		}
		now := book.Of(who)
		if err := now.Refusal(asked); err != nil {
			return err
		}
		return also.refusal(who, now)
	})
	defer leave()
	return Withdrawn(standing, next(standing))
}

// beside is what the answer to a request shows beside what was asked for.
type beside struct{ shown atomic.Pointer[place] }

// place is where documents of a noun lie.
type place struct {
	noun *domain.Noun
	key  domain.Key
}

type besideKey struct{}

// Shows tells the steps around the request of a context that its answer shows documents of another noun, too, as its caller has a right to
// that now: a stream ends when this right is withdrawn.
func Shows(ctx context.Context, n *domain.Noun, key domain.Key) {
	if b, ok := ctx.Value(besideKey{}).(*beside); ok {
		b.shown.Store(&place{n, key})
	}
}

// refusal is the answer once the right to that is gone.
func (b *beside) refusal(who caller.Identity, now *rights.Granted) error {
	p := b.shown.Load()
	if p == nil || now.Shows(p.noun, p.key) {
		return nil
	}
	return fail.New(fail.Forbidden, "%s has no right any more to list %s, which the answer shows", who, p.noun.Kind)
}

// givesRights are the nouns whose documents a book is made of. Those of a scope go with it.
var givesRights = append([]*domain.Noun{domain.Roles}, domain.BindingNouns...)

// givesForGood are the nouns by whose documents somebody has rights for longer than who has given them: who has lost his own, as another process
// knows already, would keep them by these.
var givesForGood = append([]*domain.Noun{domain.ServiceAccounts, domain.ServiceAccountTokens, domain.TenantTokens}, givesRights...)

// current is what is known now, not older than some time. Unavailable when nothing is known that is new enough.
func (k *Rights) current(ctx context.Context, most time.Duration) (*rights.Book, error) {
	book, reading := k.kept(ctx, most)
	if book != nil {
		return book, nil
	}
	return reading.wait(ctx)
}

// anew is what is known by a reading that begins now, or, while another one goes on that anew began, by the single one that begins after it: a hundred
// commands at once would else have all bindings read a hundred times, and nobody's reading would be over in time.
func (k *Rights) anew(ctx context.Context) (*rights.Book, error) {
	return k.ordered(ctx).wait(ctx)
}

// ordered is the reading that anew waits for.
func (k *Rights) ordered(ctx context.Context) *bookReading {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.giving == nil {
		k.giving = k.begin(ctx)
		return k.giving
	}
	if k.queued == nil {
		r := &bookReading{done: make(chan struct{})}
		r.begin = func() { k.start(ctx, r) }
		k.queued = r
	}
	return k.queued
}

// wait waits for the end of a reading.
func (reading *bookReading) wait(ctx context.Context) (*rights.Book, error) {
	select {
	case <-reading.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if reading.err != nil {
		return nil, fail.Wrap(reading.err, fail.Unavailable, "who may do what cannot be read at the moment; try again later")
	}
	return reading.book, nil // however long it took, and whatever was changed meanwhile
}

// last is what was known last, not older than some time; nil for nothing, as after bindings were changed here.
func (k *Rights) last(most time.Duration) *rights.Book {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now().Since(k.at) >= most {
		return nil
	}
	return k.book
}

// kept is what is known now, or the reading that is to be waited for.
func (k *Rights) kept(ctx context.Context, most time.Duration) (*rights.Book, *bookReading) {
	k.mu.Lock()
	defer k.mu.Unlock()
	age := k.now().Since(k.at)
	if k.book == nil || age >= most {
		return nil, k.begun(ctx)
	}
	if age >= policy.BookFresh {
		k.begun(ctx)
	}
	return k.book, nil
}

// begun has the bindings read, unless a reading goes on that began a short time ago. k.mu is held.
func (k *Rights) begun(ctx context.Context) *bookReading {
	if k.reading != nil && k.reading.changes == k.changes && k.now().Since(k.reading.at) < policy.BookFresh {
		return k.reading
	}
	return k.begin(ctx)
}

// begin has the bindings read. k.mu is held.
func (k *Rights) begin(ctx context.Context) *bookReading {
	r := &bookReading{done: make(chan struct{})}
	k.start(ctx, r)
	return r
}

// start begins a reading that others may wait for already. k.mu is held.
func (k *Rights) start(ctx context.Context, r *bookReading) {
	r.at, r.changes = k.now(), k.changes
	k.reading = r
	whole := context.WithoutCancel(ctx)
	go func() {
		ctx, cancel := context.WithTimeout(whole, policy.BookTime)
		defer cancel()
		book, err := panics.Value(ctx, func() (*rights.Book, error) { return k.read(ctx) })
		k.mu.Lock()
		defer k.mu.Unlock()
		r.book, r.err = book, err
		if err == nil && r.changes == k.changes && !k.at.After(r.at) {
			k.book, k.at = book, r.at
		}
		if k.reading == r {
			k.reading = nil
		}
		if k.giving == r {
			k.giving, k.queued = k.queued, nil
			if k.giving != nil {
				k.giving.begin()
			}
		}
		close(r.done)
	}()
}

// changed has the next request wait for bindings that are read from now on.
func (k *Rights) changed() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.at = lease.Instant{}
	k.changes++ // of all readings that go on: a later one may have taken the place of one
}
