package api

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
)

// The headers by which a proxy says for whom it asks. From whom they count is authn's matter; while nobody is asked who they are
// (--auth=off) the name is shown, and decides nothing.
const (
	headerUser   = "X-Forwarded-User"
	headerGroups = "X-Forwarded-Groups"
)

// maxUser bounds a name that is only said, in bytes.
const maxUser = 128

const metricsPath = "/metrics"

// prove finds out who asks, for the door, by headers and the connection alone. What is answered to one is kept by no browser and no proxy
// for another, and is taken for what it says it is, as it may be what a user has put.
func (e *edge) prove(by authn.Prover) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			if !isAPI(r) && r.URL.Path != metricsPath && r.URL.Path != codecPath && r.URL.Path != logoutPath {
				return next(c)
			}
			h := c.Response().Header()
			h.Set(echo.HeaderCacheControl, "no-store")
			h.Set(echo.HeaderXContentTypeOptions, "nosniff")
			shown := shownBy(r)
			shown.Session, shown.Metrics = e.login.session(r), r.URL.Path == metricsPath
			ctx := by.Into(r.Context(), shown)
			who, _ := caller.IdentityOf(ctx)
			if name := r.Header.Get(headerUser); who.Kind == caller.Open && name != "" && len(name) <= maxUser {
				ctx = caller.With(ctx, name)
			}
			c.SetRequest(r.WithContext(ctx))
			e.forget(c)
			return next(c)
		}
	}
}

// shownBy is what a request shows of who it is from.
func shownBy(r *http.Request) *authn.Shown {
	s := &authn.Shown{
		Authorization: r.Header.Values(echo.HeaderAuthorization),
		User:          r.Header.Values(headerUser), Groups: r.Header.Values(headerGroups),
	}
	if r.TLS != nil {
		s.Chain = authn.Lasting(r.TLS.VerifiedChains)
	}
	return s
}

// metrics shows the metrics to who may see them.
func (e *edge) metrics(shown http.Handler) echo.HandlerFunc {
	return func(c echo.Context) error {
		asked := &door.Request{Verb: door.Get, Noun: domain.Metrics}
		c.Set(contextPassed, true)
		return e.door.Pass(c.Request().Context(), asked, func(context.Context, door.Service) error {
			shown.ServeHTTP(c.Response(), c.Request())
			return nil
		})
	}
}
