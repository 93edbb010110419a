package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/api"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/status"
)

// event is a server-sent event as a client reads it.
type event struct{ id, kind, data string }

// readEvent reads the next event; comments and what says when to connect again are left out.
func readEvent(r *bufio.Reader) (e event, err error) {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return event{}, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.kind = value
		case "data":
			e.data = value
		case "":
			if e.kind != "" {
				return e, nil
			}
		}
	}
}

// served is the world behind a real listener, with the middleware and the deadlines of the product.
func served(t *testing.T, w *world) (url string, stop func()) {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := narrow{tcp}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	context.AfterFunc(ctx, w.watches.Close)
	go func() { ended <- api.Serve(ctx, l, w.router, 10*time.Second) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(t, <-ended)
		}
	}
	t.Cleanup(stop)
	return "http://" + l.Addr().String(), stop
}

// narrow has connections that keep little of what is on its way.
type narrow struct{ net.Listener }

const onItsWay = 64 << 10

func (n narrow) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(onItsWay)
	}
	return c, err
}

// watch begins to watch the group.
func watch(t *testing.T, url, parameters, after string) (*http.Response, *bufio.Reader) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+theGroup+"/status?"+parameters, nil)
	require.NoError(t, err)
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { answer.Body.Close() })
	return answer, bufio.NewReader(answer.Body)
}

func expect(t *testing.T, r *bufio.Reader, kind string) event {
	t.Helper()
	e, err := readEvent(r)
	require.NoError(t, err)
	require.Equal(t, kind, e.kind, e.data)
	return e
}

func TestWatchIsAsked(t *testing.T) {
	w := newWorld(t)
	check(t, w.router, []call{
		{method: "GET", url: theGroup + "/status?watch=yes", status: 400, contains: []string{`Invalid query watch: "yes"`, "true or false"}},
		{method: "GET", url: theGroup + "/status?watch=", status: 400, contains: []string{"Invalid query watch"}},
		{method: "GET", url: theGroup + "/status?watch=false", status: 200, is: `{"name":"dig","output":""}`},
		{method: "GET", url: theGroup + "/status?watch=true&output=much", status: 400, contains: []string{"Invalid query output"}},
		{method: "GET", url: theGroup + "/status?watch=true&app=none", status: 400, contains: []string{"Filter app none not in list"}},
		{method: "GET", url: "/openapi.json", status: 200, contains: []string{`"text/event-stream"`, `"watch"`}},
	})
	w.statuses.Fail(fail.New(fail.NotFound, "deployment intent group not found"))
	check(t, w.router, []call{{method: "GET", url: theGroup + "/status?watch=true", status: 404, contains: []string{"not found"}}})
	w.statuses.Fail(fail.New(fail.Unavailable, "the database does not answer"))
	check(t, w.router, []call{{method: "GET", url: theGroup + "/status?watch=1", status: 503}})
}

func TestWatchStatus(t *testing.T) {
	w := newWorld(t)
	url, _ := served(t, w)
	answer, r := watch(t, url, "watch=true", "")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, "text/event-stream", answer.Header.Get("Content-Type"))
	require.Equal(t, "no-store", answer.Header.Get("Cache-Control"))
	first := expect(t, r, "status")
	require.Contains(t, first.data, `"rsync-status":{"Pending":2}`)
	w.statuses.Mark(0, 0, 0, domain.MarkApplied)
	change := expect(t, r, "change")
	require.Contains(t, change.data, `"rsync-status":{"Applied":1,"Pending":1}`)
	answer.Body.Close()

	w.statuses.Mark(0, 0, 1, domain.MarkApplied)
	_, r = watch(t, url, "watch=true", first.id)
	require.Equal(t, change, expect(t, r, "change"))
	require.Contains(t, expect(t, r, "change").data, `{"Applied":2}`)

	_, camel := watch(t, url, "watch=true&status=deployed&resource=component-1", first.id)
	require.Contains(t, expect(t, camel, "status").data, `"deployedCounts":{"Applied":1}`)

	w.statuses.Fail(fail.New(fail.NotFound, "deployment intent group not found"))
	end := expect(t, r, "end")
	require.Empty(t, end.id)
	require.Contains(t, end.data, `"kind":"NotFound"`)
	_, err := readEvent(r)
	require.ErrorIs(t, err, io.EOF)
}

func TestWatchEndsWithTheProcess(t *testing.T) {
	w := newWorld(t)
	url, stop := served(t, w)
	_, r := watch(t, url, "watch=true", "")
	expect(t, r, "status")
	stop()
	require.Contains(t, expect(t, r, "end").data, "stops")
	_, err := readEvent(r)
	require.ErrorIs(t, err, io.EOF)
	require.NotContains(t, w.log.String(), "level=ERROR")
}

func TestWatchDropsWhoDoesNotRead(t *testing.T) {
	w := newWorld(t)
	url, _ := served(t, w)
	dialer := net.Dialer{}
	connection, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	defer connection.Close()
	_, err = fmt.Fprintf(connection, "GET %s/status?watch=true&status=deployed HTTP/1.1\r\nHost: drover\r\n\r\n", theGroup)
	require.NoError(t, err)
	require.NoError(t, connection.(*net.TCPConn).SetReadBuffer(onItsWay))
	slow := bufio.NewReader(connection)
	expect(t, slow, "status")

	// What is on its way is not the server's to judge: it is much less than this.
	const changes, size = 40, onItsWay
	_, quick := watch(t, url, "watch=true&status=deployed", "")
	expect(t, quick, "status")
	for i := range changes {
		w.statuses.Change(func(s *status.Source) {
			s.Apps[0].Resources = s.Apps[0].Resources[:1:1]
			s.Apps[0].Name = strings.Repeat(string(rune('a'+i%26)), size)
		})
		expect(t, quick, "change")
	}
	seen, last := 0, event{}
	for err == nil {
		var e event
		if e, err = readEvent(slow); err == nil {
			seen, last = seen+1, e
		}
	}
	require.True(t, errors.Is(err, io.EOF), "%v", err)
	require.Equal(t, "dropped", last.kind)
	require.Contains(t, last.data, "too slow")
	require.Less(t, seen, changes)
	_, r := watch(t, url, "watch=true&status=deployed", "")
	expect(t, r, "status")
}
