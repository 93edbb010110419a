package api_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/api"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/service"
)

// busy is an engine that takes as long as it is told to.
type busy struct {
	api.Lifecycle
	arrived, finish chan struct{}
}

func (b *busy) Instantiate(ctx context.Context, _ domain.Key) ([]string, error) {
	caller.RequestOf(ctx).Begin("p/ca/v1/dig/1/instantiate")
	b.arrived <- struct{}{}
	<-b.finish
	return nil, nil
}

// TestWhatFindsNoPlaceIsRefused: with all places taken, another operation is not begun, and is told when to come back.
func TestWhatFindsNoPlaceIsRefused(t *testing.T) {
	b := &busy{arrived: make(chan struct{}), finish: make(chan struct{})}
	w := newWorldWith(t, func(w *world, d *api.Deps, _ *service.Instances) {
		b.Lifecycle, d.Lifecycle, d.Operations = w.operations, b, 1
	})
	furnish(t, w)
	first := make(chan http.Header)
	go func() {
		first <- do(t, w.router, call{method: "POST", url: theGroup + "/instantiate", header: map[string]string{"X-Request-Id": "r1"}}).Header()
	}()
	<-b.arrived
	check(t, w.router, []call{
		{name: "another one", method: "POST", url: theGroup + "/terminate", status: 503, contains: []string{"nothing was done"}, answers: map[string]string{"Retry-After": "2", "Drover-Operation": ""}},
		{name: "what is no operation", method: "GET", url: theGroup, status: 200},
		{name: "a stop", method: "POST", url: theGroup + "/stop", status: 202},
	})
	require.NotContains(t, w.operations.asked, "terminate dig")
	close(b.finish)
	require.Equal(t, "p/ca/v1/dig/1/instantiate", (<-first).Get("Drover-Operation"))
	require.Regexp(t, `msg=request requestId=r1 operation=p/ca/v1/dig/1/instantiate `, w.log.String())
	check(t, w.router, []call{{name: "the place is free again", method: "POST", url: theGroup + "/terminate", status: 202}})
}
