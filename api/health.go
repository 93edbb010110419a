package api

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/fail"
)

// readyTime bounds the questions of one readiness check.
const readyTime = 3 * time.Second

// healthz says that the process serves.
func healthz(c echo.Context) error { return c.String(http.StatusOK, "ok\n") }

// readyz says whether everything that requests need answers, and names what does not.
func (e *edge) readyz(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), readyTime)
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
				missing = append(missing, name)
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
