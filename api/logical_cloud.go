package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/domain"
)

// updateCloud answers with an empty cloud, as EMCO does.
func (e *edge) updateCloud(c echo.Context) error {
	key, err := keyOf(c, cloud)
	if err != nil {
		return err
	}
	warnings, err := e.service.UpdateCloud(c.Request().Context(), key)
	warnAll(c, warnings)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusAccepted, &domain.LogicalCloud{})
}

// userKubeconfig answers with the kubeconfig of a logical cloud's user in the cluster of a reference.
func (e *edge) userKubeconfig(c echo.Context) error {
	key, err := keyOf(c, references+"/:clusterReference")
	if err != nil {
		return err
	}
	kubeconfig, err := e.service.UserKubeconfig(c.Request().Context(), key)
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	return c.Blob(http.StatusOK, "application/yaml", kubeconfig)
}
