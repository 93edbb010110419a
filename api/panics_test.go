package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/service"
)

// TestAPanicEndsItsRequestAlone, behind a real listener: it is answered as what it is, is in the log with its stack, and gives back all
// that it had, so that any number of them refuses nobody anything.
func TestAPanicEndsItsRequestAlone(t *testing.T) {
	const slots = 2
	w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) { d.operations = slots })
	panics.LogTo(slog.New(slog.NewTextHandler(w.log, nil)))
	t.Cleanup(func() { panics.LogTo(slog.Default()) })
	base, _ := served(t, w)
	ask := func(method, path string) (*http.Response, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, base+path, nil)
		require.NoError(t, err)
		r.Header.Set("Accept", "application/json")
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err, "%s %s", method, path)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer, string(body)
	}

	w.operations.panics = true
	for range 2 * slots {
		answer, body := ask(http.MethodPost, theGroup+"/stop")
		require.Equal(t, http.StatusInternalServerError, answer.StatusCode, "%s", body)
		var p fail.Problem
		require.NoError(t, json.Unmarshal([]byte(body), &p))
		require.Equal(t, fail.Internal, p.Kind)
		require.NotContains(t, body, "defect")
		require.NotEmpty(t, p.RequestID)
		require.Equal(t, p.RequestID, answer.Header.Get("X-Request-Id"))
		logged := ""
		for line := range strings.Lines(w.log.String()) {
			if strings.Contains(line, "msg=panic requestId="+p.RequestID) {
				logged = line
			}
		}
		require.Contains(t, logged, "defect")
		require.Contains(t, logged, "scenario_test.go", "with its stack")
	}
	require.Equal(t, 2*slots, strings.Count(w.log.String(), "msg=command")-strings.Count(w.log.String(), "outcome=done"), "the steps of the door have seen them fail")
	w.operations.panics = false
	answer, body := ask(http.MethodPost, theGroup+"/stop")
	require.Equal(t, http.StatusAccepted, answer.StatusCode, "%s", body)

	w.ready["broken"] = func(context.Context) error { panic("another defect") }
	answer, body = ask(http.MethodGet, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Contains(t, body, "not ready: broken")
	require.NotContains(t, body, "defect")
	require.Contains(t, w.log.String(), "another defect")
	delete(w.ready, "broken")
	require.Eventually(t, func() bool {
		answer, _ = ask(http.MethodGet, "/readyz")
		return answer.StatusCode == http.StatusOK
	}, time.Minute, policy.ReadyKept/10)
}

// begun is a document of which a part is written when it fails.
type begun struct{ fails func() error }

func (b begun) Write(w io.Writer) error {
	if _, err := io.WriteString(w, strings.Repeat(" ", 64<<10)+"{"); err != nil {
		return err
	}
	return b.fails()
}

// TestWhatIsCutOffIsSeen: a client that was sent a part of an answer learns that it is not all, however the rest failed.
func TestWhatIsCutOffIsSeen(t *testing.T) {
	for name, fails := range map[string]func() error{
		"an error": func() error { return errors.New("the store has gone") },
		"a panic":  func() error { panic("defect") },
		"none":     func() error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) {
				d.Statuses = door.StatusFunc(func(context.Context, domain.Key, url.Values) (door.Document, error) { return begun{fails}, nil })
			})
			base, _ := served(t, w)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+theGroup+"/status", nil)
			require.NoError(t, err)
			answer, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			defer answer.Body.Close()
			require.Equal(t, http.StatusOK, answer.StatusCode)
			_, err = io.ReadAll(answer.Body)
			if name == "none" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.Contains(t, w.log.String(), "msg=request ", "it is in the log of requests, too")
		})
	}
}
