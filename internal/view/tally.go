package view

import "github.com/drover-io/drover/internal/domain"

// States is Tally.States of the rows that are asked for without Ask.Reported, counted without making them: a summary of a
// large context is asked for often.
func (s *Source) States(a Ask) map[domain.ResourceState]int {
	states := map[domain.ResourceState]int{}
	for _, sec := range s.sections(&a) {
		for _, c := range sec.clusters {
			for i := 0; i < len(sec.order); { // neighbours mostly share a mark
				m, j := c.mark(sec.order[i]), i+1
				for j < len(sec.order) && c.mark(sec.order[j]) == m {
					j++
				}
				if m != domain.MarkGone {
					states[c.state(m)] += j - i
				}
				i = j
			}
		}
	}
	return states
}

// Tally rolls rows up. The zero Tally has counted none.
type Tally struct {
	states      map[domain.ResourceState]int
	presences   [Unknown + 1]int
	readinesses [NotThere + 1]int
	unconfirmed map[domain.ClusterName]struct{}

	// Neighbours mostly share a state: they are counted together.
	state domain.ResourceState
	run   int
	place *Place // the last one whose cluster is not confirmed
}

// Add counts a row.
func (t *Tally) Add(r *Row) {
	if r.State != t.state {
		t.flush()
		t.state = r.State
	}
	t.run++
	t.presences[r.Presence]++
	t.readinesses[r.Readiness]++
	if t.place != r.Place && (r.Place.Doubt != nil || r.Doubt != nil && !r.Moot) {
		t.place = r.Place
		if t.unconfirmed == nil {
			t.unconfirmed = map[domain.ClusterName]struct{}{}
		}
		t.unconfirmed[r.Place.Cluster.ClusterName] = struct{}{}
	}
}

func (t *Tally) flush() {
	if t.run > 0 && t.state != "" {
		if t.states == nil {
			t.states = map[domain.ResourceState]int{}
		}
		t.states[t.state] += t.run
	}
	t.run = 0
}

// States are how many resources are in each state; states without resources are absent.
func (t *Tally) States() map[domain.ResourceState]int {
	t.flush()
	states := make(map[domain.ResourceState]int, len(t.states))
	for s, n := range t.states {
		states[s] = n
	}
	return states
}

// Rows is how many resources there are.
func (t *Tally) Rows() (n int) {
	for _, of := range t.presences {
		n += of
	}
	return n
}

// Presences is how many resources have the presence.
func (t *Tally) Presences(p Presence) int { return t.presences[p] }

// Readinesses is how many resources have the readiness.
func (t *Tally) Readinesses(r Readiness) int { return t.readinesses[r] }

// Unconfirmed is how many clusters there are whose reports do not hold now, or in part, or that have none.
func (t *Tally) Unconfirmed() int { return len(t.unconfirmed) }

// Ready says whether everything together is: when something is, nothing is not, and every cluster is heard.
func (t *Tally) Ready() bool { return t.readinesses[Ready] > 0 && t.short() == 0 }

// Judged says whether there is anything of which Ready says something: where it is false nothing is short either.
func (t *Tally) Judged() bool { return t.readinesses[Ready]+t.short() > 0 }

// short is how much keeps the whole from being Ready.
func (t *Tally) short() int {
	return t.readinesses[NotReady] + t.readinesses[NotThere] + len(t.unconfirmed)
}
