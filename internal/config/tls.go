package config

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/lasting"
)

// TLS reads the files; nil when none is configured. As those of listeners, they are read again when they have changed, for every
// connection that is made then: when those of before expire, all processes would lose Temporal at the same time.
func (t Temporal) TLS(log *slog.Logger) (*tls.Config, error) {
	if !t.secured() {
		return nil, nil
	}
	r := &reloaded{files: ServerTLS{Cert: t.TLSCert, Key: t.TLSKey, CA: t.TLSCA}, log: log}
	if err := r.read(); err != nil {
		return nil, fmt.Errorf("TLS with Temporal: %w", err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.TLSServer}
	if t.TLSCert != "" {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &r.present().Certificates[0], nil }
	}
	if t.TLSCA != "" {
		name := t.TLSServer
		if name == "" {
			var err error
			if name, _, err = net.SplitHostPort(t.Address); err != nil {
				return nil, fmt.Errorf("TLS with Temporal: %w", err)
			}
		}
		// A configuration has its roots for good, so that they are asked here.
		c.InsecureSkipVerify = true // #nosec G402 -- VerifyConnection verifies
		c.VerifyConnection = func(s tls.ConnectionState) error { return vouched(s.PeerCertificates, name, r.present().ClientCAs) }
	}
	return c, nil
}

// secured says whether there is TLS.
func (t Temporal) secured() bool { return t.TLSCert != "" || t.TLSCA != "" || t.TLSServer != "" }

// vouched says whether authorities vouch for a server of a name, as package tls asks it.
func vouched(chain []*x509.Certificate, name string, authorities *x509.CertPool) error {
	if len(chain) == 0 || name == "" {
		return errors.New("the server does not say who it is, or nobody knows who it is to be")
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: authorities, Intermediates: between, DNSName: name})
	if err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: chain, Err: err}
	}
	return nil
}

// Roots are the certificates of a CA file.
func Roots(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificate in %s", file)
	}
	return roots, nil
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

// Trust says whether the chain of a client's certificate is still one of the CA's, which is read again as Config does it: a connection lasts
// longer than that, and who has come by a CA that was taken away may ask for nothing more. nil where there is no CA.
func (f ServerTLS) Trust(log *slog.Logger) (func(chain []*x509.Certificate) bool, error) {
	if f.CA == "" {
		return nil, nil
	}
	r := &reloaded{files: ServerTLS{CA: f.CA}, log: log}
	if err := r.read(); err != nil {
		return nil, err
	}
	return func(chain []*x509.Certificate) bool {
		now := r.present()
		if slices.ContainsFunc(r.authorities(), chain[len(chain)-1].Equal) {
			return true
		}
		// A CA that was issued anew with the same key vouches for what the one before did.
		between := x509.NewCertPool()
		for _, c := range chain[1:] {
			between.AddCert(c)
		}
		_, err := chain[0].Verify(x509.VerifyOptions{Roots: now.ClientCAs, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		return err == nil
	}, nil
}

// reloaded has what was last read of the files.
type reloaded struct {
	files     ServerTLS
	protocols []string
	log       *slog.Logger

	mu    sync.Mutex
	seen  [3]seen
	fresh bool            // a file was written just before it was read: it may be written again at what its file system calls the same time
	fails lasting.Trouble // they could not be read, when that was tried last
	last  *tls.Config
	roots []*x509.Certificate // of the CA
}

// seen is what tells that a file is another one than before.
type seen struct {
	file    os.FileInfo
	changed time.Time
	size    int64
}

func (s seen) same(before seen) bool {
	return s.changed.Equal(before.changed) && s.size == before.size && (s.file == nil) == (before.file == nil) && (s.file == nil || os.SameFile(s.file, before.file))
}

// whole is how old a file is that is not being written any more.
const whole = 2 * time.Second

// present is what the files say now, or said when they could last be read.
func (r *reloaded) present() *tls.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now, err := r.files.changed(); err != nil || r.fresh || !same(now, r.seen) {
		switch err := r.read(); {
		case err == nil:
			r.fails.Ends()
		case r.fails.Begins(err.Error()): // once, and not for every connection
			r.log.Error("certificates stay as they were", slog.String("error", err.Error()))
		}
	}
	return r.last
}

// authorities are the certificates of the CA, as they were read last.
func (r *reloaded) authorities() []*x509.Certificate {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.roots
}

func same(a, b [3]seen) bool {
	for i := range a {
		if !a[i].same(b[i]) {
			return false
		}
	}
	return true
}

func (f ServerTLS) changed() (found [3]seen, err error) {
	for i, name := range []string{f.Cert, f.Key, f.CA} {
		if name == "" {
			continue
		}
		if found[i], err = look(name); err != nil {
			return found, err
		}
	}
	return found, nil
}

func (r *reloaded) read() error {
	now, err := r.files.changed()
	if err != nil {
		return fmt.Errorf("read certificates: %w", err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: r.protocols}
	if r.files.Cert != "" {
		text, err := os.ReadFile(r.files.Cert)
		if err != nil {
			return fmt.Errorf("read certificate: %w", err)
		}
		if _, err := certificatesIn(text); err != nil {
			return fmt.Errorf("read certificate: %s: %w", r.files.Cert, err)
		}
		key, err := os.ReadFile(r.files.Key)
		if err != nil {
			return fmt.Errorf("read key: %w", err)
		}
		pair, err := tls.X509KeyPair(text, key)
		if err != nil {
			return fmt.Errorf("read certificate: %s and %s: %w", r.files.Cert, r.files.Key, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	var roots []*x509.Certificate
	if r.files.CA != "" {
		text, err := os.ReadFile(r.files.CA)
		if err != nil {
			return fmt.Errorf("read CA: %w", err)
		}
		if roots, err = certificatesIn(text); err != nil {
			return fmt.Errorf("read CA: %s: %w", r.files.CA, err)
		}
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
		for _, root := range roots {
			c.ClientCAs.AddCert(root)
		}
	}
	r.fresh = false
	for _, s := range now {
		r.fresh = r.fresh || s.file != nil && time.Since(s.changed) < whole
	}
	r.seen, r.last, r.roots = now, c, roots
	return nil
}

// certificatesIn are those of a file, all of them. Go's own readers leave out what they cannot read, such as the last one of a file that is
// half written: without it clients know no way to the CA, or some of them are strangers.
func certificatesIn(text []byte) (all []*x509.Certificate, err error) {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		text = rest
		if block.Type != "CERTIFICATE" {
			continue // such as the key, which may be in the same file
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(all)+1, err)
		}
		all = append(all, c)
	}
	if bytes.Contains(text, []byte("-----BEGIN")) {
		return nil, fmt.Errorf("what follows %d certificates is none: it is cut off", len(all))
	}
	if len(all) == 0 {
		return nil, errors.New("there is no certificate in it")
	}
	return all, nil
}
