package temporal

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	uiserver "github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	uioptions "github.com/temporalio/ui-server/v2/server/server_options"

	"github.com/drover-io/drover/internal/pause"
)

// webUI is a running Web UI.
type webUI struct {
	url    string
	server *uiserver.Server
	done   chan struct{} // closed when server has returned
}

// startUI serves the Web UI for the server at frontend and returns once it
// accepts connections.
func startUI(ctx context.Context, c Config, frontend string) (*webUI, error) {
	port := strconv.Itoa(c.UIPort)
	addr := net.JoinHostPort(c.IP, port)
	u := &webUI{
		url: "http://" + addr,
		server: uiserver.NewServer(uioptions.WithConfigProvider(&uiconfig.Config{
			TemporalGRPCAddress: frontend,
			Host:                strings.TrimSuffix(addr, ":"+port), // an IPv6 address in brackets
			Port:                c.UIPort,
			EnableUI:            true,
			DefaultNamespace:    c.Namespace,
			CORS:                uiconfig.CORS{CookieInsecure: true}, // plain HTTP on loopback
			DisableNewsFetch:    true,
			HideLogs:            true,
		})),
		done: make(chan struct{}),
	}
	go func() {
		defer close(u.done)
		// The error is always nil: a listener that cannot bind ends the
		// process, which is why Start tries the port first.
		_ = u.server.Start()
	}()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			return u, conn.Close()
		}
		if pause.For(ctx, 5*time.Millisecond) != nil {
			u.stop()
			return nil, fmt.Errorf("wait for the temporal Web UI on %s: %w", addr, err)
		}
	}
}

// stop closes the listener and every connection.
func (u *webUI) stop() {
	u.server.Stop()
	<-u.done
}
