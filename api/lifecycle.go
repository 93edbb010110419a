package api

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
)

// operate answers an operation on an owner when it was accepted. Bodies are ignored: EMCO's clients send anything.
func operate(ok int, operation func(s door.Service, ctx context.Context, owner domain.Key) error) handler {
	return func(c echo.Context, s door.Service, on *door.Request) (reply, error) {
		return noContent(ok), operation(s, c.Request().Context(), on.Key())
	}
}

// warned is operate with the warnings of the plan.
func warned(ok int, operation func(s door.Service, ctx context.Context, owner domain.Key) (warnings []string, err error)) handler {
	return func(c echo.Context, s door.Service, on *door.Request) (reply, error) {
		warnings, err := operation(s, c.Request().Context(), on.Key())
		warnAll(c, warnings)
		return noContent(ok), err
	}
}

// statusOf answers a status query of an owner.
func statusOf(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	if _, err := wantsWatch(c); err != nil {
		return nil, err
	}
	document, err := s.Status(c.Request().Context(), on.Key(), c.QueryParams())
	if err != nil {
		return nil, err
	}
	c.Response().Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	return sent, document.Write(c.Response())
}

// previewGroup answers with what an instantiate would do.
func previewGroup(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	p, err := s.PreviewGroup(c.Request().Context(), on.Key())
	return asJSON(http.StatusOK, p), err
}

// diffGroup answers with what an operation would change in clusters.
func diffGroup(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	d, err := s.Diff(c.Request().Context(), on.Key(), c.QueryParams())
	return asJSON(http.StatusOK, d), err
}
