package door

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/service"
)

// Usage tells what projects have. Errors are fail errors.
type Usage interface {
	// CountRunning is how many operations of a project go on.
	CountRunning(ctx context.Context, project string) (int, error)
	// Usage is how many documents there are below a project, and their bytes with those of their files.
	Usage(ctx context.Context, project domain.Key) (documents int, bytes int64, err error)
}

const (
	// mostHolders is of how many callers and projects it is kept what they have: some hundred bytes each. Those that come when all of
	// them have something are taken together for one.
	mostHolders = 10_000
	// usageRest is how many times as long as counting documents has taken there is none after it.
	usageRest = 10
)

// Shares is the step that lets nobody have more of the API than their share.
type Shares struct {
	limits limits.Fair
	usage  Usage
	now    func() time.Time

	mu       sync.Mutex
	holders  map[string]*holder
	swept    time.Time
	counting bool             // what a project has stored
	refused  map[string]int64 // by the key of the limit
}

// holder is a caller or a project, and what it has now.
type holder struct {
	rate              *rate.Limiter // nil for none
	requests, streams int
	back              turns
	running, stored   tally
}

// amount is a number, and of documents their bytes.
type amount struct {
	n     int
	bytes int64
}

func (a amount) and(b amount) amount { return amount{a.n + b.n, a.bytes + b.bytes} }

// tally is an amount that was counted, and what has come to it since. What comes while it is counted may be in both.
type tally struct {
	counting    bool
	begun       time.Time     // when it was begun to be counted the last time
	good        time.Time     // the same of what is known; before that, when it was asked for first
	took        time.Duration // to count it
	turn, known int           // how often it was begun to be counted, and by which of those it is known
	counted     amount
	came        amount // since it was begun to be counted
	before      amount // what came before that, and is not counted yet
}

// has is what there is, as far as it is known.
func (t *tally) has() amount { return t.counted.and(t.came).and(t.before) }

// due says whether it is to be counted now, which the caller then does.
func (t *tally) due(now time.Time, fresh time.Duration) bool {
	if t.good.IsZero() {
		t.good = now
	}
	if t.counting || !t.begun.IsZero() && now.Sub(t.begun) < fresh {
		return false
	}
	t.turn++
	t.begun, t.counting, t.before, t.came = now, true, t.before.and(t.came), amount{}
	return true
}

// ends takes what was counted; with an error what was known stands.
func (t *tally) ends(now time.Time, counted amount, err error) {
	t.counting, t.took = false, now.Sub(t.begun)
	if err == nil {
		t.good, t.known, t.counted, t.before = t.begun, t.turn, counted, amount{}
	}
}

// take takes something into account. What comes back says how much of it there is after all: the opposite when nothing came of it.
func (t *tally) take(a amount) (also func(amount)) {
	t.came = t.came.and(a)
	turn := t.turn
	return func(a amount) {
		switch {
		case turn == t.turn:
			t.came = t.came.and(a)
		case turn >= t.known:
			t.before = t.before.and(a)
		} // else it was counted as it is
	}
}

// NewShares makes the step. Without usage nothing is asked of what projects have.
func NewShares(l limits.Fair, usage Usage, now func() time.Time) *Shares {
	return &Shares{limits: l, usage: usage, now: now, holders: map[string]*holder{}, refused: map[string]int64{}}
}

// Refused is how many requests were refused, by the key of the limit.
func (s *Shares) Refused() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.refused)
}

// share is a part of what there is: of callers, or of projects.
type share struct {
	of, key, flag           string // for messages, holders and limits: caller
	rate, requests, streams int
}

// Fair is the step. It stands behind those that find out who asks and whether they may: what they refuse costs nobody anything. A
// request that goes beyond what its caller, or its project, may have gets Exhausted, and when it may come again. A tenant's calls
// have limits of their own, and while nobody is asked who they are no caller has a share.
func (s *Shares) Fair(ctx context.Context, r *Request, next Next) error {
	who, err := caller.IdentityOf(ctx)
	if err != nil {
		return err
	}
	if r.Noun == domain.Metrics || who.Kind == caller.Tenant {
		return next(ctx)
	}
	l := s.limits
	var shares []share
	if who.Kind != caller.Open {
		shares = append(shares, share{who.String(), "who " + who.String(), "caller", l.CallerRate, l.CallerRequests, l.CallerStreams})
	}
	project := r.project()
	if project != "" {
		shares = append(shares, share{"project " + project.Name(), "of " + string(project), "project", l.ProjectRate, l.ProjectRequests, l.ProjectStreams})
	}
	for _, of := range shares {
		leave, err := s.enter(of, r.Verb.Streams())
		if err != nil {
			return err
		}
		defer leave()
	}
	if project == "" || s.usage == nil {
		return next(ctx)
	}
	ctx, ended, err := s.has(ctx, r, project)
	if err != nil {
		return err
	}
	done := false
	defer func() { ended(done) }()
	err = next(ctx)
	done = err == nil
	return err
}

// enter takes a place of a share, which leave gives back.
func (s *Shares) enter(of share, stream bool) (leave func(), err error) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.holder(of, now)
	count, most, kind, what := &h.requests, of.requests, "Requests", "requests are at work"
	if stream {
		count, most, kind, what = &h.streams, of.streams, "Streams", "streams are open"
	}
	if most > 0 && *count >= most {
		return nil, s.refuse(of.flag+kind, h.back.next(now, policy.ShareLater, policy.ShareLater/time.Duration(most)),
			"%d %s for %s, and more there may not be (--%s); nothing was done", *count, what, of.of, flagOf(of.flag+kind))
	}
	if h.rate != nil && !h.rate.AllowN(now, 1) {
		return nil, s.refuse(of.flag+"Rate", h.back.next(now, policy.ShareLater, time.Second/time.Duration(of.rate)),
			"requests for %s come faster than %d a second (--%s); nothing was done", of.of, of.rate, flagOf(of.flag+"Rate"))
	}
	*count++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		*count--
	}, nil
}

// refuse counts a refusal by the key of its limit. s.mu is held.
func (s *Shares) refuse(limit string, after time.Duration, format string, args ...any) error {
	s.refused[limit]++
	return &fail.Error{Kind: fail.Exhausted, RetryAfter: after, Message: fmt.Sprintf(format, args...) + ", try again later"}
}

// flagOf is the flag of a limit: caller-rate of callerRate.
func flagOf(key string) string {
	for _, l := range (limits.Fair{}).Sizes() {
		if l.Key == key {
			return l.Flag
		}
	}
	return key
}

// holder is what is kept of a caller or a project. s.mu is held.
func (s *Shares) holder(of share, now time.Time) *holder {
	if h := s.holders[of.key]; h != nil {
		return h
	}
	if len(s.holders) >= mostHolders {
		s.sweep(now)
	}
	if len(s.holders) >= mostHolders {
		of.key = "others " + of.flag
		if h := s.holders[of.key]; h != nil {
			return h
		}
	}
	h := &holder{}
	if of.rate > 0 {
		h.rate = rate.NewLimiter(rate.Limit(of.rate), limits.RateBurst*of.rate)
	}
	s.holders[of.key] = h
	return h
}

// sweep forgets those of whom nothing is known but what anybody begins with. It looks every policy.SharesSweep at most: each time it looks at all.
func (s *Shares) sweep(now time.Time) {
	if now.Sub(s.swept) < policy.SharesSweep {
		return
	}
	s.swept = now
	maps.DeleteFunc(s.holders, func(_ string, h *holder) bool {
		return h.requests == 0 && h.streams == 0 && !h.running.counting && !h.stored.counting && (h.rate == nil || h.rate.TokensAt(now) >= float64(h.rate.Burst()))
	})
}

// has refuses what would give a project more operations, or documents, than it may have. What is let in says whether it was done:
// what was refused further in, as what is there already, takes nobody's place.
func (s *Shares) has(ctx context.Context, r *Request, project domain.Key) (within context.Context, ended func(done bool), err error) {
	l := s.limits
	switch {
	case verbs[r.Verb].room == beginning && l.ProjectOperations > 0:
		ended, err = s.begins(ctx, project)
		return ctx, ended, err
	case (r.Verb == Create || r.Verb == Put) && r.Noun != domain.Projects && (l.ProjectDocuments > 0 || l.ProjectBytes > 0):
		return s.stores(ctx, r, project)
	default:
		return ctx, func(bool) {}, nil
	}
}

// begins takes an operation into account that is about to begin.
func (s *Shares) begins(ctx context.Context, project domain.Key) (ended func(done bool), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, now := s.projectHolder(project), s.now()
	if h.running.due(now, policy.RunningFresh) {
		go s.count(ctx, &h.running, policy.CountTime, func(ctx context.Context) (a amount, err error) {
			a.n, err = s.usage.CountRunning(ctx, project.Name())
			return a, err
		})
	}
	if n, most := h.running.has().n, s.limits.ProjectOperations; n >= most && now.Sub(h.running.good) < policy.RunningStale {
		return nil, s.refuse("projectOperations", h.back.next(now, policy.AdmitLater, policy.OperationEach),
			"%d operations of project %s go on, and more may not (--project-operations); nothing was done", n, project.Name())
	}
	also := h.running.take(amount{n: 1})
	return func(done bool) {
		if !done {
			s.locked(func() { also(amount{n: -1}) })
		}
	}, nil
}

// stores takes a document into account that is about to be stored, and its bytes when it is. Of a put only the service knows whether there
// will be one more, and asks then.
func (s *Shares) stores(ctx context.Context, r *Request, project domain.Key) (within context.Context, ended func(done bool), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, l, now := s.projectHolder(project), s.limits, s.now()
	has, fresh := h.stored.has(), policy.UsageRare
	if h.stored.turn > h.stored.known || 2*has.n >= l.ProjectDocuments || 2*has.bytes >= l.ProjectBytes {
		fresh = policy.UsageFresh // it could not be counted the last time, or comes near to what it may have
	}
	if !s.counting && h.stored.due(now, max(fresh, usageRest*h.stored.took)) { // of one project at a time: to count means to read
		s.counting = true
		go func() {
			s.count(ctx, &h.stored, policy.UsageTime, func(ctx context.Context) (a amount, err error) {
				a.n, a.bytes, err = s.usage.Usage(ctx, project)
				return a, err
			})
			s.locked(func() { s.counting = false })
		}()
	}
	if r.Verb == Create {
		err = s.hasRoom(h, project)
	}
	if err == nil && l.ProjectBytes > 0 && has.bytes >= l.ProjectBytes && h.storedIsKnown(now) {
		err = s.refuse("projectBytes", policy.UsageFresh, "the documents of project %s have %d bytes with their files, and may have %d (--project-bytes): delete some",
			project.Name(), has.bytes, l.ProjectBytes)
	}
	if err != nil {
		return nil, nil, err
	}
	one := amount{}
	if r.Verb == Create {
		one.n = 1
	}
	also := h.stored.take(one)
	within = ctx // itself is kept by the goroutine that counts
	if r.Verb == Put {
		within = service.BeforeCreate(ctx, func() error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if one.n > 0 { // it asks again when somebody was faster
				return nil
			}
			if err := s.hasRoom(h, project); err != nil {
				return err
			}
			one.n = 1
			also(one)
			return nil
		})
	}
	return within, func(done bool) { // what was replaced is still in it, until it is counted
		s.locked(func() {
			if done {
				also(amount{bytes: r.Bytes})
			} else {
				also(amount{n: -one.n})
			}
		})
	}, nil
}

// hasRoom refuses one more document of a project that has as many as it may have. s.mu is held.
func (s *Shares) hasRoom(h *holder, project domain.Key) error {
	n, most := h.stored.has().n, s.limits.ProjectDocuments
	if most > 0 && n >= most && h.storedIsKnown(s.now()) {
		return s.refuse("projectDocuments", policy.UsageFresh, "project %s has %d documents, and may have %d (--project-documents): delete some",
			project.Name(), n, most)
	}
	return nil
}

// storedIsKnown says whether what was counted of the documents is new enough to refuse somebody for it.
func (h *holder) storedIsKnown(now time.Time) bool { return now.Sub(h.stored.good) < policy.UsageStale }

// projectHolder is what is kept of a project. s.mu is held.
func (s *Shares) projectHolder(project domain.Key) *holder {
	return s.holder(share{key: "of " + string(project), flag: "project", rate: s.limits.ProjectRate}, s.now())
}

func (s *Shares) locked(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// count counts what a project has. Nobody waits for it: what is not known yet refuses nobody.
func (s *Shares) count(ctx context.Context, t *tally, most time.Duration, ask func(context.Context) (amount, error)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	defer cancel()
	counted, err := panics.Value(ctx, func() (amount, error) { return ask(ctx) })
	s.locked(func() { t.ends(s.now(), counted, err) })
}
