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
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/api"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/service"
)

// busy is an engine that takes as long as it is told to, but for what ends something.
type busy struct {
	service.Operations
	arrived chan string
	finish  chan struct{}
}

func newBusy() *busy { return &busy{arrived: make(chan string, 16), finish: make(chan struct{})} }

func (b *busy) hang(ctx context.Context, operation string) error {
	caller.RequestOf(ctx).Begin("p/ca/v1/dig/1/" + operation)
	b.arrived <- operation
	select {
	case <-b.finish:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// awaitArrival is the next operation that has got to the engine.
func (b *busy) awaitArrival(t *testing.T) string {
	t.Helper()
	select {
	case operation := <-b.arrived:
		return operation
	case <-time.After(30 * time.Second):
		t.Fatal("no operation gets to the engine")
		return ""
	}
}

func (b *busy) Approve(ctx context.Context, _ domain.Key) ([]string, error) {
	return nil, b.hang(ctx, "approve")
}

func (b *busy) Instantiate(ctx context.Context, _ domain.Key) ([]string, error) {
	return nil, b.hang(ctx, "instantiate")
}

func (b *busy) Rollback(ctx context.Context, _ domain.Key, _ int) ([]string, error) {
	return nil, b.hang(ctx, "rollback")
}

// newBusyWorld has a slot for each kind of request.
func newBusyWorld(t *testing.T) (*world, *busy) {
	t.Helper()
	return newBusyWorldWith(t, 300*time.Millisecond)
}

// newBusyWorldWith is newBusyWorld where a body may stand still for a while.
func newBusyWorldWith(t *testing.T, bodyWait time.Duration) (*world, *busy) {
	t.Helper()
	b := newBusy()
	w := newWorldWith(t, func(w *world, d *deps, _ *service.Instances) {
		b.Operations, d.lifecycle, d.operations, d.BodyWait = w.operations, b, 1, bodyWait
	})
	furnish(t, w)
	return w, b
}

// TestWhatFindsNoSlotIsRefused: with all slots taken, another operation is not begun, and is told when to come back.
func TestWhatFindsNoSlotIsRefused(t *testing.T) {
	w, b := newBusyWorld(t)
	first := make(chan http.Header)
	go func() {
		first <- do(t, w.router, call{method: "POST", url: theGroup + "/instantiate", header: map[string]string{"X-Request-Id": "r1"}}).Header()
	}()
	b.awaitArrival(t)
	check(t, w.router, []call{
		{name: "another one", method: "POST", url: theGroup + "/update", status: 503, contains: []string{"nothing was done"}, answers: map[string]string{"Retry-After": "2", "Drover-Operation": ""}},
		{name: "what is no operation", method: "GET", url: theGroup, status: 200},
	})
	require.Empty(t, w.operations.asked)
	close(b.finish)
	answered := <-first
	require.Equal(t, "p/ca/v1/dig/1/instantiate", answered.Get("Drover-Operation"))
	require.Regexp(t, `msg=request requestId=`+answered.Get("X-Request-Id")+` operation=p/ca/v1/dig/1/instantiate clientRequestId=r1 `, w.log.String())
	check(t, w.router, []call{{name: "the slot is free again", method: "POST", url: theGroup + "/update", status: 202}})
}

// TestWhatEndsSomethingWaitsForNobody: approve and instantiate may hang, in all slots that they have; what ends an
// operation, or takes it back, is taken at once.
func TestWhatEndsSomethingWaitsForNobody(t *testing.T) {
	w, b := newBusyWorld(t)
	ended := make(chan int, 2)
	for _, operation := range []string{"approve", "instantiate"} {
		go func() { ended <- do(t, w.router, call{method: "POST", url: theGroup + "/" + operation}).Code }()
		require.Equal(t, operation, b.awaitArrival(t), "neither waits for the other")
	}
	check(t, w.router, []call{
		{name: "approve", method: "POST", url: theGroup + "/approve", status: 503, answers: map[string]string{"Retry-After": "2"}},
		{name: "terminate", method: "POST", url: theGroup + "/terminate", status: 202},
		{name: "stop", method: "POST", url: theGroup + "/stop", status: 202},
		{name: "terminate of networks", method: "POST", url: theCluster + "/terminate", status: 204},
		{name: "stop of networks", method: "POST", url: theCluster + "/stop", status: 204},
	})
	require.Equal(t, []string{"terminate dig", "stop dig", "terminate c1", "stop c1"}, w.operations.asked)
	close(b.finish)
	require.Equal(t, http.StatusAccepted, <-ended)
	require.Equal(t, http.StatusAccepted, <-ended)
}

// TestWhoDribblesHoldsNoSlot: a body that comes slowly, or not at all, is waited for without a slot and not for long.
func TestWhoDribblesHoldsNoSlot(t *testing.T) {
	w, b := newBusyWorld(t)
	close(b.finish)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- api.Serve(ctx, listener, w.router, slog.New(slog.DiscardHandler), time.Minute) }()
	defer func() {
		cancel()
		require.NoError(t, <-served)
	}()
	dribble := func(method, path, header, comes string) *bufio.Reader {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
		// The server says Continue when somebody begins to read the body.
		_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 200\r\nExpect: 100-continue\r\n%s\r\n%s", method, path, listener.Addr(), header, comes)
		require.NoError(t, err)
		answer := bufio.NewReader(conn)
		line, err := answer.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1 100 Continue\r\n", line)
		_, err = answer.ReadString('\n')
		require.NoError(t, err)
		return answer
	}
	form := "Content-Type: multipart/form-data; boundary=b\r\n"
	part := func(name string) string {
		return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"; filename=\"f\"\r\n\r\nx"
	}
	slow := map[string]*bufio.Reader{
		"rollback":                  dribble("POST", theGroup+"/rollback", "", "{"),
		"migrate":                   dribble("POST", theGroup+"/migrate", "Content-Type: application/json\r\n", "{"),
		"create":                    dribble("POST", "/v2/projects", "", "{"),
		"replace":                   dribble("PUT", theProject, "", "{"),
		"upload":                    dribble("POST", theComposite+"/apps", form, "{"),
		"upload within its file":    dribble("POST", theComposite+"/apps", form, part("file")),
		"upload within metadata":    dribble("POST", theComposite+"/apps", form, part("metadata")),
		"upload within what is not": dribble("POST", theComposite+"/apps", form, part("other")),
	}
	check(t, w.router, []call{{name: "the one slot is free", method: "POST", url: theGroup + "/update", status: 202}})
	for name, answer := range slow {
		t.Run(name, func(t *testing.T) {
			got, err := http.ReadResponse(answer, nil)
			require.NoError(t, err)
			defer func() { require.NoError(t, got.Body.Close()) }()
			text, err := io.ReadAll(got.Body)
			require.NoError(t, err)
			require.Equal(t, http.StatusRequestTimeout, got.StatusCode, "%s", text)
			require.Contains(t, string(text), "body")
		})
	}
	check(t, w.router, []call{
		{name: "nothing of it was done", method: "GET", url: "/v2/projects", status: 200, contains: []string{`"proj"`}},
		{name: "there is a slot for uploads again", method: "POST", url: theComposite + "/apps", body: `{"metadata":{"name":"new"}}`, file: chartOf(t, "new"), status: 201},
	})
	require.Equal(t, []string{"update dig"}, w.operations.asked)
}

// TestWhatComesSteadilyIsRead: that a body takes longer than it may stand still is no reason to refuse it, and what follows
// the body has its own time.
func TestWhatComesSteadilyIsRead(t *testing.T) {
	const wait = time.Second
	w, b := newBusyWorldWith(t, wait)
	server := httptest.NewServer(w.router)
	defer server.Close()
	body, write := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/v2/projects", body)
	require.NoError(t, err)
	go func() {
		// So much comes at once that what follows may stand still for long, as on a busy machine, and still be in time.
		_, _ = io.WriteString(write, `{"metadata":{"name":"slow","description":"`+strings.Repeat(" ", 64<<10))
		begun := time.Now()
		for tick := time.NewTicker(20 * time.Millisecond); time.Since(begun) < wait+wait/4; <-tick.C {
			_, _ = io.WriteString(write, strings.Repeat(" ", 8<<10))
		}
		_, _ = io.WriteString(write, `"}}`)
		_ = write.Close()
	}()
	answer, err := server.Client().Do(r)
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusBadRequest, answer.StatusCode, "%s", text)
	require.Contains(t, string(text), "metadata.description: String length", "all of it was read")

	go func() {
		<-b.arrived
		// Longer than a body may stand still: the request must not be cut off.
		time.AfterFunc(wait+wait/4, func() { close(b.finish) })
	}()
	r, err = http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+theGroup+"/rollback", strings.NewReader(`{"spec":{"revision":"1"}}`))
	require.NoError(t, err)
	answer, err = server.Client().Do(r)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusAccepted, answer.StatusCode)
}

// endless is a status that goes on for as long as somebody takes it.
type endless struct{ ended chan error }

func (d endless) Write(w io.Writer) error {
	piece := []byte(strings.Repeat("x", 64<<10))
	for {
		if _, err := w.Write(piece); err != nil {
			d.ended <- err
			return err
		}
	}
}

// TestWhoTakesNothingHoldsNoSlot: an answer that nobody takes is given up, and its slot with it.
func TestWhoTakesNothingHoldsNoSlot(t *testing.T) {
	ended := make(chan error, 1)
	w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) {
		d.BodyWait = 300 * time.Millisecond
		d.Statuses = door.StatusFunc(func(context.Context, domain.Key, url.Values) (door.Document, error) { return endless{ended}, nil })
	})
	furnish(t, w)
	server := httptest.NewServer(w.router)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer func() {
		require.NoError(t, conn.Close())
		server.Close()
		require.Contains(t, w.log.String(), "status=200")
		require.NotContains(t, w.log.String(), "request failed", "it is the client's matter")
	}()
	_, err = fmt.Fprintf(conn, "GET %s/status HTTP/1.1\r\nHost: localhost\r\n\r\n", theGroup)
	require.NoError(t, err)
	select {
	case err := <-ended:
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	case <-time.After(30 * time.Second):
		t.Fatal("who takes nothing is written to for ever")
	}
}

// TestLinesOfTheLogAreBounded: anybody may ask for a path of any length, by a method of any length.
func TestLinesOfTheLogAreBounded(t *testing.T) {
	w := newWorld(t)
	do(t, w.router, call{method: strings.Repeat("M", 40_000), url: "/v2/" + strings.Repeat("x", 60_000)})
	require.Contains(t, w.log.String(), "msg=request")
	require.Less(t, len(w.log.String()), 4<<10)
}
