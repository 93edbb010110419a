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

// serveDocs serves a page to read the OpenAPI document with; everything it needs is in the program.
func serveDocs(router *echo.Echo) {
	router.GET("/docs", func(c echo.Context) error { return c.Redirect(http.StatusMovedPermanently, "docs/") })
	router.GET("/docs/swagger-initializer.js", func(c echo.Context) error {
		return c.Blob(http.StatusOK, "text/javascript; charset=utf-8", []byte(initializer))
	})
	router.GET("/docs/*", echo.WrapHandler(http.StripPrefix("/docs/", http.FileServerFS(swaggerui.FS))))
}
