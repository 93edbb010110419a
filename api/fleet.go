package api

import (
	"context"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/status"
)

// Fleet lists resources with where each of them stands. service.Fleet implements it.
type Fleet interface {
	Groups(ctx context.Context, prefix domain.Key, parameters url.Values) (*service.GroupList, error)
	Clusters(ctx context.Context, provider domain.Key, parameters url.Values) (*service.ClusterList, error)
}

// wantsFull reads the parameter view.
func wantsFull(c echo.Context) (bool, error) {
	if !c.QueryParams().Has("view") {
		if c.QueryParams().Has("limit") || c.QueryParams().Has("continue") {
			return false, fail.New(fail.Invalid, "Invalid query: limit and continue are for lists with view=full; EMCO's list has no pages")
		}
		return false, nil
	}
	if view := c.QueryParam("view"); view != "full" {
		return false, fail.New(fail.Invalid, "Invalid query view: %q; use full, or leave it out", view)
	}
	return true, nil
}

// listGroups answers with the groups of a composite app, as EMCO does or with where they stand.
func (e *edge) listGroups(c echo.Context) error {
	parent, err := keyOf(c, composite)
	if err != nil {
		return err
	}
	full, err := wantsFull(c)
	if err != nil {
		return err
	}
	if full {
		return e.groupsBelow(c, parent)
	}
	list, err := e.service.List(c.Request().Context(), domain.DeploymentIntentGroups, parent)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, list)
}

func (e *edge) groupsBelow(c echo.Context, prefix domain.Key) error {
	list, err := e.fleet.Groups(c.Request().Context(), prefix, c.QueryParams())
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, list)
}

// manyGroups answers with all groups of what is at a template, "" for the fleet's, or with a watch over them.
func (e *edge) manyGroups(template string) echo.HandlerFunc {
	return func(c echo.Context) error {
		var prefix domain.Key
		if template != "" {
			var err error
			if prefix, err = keyOf(c, template); err != nil {
				return err
			}
		}
		watch, err := wantsWatch(c)
		if err != nil {
			return err
		}
		if watch {
			return e.stream(c, prefix, status.Query{})
		}
		return admit(e.rooms[anyRoom], within(plainTime, func(c echo.Context) error { return e.groupsBelow(c, prefix) }))(c)
	}
}
