package service

import (
	"context"
	"sync"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/status"
)

// GroupHealth is what clusters report of a group's resources.
type GroupHealth struct {
	// Ready says whether something is ready, nothing is not, and every cluster is heard.
	Ready bool `json:"ready"`
	// Counts are the resources by readiness, in the words of a status with status=ready: Ready, NotReady, NotPresent.
	Counts map[string]int `json:"counts"`
}

// Judging many groups takes time: whoever lists them never waits for it, and gets what was known last.
// judged is of how many groups that is kept.
const judged = maxWatched

// health is what was judged of groups, by the ids of their app contexts. What of them may have changed is judged one after the other,
// beside those who ask.
type health struct {
	ctx  context.Context
	stop context.CancelFunc
	busy sync.WaitGroup

	mu    sync.Mutex
	known *lru.Cache[string, judgement]
	going bool
}

// judgement is what was found of a group when what it depends on was as its sign says.
type judgement struct {
	sign string
	says *GroupHealth
}

func newHealth() *health {
	h := &health{known: lru.New[string, judgement](judged)}
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h
}

// Close ends what is being judged.
func (f *Fleet) Close() {
	f.health.stop()
	f.health.busy.Wait()
}

// due is a group that is to be judged anew.
type due struct {
	key      domain.Key
	instance string
	sign     string
}

// judge adds to groups what is known of their health, and has those judged of which that may be another one by now.
func (f *Fleet) judge(ctx context.Context, all []Group, records map[string]*domain.Instance) error {
	var labels []string
	for k := range all {
		if i := records[all[k].Status.Instance]; judges(&all[k].Status, i) {
			labels = append(labels, i.LabelID())
		}
	}
	if len(labels) == 0 {
		return nil
	}
	l := f.lifecycle
	versions, err := f.pages.ObservationsVersions(ctx, labels)
	if err != nil {
		return err
	}
	rules, err := l.heard.Rules(ctx)
	if err != nil {
		return err
	}
	number := l.recent.number(rules)
	var wanted []due
	for k := range all {
		s := &all[k].Status
		i := records[s.Instance]
		if !judges(s, i) {
			continue
		}
		contacts, err := l.contactsOf(ctx, i.Plan)
		if err != nil {
			return err
		}
		sign, err := digestOf(&sign{Revision: all[k].Revision, Instance: i, Counts: s.Counts, Observed: versions[i.LabelID()], Contacts: contacts, Rules: number})
		if err != nil {
			return err
		}
		known, ok := f.health.last(s.Instance)
		if s.Health = known.says; !ok || known.sign != sign {
			wanted = append(wanted, due{all[k].Resource, s.Instance, sign})
		}
	}
	f.health.begin(wanted, f.look)
	return nil
}

// judges says whether a group has something in clusters that can be ready.
func judges(s *GroupStatus, i *domain.Instance) bool {
	if i == nil || i.Plan == "" {
		return false
	}
	return s.Context == domain.ContextInstantiated || s.Context == domain.ContextInstantiating || s.Context == domain.ContextInstantiateFailed
}

func (h *health) last(instance string) (judgement, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known.Get(instance)
}

// begin judges groups unless others are being judged: who asks next says what is due then.
func (h *health) begin(wanted []due, look func(context.Context, domain.Key) (*GroupHealth, error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(wanted) == 0 || h.going || h.ctx.Err() != nil {
		return
	}
	h.going = true
	h.busy.Go(func() {
		for _, d := range wanted {
			ctx, cancel := context.WithTimeout(h.ctx, policy.Judge)
			says, err := look(ctx, d.key)
			cancel()
			if h.ctx.Err() != nil {
				break
			}
			if err != nil {
				says = nil // it is not known; it is looked at again when something has changed
			}
			h.mu.Lock()
			h.known.Add(d.instance, judgement{d.sign, says})
			h.mu.Unlock()
		}
		h.mu.Lock()
		h.going = false
		h.mu.Unlock()
	})
}

// look judges one group.
func (f *Fleet) look(ctx context.Context, key domain.Key) (*GroupHealth, error) {
	source, err := f.lifecycle.Snapshot(ctx, key, status.Extent{Reported: true, Output: status.OutputAll})
	if err != nil {
		return nil, err
	}
	ready, counts, err := source.Readiness()
	return &GroupHealth{Ready: ready, Counts: counts}, err
}
