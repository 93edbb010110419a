package api

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/domain"
)

// plural takes network-controller-intents for EMCO's network-controller-intent: all other collections are in the plural, so
// that clients get this one wrong.
func plural(next echo.HandlerFunc) echo.HandlerFunc {
	// "", v2 and the segments of a group's key come before it.
	at := 1 + len(strings.Split(onePath(domain.DeploymentIntentGroups), "/"))
	noun := domain.NetControllerIntents
	return func(c echo.Context) error {
		u := c.Request().URL
		if u.RawPath == "" && strings.Contains(u.Path, "/"+noun.Kind) {
			if segments := strings.Split(u.Path, "/"); len(segments) > at && segments[at] == noun.Kind {
				segments[at] = noun.Collection
				u.Path = strings.Join(segments, "/")
			}
		}
		return next(c)
	}
}

// slashed takes a slash at the end of the path of all hpa intents, or of what is below them: EMCO's description has it there.
func slashed(next echo.HandlerFunc) echo.HandlerFunc {
	at := 1 + len(strings.Split(onePath(domain.DeploymentIntentGroups), "/"))
	return func(c echo.Context) error {
		u := c.Request().URL
		// Of a DELETE the slash stays: whoever has an empty name there must not delete all.
		if path, found := strings.CutSuffix(u.Path, "/"); found && u.RawPath == "" && c.Request().Method != http.MethodDelete {
			if segments := strings.Split(path, "/"); len(segments) > at && segments[at] == domain.HPAIntents.Collection {
				u.Path = path
			}
		}
		return next(c)
	}
}
