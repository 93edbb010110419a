package app

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/freeport"
)

// TestGroupsThatGoToTooManyClusters are refused by the API when they are approved, by the limit of the configuration, and by a worker whose
// limit they are over when they are instantiated.
func TestGroupsThatGoToTooManyClusters(t *testing.T) {
	p := partial(t)
	d := varied(3)
	d.store(t, p.store)
	p.config.Drain, p.config.Operations = time.Minute, 1
	approve := func(most int) (int, string) {
		t.Helper()
		p.config.Fair.GroupTargets, p.config.Listen = most, freeport.Address()
		ctx, cancel := context.WithCancel(t.Context())
		front, err := OpenAPI(ctx, p.config, p.log)
		require.NoError(t, err)
		served, ready := make(chan error, 1), make(chan struct{})
		go func() { served <- p.ServeAPI(ctx, front, func() { close(ready) }) }()
		defer func() {
			cancel()
			require.NoError(t, <-served)
		}()
		<-ready
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.config.Listen+"/v2/"+string(domain.KeyOf(d.group))+"/approve", nil)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		said, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode, string(said)
	}
	code, said := approve(2)
	require.Equal(t, http.StatusUnprocessableEntity, code, said)
	const want = "would go to 3 clusters in all, and may go to 2 (--group-targets)"
	require.Contains(t, said, want)
	code, said = approve(3)
	require.Equal(t, http.StatusAccepted, code, said)
	scope := domain.Scope{Owner: domain.KeyOf(d.group), ContextID: "2", Operation: domain.OpInstantiate}
	_, err := p.control(nil).Prepare(t.Context(), scope)
	require.NoError(t, err)
	p.config.Fair.GroupTargets = 2
	_, err = p.control(nil).Prepare(t.Context(), scope)
	require.ErrorContains(t, err, want)
}
