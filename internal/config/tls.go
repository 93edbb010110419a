package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// TLS reads the files; nil when none is configured.
func (t Temporal) TLS() (*tls.Config, error) {
	if t.TLSCert == "" && t.TLSCA == "" && t.TLSServer == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.TLSServer}
	if t.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(t.TLSCert, t.TLSKey)
		if err != nil {
			return nil, fmt.Errorf("read client certificate for Temporal: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if t.TLSCA != "" {
		pem, err := os.ReadFile(t.TLSCA)
		if err != nil {
			return nil, fmt.Errorf("read CA of Temporal: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("no certificate in %s", t.TLSCA)
		}
	}
	return c, nil
}

// ServerTLS are the files of a listener with TLS: its certificate with key, and the CA of those who call, "" where none of them
// is asked for a certificate.
type ServerTLS struct{ Cert, Key, CA string }

// Config is nil when there are no files. The protocols are those of ALPN, such as "h2". The files are read again when they
// have changed, for every connection that comes then: those that are open stay as they are. What cannot be read is logged, and
// what was read before stays. A client may come without a certificate; one that it shows has to be the CA's.
func (f ServerTLS) Config(log *slog.Logger, protocols ...string) (*tls.Config, error) {
	if f.Cert == "" {
		return nil, nil
	}
	r := &reloaded{files: f, protocols: protocols, log: log}
	if err := r.read(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		NextProtos:         protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return r.present(), nil },
	}, nil
}

// reloaded has what was last read of the files.
type reloaded struct {
	files     ServerTLS
	protocols []string
	log       *slog.Logger

	mu   sync.Mutex
	seen [3]time.Time // when the files were changed
	said string       // why they could not be read, when that was tried last
	last *tls.Config
}

// present is what the files say now, or said when they could last be read.
func (r *reloaded) present() *tls.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	if seen, err := r.files.changed(); err != nil || seen != r.seen {
		said := ""
		if err := r.read(); err != nil {
			said = err.Error()
		}
		if said != r.said && said != "" { // once, and not for every connection
			r.log.Error("certificates stay as they were", slog.String("error", said))
		}
		r.said = said
	}
	return r.last
}

func (f ServerTLS) changed() (seen [3]time.Time, err error) {
	for i, name := range []string{f.Cert, f.Key, f.CA} {
		if name == "" {
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return seen, err
		}
		seen[i] = info.ModTime()
	}
	return seen, nil
}

func (r *reloaded) read() error {
	seen, err := r.files.changed()
	if err != nil {
		return fmt.Errorf("read certificates: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(r.files.Cert, r.files.Key)
	if err != nil {
		return fmt.Errorf("read certificate: %w", err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, NextProtos: r.protocols}
	if r.files.CA != "" {
		pem, err := os.ReadFile(r.files.CA)
		if err != nil {
			return fmt.Errorf("read CA: %w", err)
		}
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
		if !c.ClientCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("no certificate in %s", r.files.CA)
		}
	}
	r.seen, r.last = seen, c
	return nil
}
