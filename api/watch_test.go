package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/api"
	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/notify"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/status"
)

// served is the world behind a real listener, with the middleware and the deadlines of the product.
func served(t *testing.T, w *world) (url string, stop func()) {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := narrow{tcp}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	context.AfterFunc(ctx, w.hub.Close)
	go func() { ended <- api.Serve(ctx, l, w.router, slog.New(slog.DiscardHandler), time.Minute) }()
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

// stream is a stream of events as it comes.
type stream struct {
	*http.Response
	events *bufio.Reader
}

// Next waits for the next event.
func (s *stream) Next() (client.Event, error) { return client.ReadEvent(s.events) }

// watch begins to watch the group.
func watch(t *testing.T, url, parameters, after string) *stream {
	t.Helper()
	return open(t, url+theGroup+"/status?"+parameters, after)
}

// open opens a stream of events, after one that is known, "" for none.
func open(t *testing.T, url, after string) *stream {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	r.Header.Set("Last-Event-ID", after)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { answer.Body.Close() })
	require.Equal(t, http.StatusOK, answer.StatusCode)
	return &stream{answer, bufio.NewReader(answer.Body)}
}

func expect(t *testing.T, w interface{ Next() (client.Event, error) }, kind string) client.Event {
	t.Helper()
	e, err := w.Next()
	require.NoError(t, err)
	require.Equal(t, kind, e.Kind, e.Data)
	return e
}

func TestWatchIsAsked(t *testing.T) {
	w := newWorld(t)
	check(t, w.router, []call{
		{method: "GET", url: theGroup + "/status?watch=yes", status: 400, contains: []string{`Invalid query watch: "yes"`, "true or false"}},
		{method: "GET", url: theGroup + "/status?watch=", status: 400, contains: []string{"Invalid query watch"}},
		{method: "GET", url: theGroup + "/status?watch=false", status: 200, is: `{"name":"dig","output":""}`},
		{method: "GET", url: theGroup + "/status?watch=true&output=much", status: 400, contains: []string{"Invalid query output"}},
		{name: "a page of groups", method: "GET", url: "/v2/deployment-intent-groups?watch=true&limit=10", status: 400, contains: []string{"limit: a watch has no pages"}},
		{name: "a page of a project's groups", method: "GET", url: theProject + "/deployment-intent-groups?watch=1&continue=cA", status: 400, contains: []string{"continue: a watch has no pages"}},
		{name: "a page of clusters", method: "GET", url: "/v2/clusters?watch=true&limit=10&continue=cA", status: 400, contains: []string{"limit: a watch has no pages", "continue: a watch has no pages"}},
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
	r := watch(t, url, "watch=true", "")
	require.Equal(t, "text/event-stream", r.Header.Get("Content-Type"))
	require.Equal(t, "no-store", r.Header.Get("Cache-Control"))
	first := expect(t, r, "status")
	require.Contains(t, first.Data, `"rsync-status":{"Pending":2}`)
	w.statuses.Mark(0, 0, 0, domain.MarkApplied)
	change := expect(t, r, "change")
	require.Contains(t, change.Data, `"rsync-status":{"Applied":1,"Pending":1}`)
	r.Body.Close()

	w.statuses.Mark(0, 0, 1, domain.MarkApplied)
	r = watch(t, url, "watch=true", first.ID)
	require.Equal(t, change, expect(t, r, "change"))
	require.Contains(t, expect(t, r, "change").Data, `{"Applied":2}`)

	other := watch(t, url, "watch=true&status=deployed&resource=component-1", first.ID)
	require.Contains(t, expect(t, other, "status").Data, `"deployedCounts":{"Applied":1}`)

	w.statuses.Fail(fail.New(fail.NotFound, "deployment intent group not found"))
	end := expect(t, r, "end")
	require.Empty(t, end.ID)
	require.Contains(t, end.Data, `"kind":"NotFound"`)
	_, err := r.Next()
	require.ErrorIs(t, err, io.EOF)
}

func TestWatchALogicalCloud(t *testing.T) {
	w := newWorld(t)
	w.statuses.Change(func(s *status.Source) { s.Subject, s.Name = status.SubjectCloud, "lc" })
	w.statuses.Report(readiness.NotReady, true)
	url, _ := served(t, w)
	r := open(t, url+theCloud+"/status?watch=true", "")
	require.Contains(t, expect(t, r, "status").Data, `"readyCounts":{"NotReady":`, "it is asked for what is ready when nothing is said")
	w.statuses.Report(readiness.Ready, true)
	require.Contains(t, expect(t, r, "change").Data, `"readyStatus":"Ready"`)
}

func TestWatchEndsWithTheProcess(t *testing.T) {
	w := newWorld(t)
	url, stop := served(t, w)
	r := watch(t, url, "watch=true", "")
	expect(t, r, "status")
	stop()
	require.Contains(t, expect(t, r, "end").Data, "stops")
	_, err := r.Next()
	require.ErrorIs(t, err, io.EOF)
	require.NotContains(t, w.log.String(), "level=ERROR")
}

// TestWatchDropsWhoDoesNotRead has a reader that stops, on a connection of its own.
func TestWatchDropsWhoDoesNotRead(t *testing.T) {
	w := newWorld(t)
	url, _ := served(t, w)
	dialer := net.Dialer{}
	connection, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	defer connection.Close()
	require.NoError(t, connection.(*net.TCPConn).SetReadBuffer(onItsWay))
	_, err = fmt.Fprintf(connection, "GET %s/status?watch=true&status=deployed HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", theGroup)
	require.NoError(t, err)
	slow := bufio.NewReader(connection)
	first, err := client.ReadEvent(slow)
	require.NoError(t, err)
	require.Equal(t, "status", first.Kind)

	// What is on its way is not the server's to judge: it is much less than this.
	const changes, size = 40, onItsWay
	quick := watch(t, url, "watch=true&status=deployed", "")
	expect(t, quick, "status")
	for i := range changes {
		w.statuses.Change(func(s *status.Source) {
			s.Apps[0].Resources = s.Apps[0].Resources[:1:1]
			s.Apps[0].Name = strings.Repeat(string(rune('a'+i%26)), size)
		})
		expect(t, quick, "change")
	}
	seen, last := 0, client.Event{}
	for err == nil {
		var e client.Event
		if e, err = client.ReadEvent(slow); err == nil {
			seen, last = seen+1, e
		}
	}
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, "dropped", last.Kind)
	require.Contains(t, last.Data, "too slow")
	require.Less(t, seen, changes)
	expect(t, watch(t, url, "watch=true&status=deployed", ""), "status")
}

// asks notes what streams are of.
type asks struct {
	door.Streams
	of map[domain.Key]status.Query
}

func (a asks) Subscribe(_ context.Context, owner domain.Key, q status.Query, _ string) (*notify.Subscription, error) {
	a.of[owner] = q
	return nil, fail.New(fail.Unavailable, "not now")
}

// TestListsStandAsLongAsReports: where groups and clusters stand is what clusters report, too, and does not stand for longer than that once
// nobody can confirm it.
func TestListsStandAsLongAsReports(t *testing.T) {
	streams := asks{of: map[domain.Key]status.Query{}}
	w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) { d.Streams = streams })
	furnish(t, w)
	for _, path := range []string{"/v2/clusters", "/v2/deployment-intent-groups", theProject + "/deployment-intent-groups"} {
		clear(streams.of)
		r := httptest.NewRecorder()
		w.router.ServeHTTP(r, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path+"?watch=true", nil))
		require.Len(t, streams.of, 1, "%s: %s", path, r.Body)
		for owner, q := range streams.of {
			require.True(t, notify.Of(nil)(owner, q.Extent()).Reported(), path)
		}
	}
}
