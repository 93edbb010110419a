package sink

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
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
	connection       *collector
	// sent is what was written shortly before the last write, and by it. The kernel has taken it, and nobody knows whether the collector has: it
	// never answers.
	sent []sent
}

// sent is a line with when it was written.
type sent struct {
	audit.Line
	at time.Time
}

const (
	// priority is that of facility 13 (log audit), severity 6 (informational).
	priority = 13*8 + 6
	// dialTime and sendTime bound a connection and a write.
	dialTime, sendTime = 5 * time.Second, 10 * time.Second
	// unread is for how long after a write nobody knows whether the collector has read it, when it ends the connection then.
	unread = 10 * time.Second
	// mostSent bounds the lines that are sent again.
	mostSent = 5 * together
)

// alive has a collector that is gone without a word noticed within half a minute.
var alive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// collector is a connection to one.
type collector struct {
	net.Conn
	ended chan struct{} // closed when the connection has come to its end
	err   error         // why, and when; both are there when ended is closed
	at    time.Time
}

// watch reads until the connection ends. A write says nothing of that: the kernel takes what comes after the end, too.
func (c *collector) watch() {
	defer close(c.ended)
	_, c.err = io.Copy(io.Discard, c.Conn) // nil at the end that the collector has made
	c.at = time.Now()
}

// over says whether the connection has ended.
func (c *collector) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

func (s *syslog) close() {
	if s.connection != nil {
		_ = s.connection.Close() // what was sent was sent
		<-s.connection.ended
		s.connection = nil
	}
}

// leave closes a connection that has ended. What was sent on it is sent again on the next one, but what the collector has had time to read before
// it has ended the connection itself.
func (s *syslog) leave() {
	if c := s.connection; c.over() && c.err == nil {
		s.forget(c.at)
	}
	s.close()
}

// forget forgets what has been read by then.
func (s *syslog) forget(then time.Time) {
	s.sent = slices.DeleteFunc(s.sent, func(l sent) bool { return then.Sub(l.at) > unread })
}

// write implements target. Of lines whose sending has failed it is not known how much has come: they are sent again. So are those of which that
// shows later.
func (s *syslog) write(ctx context.Context, lines []audit.Line) (taken int, err error) {
	if s.connection != nil && s.connection.over() {
		s.leave()
	}
	var text []byte
	if s.connection == nil {
		if err := s.connect(ctx); err != nil {
			return 0, err
		}
		for _, l := range s.sent {
			text = append(text, s.frame(l.Line)...)
		}
	}
	for _, l := range lines {
		text = append(text, s.frame(l)...)
	}
	now := time.Now()
	err = s.connection.SetWriteDeadline(now.Add(sendTime))
	if err == nil {
		_, err = s.connection.Write(text)
	}
	if err != nil {
		s.close()
		return 0, err
	}
	s.forget(now)
	for _, l := range lines {
		s.sent = append(s.sent, sent{l, now})
	}
	s.sent = slices.Delete(s.sent, 0, max(len(s.sent)-mostSent, 0))
	return len(lines), nil
}

func (s *syslog) connect(ctx context.Context) (err error) {
	var connection net.Conn
	dialer := net.Dialer{Timeout: dialTime, KeepAliveConfig: alive}
	if s.secured {
		secured := tls.Dialer{NetDialer: &dialer, Config: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.roots}}
		connection, err = secured.DialContext(ctx, s.network, s.address)
	} else {
		connection, err = dialer.DialContext(ctx, s.network, s.address)
	}
	if err != nil {
		return err
	}
	s.connection = &collector{Conn: connection, ended: make(chan struct{})}
	go s.connection.watch()
	return nil
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
