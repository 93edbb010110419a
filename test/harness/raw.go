package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
)

// Raw is an answer as it came.
type Raw struct {
	Code   int
	Header http.Header
	Body   []byte
}

// raw keeps as many connections as the product's own client does: what is measured through it is not their making.
var raw = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 30 * time.Second}}

// At is the URL of what has a key.
func (s *Stack) At(key domain.Key) string { return s.URL() + "/v2" + client.At(key) }

// Send sends what the product's own client does not: a header, a body that is wrong. body is JSON, "" for none. For what is
// asked in EMCO's forms see Read.
func (s *Stack) Send(ctx context.Context, method, url string, header map[string]string, body string) *Raw {
	s.t.Helper()
	answer, err := send(ctx, method, url, header, body)
	require.NoError(s.t, err)
	return answer
}

// Read reads JSON in EMCO's forms, which the product's own client does not ask for; path is below /v2.
func (s *Stack) Read(ctx context.Context, path string, v any) (*Raw, error) {
	answer, err := send(ctx, http.MethodGet, s.URL()+"/v2"+path, nil, "")
	switch {
	case err != nil:
		return nil, err
	case answer.Code != http.StatusOK:
		return nil, fmt.Errorf("GET %s: %d %s", path, answer.Code, answer.Body)
	case v == nil:
		return answer, nil
	}
	if err := json.Unmarshal(answer.Body, v); err != nil {
		return nil, fmt.Errorf("decode answer of GET %s: %w", path, err)
	}
	return answer, nil
}

func send(ctx context.Context, method, url string, header map[string]string, body string) (*Raw, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for k, v := range header {
		r.Header.Set(k, v)
	}
	answer, err := raw.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	return &Raw{answer.StatusCode, answer.Header, data}, nil
}
