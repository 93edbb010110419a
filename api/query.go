package api

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
)

// The lists and documents that a query turns into something else.

// listClusters answers with clusters, with the names of those that carry a label, or with labels.
func listClusters(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	ctx := c.Request().Context()
	full, err := wantsFull(c)
	if err != nil {
		return nil, err
	}
	with := false
	if text := c.QueryParam("withLabels"); text != "" {
		if with, err = strconv.ParseBool(text); err != nil {
			return nil, fail.Query("withLabels", "%q; use true or false", text)
		}
	}
	label := c.QueryParam("label")
	if with && label != "" || full && (with || label != "") {
		return nil, fail.New(fail.Invalid, "Invalid query: view, label and withLabels ask for different answers; use one of them")
	}
	if full {
		list, err := s.Clusters(ctx, on.Parent, c.QueryParams())
		return asJSON(http.StatusOK, list), err
	}
	if label != "" {
		names, err := s.ClustersByLabel(ctx, on.Parent, label)
		return asJSON(http.StatusOK, names), warnUnreadable(c, err)
	}
	if with {
		list, err := s.ClustersWithLabels(ctx, on.Parent)
		return asJSON(http.StatusOK, list), warnUnreadable(c, err)
	}
	return listAll(c, s, on)
}

// kvValue is the answer to a query for one key.
type kvValue struct {
	Value string `json:"value"`
}

// getPairs answers with a set of key-value pairs, or with the value of one key.
func getPairs(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	ctx := c.Request().Context()
	if wanted := c.QueryParam("key"); wanted != "" {
		value, err := s.Value(ctx, on.Noun, on.Key(), wanted)
		return asJSON(http.StatusOK, kvValue{value}), err
	}
	o, err := s.Get(ctx, on.Noun, on.Key())
	return asJSON(http.StatusOK, o), err
}

// listOrOne answers with a list, or with the document that a parameter names: EMCO describes the parameter, and ignores it.
func listOrOne(parameter string) handler {
	return func(c echo.Context, s door.Service, on *door.Request) (reply, error) {
		name := c.QueryParam(parameter)
		if name == "" {
			return listAll(c, s, on)
		}
		var p fail.Problems
		if domain.CheckName(&p, parameter, name); p.Err() != nil {
			return nil, p.Err()
		}
		o, err := s.Get(c.Request().Context(), on.Noun, on.Parent.Child(on.Noun.Collection, name))
		return asJSON(http.StatusOK, o), err
	}
}

// listProfiles answers with the profiles, or with the one of an app, to which the rules of Accept apply.
func (e *edge) listProfiles(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	if app := c.QueryParam("app"); app != "" {
		o, err := s.ProfileOf(c.Request().Context(), on.Parent, app)
		if err != nil {
			return nil, err
		}
		return sent, e.answer(c, s, o, resource{})
	}
	return listAll(c, s, on)
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

// listIntents answers with what the intents bind, not with documents, unless these are asked for.
func listIntents(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	ctx := c.Request().Context()
	if name := c.QueryParam("intent"); name != "" {
		if c.QueryParam("view") != "" {
			return nil, fail.New(fail.Invalid, "Invalid query: intent and view ask for different answers; use one of them")
		}
		o, err := s.Get(ctx, on.Noun, on.Parent.Child(on.Noun.Collection, name))
		if err != nil {
			return nil, err
		}
		return asJSON(http.StatusOK, intentBinding{o.(*domain.DeploymentIntent).Spec.Intent}), nil
	}
	if c.QueryParam("view") != "" {
		return listAll(c, s, on)
	}
	bindings, err := s.Bindings(ctx, on.Parent)
	return asJSON(http.StatusOK, intentList{bindings}), warnUnreadable(c, err)
}

// listAppIntents answers with the intents, or with the placement of one app.
func listAppIntents(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	app, name := c.QueryParam("app"), c.QueryParam("app-name")
	switch {
	case app == "" && name == "":
		return listAll(c, s, on)
	case name == "":
		return nil, fail.New(fail.Invalid, "Missing appName in GET request")
	case app == "":
		return nil, fail.Query("app-name", "app must be given too")
	case app != name:
		return nil, fail.New(fail.Invalid, "Invalid query: app is %q and app-name %q; both are to name one app", app, name)
	}
	intent, err := s.AppIntentOf(c.Request().Context(), on.Parent, name)
	if err != nil {
		return nil, err
	}
	return asJSON(http.StatusOK, intent.Spec), nil
}
