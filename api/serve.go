package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/drover-io/drover/internal/connections"
	"github.com/drover-io/drover/internal/policy"
)

// Serve answers requests on the listener until ctx ends; then it takes no more, and gives those that are
// being answered the drain time to end. nil stands for a clean end.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, log *slog.Logger, drain time.Duration) error {
	server := connections.Server(handler, log, connections.Times{Read: policy.Upload, Write: 2 * policy.Upload}) // an answer's time includes the upload
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("drain HTTP: %w", err), server.Close())
	}
	return nil
}
