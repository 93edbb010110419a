package activities

import (
	"cmp"
	"context"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
)

// BoundSilent bounds how many of the attempts that a worker makes at a time may be at clusters that did not answer when
// they were last tried: half of them. One at a cluster that hangs keeps its slot until the deadline of its request, and
// those that answer must not have to wait for that. Without it there is no bound. Call it before the worker starts.
func BoundSilent(k *Kube, attempts int) { k.silent = make(slots, max(attempts/2, 1)) }

// turn takes a slot for an attempt at a cluster that did not answer, which leave gives back. Where there is none the
// attempt is put off: the error. What waits in steps has another queue, and is not bounded.
func (a *attempt) turn(ctx context.Context) (leave func(), err error) {
	known := a.state.Connectivity
	if a.in.Hooked || known != domain.ConnectivityRetrying && (known != domain.ConnectivityUnknown || !a.in.Suspect) {
		return func() {}, nil
	}
	leave, ok := a.kube.silent.enter()
	if ok {
		return leave, nil
	}
	why := fail.New(fail.Unavailable, "%s", cmp.Or(a.state.Error, "it did not answer when it was last tried"))
	return nil, a.retry(ctx, kube.Outcome{Retry: why})
}
