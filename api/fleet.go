package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/rights"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/status"
)

// wantsFull reads the parameter view.
func wantsFull(c echo.Context) (bool, error) {
	if !c.QueryParams().Has("view") {
		for _, page := range []parameter{limitQuery, continueQuery} {
			if c.QueryParams().Has(page.name) {
				return false, fail.Query(page.name, "it is for lists with view=full; EMCO's list has no pages")
			}
		}
		return false, nil
	}
	if view := c.QueryParam("view"); view != "full" {
		return false, fail.Query("view", "%q; use full, or leave it out", view)
	}
	return true, nil
}

// listGroups answers with the groups of a composite app, as EMCO does or with where they stand.
func listGroups(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	full, err := wantsFull(c)
	switch {
	case err != nil:
		return nil, err
	case full:
		return groupsBelow(c, s, on)
	default:
		return listAll(c, s, on)
	}
}

// groupsBelow answers with all groups of the fleet, of a project or of a composite app, and where they stand.
func groupsBelow(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	if _, err := wantsWatch(c); err != nil {
		return nil, err
	}
	list, err := s.Groups(c.Request().Context(), on.Parent, c.QueryParams())
	return asJSON(http.StatusOK, list), err
}

// clustersOfFleet answers with the clusters of all providers, and where they stand.
func clustersOfFleet(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	if _, err := wantsWatch(c); err != nil {
		return nil, err
	}
	list, err := s.Clusters(c.Request().Context(), on.Parent, c.QueryParams())
	return asJSON(http.StatusOK, list), err
}

// standing asks where groups or clusters stand: what clusters report is part of that, and no longer stands than other reports do.
var standing = status.Query{Type: status.TypeReady}

// watchClusters is clustersOfFleet as a stream. Who loses the right to labels has to begin again, and goes on without them.
func (e *edge) watchClusters(c echo.Context, s door.Service, _ *door.Request) (reply, error) {
	if err := unpaged(c); err != nil {
		return nil, err
	}
	ctx := c.Request().Context()
	all := service.FleetUnlabelled
	if rights.Of(ctx).Shows(domain.ClusterLabels, "") {
		all = service.FleetClusters
		door.Shows(ctx, domain.ClusterLabels, "")
	}
	return sent, e.stream(c, ofStatus(s, all, standing))
}

// watchGroups is groupsBelow as a stream.
func (e *edge) watchGroups(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	if err := unpaged(c); err != nil {
		return nil, err
	}
	return sent, e.stream(c, ofStatus(s, on.Parent, standing))
}

// unpaged refuses what asks for a page of a stream, as CheckWatch does that of operations: who asks for ten would get all.
func unpaged(c echo.Context) error {
	var p fail.Problems
	for _, page := range []parameter{limitQuery, continueQuery} {
		if c.QueryParams().Has(page.name) {
			p.Add(page.name, "a watch has no pages: it is of all; leave it out")
		}
	}
	return p.Err()
}
