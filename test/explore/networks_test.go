package explore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/drover-io/drover/deploy/crd"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kubetest"
)

// nets are the network intents of the first cluster of a sequence that has steps of them.
type nets struct {
	owner
	made int // of them; guarded by the lane
}

// networkMoves are what is drawn for network intents.
var networkMoves = []string{
	"change apply", "change apply await", "change apply stop", "change apply await terminate", "change apply await terminate await change apply",
	"terminate", "terminate await", "terminate stop terminate", "stop", "apply terminate apply", "change",
}

// networksOf are the steps of a move.
func networksOf(t *rapid.T) (q sequence) {
	for _, do := range strings.Fields(rapid.SampledFrom(networkMoves).Draw(t, "move of networks")) {
		q = append(q, step{"networks", do, how(t)})
	}
	return q
}

// defineNetworks has a simulated cluster serve what network intents become.
func defineNetworks(t testing.TB, kubeconfig []byte) {
	t.Helper()
	for _, d := range crd.Networks() {
		kubetest.Define(t, kubetest.Dynamic(t, kubeconfig), d.Manifest)
	}
}

// network is the nth network intent.
func (n *nets) network(l *lane, i int) *domain.Network {
	return &domain.Network{
		Identity: domain.Identity{Parent: n.key}, Metadata: domain.Metadata{Name: fmt.Sprintf("net-%s-%d", l.project, i)},
		Spec: domain.NetworkSpec{CNIType: "ovn4nfv", IPv4Subnets: []domain.Subnet{{Name: "s1", Subnet: "10.1.0.0/24"}}},
	}
}

// askNetworks asks something of the network intents. Only what must never be is wrong here; judgeNetworks says what must be in the end.
func (l *lane) askNetworks(ctx context.Context, s step) {
	l.askOwner(ctx, &l.nets.owner, s, func(ctx context.Context, n int) error {
		switch s.Do {
		case "change": // it is refused while they are applied
			if _, err := l.api.Create(ctx, l.nets.network(l, n), nil); err != nil {
				return err
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.nets.made++
			return nil
		case "apply":
			_, err := l.api.Operate(ctx, l.nets.key, domain.OpInstantiate)
			return err
		default:
			_, err := l.api.Operate(ctx, l.nets.key, domain.Operation(s.Do))
			return err
		}
	})
}

// found are the network intents that are stored, and how many the cluster has.
func (n *nets) found(ctx context.Context, l *lane) (stored []domain.Key, held int, err error) {
	all, err := l.api.List(ctx, domain.Networks, n.key)
	if err != nil {
		return nil, 0, err
	}
	for _, o := range all {
		stored = append(stored, domain.KeyOf(o))
	}
	list, err := l.w.fleet.Held(ctx, l.w.of(l.place)[0].Name, "emco/deployment-id")
	for _, o := range list {
		if o.Kind == "Network" {
			held++
		}
	}
	return stored, held, err
}

// judgeNetworks says whether the network intents have come to the end of what was asked of them last.
func (l *lane) judgeNetworks(ctx context.Context, what string) {
	if l.nets == nil {
		return
	}
	got, err := l.nets.summary(ctx, l)
	if err != nil {
		l.wrong("%s: the status of the networks: %v", what, err)
		return
	}
	stored, held, err := l.nets.found(ctx, l)
	if err != nil {
		l.wrong("%s: the networks: %v", what, err)
		return
	}
	l.note("%s: the networks are %s (%s), %d described, %d there: %s", what, got.States.State(), got.Status, len(stored), held, spell(got.States.Actions))
	if bad := illegal(got.States.Actions, networkFollows); bad != "" {
		l.wrong("%s: the history of the networks: %s: %s", what, bad, spell(got.States.Actions))
	}
	if !l.nets.vague && len(stored) != l.nets.made {
		l.wrong("%s: %d networks were made, and there are %d", what, l.nets.made, len(stored))
	}
	want := map[domain.State][]domain.ContextStatus{
		domain.Created:            {domain.ContextNone},
		domain.Applied:            {domain.ContextInstantiated},
		domain.InstantiateStopped: {domain.ContextInstantiated, domain.ContextInstantiateFailed},
		domain.Terminated:         {domain.ContextTerminated},
		domain.TerminateStopped:   {domain.ContextTerminated, domain.ContextTerminateFailed},
	}[got.States.State()]
	if !slices.Contains(want, got.Status) && !l.refused() {
		l.wrong("%s: the networks are %s in the end, and the status %s", what, got.States.State(), got.Status)
	}
	if got.Status == domain.ContextInstantiated && got.States.State() == domain.Applied && held != len(stored) {
		l.wrong("%s: %d networks are described and applied, and %d are there", what, len(stored), held)
	}
	if (got.Status == domain.ContextTerminated || got.Status == domain.ContextNone) && held > 0 {
		l.wrong("%s: the networks are %s, and %d are there", what, got.Status, held)
	}
}

// endNetworks terminates and deletes the network intents.
func (l *lane) endNetworks(ctx context.Context) {
	if l.nets == nil {
		return
	}
	got, err := l.nets.summary(ctx, l)
	if err != nil {
		l.wrong("the status of the networks: %v", err)
		return
	}
	if got.Status != domain.ContextNone && got.Status != domain.ContextTerminated && !l.terminate(ctx, &l.nets.owner, got) {
		return
	}
	stored, held, err := l.nets.found(ctx, l)
	if err != nil || held > 0 {
		l.wrong("after the terminate %d networks are there: %v", held, err)
	}
	for _, key := range stored {
		if err := l.api.Delete(ctx, key); err != nil && !fail.Is(err, fail.NotFound) {
			l.wrong("delete %s: %v", key, err)
		}
	}
}
