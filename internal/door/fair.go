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
)

// Usage tells what projects have. Errors are fail errors.
type Usage interface {
	// CountRunning is how many operations of a project go on.
	CountRunning(ctx context.Context, project string) (int, error)
	// Usage is how many documents there are below a project, and their bytes with those of their files.
	Usage(ctx context.Context, project domain.Key) (documents int, bytes int64, err error)
}

const (
	// shareLater is when a request may be sent again that had no room in its share.
	shareLater = time.Second
	// mostHolders is of how many callers and projects it is kept what they have: some hundred bytes each. Those that come when all of
	// them have something are taken together for one.
	mostHolders = 10_000
	// countTime bounds counting what a project has.
	countTime = 10 * time.Second
	// runningFresh is for how long a number of operations is good that go on; those that are begun here meanwhile come to it.
	runningFresh = 2 * time.Second
	// usageFresh is the same of documents, when the project has half of what it may have, and usageRare when it has less.
	usageFresh, usageRare = 30 * time.Second, 10 * time.Minute
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

// tally is a number that was counted, and how many have come to it since.
type tally struct {
	at       time.Time // when it was begun to be counted
	counting bool
	n        int
	bytes    int64
	since    int // of which so many came before the counting began:
	before   int
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
	if project != "" && s.usage != nil {
		if err := s.has(ctx, r, project); err != nil {
			return err
		}
	}
	return next(ctx)
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
		return nil, s.refuse(of.flag+kind, h.back.next(now, shareLater, shareLater/time.Duration(most)),
			"%d %s for %s, and more there may not be (--%s); nothing was done", *count, what, of.of, flagOf(of.flag+kind))
	}
	if h.rate != nil && !h.rate.AllowN(now, 1) {
		return nil, s.refuse(of.flag+"Rate", h.back.next(now, shareLater, time.Second/time.Duration(of.rate)),
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

// sweep forgets those of whom nothing is known but what anybody begins with. It looks once a second at most: each time it looks at all.
func (s *Shares) sweep(now time.Time) {
	if now.Sub(s.swept) < time.Second {
		return
	}
	s.swept = now
	maps.DeleteFunc(s.holders, func(_ string, h *holder) bool {
		return h.requests == 0 && h.streams == 0 && !h.running.counting && !h.stored.counting && (h.rate == nil || h.rate.TokensAt(now) >= float64(h.rate.Burst()))
	})
}

// has refuses what would give a project more operations, or documents, than it may have.
func (s *Shares) has(ctx context.Context, r *Request, project domain.Key) error {
	l := s.limits
	switch {
	case verbs[r.Verb].room == beginning && l.ProjectOperations > 0:
		return s.begins(ctx, project)
	case (r.Verb == Create || r.Verb == Put) && r.Noun != domain.Projects && (l.ProjectDocuments > 0 || l.ProjectBytes > 0):
		return s.stores(ctx, r, project)
	default:
		return nil
	}
}

// begins takes an operation into account that is about to begin.
func (s *Shares) begins(ctx context.Context, project domain.Key) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.projectHolder(project)
	if h.running.due(s.now(), runningFresh) {
		go s.count(ctx, project, func(h *holder) *tally { return &h.running }, func(ctx context.Context) (n int, bytes int64, err error) {
			n, err = s.usage.CountRunning(ctx, project.Name())
			return n, 0, err
		})
	}
	if n, most := h.running.n+h.running.since, s.limits.ProjectOperations; n >= most {
		return s.refuse("projectOperations", h.back.next(s.now(), retryLater, time.Second),
			"%d operations of project %s go on, and more may not (--project-operations); nothing was done", n, project.Name())
	}
	h.running.since++
	return nil
}

// stores takes a document into account that is about to be stored.
func (s *Shares) stores(ctx context.Context, r *Request, project domain.Key) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, l := s.projectHolder(project), s.limits
	fresh := usageRare
	if 2*(h.stored.n+h.stored.since) >= l.ProjectDocuments || 2*h.stored.bytes >= l.ProjectBytes {
		fresh = usageFresh
	}
	if !s.counting && h.stored.due(s.now(), fresh) { // of one project at a time: to count means to read
		s.counting = true
		go func() {
			s.count(ctx, project, func(h *holder) *tally { return &h.stored }, func(ctx context.Context) (int, int64, error) {
				return s.usage.Usage(ctx, project)
			})
			s.mu.Lock()
			defer s.mu.Unlock()
			s.counting = false
		}()
	}
	switch n := h.stored.n + h.stored.since; {
	case l.ProjectDocuments > 0 && r.Verb == Create && n >= l.ProjectDocuments:
		return s.refuse("projectDocuments", usageFresh, "project %s has %d documents, and may have %d (--project-documents): delete some",
			project.Name(), n, l.ProjectDocuments)
	case l.ProjectBytes > 0 && h.stored.bytes >= l.ProjectBytes:
		return s.refuse("projectBytes", usageFresh, "the documents of project %s have %d bytes with their files, and may have %d (--project-bytes): delete some",
			project.Name(), h.stored.bytes, l.ProjectBytes)
	}
	if r.Verb == Create {
		h.stored.since++
	}
	return nil
}

// projectHolder is what is kept of a project. s.mu is held.
func (s *Shares) projectHolder(project domain.Key) *holder {
	return s.holder(share{key: "of " + string(project), flag: "project", rate: s.limits.ProjectRate}, s.now())
}

// due says whether it is to be counted now, which the caller then does.
func (t *tally) due(now time.Time, fresh time.Duration) bool {
	if t.counting || !t.at.IsZero() && now.Sub(t.at) < fresh {
		return false
	}
	t.at, t.counting, t.before = now, true, t.since
	return true
}

// count counts what a project has. Nobody waits for it: what is not known yet refuses nobody.
func (s *Shares) count(ctx context.Context, project domain.Key, of func(*holder) *tally, ask func(context.Context) (n int, bytes int64, err error)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTime)
	defer cancel()
	n, bytes, err := ask(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := of(s.projectHolder(project))
	t.counting = false
	if err != nil {
		return // what was known stands
	}
	t.n, t.bytes, t.since, t.before = n, bytes, t.since-t.before, 0 // what came meanwhile may be in both
}
