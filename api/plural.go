package api

import (
	"net/http"
	"net/url"
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
		if strings.Contains(u.Path, "/"+noun.Kind) {
			segments := strings.Split(u.EscapedPath(), "/")
			if len(segments) > at && segments[at] == noun.Kind {
				segments[at] = noun.Collection
				setPath(u, strings.Join(segments, "/"))
			}
		}
		return next(c)
	}
}

// slashed takes a slash at the end of a path for nothing, where something is read or made: EMCO describes some of its collections
// with it (profiles, intents, app-intents, hpa-intents and what is below them), and serves some with it alone. With DELETE and PUT
// it stays, and is not found: whoever has an empty name there must not delete all.
func slashed(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodPost:
			if path, found := strings.CutSuffix(r.URL.EscapedPath(), "/"); found && strings.HasPrefix(path, base+"/") {
				setPath(r.URL, path)
			}
		}
		return next(c)
	}
}

// setPath puts another path in place of a URL's, with what the client has escaped: an escaped slash is part of a name.
func setPath(u *url.URL, escaped string) {
	plain, err := url.PathUnescape(escaped)
	if err != nil {
		return
	}
	u.Path, u.RawPath = plain, ""
	if u.EscapedPath() != escaped {
		u.RawPath = escaped
	}
}
