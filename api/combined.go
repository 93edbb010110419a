package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/service"
)

// combinedStatus answers with the tables that status intents ask for.
func combinedStatus(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	if err := unwatched(c); err != nil {
		return nil, err
	}
	list, err := s.CombinedStatus(c.Request().Context(), on.Key(), c.QueryParams())
	return asJSON(http.StatusOK, list), err
}

// wantedObjects answers with the objects of a group, each with its status.
func wantedObjects(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	if err := unwatched(c); err != nil {
		return nil, err
	}
	list, err := s.Objects(c.Request().Context(), on.Key(), c.QueryParams())
	return asJSON(http.StatusOK, list), err
}

// unwatched refuses to stream.
func unwatched(c echo.Context) error {
	watch, err := wantsWatch(c)
	if err == nil && watch {
		err = fail.New(fail.Invalid, "Invalid query watch: this cannot be watched")
	}
	return err
}

// queryTables evaluates a collector that is not stored.
func queryTables(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	var q service.TableQuery
	if err := receiveChange(c, &q); err != nil {
		return nil, err
	}
	list, err := s.Query(c.Request().Context(), on.Key(), &q)
	return asJSON(http.StatusOK, list), err
}
