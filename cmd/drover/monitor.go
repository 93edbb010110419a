package main

import (
	"context"
	"io"
	"log/slog"

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
	return monitor.Run(ctx, monitor.Config{
		Cluster: cluster, Metrics: metrics, Listen: c.MetricsListen, TLS: secured, Interval: c.Monitor.WriteInterval, MaxSize: int(c.Monitor.MaxSize),
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
