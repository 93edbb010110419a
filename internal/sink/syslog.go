package sink

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"time"

	"github.com/drover-io/drover/internal/audit"
)

// NewSyslog sends lines as the messages of RFC 5424 to tcp://host:port, tls://host:port or unix:///path, each with its length
// before it (RFC 6587). The certificate of tls:// is looked at by roots, by the system's when nil. The error is that of the address; nobody
// needs to be there yet.
func NewSyslog(address string, roots *x509.CertPool, log *slog.Logger) (*Sink, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("the address of the syslog collector: %w", err)
	}
	s := &syslog{network: "tcp", address: u.Host, secured: u.Scheme == "tls", roots: roots}
	if u.Scheme == "unix" {
		s.network, s.address = "unix", u.Path
	}
	if s.host, err = os.Hostname(); err != nil {
		s.host = "-"
	}
	return start("syslog", s, log), nil
}

type syslog struct {
	network, address string
	secured          bool
	roots            *x509.CertPool
	host             string
	connection       net.Conn
}

const (
	// priority is that of facility 13 (log audit), severity 6 (informational).
	priority = 13*8 + 6
	// dialTime and sendTime bound a connection and a write.
	dialTime, sendTime = 5 * time.Second, 10 * time.Second
)

func (s *syslog) close() {
	if s.connection != nil {
		_ = s.connection.Close() // what was sent was sent
		s.connection = nil
	}
}

// write implements target. Of lines whose sending has failed it is not known how much has come: they are sent again.
func (s *syslog) write(ctx context.Context, lines []audit.Line) (taken int, err error) {
	if s.connection == nil {
		if err := s.connect(ctx); err != nil {
			return 0, err
		}
	}
	var text []byte
	for _, l := range lines {
		text = append(text, s.frame(l)...)
	}
	if err := s.connection.SetWriteDeadline(time.Now().Add(sendTime)); err != nil {
		s.close()
		return 0, err
	}
	if _, err := s.connection.Write(text); err != nil {
		s.close()
		return 0, err
	}
	return len(lines), nil
}

func (s *syslog) connect(ctx context.Context) (err error) {
	dialer := net.Dialer{Timeout: dialTime}
	if !s.secured {
		s.connection, err = dialer.DialContext(ctx, s.network, s.address)
		return err
	}
	secured := tls.Dialer{NetDialer: &dialer, Config: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.roots}}
	connection, err := secured.DialContext(ctx, s.network, s.address)
	if err == nil {
		s.connection = connection
	}
	return err
}

// frame is a line as a message, with its length.
func (s *syslog) frame(l audit.Line) string {
	at, event := "-", "-"
	if r, _, err := audit.Parse(l.Text); err == nil {
		at, event = r.Time.Format("2006-01-02T15:04:05.000Z07:00"), string(r.Event)
	}
	message := fmt.Sprintf("<%d>1 %s %s drover - %s - %s", priority, at, s.host, event, l.Text)
	return fmt.Sprintf("%d %s", len(message), message)
}
