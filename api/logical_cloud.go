package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
)

// updateCloud answers with an empty cloud, as EMCO does.
func updateCloud(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	_, warnings, err := s.Update(c.Request().Context(), on.Key())
	warnAll(c, warnings)
	return asJSON(http.StatusAccepted, &domain.LogicalCloud{}), err
}

// userKubeconfig answers with the kubeconfig of a logical cloud's user in the cluster of a reference.
func userKubeconfig(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	kubeconfig, err := s.UserKubeconfig(c.Request().Context(), on.Key())
	return func(c echo.Context) error {
		c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
		return c.Blob(http.StatusOK, "application/yaml", kubeconfig)
	}, err
}
