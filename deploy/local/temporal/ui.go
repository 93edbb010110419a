package temporal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/temporalio/ui-server/v2/server/api"
	"github.com/temporalio/ui-server/v2/server/auth"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/csrf"
	"github.com/temporalio/ui-server/v2/server/headers"
	"github.com/temporalio/ui-server/v2/server/route"
	"github.com/temporalio/ui-server/v2/ui"

	"github.com/drover-io/drover/internal/connections"
	"github.com/drover-io/drover/internal/hosts"
	"github.com/drover-io/drover/internal/limits"
)

// webUI is a running Web UI.
type webUI struct {
	url    string
	server *http.Server
	done   chan struct{} // closed when server has returned
}

// startUI serves the Web UI for the server at frontend.
func startUI(ctx context.Context, c Config, frontend string) (*webUI, error) {
	addr := net.JoinHostPort(c.IP, strconv.Itoa(c.UIPort))
	pages, err := newUI(c, addr, frontend)
	if err != nil {
		return nil, fmt.Errorf("set up the temporal Web UI: %w", err)
	}
	l, err := connections.Listen(ctx, addr, "the temporal Web UI")
	if err != nil {
		return nil, err
	}
	u := &webUI{
		url:    "http://" + addr,
		server: connections.Server(pages, c.Logger, connections.Times{}),
		done:   make(chan struct{}),
	}
	go func() {
		defer close(u.done)
		if err := u.server.Serve(connections.New(l, c.Logger, limits.SideConnections, 0)); !errors.Is(err, http.ErrServerClosed) {
			c.Logger.Error("temporal Web UI ended", "error", err)
		}
	}()
	return u, nil
}

// newUI puts the pages and their API together as the Web UI's own server does, which takes no middleware, with a look at
// the Host before everything: see package hosts.
func newUI(c Config, addr, frontend string) (http.Handler, error) {
	provider, err := uiconfig.NewConfigProviderWithRefresh(&uiconfig.Config{
		TemporalGRPCAddress: frontend,
		Host:                c.IP,
		Port:                c.UIPort,
		EnableUI:            true,
		DefaultNamespace:    c.Namespace,
		CORS:                uiconfig.CORS{CookieInsecure: true}, // plain HTTP on loopback
		DisableNewsFetch:    true,
		HideLogs:            true,
		Codec:               uiconfig.Codec{Endpoint: c.codecURL(addr)},
	})
	if err != nil {
		return nil, err
	}
	assets, err := ui.Assets()
	if err != nil {
		return nil, err
	}
	pages, err := fs.Sub(assets, "local")
	if err != nil {
		return nil, err
	}
	e := echo.New()
	e.Pre(ownNames(hosts.New(addr)))
	e.Use(middleware.Recover(), middleware.Gzip(), middleware.Secure(),
		csrf.EnsureTokenCookie(false), middleware.CSRFWithConfig(csrf.MiddlewareConfig(provider, false)))
	route.SetHealthRoute(e)
	forward := headers.WithForwardHeaders([]string{auth.AuthorizationExtrasHeader, "Caller-Type"})
	if err := route.SetAPIRoutes(e, provider, []api.Middleware{forward}); err != nil {
		return nil, err
	}
	route.SetAuthRoutes(e, provider)
	route.SetRenderRoute(e, "")
	if c.Codec != nil {
		e.Pre(ownPages(c.Codec))
	}
	return e, route.SetUIRoutes(e, "", pages)
}

// codecPath is where pages of the Web UI have payloads opened.
const codecPath = "/codec"

func (c *Config) codecURL(addr string) string {
	if c.Codec == nil {
		return ""
	}
	return "http://" + addr + codecPath
}

// ownPages lets pages of the Web UI have payloads opened, and no others. It comes before the Web UI's own check of pages, which
// want a token from them that they do not send with this.
func ownPages(codec http.Handler) echo.MiddlewareFunc {
	pages := http.NewCrossOriginProtection()
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			if !strings.HasPrefix(r.URL.Path, codecPath+"/") {
				return next(c)
			}
			if err := pages.Check(r); err != nil {
				return echo.NewHTTPError(http.StatusForbidden, "a page of another site asks for this")
			}
			codec.ServeHTTP(c.Response(), r)
			return nil
		}
	}
}

// ownNames refuses requests that are for a name of somebody else.
func ownNames(names hosts.Names) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if !names.Ours(c.Request()) {
				return echo.NewHTTPError(http.StatusForbidden, fmt.Sprintf("%q is not a name of this Web UI", c.Request().Host))
			}
			return next(c)
		}
	}
}

// stop closes the listener and every connection.
func (u *webUI) stop() {
	_ = u.server.Close() // what is not closed then ends with the process
	<-u.done
}
