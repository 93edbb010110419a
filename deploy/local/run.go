package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
)

// runStack runs the local stack and its clusters for a person, until ctx ends.
func runStack(ctx context.Context, args []string, stdout io.Writer) error {
	var s settings
	fs := newFlags("run")
	s.declare(fs)
	fs.StringVar(&s.data, "data", "build/run", "`folder` of all data; the next run carries on with it")
	if err := fs.Parse(args); err != nil {
		return err
	}
	say := func(format string, args ...any) { fmt.Fprintf(stdout, format+"\n", args...) }
	k, err := startStack(ctx, s, slog.Default(), say)
	if err != nil {
		return err
	}
	for _, name := range s.names() {
		say("Kubeconfig       %s", s.kubeconfig(name))
	}
	say("Running; Ctrl-C stops. Data is kept in %s.", s.data)
	select {
	case <-ctx.Done():
	case err = <-k.failed:
	}
	say("Stopping")
	if stopErr := k.stop(); err == nil {
		err = stopErr
	}
	return err
}
