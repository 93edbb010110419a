package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/door"
)

func listOperations(c echo.Context, s door.Service, _ *door.Request) (reply, error) {
	list, err := s.Operations(c.Request().Context(), c.QueryParams())
	return asJSON(http.StatusOK, list), err
}

func getOperation(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	o, err := s.Operation(c.Request().Context(), on.Name)
	return asJSON(http.StatusOK, o), err
}
