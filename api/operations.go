package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/status"
)

func listOperations(c echo.Context, s door.Service, _ *door.Request) (reply, error) {
	if _, err := wantsWatch(c); err != nil {
		return nil, err
	}
	list, err := s.Operations(c.Request().Context(), c.QueryParams())
	return asJSON(http.StatusOK, list), err
}

func getOperation(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	o, err := s.Operation(c.Request().Context(), on.Name)
	return asJSON(http.StatusOK, o), err
}

// watchOperations is listOperations as a stream.
func (e *edge) watchOperations(c echo.Context, s door.Service, _ *door.Request) (reply, error) {
	if err := s.CheckWatch(c.QueryParams()); err != nil {
		return nil, err
	}
	return sent, e.stream(c, ofStatus(s, service.FleetOperations, status.Query{}))
}
