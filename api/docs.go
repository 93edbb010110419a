package api

import (
	"net/http"

	"github.com/labstack/echo/v4"
	swaggerui "github.com/swaggo/files/v2"
)

// initializer points the reader's page at our document instead of at its makers' example.
const initializer = `window.onload = () => {
  window.ui = SwaggerUIBundle({
    url: "../openapi.json",
    dom_id: "#swagger-ui",
    deepLinking: true,
    presets: [SwaggerUIBundle.presets.apis],
  });
};
`

// docsPolicy is what the reader's page may do. It is of the API's origin, where requests are sent with what a browser has of its user: nobody
// else's script is in it, it sends nothing elsewhere, and no page of others shows it to have somebody press its buttons. Its own script sets
// styles.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// serveDocs serves a page to read the OpenAPI document with; everything it needs is in the program.
func serveDocs(router *echo.Echo) {
	bounded := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			h := c.Response().Header()
			h.Set("Content-Security-Policy", docsPolicy)
			h.Set("X-Frame-Options", "DENY")
			h.Set("Referrer-Policy", "no-referrer")
			h.Set(echo.HeaderXContentTypeOptions, "nosniff")
			return next(c)
		}
	}
	router.GET("/docs", func(c echo.Context) error { return c.Redirect(http.StatusMovedPermanently, "docs/") }, bounded)
	router.GET("/docs/swagger-initializer.js", func(c echo.Context) error {
		return c.Blob(http.StatusOK, "text/javascript; charset=utf-8", []byte(initializer))
	}, bounded)
	router.GET("/docs/*", echo.WrapHandler(http.StripPrefix("/docs/", http.FileServerFS(swaggerui.FS))), bounded)
}
