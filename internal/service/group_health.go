package service

import (
	"context"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/panics"
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

// Judging many groups takes time: whoever lists them never waits for it, and gets what was known last. Nor does a list fail because one
// of its groups cannot be judged. judged is of how many groups that is kept.
const judged = maxWatched

// health is what was judged of groups, by the ids of their app contexts. What of them may have changed is judged one after the other,
// beside those who ask.
type health struct {
	ctx  context.Context
	stop context.CancelFunc
	busy sync.WaitGroup
	now  Clock
	// signOf is the sign of a group now, and look judges one.
	signOf func(context.Context, due) (string, error)
	look   func(context.Context, domain.Key) (*GroupHealth, error)

	mu      sync.Mutex
	known   *lru.Cache[string, judgement]
	waiting map[string]due // by the same ids; at most judged
	going   bool
}

// judgement is what was found of a group when what it depends on was as its sign says; "" where that could not be found.
type judgement struct {
	sign string
	says *GroupHealth
	at   time.Time
}

// holds says whether a group need not be judged at a time. Its sign may not be known, as "".
func (j *judgement) holds(sign string, now time.Time) bool {
	if j.sign == "" {
		return now.Sub(j.at) < policy.JudgeAgain
	}
	return j.sign == sign && now.Sub(j.at) < policy.JudgeAnew
}

func newHealth(now Clock, signOf func(context.Context, due) (string, error), look func(context.Context, domain.Key) (*GroupHealth, error)) *health {
	h := &health{signOf: signOf, look: look, known: lru.New[string, judgement](judged), waiting: map[string]due{}, now: now}
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
	key  domain.Key
	sign sign // but which of its clusters are heard
}

// judge adds to groups what is known of their health, and has those judged of which that may be another one by now.
func (f *Fleet) judge(ctx context.Context, all []Group, records map[string]*domain.Instance) {
	var labels []string
	for k := range all {
		if i := records[all[k].Status.Instance]; judges(&all[k].Status, i) {
			labels = append(labels, i.LabelID())
		}
	}
	if len(labels) == 0 {
		return
	}
	l := f.lifecycle
	versions, err := f.pages.ObservationsVersions(ctx, labels)
	if err != nil {
		return
	}
	rules, err := l.heard.Rules(ctx)
	if err != nil {
		return
	}
	number, wanted := l.recent.number(rules), map[string]due{}
	for k := range all {
		s := &all[k].Status
		i := records[s.Instance]
		if !judges(s, i) {
			continue
		}
		d := due{all[k].Resource, sign{Revision: all[k].Revision, Instance: i, Counts: s.Counts, Observed: versions[i.LabelID()], Rules: number}}
		// Plans are not read here. Of one that is not known any more it is found out beside the list whether the group is as it was.
		now := ""
		if _, ok := l.recall.clustersOf.Get(i.Plan); ok {
			if now, err = f.signOf(ctx, d); err != nil {
				continue
			}
		}
		known, ok := f.health.last(s.Instance)
		if s.Health = known.says; !ok || !known.holds(now, l.now()) {
			wanted[s.Instance] = d
		}
	}
	f.health.begin(wanted)
}

// signOf is the sign of a group with which of its clusters are heard.
func (f *Fleet) signOf(ctx context.Context, d due) (string, error) {
	contacts, err := f.lifecycle.contactsOf(ctx, d.sign.Instance.Plan)
	if err != nil {
		return "", err
	}
	d.sign.Contacts = contacts
	return digestOf(&d.sign)
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

// begin has groups judged, with those that wait already, in no order: all have their turn, whoever asks first and most often.
func (h *health) begin(wanted map[string]due) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for instance, d := range wanted {
		if _, ok := h.waiting[instance]; ok || len(h.waiting) < judged {
			h.waiting[instance] = d
		}
	}
	if len(h.waiting) == 0 || h.going || h.ctx.Err() != nil {
		return
	}
	h.going = true
	h.busy.Go(func() {
		for {
			instance, d, ok := h.next()
			if !ok {
				return
			}
			ctx, cancel := context.WithTimeout(h.ctx, policy.Judge)
			_ = panics.Do(ctx, func() error { h.judge(ctx, instance, d); return nil }) // of this group nothing is said then
			cancel()
		}
	})
}

// next is one that waits; false when none does, and then nothing goes on any more.
func (h *health) next() (string, due, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() == nil {
		for instance, d := range h.waiting {
			delete(h.waiting, instance)
			return instance, d, true
		}
	}
	h.going = false
	return "", due{}, false
}

// judge judges one group. What cannot be judged keeps what was known of it.
func (h *health) judge(ctx context.Context, instance string, d due) {
	known, ok := h.last(instance)
	now, err := h.signOf(ctx, d)
	if err == nil && ok && known.holds(now, h.now()) {
		return
	}
	found := judgement{now, known.says, h.now()}
	if err == nil {
		var says *GroupHealth
		if says, err = h.look(ctx, d.key); err == nil {
			found.says = says
		}
	}
	if err != nil {
		found.sign = ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() == nil {
		h.known.Add(instance, found)
	}
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
