package api

import (
	"crypto/rand"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/service"
)

// clusterStatus answers a status query of a cluster: where its network intents stand, as EMCO does, or with view=full what
// runs there.
func clusterStatus(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	full, err := wantsWhole(c)
	if err != nil {
		return nil, err
	}
	if !full {
		return statusOf(c, s, on)
	}
	if _, err := wantsWatch(c); err != nil {
		return nil, err
	}
	cluster, err := s.Cluster(c.Request().Context(), on.Key())
	return asJSON(http.StatusOK, cluster), err
}

// checkCluster asks a cluster what it is like.
func checkCluster(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	users, err := truth(c, "logicalCloudUsers")
	if err != nil {
		return nil, err
	}
	check, err := s.CheckCluster(c.Request().Context(), on.Key(), service.Needs{Users: users, Groups: c.QueryParams()["group"]})
	return asJSON(http.StatusOK, check), err
}

// watchCluster is clusterStatus as a stream.
func (e *edge) watchCluster(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	full, err := wantsWhole(c)
	switch {
	case err != nil:
		return nil, err
	case full:
		return nil, fail.New(fail.Invalid, "Invalid query: view=full cannot be watched; leave watch or view out")
	}
	return e.watchOwner(c, s, on)
}

// wantsWhole reads the parameter view of a cluster's status.
func wantsWhole(c echo.Context) (bool, error) {
	switch view := c.QueryParam("view"); view {
	case "":
		return false, nil
	case "full":
		return true, nil
	default:
		return false, fail.Query("view", "%q; use full, or leave it out", view)
	}
}

// explainOwner answers as JSON, or as text to those who accept that rather or ask for output=text.
func explainOwner(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	return explained(c, func() (*explain.Explanation, error) { return s.Explain(c.Request().Context(), on.Key()) })
}

// explainTenancy is explainOwner for a tenant, a workload rule and a workload.
func explainTenancy(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	return explained(c, func() (*explain.Explanation, error) {
		return s.Why(c.Request().Context(), on.Noun, on.Parent, on.Name, c.QueryParams())
	})
}

func explained(c echo.Context, why func() (*explain.Explanation, error)) (reply, error) {
	form, err := formOf(c)
	if err != nil {
		return nil, err
	}
	x, err := why()
	if err != nil || form == echo.MIMEApplicationJSON {
		return asJSON(http.StatusOK, x), err
	}
	return func(c echo.Context) error {
		c.Response().Header().Set(echo.HeaderContentType, echo.MIMETextPlainCharsetUTF8)
		return x.WriteText(c.Response())
	}, nil
}

// formOf is the media type of an explanation.
func formOf(c echo.Context) (string, error) {
	switch output := c.QueryParam("output"); output {
	case "json":
		return echo.MIMEApplicationJSON, nil
	case "text":
		return echo.MIMETextPlain, nil
	case "":
		form, ok := negotiate(c.Request().Header.Values(echo.HeaderAccept), []string{echo.MIMEApplicationJSON, echo.MIMETextPlain})
		if !ok {
			return "", echo.NewHTTPError(http.StatusNotAcceptable, "set Accept: application/json or text/plain")
		}
		return form, nil
	default:
		return "", fail.Query("output", "%q; use json or text", output)
	}
}

// headerOperation names the operation that a request has begun, by the id of its run in the Web UI.
const headerOperation = "Drover-Operation"

// maxID bounds what is kept of the id that a client gives to a request, in bytes.
const maxID = 128

// maxPath bounds what the log has of a request's path, in bytes: anybody may ask for one of 64 KiB, and no path of ours is as long as this.
const maxPath = 1 << 10

// identify gives a request its id, which no client has a say in: audit records are told by it. The answer names it, the operation that
// was begun, and what was noted to warn of.
func identify(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := &caller.Request{ID: rand.Text(), Remote: c.Request().RemoteAddr}
		c.Response().Header().Set(echo.HeaderXRequestID, r.ID)
		c.SetRequest(c.Request().WithContext(caller.WithRequest(c.Request().Context(), r)))
		c.Response().Before(func() {
			if operation := r.Operation(); operation != "" {
				c.Response().Header().Set(headerOperation, operation)
			}
			warnAll(c, r.Warnings())
		})
		return next(c)
	}
}
