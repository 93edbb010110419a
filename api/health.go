package api

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/sync/singleflight"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/version"
)

// healthz says that the process serves.
func healthz(c echo.Context) error { return c.String(http.StatusOK, "ok\n") }

// showVersion says what the process was built from.
func showVersion(c echo.Context) error { return c.JSON(http.StatusOK, version.Of()) }

// Probe asks whether what a process needs answers, for everybody who wants to know. Anybody may ask that as often as he likes, so the questions
// are asked once at a time, and an answer is good for policy.ReadyKept.
type Probe struct {
	within    time.Duration
	questions map[string]func(context.Context) error
	asking    singleflight.Group
	last      atomic.Pointer[look]
}

// look is what was missing at a time.
type look struct {
	missing []string
	at      time.Time
}

// NewProbe asks questions, by the names of those who are to answer within so long.
func NewProbe(within time.Duration, questions map[string]func(context.Context) error) *Probe {
	return &Probe{within: within, questions: questions}
}

// Missing are those who do not answer in time, sorted.
func (p *Probe) Missing(ctx context.Context) []string {
	if l := p.last.Load(); l != nil && time.Since(l.at) < policy.ReadyKept {
		return l.missing
	}
	answer, _, _ := p.asking.Do("", func() (any, error) {
		l := &look{p.ask(context.WithoutCancel(ctx)), time.Now()} // others wait for it, too
		p.last.Store(l)
		return l, nil
	})
	return answer.(*look).missing
}

// ask asks all questions at the same time.
func (p *Probe) ask(ctx context.Context) (missing []string) {
	ctx, cancel := context.WithTimeout(ctx, p.within)
	defer cancel()
	var (
		mu sync.Mutex
		wg sync.WaitGroup
	)
	for name, ask := range p.questions {
		wg.Go(func() {
			if err := panics.Do(ctx, func() error { return ask(ctx) }); err != nil {
				mu.Lock()
				defer mu.Unlock()
				missing = append(missing, unanswered(name, err))
			}
		})
	}
	wg.Wait()
	slices.Sort(missing)
	return missing
}

// unanswered says that something does not answer, and why as far as that may be shown.
func unanswered(name string, err error) string {
	if fail.KindOf(err) == fail.Internal {
		return name
	}
	return name + " (" + fail.TextOf(err) + ")"
}

// readyz says whether what every request needs answers, and names what does not. What only some need is named, too: without it the API
// still says what there is, and one that took no requests could not even say what is missing.
func (e *edge) readyz(c echo.Context) error {
	ctx := c.Request().Context()
	if missing := e.ready.Missing(ctx); len(missing) > 0 {
		return fail.New(fail.Unavailable, "not ready: %s", strings.Join(missing, ", "))
	}
	said := map[string][]string{"ready": slices.Sorted(maps.Keys(e.ready.questions))}
	if missing := e.beside.Missing(ctx); len(missing) > 0 {
		said["missing"] = missing
	}
	return c.JSON(http.StatusOK, said)
}
