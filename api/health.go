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
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/version"
)

// healthz says that the process serves.
func healthz(c echo.Context) error { return c.String(http.StatusOK, "ok\n") }

// showVersion says what the process was built from.
func showVersion(c echo.Context) error { return c.JSON(http.StatusOK, version.Of()) }

// Missing says that something does not answer, and why as far as that may be shown.
func Missing(name string, err error) string {
	if fail.KindOf(err) == fail.Internal {
		return name
	}
	return name + " (" + fail.TextOf(err) + ")"
}

// readyz says whether everything that requests need answers, and names what does not.
func (e *edge) readyz(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), policy.Ready)
	defer cancel()
	var (
		missing []string
		mu      sync.Mutex
		wg      sync.WaitGroup
	)
	for name, ask := range e.ready {
		wg.Go(func() {
			if err := ask(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				missing = append(missing, Missing(name, err))
			}
		})
	}
	wg.Wait()
	if len(missing) > 0 {
		slices.Sort(missing)
		return fail.New(fail.Unavailable, "not ready: %s", strings.Join(missing, ", "))
	}
	return c.JSON(http.StatusOK, map[string][]string{"ready": slices.Sorted(maps.Keys(e.ready))})
}
