package activities

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// TestAnOutageIsSaidTwice: when it begins and when it is over, however often it is noticed.
func TestAnOutageIsSaidTwice(t *testing.T) {
	var said bytes.Buffer
	to := log.NewStructuredLogger(slog.New(slog.NewTextHandler(&said, nil)))
	o, c, other := outages{}, domain.ClusterName{Provider: "p", Name: "c"}, domain.ClusterName{Provider: "p", Name: "d"}
	o.back(to, "work", c)
	require.Empty(t, said.String(), "it was not away")
	for range 2 {
		for range 5 {
			o.gone(to, "work", c, fail.New(fail.Unavailable, "connection refused"))
		}
		o.gone(to, "work", other, fail.New(fail.Unavailable, "no route"))
		o.back(to, "work", c)
		o.back(to, "work", c)
	}
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	require.Len(t, lines, 5, said.String())
	require.Contains(t, lines[0], `level=WARN msg="cluster is away" cluster=p+c for=work reason="connection refused"`)
	require.Contains(t, lines[1], `cluster=p+d`)
	require.Contains(t, lines[2], `level=INFO msg="cluster is back" cluster=p+c for=work after=0s`)
	require.Contains(t, lines[3], `cluster=p+c`)
	require.Contains(t, lines[4], `is back`)
}
