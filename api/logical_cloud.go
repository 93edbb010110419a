package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/door"
)

// userKubeconfig answers with the kubeconfig of a logical cloud's user in the cluster of a reference.
func userKubeconfig(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	kubeconfig, err := s.UserKubeconfig(c.Request().Context(), on.Key())
	return func(c echo.Context) error { return c.Blob(http.StatusOK, mimeYAML, kubeconfig) }, err
}
