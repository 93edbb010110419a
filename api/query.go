package api

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// The lists and documents that a query turns into something else.

// listClusters answers with clusters, with the names of those that carry a label, or with labels.
func (e *edge) listClusters(c echo.Context) error {
	ctx := c.Request().Context()
	provider, err := keyOf(c, parentOf(clusters))
	if err != nil {
		return err
	}
	full, err := wantsFull(c)
	if err != nil {
		return err
	}
	if full {
		list, err := e.fleet.Clusters(ctx, provider, c.QueryParams())
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, list)
	}
	if label := c.QueryParam("label"); label != "" {
		names, err := e.service.ClustersByLabel(ctx, provider, label)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, names)
	}
	if text := c.QueryParam("withLabels"); text != "" {
		with, err := strconv.ParseBool(text)
		if err != nil {
			return fail.New(fail.Invalid, "Invalid query withLabels: %q is neither true nor false", text)
		}
		if with {
			list, err := e.service.ClustersWithLabels(ctx, provider)
			if err != nil {
				return err
			}
			return c.JSON(http.StatusOK, list)
		}
	}
	list, err := e.service.List(ctx, domain.ClustersNoun, provider)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, list)
}

// kvValue is the answer to a query for one key.
type kvValue struct {
	Value string `json:"value"`
}

// getPairs answers with a set of key-value pairs, or with the value of one key.
func (e *edge) getPairs(noun *domain.Noun, template string) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx := c.Request().Context()
		key, err := keyOf(c, template)
		if err != nil {
			return err
		}
		if wanted := c.QueryParam("key"); wanted != "" {
			value, err := e.service.Value(ctx, noun, key, wanted)
			if err != nil {
				return err
			}
			return c.JSON(http.StatusOK, kvValue{value})
		}
		o, err := e.service.Get(ctx, noun, key)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, o)
	}
}

// listProfiles answers with the profiles, or with the one of an app, to which the rules of Accept apply.
func (e *edge) listProfiles(c echo.Context) error {
	ctx := c.Request().Context()
	parent, err := keyOf(c, profiles+"/:compositeProfile")
	if err != nil {
		return err
	}
	if app := c.QueryParam("app"); app != "" {
		o, err := e.service.ProfileOf(ctx, parent, app)
		if err != nil {
			return err
		}
		return e.answer(c, o, resource{})
	}
	list, err := e.service.List(ctx, domain.Profiles, parent)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, list)
}

// getProfile refuses what would be two ways to name a profile.
func (e *edge) getProfile(c echo.Context) error {
	if c.QueryParams().Has("app") {
		return fail.New(fail.Invalid, "Invalid query - contains both appProfile and app: leave one of them out")
	}
	return e.get(resource{noun: domain.Profiles, path: profiles + "/:compositeProfile/profiles", item: "/:profile", upload: true})(c)
}

// intentList is EMCO's form of the list of a group's intents, and intentBinding that of one of them.
type (
	intentList struct {
		// of each intent what it binds: genericPlacementIntent to a placement, or a controller to its intent
		Intent []map[string]string `json:"intent"`
	}
	intentBinding struct {
		Intent map[string]string `json:"intent"` // genericPlacementIntent to a placement, or a controller to its intent
	}
)

// listIntents answers with what the intents bind, not with documents. Only the path with a slash at its
// end has the query.
func (e *edge) listIntents(c echo.Context) error {
	ctx := c.Request().Context()
	parent, err := keyOf(c, group)
	if err != nil {
		return err
	}
	if name := c.QueryParam("intent"); name != "" && c.Path() != base+group+"/intents" {
		o, err := e.service.Get(ctx, domain.DeploymentIntents, parent.Child(domain.DeploymentIntents.Collection, name))
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, intentBinding{o.(*domain.DeploymentIntent).Spec.Intent})
	}
	bindings, err := e.service.Bindings(ctx, parent)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, intentList{bindings})
}

// listAppIntents answers with the intents, or with the placement of one app. Only the path with a slash at its end has the
// query, as in EMCO.
func (e *edge) listAppIntents(c echo.Context) error {
	ctx := c.Request().Context()
	parent, err := keyOf(c, placements+"/:genericPlacementIntent")
	if err != nil {
		return err
	}
	if c.QueryParam("app") != "" && c.Path() != base+placements+"/:genericPlacementIntent/app-intents" {
		name := c.QueryParam("app-name")
		if name == "" {
			return fail.New(fail.Invalid, "Missing appName in GET request")
		}
		intent, err := e.service.AppIntentOf(ctx, parent, name)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, intent.Spec)
	}
	list, err := e.service.List(ctx, domain.AppIntents, parent)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, list)
}
