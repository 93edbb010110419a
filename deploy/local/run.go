package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// firstCommands put a chart on the first cluster of a stack that runs. They can be copied as they are.
func (s *settings) firstCommands() (lines []string) {
	const drover = "build/bin/drover "
	server := strings.TrimSuffix(s.pageURL(), "/")
	if s.auth == "off" {
		lines = append(lines, drover+"context set local --server "+server)
	} else {
		lines = append(lines, drover+"login "+server+" --token-file "+s.tokenFile())
	}
	if names := s.names(); len(names) > 0 {
		lines = append(lines, drover+"cluster add local/"+names[0]+" --kubeconfig "+s.kubeconfig(names[0])+" --label edge",
			drover+"deploy deploy/examples/vfw/helm/sink --name sink --clusters label=edge --wait")
	}
	return lines
}

func (s *settings) flagsOfRun() *flag.FlagSet {
	fs := newFlags("run")
	s.declare(fs)
	fs.StringVar(&s.data, "data", "build/run", "`folder` of all data; the next run carries on with it")
	return fs
}

// usual are the settings of make run.
func usual() (s settings) {
	s.flagsOfRun()
	return s
}

// runStack runs the local stack and its clusters for a person, until ctx ends.
func runStack(ctx context.Context, args []string, stdout io.Writer) error {
	var s settings
	fs := s.flagsOfRun()
	if err := parse(fs, args); err != nil {
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
	say("In another terminal, a chart of your own on a cluster, with any folder of a chart in place of this one:")
	for _, line := range s.firstCommands() {
		say("  %s", line)
	}
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
