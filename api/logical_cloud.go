package api

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

func operateCloud(c echo.Context, ok int, operation func(ctx context.Context, cloud domain.Key) error) error {
	key, err := keyOf(c, cloud)
	if err != nil {
		return err
	}
	if err := operation(c.Request().Context(), key); err != nil {
		return err
	}
	return c.NoContent(ok)
}

func (e *edge) instantiateCloud(c echo.Context) error {
	return operateCloud(c, http.StatusAccepted, e.service.InstantiateCloud)
}

func (e *edge) terminateCloud(c echo.Context) error {
	return operateCloud(c, http.StatusAccepted, e.service.TerminateCloud)
}

// EMCO answers 200 to stop, and 202 to everything else.
func (e *edge) stopCloud(c echo.Context) error {
	return operateCloud(c, http.StatusOK, e.service.StopCloud)
}

func (e *edge) statusOfCloud(c echo.Context) error {
	key, err := keyOf(c, cloud)
	if err != nil {
		return err
	}
	instance, given := c.QueryParam("instance"), c.QueryParams().Has("instance")
	if given && instance == "" {
		return fail.New(fail.Invalid, "Invalid query instance")
	}
	status, err := e.service.StatusOfCloud(c.Request().Context(), key, instance)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, status)
}
