package app

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/internal/sink"
	"github.com/drover-io/drover/internal/trail"
)

// auditing is the audit log of a process: its trail, and the keys by which all trails sign.
type auditing struct {
	trail *trail.Trail
	keys  audit.Keys
	parts *Parts
	begun bool
	stop  context.CancelFunc
	ended sync.WaitGroup
	sinks []*sink.Sink
}

// newAuditing opens the sinks. begin makes the rest.
func newAuditing(p *Parts) (*auditing, error) {
	a := &auditing{parts: p}
	if err := a.open(); err != nil {
		a.closeSinks()
		return nil, err
	}
	return a, nil
}

// begin makes the trail, begins it and keeps it until close: a process that is ended while it still starts ends in the log, too. Its keys come from the secret of the installation, which other sealing keys leave as it is: who
// has kept the public one can verify what was signed before.
func (a *auditing) begin(ctx context.Context) error {
	if a.trail == nil {
		root, err := a.parts.store.Root(ctx)
		if err != nil {
			return err
		}
		a.make(root)
	}
	if err := a.trail.Begin(ctx); err != nil {
		return err
	}
	a.run()
	return nil
}

func (a *auditing) make(root secret.Root) {
	p, key := a.parts, audit.NewKey(root.Derive("signatures of audit checkpoints"))
	a.keys.Keys = []audit.PublicKey{key.Stated()}
	sinks := make([]trail.Sink, len(a.sinks))
	for i, s := range a.sinks {
		sinks[i] = s
	}
	a.trail = trail.New(trail.Config{
		Store: p.store, Process: processOf(p), Key: key, Keys: map[string]ed25519.PublicKey{key.Stated().Key: key.Public()}, Secret: root.Derive("digests of audited documents"),
		Keep: p.config.AuditKeep, Sinks: sinks, Log: p.log, Now: time.Now,
		Clock: p.store.Clock,
	})
}

// open opens the sinks.
func (a *auditing) open() error {
	if path := a.parts.config.AuditFile; path != "" {
		s, err := sink.NewFile(path, a.parts.log)
		if err != nil {
			return err
		}
		a.sinks = append(a.sinks, s)
	}
	if address := a.parts.config.AuditSyslog; address != "" {
		var roots *x509.CertPool
		if ca := a.parts.config.AuditSyslogCA; ca != "" {
			var err error
			if roots, err = config.Roots(ca); err != nil {
				return fmt.Errorf("read the CA of the syslog collector: %w", err)
			}
		}
		s, err := sink.NewSyslog(address, roots, a.parts.log)
		if err != nil {
			return err
		}
		a.sinks = append(a.sinks, s)
	}
	return nil
}

func (a *auditing) closeSinks() {
	for _, s := range a.sinks {
		s.Close()
	}
}

var (
	auditLost = prometheus.NewDesc("drover_audit_lost_total", "Audit records that have not come to a sink, though the store has them; those of store are nowhere.", []string{"sink"}, nil)
	auditKept = prometheus.NewDesc("drover_audit_unwritten", "Audit records that wait for the store to be there.", nil, nil)
)

// Describe implements prometheus.Collector.
func (a *auditing) Describe(to chan<- *prometheus.Desc) { to <- auditLost; to <- auditKept }

// Collect implements prometheus.Collector.
func (a *auditing) Collect(to chan<- prometheus.Metric) {
	for _, s := range a.sinks {
		to <- prometheus.MustNewConstMetric(auditLost, prometheus.CounterValue, float64(s.Lost()), s.Name())
	}
	kept, lost := a.trail.Unwritten()
	to <- prometheus.MustNewConstMetric(auditKept, prometheus.GaugeValue, float64(kept))
	to <- prometheus.MustNewConstMetric(auditLost, prometheus.CounterValue, float64(lost), "store")
}

// processOf is what a process is called in its records.
func processOf(p *Parts) string {
	switch {
	case p.config.Listen == "" && p.config.AdminTokenFile != "":
		return "admin-token"
	case p.config.Listen == "":
		return "worker"
	case p.config.MetricsListen == "":
		return "api"
	default:
		return "local"
	}
}

// run keeps the log until close.
func (a *auditing) run() {
	ctx, cancel := context.WithCancel(context.Background())
	a.stop, a.begun = cancel, true
	a.ended.Go(func() { a.trail.Run(ctx) })
}

// close ends the log in order.
func (a *auditing) close(ctx context.Context) {
	defer a.closeSinks()
	if !a.begun {
		return
	}
	a.stop()
	a.ended.Wait()
	if err := a.trail.Close(ctx); err != nil {
		a.parts.log.Warn("close the audit log", "error", err)
	}
}
