package api

import (
	"context"
	"io"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/domain"
)

// Lifecycle runs the operations of owners. service.Lifecycle implements it.
type Lifecycle interface {
	Approve(ctx context.Context, owner domain.Key) (warnings []string, err error)
	Instantiate(ctx context.Context, owner domain.Key) (warnings []string, err error)
	Terminate(ctx context.Context, owner domain.Key) error
	Stop(ctx context.Context, owner domain.Key) error
	Changes
}

// Document is an answer that writes itself as JSON, piece by piece.
type Document interface{ Write(w io.Writer) error }

// StatusQuery answers a status query of an owner.
type StatusQuery func(ctx context.Context, owner domain.Key, parameters url.Values) (Document, error)

// operate answers an operation on the owner at a template when it was accepted. Bodies are ignored: EMCO's
// clients send anything.
func operate(template string, ok int, operation func(ctx context.Context, owner domain.Key) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		key, err := keyOf(c, template)
		if err != nil {
			return err
		}
		if err := operation(c.Request().Context(), key); err != nil {
			return err
		}
		return c.NoContent(ok)
	}
}

func (e *edge) instantiate(template string, ok int) echo.HandlerFunc {
	return warned(template, ok, e.lifecycle.Instantiate)
}

// warned is operate with the warnings of the plan.
func warned(template string, ok int, operation func(ctx context.Context, owner domain.Key) (warnings []string, err error)) echo.HandlerFunc {
	return func(c echo.Context) error {
		return operate(template, ok, func(ctx context.Context, owner domain.Key) error {
			warnings, err := operation(ctx, owner)
			warnAll(c, warnings)
			return err
		})(c)
	}
}

// status answers a status query of the owner at a template, once or with a watch, which has no deadline.
func (e *edge) status(template string) echo.HandlerFunc {
	return func(c echo.Context) error {
		key, err := keyOf(c, template)
		if err != nil {
			return err
		}
		watch, err := wantsWatch(c)
		if err != nil {
			return err
		}
		if watch {
			return e.watch(c, key)
		}
		return admit(e.rooms[anyRoom], within(plainTime, func(c echo.Context) error { return e.statusNow(c, key) }))(c)
	}
}

func (e *edge) statusNow(c echo.Context, key domain.Key) error {
	document, err := e.statusQuery(c.Request().Context(), key, c.QueryParams())
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	return document.Write(c.Response())
}
