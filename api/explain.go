package api

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
)

// ExplainQuery says why an owner is not as it was wished.
type ExplainQuery func(ctx context.Context, owner domain.Key) (*explain.Explanation, error)

// ClusterQuery says what runs in a cluster.
type ClusterQuery func(ctx context.Context, cluster domain.Key) (*explain.Cluster, error)

// clusterStatus answers a status query of a cluster: where its network intents stand, as EMCO does, or with view=full what
// runs there.
func (e *edge) clusterStatus(c echo.Context) error {
	switch view := c.QueryParam("view"); view {
	case "":
		return e.status(cluster)(c)
	case "full":
	default:
		return fail.New(fail.Invalid, "Invalid query view: %q; use full, or leave it out", view)
	}
	watch, err := wantsWatch(c)
	switch {
	case err != nil:
		return err
	case watch:
		return fail.New(fail.Invalid, "Invalid query: view=full cannot be watched; leave watch or view out")
	}
	return admit(e.rooms[anyRoom], within(plainTime, func(c echo.Context) error {
		key, err := keyOf(c, cluster)
		if err != nil {
			return err
		}
		view, err := e.clusterQuery(c.Request().Context(), key)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, view)
	}))(c)
}

// explain answers as JSON, or as text to those who accept that rather or ask for output=text.
func (e *edge) explain(template string) echo.HandlerFunc {
	return func(c echo.Context) error {
		key, err := keyOf(c, template)
		if err != nil {
			return err
		}
		form, err := formOf(c)
		if err != nil {
			return err
		}
		x, err := e.explainQuery(c.Request().Context(), key)
		if err != nil {
			return err
		}
		if form == echo.MIMEApplicationJSON {
			return c.JSON(http.StatusOK, x)
		}
		c.Response().Header().Set(echo.HeaderContentType, echo.MIMETextPlainCharsetUTF8)
		return x.WriteText(c.Response())
	}
}

// formOf is the media type of an explanation.
func formOf(c echo.Context) (string, error) {
	switch output := c.QueryParam("output"); output {
	case "json":
		return echo.MIMEApplicationJSON, nil
	case "text":
		return echo.MIMETextPlain, nil
	case "":
		form, ok := negotiate(c.Request().Header.Values(echo.HeaderAccept), []string{echo.MIMEApplicationJSON, echo.MIMETextPlain})
		if !ok {
			return "", echo.NewHTTPError(http.StatusNotAcceptable, "set Accept: application/json or text/plain")
		}
		return form, nil
	default:
		return "", fail.New(fail.Invalid, "Invalid query output: %q; use json or text", output)
	}
}

// headerUser is the user as a proxy that authenticates says it. Nothing checks it here: it is shown, and decides
// nothing.
const headerUser = "X-Forwarded-User"

// headerOperation names the operation that a request has begun, by the id of its run in the Web UI.
const headerOperation = "Drover-Operation"

// maxUser bounds a user's name, and the id that a client gives to a request, in bytes.
const maxUser = 128

// identify notes who asks, and by which request; the answer names the operation that it has begun.
func identify(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := &caller.Request{ID: cut(c.Response().Header().Get(echo.HeaderXRequestID), maxUser)}
		ctx := caller.WithRequest(c.Request().Context(), r)
		if name := c.Request().Header.Get(headerUser); name != "" && len(name) <= maxUser {
			ctx = caller.With(ctx, name)
		}
		c.SetRequest(c.Request().WithContext(ctx))
		c.Response().Before(func() {
			if operation := r.Operation(); operation != "" {
				c.Response().Header().Set(headerOperation, operation)
			}
		})
		return next(c)
	}
}
