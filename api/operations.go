package api

import (
	"context"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/operations"
)

// Journal tells of operations. service.Journal implements it.
type Journal interface {
	Operations(ctx context.Context, parameters url.Values) (*operations.List, error)
	Operation(ctx context.Context, id string) (*operations.Operation, error)
}

func (e *edge) listOperations(c echo.Context) error {
	list, err := e.journal.Operations(c.Request().Context(), c.QueryParams())
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, list)
}

func (e *edge) getOperation(c echo.Context) error {
	id, err := url.PathUnescape(c.Param("operation"))
	if err != nil {
		return fail.New(fail.Invalid, "the id of the operation cannot be read: %s", c.Param("operation"))
	}
	o, err := e.journal.Operation(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, o)
}
