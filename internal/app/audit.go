package app

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-io/drover/internal/audit"
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

// newAuditing makes it. The error is that of a sink.
func newAuditing(p *Parts) (*auditing, error) {
	a := &auditing{parts: p}
	if err := a.open(); err != nil {
		a.closeSinks()
		return nil, err
	}
	trusted := map[string]ed25519.PublicKey{}
	var ring []*audit.Key // the one that signs comes first
	for _, secret := range p.sealer.DeriveAll("signatures of audit checkpoints") {
		key := audit.NewKey(secret)
		ring = append(ring, key)
		a.keys.Keys = append(a.keys.Keys, key.Stated())
		trusted[key.Stated().Key] = key.Public()
	}
	sinks := make([]trail.Sink, len(a.sinks))
	for i, s := range a.sinks {
		sinks[i] = s
	}
	a.trail = trail.New(trail.Config{
		Store: p.store, Process: processOf(p), Key: ring[0], Ring: ring, Keys: trusted, Secret: p.sealer.Derive("digests of audited documents"),
		Keep: p.config.AuditKeep, Sinks: sinks, Log: p.log, Now: time.Now,
		Clock: p.store.AuditClock,
	})
	return a, nil
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
			data, err := os.ReadFile(ca)
			if err != nil {
				return fmt.Errorf("read the CA of the syslog collector: %w", err)
			}
			if roots = x509.NewCertPool(); !roots.AppendCertsFromPEM(data) {
				return fmt.Errorf("the CA of the syslog collector: %s has no certificate", ca)
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
