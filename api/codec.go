package api

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/limits"
)

// codecPath is where Temporal's Web UI has sealed payloads of histories opened. Nobody has anything sealed here.
const codecPath = "/codec/decode"

// codec opens payloads for who may see histories.
func (e *edge) codec(opened http.Handler) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		asked := &door.Request{Verb: door.Get, Noun: domain.Histories, Receive: func(ctx context.Context) error {
			while(ctx, c)
			body, err := readAll(r.Body, limits.Payloads)
			r.Body = io.NopCloser(bytes.NewReader(body))
			return err
		}}
		c.Set(contextPassed, true)
		return e.door.Pass(r.Context(), asked, func(context.Context, door.Service) error {
			opened.ServeHTTP(c.Response(), r)
			return nil
		})
	}
}

// shared lets pages of some origins read answers of codecPath, and ask for it with a token. Credentials that a browser sends by itself
// do not count there, so that a page shows what its user has given it.
func shared(origins []string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			origin := c.Request().Header.Get(echo.HeaderOrigin)
			if c.Request().URL.Path != codecPath || !slices.Contains(origins, origin) {
				return next(c)
			}
			h := c.Response().Header()
			h.Set(echo.HeaderAccessControlAllowOrigin, origin)
			h.Add(echo.HeaderVary, echo.HeaderOrigin)
			if c.Request().Method != http.MethodOptions {
				return next(c)
			}
			h.Set(echo.HeaderAccessControlAllowMethods, http.MethodPost)
			h.Set(echo.HeaderAccessControlAllowHeaders, "Authorization, Content-Type, X-Namespace")
			h.Set(echo.HeaderAccessControlMaxAge, "600")
			return c.NoContent(http.StatusNoContent)
		}
	}
}
