package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/policy"
)

// Serve answers requests on the listener until ctx ends; then it takes no more, and gives those that are
// being answered the drain time to end. nil stands for a clean end.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, drain time.Duration) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: policy.Header,
		ReadTimeout:       policy.Upload,
		WriteTimeout:      2 * policy.Upload, // counts from the end of the header, so it includes the upload
		IdleTimeout:       policy.Idle,
		MaxHeaderBytes:    limits.Headers,
	}
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
