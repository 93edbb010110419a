package test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
)

// TestChartsThatKill: a chart that ends the process that renders it, or one that would overflow a parser, is refused with
// its name, at upload, by approve and by instantiate, and neither API nor worker feels it.
func TestChartsThatKill(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.SharedStack(t), twoClusters(t)[:1]
	good := harness.Chart(t, "web", harness.ConfigMaps("web", 1))
	endless := harness.Chart(t, "web", map[string]string{"endless.yaml": `{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ $d }}`})
	nested := harness.Chart(t, "web", map[string]string{"nested.yaml": strings.Repeat("{{if 1}}", 6000) + strings.Repeat("{{end}}", 6000)})
	d := s.Deployment(ctx, clusters, client.App{Name: "web", Chart: good})
	put := func(chart []byte) error {
		_, err := d.API.Put(ctx, d.AppOf("web"), chart)
		return err
	}
	refused := func(err error, text string) {
		t.Helper()
		var e *client.Error
		require.True(t, errors.As(err, &e), "%v", err)
		require.Equal(t, 400, e.Code)
		require.Contains(t, e.Error(), text)
	}

	refused(put(nested), "web/templates/nested.yaml:1: blocks or parentheses are nested more than 200 levels deep")
	require.NoError(t, put(endless), "it can be parsed")
	const stack = "app web: web/templates/endless.yaml: rendering it takes more than 64 MiB of stack"
	refused(d.Do(ctx, "approve"), stack)
	require.NoError(t, put(good))
	do(ctx, t, d, "approve")
	require.NoError(t, put(endless))
	for range 3 {
		refused(d.Do(ctx, "instantiate"), stack)
	}
	require.NoError(t, put(good))
	do(ctx, t, d, "instantiate")
	require.Equal(t, map[domain.ResourceState]int{"Applied": 1}, s.Await(ctx, d, "Instantiated").Deployed)
	do(ctx, t, d, "terminate")
	s.Await(ctx, d, "Terminated")
}
