package test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
)

// frozenAPI freezes an API with an open stream of a tenant. The agent goes to another process, and tells it of something else. When
// the first one goes on, nothing is stored of what it has received.
func frozenAPI(t *testing.T, s *harness.Stack) {
	t.Helper()
	ctx := within(t)
	e := newTenancy(ctx, t, s, domain.ReportNone)
	frozen := s.AddAPI(t)
	e.workload(0)
	first := e.agentAt(ctx, frozen.Tenants)
	first.sync()
	e.settled(ctx, 1)
	thaw := frozen.Freeze(t)
	first.delete("w0") // what waits for it
	first.update(&domain.Workload{ID: "old", ResourceType: domain.KindPod, ResourceNamespace: "default", ResourceName: "old"})
	e.workload(1)
	second := e.agent(ctx)
	second.sync()
	e.settled(ctx, 2)
	thaw()
	require.Equal(t, codes.Aborted, first.ends())
	e.settled(ctx, 2)
	second.end()
	e.end(ctx)
	e.settled(ctx, 0)
}

// frozenBetween freezes the worker when it has looked at a match's object, before it writes. Another worker does what is to be
// done meanwhile. When the first one goes on, it does nothing.
func frozenBetween(t *testing.T, s *harness.Stack) {
	t.Helper()
	ctx := within(t)
	e := newTenancy(ctx, t, s, domain.ReportNone)
	e.run(ctx, 1)
	e.settled(ctx, 1)
	looked, release := e.looking()
	e.end(ctx)
	reach(ctx, t, looked)
	thaw := s.Worker.Freeze(t)
	release()
	other := s.AddWorker()
	defer other.Kill()
	e.settled(ctx, 0)
	e.run(ctx, 1) // and an object of the same name is there
	e.settled(ctx, 1)
	thaw()
	harness.Until(ctx, t, "its attempts have ended", func() bool { return atWork(ctx, t, s) == 0 })
	e.settled(ctx, 1)
	e.end(ctx)
	e.settled(ctx, 0)
}

// looking holds the answer to the first look at an object of the tenant.
func (e *tenancy) looking() (looked <-chan struct{}, release func()) {
	there, over := make(chan struct{}), make(chan struct{})
	var once sync.Once
	e.cluster.Harm(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/pods/") {
			once.Do(func() { close(there); <-over })
		}
	})
	return there, func() { e.cluster.Harm(nil); close(over) }
}
