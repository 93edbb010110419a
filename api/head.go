package api

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

// headed has a HEAD be answered as the GET of its path (RFC 9110, 9.3.2): net/http leaves the body out. It is the last step before the handler.
func headed(router *echo.Echo) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			switch r := c.Request(); r.Method {
			case http.MethodHead:
				router.Router().Find(http.MethodGet, echo.GetPath(r), c)
				return c.Handler()(c)
			case http.MethodOptions: // the router says what there is
				h := c.Response().Header()
				c.Response().Before(func() {
					if allowed := h.Get(echo.HeaderAllow); allowed != "" {
						h.Set(echo.HeaderAllow, allowing(allowed))
					}
				})
			default:
			}
			return next(c)
		}
	}
}

// allowing are the methods that a path has, by those of its routes.
func allowing(routes string) string {
	return strings.Replace(routes, http.MethodGet, http.MethodGet+", "+http.MethodHead, 1)
}
