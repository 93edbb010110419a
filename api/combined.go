package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/notify"
	"github.com/drover-io/drover/internal/service"
)

// combinedStatus answers with the tables that status intents ask for.
func combinedStatus(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	if _, err := wantsWatch(c); err != nil {
		return nil, err
	}
	d, err := s.CombinedStatus(c.Request().Context(), on.Key(), c.QueryParams())
	return asTables(d), err
}

// wantedObjects answers with the objects of a group, each with its status.
func wantedObjects(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	if _, err := wantsWatch(c); err != nil {
		return nil, err
	}
	d, err := s.Objects(c.Request().Context(), on.Key(), c.QueryParams())
	return asTables(d), err
}

// asTables sends what is encoded already.
func asTables(d *service.TablesDocument) reply {
	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
		h.Set(echo.HeaderContentLength, strconv.Itoa(d.Size()))
		c.Response().WriteHeader(http.StatusOK)
		_, err := d.WriteTo(c.Response())
		return err
	}
}

// watchTables is combinedStatus, or wantedObjects, as a stream.
func (e *edge) watchTables(question func(url.Values) (notify.Question, error)) handler {
	return func(c echo.Context, s door.Service, on *door.Request) (reply, error) {
		q, err := question(c.QueryParams())
		if err != nil {
			return nil, err
		}
		if err := s.CheckFilter(c.Request().Context(), on.Key(), c.QueryParams()); err != nil {
			return nil, err
		}
		return sent, e.stream(c, func(ctx context.Context, after string) (*notify.Subscription, error) {
			return s.SubscribeTo(ctx, on.Key(), q, after)
		})
	}
}

// queryTables evaluates a collector that is not stored.
func queryTables(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	var q service.TableQuery
	if err := receiveChange(c, &q); err != nil {
		return nil, err
	}
	d, err := s.Query(c.Request().Context(), on.Key(), &q)
	return asTables(d), err
}
