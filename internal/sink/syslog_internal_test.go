package sink

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/audit"
)

// listener is a collector that tells a test what it was sent.
func listener(t *testing.T) (*net.TCPListener, *syslog) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	s := &syslog{network: "tcp", address: l.Addr().String(), host: "-"}
	t.Cleanup(s.close)
	return l.(*net.TCPListener), s
}

func (s *syslog) put(t *testing.T, lines ...string) {
	t.Helper()
	var all []audit.Line
	for _, l := range lines {
		all = append(all, audit.Line{Text: []byte(l)})
	}
	n, err := s.write(context.Background(), all)
	require.NoError(t, err)
	require.Len(t, lines, n)
}

// TestWhatIsSentAgain: what was written shortly before the collector has ended the connection, or before the connection broke off, and nothing
// that the collector has had time to read.
func TestWhatIsSentAgain(t *testing.T) {
	for name, c := range map[string]struct {
		before time.Duration // the write before the end
		broken bool
		want   []string
	}{
		"the collector ends shortly after":        {before: 0, want: []string{"one", "two", "three"}},
		"the collector ends long after":           {before: time.Minute, want: []string{"three"}},
		"the connection breaks off long after":    {before: time.Minute, broken: true, want: []string{"one", "two", "three"}},
		"the connection breaks off shortly after": {broken: true, want: []string{"one", "two", "three"}},
	} {
		t.Run(name, func(t *testing.T) {
			l, s := listener(t)
			s.put(t, "one")
			s.put(t, "two")
			for i := range s.sent {
				s.sent[i].at = s.sent[i].at.Add(-c.before)
			}
			there, err := l.AcceptTCP()
			require.NoError(t, err)
			if c.broken {
				require.NoError(t, there.SetLinger(0)) // its end is a reset
			} else {
				_, err = io.ReadAtLeast(there, make([]byte, 1<<10), 2*len(s.frame(s.sent[0].Line))) // of what is unread the end is a reset, too
				require.NoError(t, err)
			}
			require.NoError(t, there.Close())
			<-s.connection.ended
			s.put(t, "three")
			s.close()
			there, err = l.AcceptTCP()
			require.NoError(t, err)
			got, err := io.ReadAll(there)
			require.NoError(t, err)
			var texts []string
			for message := range strings.SplitSeq(string(got), "drover - - - ") {
				texts = append(texts, strings.TrimRight(message, " 0123456789<>-"))
			}
			require.Equal(t, c.want, texts[1:])
		})
	}
}

// TestNotAllIsSentAgain: a collector that takes connections and ends each at once has no more than so much sent again.
func TestNotAllIsSentAgain(t *testing.T) {
	l, s := listener(t)
	for batch := range 2 * mostSent / together {
		var lines []string
		for i := range together {
			lines = append(lines, fmt.Sprint(batch, i))
		}
		s.put(t, lines...)
		require.LessOrEqual(t, len(s.sent), mostSent)
		there, err := l.AcceptTCP()
		require.NoError(t, err)
		require.NoError(t, there.SetLinger(0))
		require.NoError(t, there.Close())
		<-s.connection.ended
	}
	require.Len(t, s.sent, mostSent)
}
