package telemetry

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

// ServeProfiles serves the runtime's profiles under /debug/pprof/ at an address, until ctx ends; it does
// nothing when the address is empty. Who reaches it sees names of functions and the command line. Without TLS secured is nil.
func ServeProfiles(ctx context.Context, address string, secured *tls.Config) error {
	if address == "" {
		return nil
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen for profiles (--profile-listen): %w", err)
	}
	if secured != nil {
		l = tls.NewListener(l, secured)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(l) }()
	return nil
}
