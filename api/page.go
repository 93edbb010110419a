package api

import (
	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/api/page"
)

// servePage serves the page for people under /, to whoever takes HTML. To clients that do not, there is nothing at /, as before.
func servePage(router *echo.Echo) error {
	p, err := page.New()
	if err != nil {
		return err
	}
	index := func(c echo.Context) error {
		if _, ok := negotiate(c.Request().Header.Values(echo.HeaderAccept), []string{echo.MIMETextHTML}); !ok {
			c.Response().Header().Add(echo.HeaderVary, echo.HeaderAccept)
			return echo.ErrNotFound
		}
		p.ServeIndex(c.Response(), c.Request())
		return nil
	}
	part := func(c echo.Context) error {
		if !p.ServePart(c.Response(), c.Request()) {
			return echo.ErrNotFound
		}
		return nil
	}
	router.GET("/", index)
	router.GET(page.Folder+"*", part)
	return nil
}
