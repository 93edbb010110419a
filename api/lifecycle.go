package api

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/domain"
)

// Lifecycle runs the operations of deployment intent groups. service.Lifecycle implements it.
type Lifecycle interface {
	Approve(ctx context.Context, group domain.Key) error
	Instantiate(ctx context.Context, group domain.Key) (warnings []string, err error)
	Terminate(ctx context.Context, group domain.Key) error
	Stop(ctx context.Context, group domain.Key) error
}

// Document is an answer that writes itself as JSON, piece by piece.
type Document interface{ Write(w io.Writer) error }

// StatusQuery answers a status query of a deployment intent group.
type StatusQuery func(ctx context.Context, group domain.Key, parameters url.Values) (Document, error)

// operate answers 202 when an operation on a deployment intent group was accepted. Bodies are ignored:
// EMCO's clients send anything.
func operate(c echo.Context, operation func(ctx context.Context, group domain.Key) error) error {
	key, err := keyOf(c, group)
	if err != nil {
		return err
	}
	if err := operation(c.Request().Context(), key); err != nil {
		return err
	}
	return c.NoContent(http.StatusAccepted)
}

func (e *edge) approve(c echo.Context) error   { return operate(c, e.lifecycle.Approve) }
func (e *edge) terminate(c echo.Context) error { return operate(c, e.lifecycle.Terminate) }
func (e *edge) stop(c echo.Context) error      { return operate(c, e.lifecycle.Stop) }

func (e *edge) instantiate(c echo.Context) error {
	return operate(c, func(ctx context.Context, group domain.Key) error {
		warnings, err := e.lifecycle.Instantiate(ctx, group)
		for _, text := range warnings[:min(len(warnings), maxWarnings)] {
			warn(c, "%s", text)
		}
		return err
	})
}

func (e *edge) status(c echo.Context) error {
	key, err := keyOf(c, group)
	if err != nil {
		return err
	}
	document, err := e.statusQuery(c.Request().Context(), key, c.QueryParams())
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	return document.Write(c.Response())
}
