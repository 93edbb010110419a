package harness

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Exposition is what a process answers for its metrics below a URL, with the status.
func Exposition(ctx context.Context, t testing.TB, url string) (status int, data []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	data, err = io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, data
}

// Metrics are those that a process shows below a URL, by name with labels as they are written: go_goroutines, x{y="z"}.
func Metrics(ctx context.Context, t testing.TB, url string) map[string]float64 {
	t.Helper()
	_, data := Exposition(ctx, t, url)
	found := map[string]float64{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if n, err := strconv.ParseFloat(line[at+1:], 64); err == nil && at > 0 && line[0] != '#' {
			found[line[:at]] = n
		}
	}
	return found
}
