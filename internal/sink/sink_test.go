package sink_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/sink"
)

var quiet = slog.New(slog.DiscardHandler)

// lines are records of one writer.
type lines struct {
	t     *testing.T
	chain *audit.Chain
}

func newLines(t *testing.T) *lines { return &lines{t, audit.NewChain("api")} }

func (l *lines) next(n int) (some []audit.Line) {
	for range n {
		r := audit.Record{Event: audit.Answered, Verb: "put"}
		if l.chain.Head().Number == 0 {
			r = audit.Record{Event: audit.Sealed, Checkpoint: &audit.Checkpoint{}}
		}
		line, _, err := l.chain.Add(r, time.Now(), audit.NewKey(make([]byte, 32)))
		require.NoError(l.t, err)
		some = append(some, line)
	}
	return some
}

// eventually waits until a file has so many lines.
func eventually(t *testing.T, path string, n int) string {
	t.Helper()
	var data []byte
	require.Eventually(t, func() bool {
		data, _ = os.ReadFile(path)
		return bytes.Count(data, []byte("\n")) >= n
	}, time.Minute, time.Millisecond)
	return string(data)
}

// TestFile: lines come in their order; a file that was moved away is made anew, and what comes then is in it.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	s, err := sink.NewFile(path, quiet)
	require.NoError(t, err)
	from := newLines(t)
	s.Put(from.next(300))
	first := eventually(t, path, 300)
	require.NoError(t, os.Rename(path, path+".1"))
	s.Put(from.next(3))
	s.Close()
	second, err := os.ReadFile(path)
	require.NoError(t, err)
	report, err := audit.Verify(strings.NewReader(first+string(second)), audit.Options{})
	require.NoError(t, err)
	require.Empty(t, report.Problems)
	require.Equal(t, 303, report.Records)
	require.Zero(t, s.Lost())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	s.Put(from.next(1))
	require.Equal(t, int64(1), s.Lost(), "it is closed")

	_, err = sink.NewFile(filepath.Join(t.TempDir(), "none", "audit.log"), quiet)
	require.Error(t, err)
}

// TestFileThatIsAPipe: one that nobody reads is refused, and holds up no start; one that somebody reads, as /dev/stderr of a container, takes lines.
func TestFileThatIsAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	_, err := sink.NewFile(path, quiet)
	require.ErrorContains(t, err, "nobody reads from it")
	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer reader.Close()
	s, err := sink.NewFile(path, quiet)
	require.NoError(t, err)
	defer s.Close()
	s.Put(newLines(t).next(1))
	line, err := bufio.NewReader(reader).ReadString('\n')
	require.NoError(t, err)
	require.NotEmpty(t, line)
	null, err := sink.NewFile(os.DevNull, quiet)
	require.NoError(t, err)
	null.Close()
}

// messages are the next ones of a connection, without what is before the record.
func messages(t *testing.T, c io.Reader, n int) (texts []string) {
	t.Helper()
	in := bufio.NewReader(c) // c itself where it is one
	for range n {
		var size int
		_, err := fmt.Fscanf(in, "%d ", &size)
		require.NoError(t, err)
		message := make([]byte, size)
		_, err = io.ReadFull(in, message)
		require.NoError(t, err)
		head, text, ok := strings.Cut(string(message), "- answered - ")
		require.True(t, ok)
		require.True(t, strings.HasPrefix(head, "<110>1 20"), head)
		texts = append(texts, text)
	}
	return texts
}

// TestSyslog: messages have their length before them; after a cut they come on another connection, with those before it.
func TestSyslog(t *testing.T) {
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	defer l.Close()
	require.NoError(t, l.(*net.UnixListener).SetDeadline(time.Now().Add(time.Minute)))
	s, err := sink.NewSyslog("unix://"+l.Addr().String(), nil, quiet)
	require.NoError(t, err)
	from := newLines(t)
	from.next(1) // the checkpoint
	sent := from.next(2)
	s.Put(sent)
	c, err := l.Accept()
	require.NoError(t, err)
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	require.Equal(t, []string{string(sent[0].Text), string(sent[1].Text)}, messages(t, c, 2))
	require.NoError(t, c.Close())
	more := from.next(1)
	s.Put(more)
	c, err = l.Accept() // a write to what is closed on the other side fails at once
	require.NoError(t, err)
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	require.Equal(t, []string{string(sent[0].Text), string(sent[1].Text), string(more[0].Text)}, messages(t, c, 3), "nobody knows that it has read them")
	s.Close()
	require.Zero(t, s.Lost())
	require.NoError(t, c.Close())
}

// TestNobodyWaits: what a collector does not take is lost when the queue is full, and Put returns all the same.
func TestNobodyWaits(t *testing.T) {
	s, err := sink.NewSyslog("unix://"+filepath.Join(t.TempDir(), "nobody"), nil, quiet)
	require.NoError(t, err)
	defer s.Close()
	s.Put(newLines(t).next(10_500))
	require.Positive(t, s.Lost())
	require.Less(t, s.Lost(), int64(10_000))
}

// TestSyslogOverTCP, and over TLS to a collector whose certificate is of a CA that was given; to another one nothing is sent.
func TestSyslogOverTCP(t *testing.T) {
	server := httptest.NewUnstartedServer(nil) // for its certificate, which is for 127.0.0.1
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	secured := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: server.TLS.Certificates}
	for scheme, wrap := range map[string]func(net.Conn) net.Conn{
		"tcp": func(c net.Conn) net.Conn { return c },
		"tls": func(c net.Conn) net.Conn { return tls.Server(c, secured) },
	} {
		t.Run(scheme, func(t *testing.T) {
			var config net.ListenConfig
			l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer l.Close()
			require.NoError(t, l.(*net.TCPListener).SetDeadline(time.Now().Add(time.Minute)))
			s, err := sink.NewSyslog(scheme+"://"+l.Addr().String(), roots, quiet)
			require.NoError(t, err)
			from := newLines(t)
			from.next(1) // the checkpoint
			sent := from.next(2)
			s.Put(sent)
			c, err := l.Accept()
			require.NoError(t, err)
			c = wrap(c)
			defer c.Close()
			require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
			require.Equal(t, []string{string(sent[0].Text), string(sent[1].Text)}, messages(t, c, 2))

			// The collector starts anew. Its kernel takes what comes meanwhile, and it is sent again.
			require.NoError(t, c.Close())
			accepted := make(chan net.Conn)
			go func() {
				defer close(accepted)
				if c, err := l.Accept(); err == nil {
					accepted <- c
				}
			}()
			var more []audit.Line
			for c = nil; c == nil; {
				line := from.next(1)
				s.Put(line)
				more = append(more, line...)
				select {
				case c = <-accepted:
					require.NotNil(t, c)
				case <-time.After(time.Millisecond): // the end of the connection may come to it before this line, or after
				}
			}
			c = wrap(c)
			defer c.Close()
			require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
			in, got := bufio.NewReader(c), map[string]bool{}
			for last := more[len(more)-1]; !got[string(last.Text)]; {
				got[messages(t, in, 1)[0]] = true
			}
			for _, line := range more {
				require.True(t, got[string(line.Text)], "%s has not come", line.ID)
			}
			s.Close()
			require.Zero(t, s.Lost())
		})
	}
	t.Run("a stranger", func(t *testing.T) {
		var config net.ListenConfig
		l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		s, err := sink.NewSyslog("tls://"+l.Addr().String(), x509.NewCertPool(), quiet)
		require.NoError(t, err)
		from := newLines(t)
		s.Put(from.next(1))
		c, err := l.Accept()
		require.NoError(t, err)
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
		require.Error(t, tls.Server(c, secured).HandshakeContext(t.Context()), "it does not know the CA")
		require.NoError(t, c.Close())
		require.NoError(t, l.Close())
		s.Close()
		require.EqualValues(t, 1, s.Lost())
	})
}
