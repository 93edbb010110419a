package api_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/api"
	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/service"
)

// TestSlowHeadersAreCutOff: who sends a header byte by byte holds a connection no longer than one may take, and another one is answered
// meanwhile.
func TestSlowHeadersAreCutOff(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		ended <- api.Serve(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), slog.New(slog.DiscardHandler), time.Second)
	}()
	begun, closed := time.Now(), make(chan struct{}) // the server counts from when it has accepted
	slow, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	require.NoError(t, err)
	defer slow.Close()
	go func() {
		defer close(closed)
		_, _ = io.Copy(io.Discard, slow)
	}()
	dripping := time.NewTicker(100 * time.Millisecond)
	defer dripping.Stop()
	_, err = io.WriteString(slow, "GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ")
	require.NoError(t, err)
	answered := false
	for open := true; open; {
		select {
		case <-closed:
			open = false
		case <-dripping.C:
			_, _ = io.WriteString(slow, "x") // until it is closed
			if !answered {
				answer, err := http.Get("http://" + l.Addr().String())
				require.NoError(t, err)
				require.NoError(t, answer.Body.Close())
				answered = answer.StatusCode == http.StatusNoContent
			}
		}
	}
	require.True(t, answered)
	require.GreaterOrEqual(t, time.Since(begun), policy.Header)
	require.Less(t, time.Since(begun), 6*policy.Header)
	stop()
	require.NoError(t, <-ended)
}

// TestAnswersDoNotWaitForBodies: who is refused is told so at once, and holds a connection no longer for a body that does not come. One that
// has come is no reason to end the connection. What is answered to anybody does not wait for long either.
func TestAnswersDoNotWaitForBodies(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) { d.Prove = byName })
	base, _ := served(t, w)
	t.Run("nobody is asked", func(t *testing.T) {
		for _, path := range []string{"/healthz", "/openapi.json", "/docs/"} {
			begun := time.Now()
			c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
			require.NoError(t, err)
			defer c.Close()
			require.NoError(t, c.SetDeadline(begun.Add(time.Minute)))
			_, err = io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{")
			require.NoError(t, err)
			answer, err := http.ReadResponse(bufio.NewReader(c), nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, answer.StatusCode)
			_, err = io.Copy(io.Discard, answer.Body)
			require.NoError(t, err, path)
			require.True(t, answer.Close)
			require.Less(t, time.Since(begun), policy.Body, path)
		}
	})
	for name, header := range map[string]string{
		"nobody is known": "", "a host of others": "Host: evil.example\r\n", "a page of others": "Origin: https://evil.example\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(header, "Host:") {
				header += "Host: 127.0.0.1\r\n"
			}
			c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
			require.NoError(t, err)
			defer c.Close()
			require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
			answers := bufio.NewReader(c)
			ask := func(body string) *http.Response {
				_, err := io.WriteString(c, "POST /v2/projects HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n"+header+"\r\n"+body)
				require.NoError(t, err)
				answer, err := http.ReadResponse(answers, nil)
				require.NoError(t, err)
				_, err = io.Copy(io.Discard, answer.Body)
				require.NoError(t, err)
				require.Contains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, answer.StatusCode)
				return answer
			}
			require.False(t, ask(strings.Repeat(" ", 1000)).Close)
			begun := time.Now()
			require.True(t, ask("{").Close)
			require.Less(t, time.Since(begun), policy.Body, "nor for as long as one that is read may stand still")
			_, err = answers.ReadByte()
			require.ErrorIs(t, err, io.EOF)
		})
	}
}

// pausing is a document whose writer thinks before it goes on, and before it ends.
type pausing time.Duration

func (p pausing) Write(w io.Writer) error {
	for _, piece := range []string{"one", "two"} {
		if _, err := io.WriteString(w, piece); err != nil {
			return err
		}
		<-time.After(time.Duration(p))
	}
	return nil
}

// TestAnswersMayPause: what bounds each write of an answer does not bound the time between two of them, nor that before the end.
func TestAnswersMayPause(t *testing.T) {
	t.Parallel()
	for version := 1; version <= 2; version++ {
		t.Run(fmt.Sprintf("HTTP/%d", version), func(t *testing.T) {
			// A machine that stands still for so long in the middle of a write ends the answer with reason, and hardly does so when there is more time.
			for wait := 500 * time.Millisecond; ; wait *= 2 {
				body, err := paused(t, version, wait)
				if err != nil && wait < 5*time.Second {
					t.Logf("with %s: %v", wait, err)
					continue
				}
				require.NoError(t, err)
				require.Equal(t, "onetwo", body)
				break
			}
		})
	}
}

// paused is the answer of one that pauses for longer than each write of it may take.
func paused(t *testing.T, version int, wait time.Duration) (body string, err error) {
	t.Helper()
	w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) {
		d.BodyWait = wait
		d.Statuses = door.StatusFunc(func(context.Context, domain.Key, url.Values) (door.Document, error) { return pausing(2 * wait), nil })
	})
	furnish(t, w)
	server := httptest.NewUnstartedServer(w.router)
	server.EnableHTTP2 = version == 2
	server.StartTLS()
	defer server.Close()
	answer, err := server.Client().Get(server.URL + theGroup + "/status")
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	require.Equal(t, version, answer.ProtoMajor)
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

// TestWhoTakesNoEndHoldsNothing: the last piece of an answer by HTTP/2 that nobody takes is given up, however long ago the last write was.
func TestWhoTakesNoEndHoldsNothing(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) {
		d.BodyWait = 300 * time.Millisecond
		d.Statuses = door.StatusFunc(func(context.Context, domain.Key, url.Values) (door.Document, error) { return large(1000), nil })
	})
	furnish(t, w)
	server := httptest.NewUnstartedServer(w.router)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	conn, err := tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{
		RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, NextProtos: []string{"h2"},
	})
	require.NoError(t, err)
	defer conn.Close()
	path := theGroup + "/status"
	_, err = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+
		"\x00\x00\x06\x04\x00\x00\x00\x00\x00"+"\x00\x04\x00\x00\x00\x00"+ // SETTINGS: the window of a stream is 0
		string([]byte{0, 0, byte(15 + len(path)), 1, 5, 0, 0, 0, 1})+ // HEADERS of stream 1, which ends
		"\x82\x87"+"\x01\x09127.0.0.1"+"\x04"+string([]byte{byte(len(path))})+path) // GET, https, the authority, the path
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	const reset = 3 // RST_STREAM
	for kind := byte(0); kind != reset; {
		var head [9]byte // length, type, flags, stream
		_, err := io.ReadFull(conn, head[:])
		require.NoError(t, err, "who takes nothing is written to for ever")
		kind = head[3]
		_, err = io.CopyN(io.Discard, conn, int64(head[0])<<16|int64(head[1])<<8|int64(head[2]))
		require.NoError(t, err)
	}
}

// large is a document of so many bytes, of which net/http keeps up to 4 KiB until the end.
type large int

func (l large) Write(w io.Writer) error {
	_, err := io.WriteString(w, strings.Repeat("x", int(l)))
	return err
}

// TestUploadsEndWithTheirRights: who sends a body slowly, and whose token is revoked meanwhile, is told so when that is found out, not when the
// body has come. That holds for a document, for a file, and for what Temporal's Web UI has opened.
func TestUploadsEndWithTheirRights(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) {
		d.BodyWait = policy.Upload
		d.Histories = http.NotFoundHandler()
		d.Prove = func(ctx context.Context, s *authn.Shown) (*authn.Proof, error) {
			p, err := byName(ctx, s)
			if p != nil && p.Name == "mallory" {
				p.Still = func(context.Context) error { return fail.New(fail.Unauthorized, "the token was revoked") }
			}
			return p, err
		}
	})
	const boundary = "XYZ"
	part := func(name string) string {
		return "--" + boundary + "\r\nContent-Disposition: form-data; name=\"" + name + "\"; filename=\"f\"\r\n\r\n"
	}
	form := "multipart/form-data; boundary=" + boundary
	for version := 1; version <= 2; version++ {
		server := httptest.NewUnstartedServer(w.router)
		server.EnableHTTP2 = version == 2
		server.StartTLS()
		t.Cleanup(server.Close)
		for name, c := range map[string]struct{ path, contentType, begins string }{
			"document":         {"/v2/projects", "application/json", `{"metadata":{"name":"`},
			"part of a form":   {theProvider + "/clusters", form, part("metadata")},
			"file of a form":   {theProvider + "/clusters", form, part("metadata") + "{}\r\n" + part("file")},
			"sealed histories": {"/codec/decode", "application/json", `{"payloads":[`},
		} {
			t.Run(fmt.Sprintf("HTTP/%d %s", version, name), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), policy.Upload/2)
				defer cancel()
				body, to := io.Pipe()
				defer body.Close()
				go func() {
					_, err := io.WriteString(to, c.begins)
					for ; err == nil; _, err = io.WriteString(to, " ") {
						<-time.After(50 * time.Millisecond)
					}
				}()
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+c.path, body)
				require.NoError(t, err)
				r.Header.Set("Content-Type", c.contentType)
				r.Header.Set("Authorization", "Bearer mallory")
				answer, err := server.Client().Do(r)
				require.NoError(t, err)
				defer answer.Body.Close()
				require.Equal(t, version, answer.ProtoMajor)
				said, err := io.ReadAll(answer.Body)
				require.NoError(t, err)
				require.Equal(t, http.StatusUnauthorized, answer.StatusCode, "%s", said)
				require.Contains(t, string(said), "the token was revoked")
			})
		}
	}
}
