package api

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/version"
)

// healthz says that the process serves.
func healthz(c echo.Context) error { return c.String(http.StatusOK, "ok\n") }

// showVersion says what the process was built from.
func showVersion(c echo.Context) error { return c.JSON(http.StatusOK, version.Of()) }

// Ask asks all questions at the same time, for policy.Ready, and gives what does not answer, sorted.
func Ask(ctx context.Context, questions map[string]func(context.Context) error) (missing []string) {
	ctx, cancel := context.WithTimeout(ctx, policy.Ready)
	defer cancel()
	var (
		mu sync.Mutex
		wg sync.WaitGroup
	)
	for name, ask := range questions {
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

// readyz says whether everything that requests need answers, and names what does not.
func (e *edge) readyz(c echo.Context) error {
	if missing := Ask(c.Request().Context(), e.ready); len(missing) > 0 {
		return fail.New(fail.Unavailable, "not ready: %s", strings.Join(missing, ", "))
	}
	return c.JSON(http.StatusOK, map[string][]string{"ready": slices.Sorted(maps.Keys(e.ready))})
}
