package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/monitor"
	"github.com/drover-io/drover/internal/telemetry"
	"github.com/drover-io/drover/internal/tenantagent"
)

// agentGC has the agent collect when its heap has grown by a quarter, unless GOGC says otherwise: it has little to do, and its memory
// is taken from every tenant's cluster.
const agentGC = 25

func speak(ctx context.Context, c *config.Config, log *slog.Logger, stdout io.Writer) error {
	monitor.SetLog(log)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(agentGC)
	}
	cluster, err := memberCluster(c.Monitor.Kubeconfig)
	if err != nil {
		return err
	}
	name, err := os.Hostname() // in a pod that of the pod
	if err != nil {
		return fmt.Errorf("the name of the host: %w", err)
	}
	secured, err := c.TLS.Config(log, "http/1.1")
	if err != nil {
		return err
	}
	metrics, err := telemetry.Metrics("tenant-agent")
	if err != nil {
		return err
	}
	stop, err := traced(ctx, c, log, "tenant-agent")
	if err != nil {
		return err
	}
	defer stop()
	a := c.TenantAgent
	return tenantagent.Run(ctx, tenantagent.Config{
		Cluster: cluster,
		Server: tenantagent.Server{
			Address: a.Server, Plaintext: a.Plaintext, CA: a.CA, Name: a.ServerName, Cert: a.Cert, Key: a.Key, Token: a.Token,
		},
		Tenant: a.Tenant, Listen: c.MetricsListen, TLS: secured, Names: c.AllowedHosts, Metrics: metrics, Namespace: a.Namespace, ConfigMap: a.ConfigMap, Rules: a.Rules, Log: log,
		// A process that is started again in the same pod is another one.
		Identity: name + "-" + rand.Text()[:8],
		Started:  func() { fmt.Fprintln(stdout, "ready tenant-agent") },
	})
}
