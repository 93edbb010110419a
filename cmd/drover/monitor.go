package main

import (
	"context"
	"io"
	"log/slog"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/monitor"
	"github.com/drover-io/drover/internal/telemetry"
)

func watch(ctx context.Context, c *config.Config, log *slog.Logger, _ io.Writer) error {
	monitor.SetLog(log)
	cluster, err := memberCluster(c.Monitor.Kubeconfig)
	if err != nil {
		return err
	}
	secured, err := c.TLS.Config(log, "http/1.1")
	if err != nil {
		return err
	}
	metrics, err := telemetry.Metrics("monitor")
	if err != nil {
		return err
	}
	stop, err := traced(ctx, c, log, "monitor")
	if err != nil {
		return err
	}
	defer stop()
	return monitor.Run(ctx, monitor.Config{
		Cluster: cluster, Metrics: metrics, Listen: c.MetricsListen, TLS: secured, Names: c.AllowedHosts, Interval: c.Monitor.WriteInterval, MaxSize: int(c.Monitor.MaxSize),
		KindsFile: c.Monitor.KindsFile, Discover: c.Monitor.Discover, Namespace: c.Monitor.Namespace, Log: log,
	})
}

// memberCluster is the one that the kubeconfig names, or the one that the process runs in.
func memberCluster(kubeconfig string) (*rest.Config, error) {
	cluster, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fail.Wrap(err, fail.Invalid, "the cluster is not known: give --kubeconfig, or run in a pod")
	}
	return cluster, nil
}

// stopTime bounds the end of an agent's traces: what was not sent by then is lost.
const stopTime = 5 * time.Second

// traced begins the traces of an agent; stop sends what is left of them.
func traced(ctx context.Context, c *config.Config, log *slog.Logger, name string) (stop func(), err error) {
	tracing, err := telemetry.Start(ctx, c.OTLPEndpoint, name, log)
	if err != nil {
		return nil, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		if err := tracing.Stop(ctx); err != nil {
			log.Warn("stop tracing", slog.Any("error", err))
		}
	}, nil
}
