package api_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/service"
)

// TestBodiesHaveSoMuchMemory: those of all requests together are bounded, also where each of them comes slowly. What finds no room is told to
// come again, and does as soon as others have ended.
func TestBodiesHaveSoMuchMemory(t *testing.T) {
	const most = 64 << 10 // of a body; there is memory for four of them
	w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) { d.MaxBody = most })
	server := httptest.NewServer(w.router)
	defer server.Close()
	post := func(body io.Reader) *http.Response {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		t.Cleanup(cancel)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v2/projects", body)
		if err != nil {
			t.Error(err)
			return nil
		}
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Error(err)
			return nil
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		return answer
	}
	var writes []*io.PipeWriter
	answers := make(chan *http.Response)
	for range 5 {
		body, write := io.Pipe()
		writes = append(writes, write)
		go func() { answers <- post(body) }()
		go func() {
			_, _ = io.WriteString(write, `{"metadata":{"name":"p","description":"`+strings.Repeat(" ", most-1000))
		}()
	}
	first := <-answers // the others do not end
	require.NotNil(t, first)
	require.Equal(t, http.StatusServiceUnavailable, first.StatusCode)
	require.Equal(t, "2", first.Header.Get("Retry-After"))
	for _, write := range writes {
		_, _ = io.WriteString(write, `"}}`)
		_ = write.Close()
	}
	read := 0
	for range writes[1:] {
		if answer := <-answers; answer != nil && answer.StatusCode == http.StatusBadRequest { // its description is too long
			read++
		}
	}
	require.Positive(t, read, "whose body came while there was room")
	again := post(strings.NewReader(`{"metadata":{"name":"p","description":"` + strings.Repeat(" ", most-1000) + `"}}`))
	require.Equal(t, http.StatusBadRequest, again.StatusCode)
}
