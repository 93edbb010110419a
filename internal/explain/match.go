package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/match"
)

// MatchSituation is all that is known of a tenant, of a workload rule or of a workload.
type MatchSituation struct {
	Now   time.Time
	Key   domain.Key // of what is explained
	Title string     // what it is
	State domain.State
	Since time.Time // since when it is in that state, zero when that is not known

	Tenants []TenantMatches // in which there may be matches: one, but for a rule of the operator
	// Rules are how many rules, and Workloads how many workloads there are to compare.
	Rules, Workloads int
	// Judged are what rules say of workloads, the nearest first, where that is asked for; MoreJudged were left out.
	Judged     []Judged
	MoreJudged int
	Warnings   []string
	UI         WebUI
}

// TenantMatches is what is known of a tenant, as far as it is about what is explained.
type TenantMatches struct {
	Tenant  *domain.Tenant
	Stream  domain.TenantStream
	Matches []domain.Match
	Fine    int                   // matches of which there is nothing to say, and which are not among Matches
	Held    []*domain.Workload    // whose deletion is held
	Gone    []*domain.Workload    // that stay for spec.deleteAfter
	Names   map[string]string     // of workloads, as people know them, by id
	Beyond  map[domain.Key]int    // workloads by rule that has as many matches as it may have
	Refused map[domain.Key]string // rules that the tenant may not have, and why
	Run     Run                   // of what settles its matches
	Silent  string                // why the engine could not be asked
}

// Brief is t without the matches of which there is nothing to say, and the names of their workloads, which are most: it is kept while others are asked.
func (t *TenantMatches) Brief() TenantMatches {
	brief := *t
	brief.Matches, brief.Names = nil, map[string]string{}
	for i := range t.Matches {
		one := &t.Matches[i]
		if one.Due.IsZero() && !one.Mark.Failed() && (one.Made != nil || one.Wanted == nil || one.Wanted.Without == "") {
			brief.Fine++
			continue
		}
		brief.Matches = append(brief.Matches, *one)
		if name, ok := t.Names[one.Workload]; ok {
			brief.Names[one.Workload] = name
		}
	}
	return brief
}

// Judged is what a rule says of a workload, term by term.
type Judged struct {
	Rule     domain.Key           `json:"rule"`             // the rule's path below /v2
	Tenant   string               `json:"tenant"`           // the workload's
	Workload string               `json:"workload"`         // its id
	Pod      string               `json:"pod,omitempty"`    // its namespace and name
	Matches  bool                 `json:"matches"`          // whether the rule applies to it
	Why      string               `json:"why,omitempty"`    // why its terms were not looked at
	Terms    []match.Term         `json:"terms,omitempty"`  // each term with the values that it saw; 8 at the most
	State    domain.ResourceState `json:"state,omitempty"`  // how what was made for it stands
	Reason   string               `json:"reason,omitempty"` // why it is not as it is wanted
}

// The bounds of what is said of a rule and a workload.
const (
	maxTerms       = 8
	maxExpressions = 16
	maxValues      = 8
)

// Judge is what a rule says of a workload, bounded; near is how much of the nearest term holds, 1 for all.
func Judge(rule *match.Rule, w *domain.Workload) (j Judged, near float64) {
	x := rule.Explain(w)
	j = Judged{Rule: rule.Key(), Tenant: w.Tenant, Workload: w.ID, Pod: w.ResourceNamespace + "/" + w.ResourceName, Matches: x.Matches, Why: x.Why}
	for _, term := range x.Terms {
		holds := 0
		for _, e := range term.Expressions {
			if e.Holds {
				holds++
			}
		}
		near = max(near, float64(holds)/float64(max(len(term.Expressions), 1)))
	}
	for _, term := range x.Terms[:min(len(x.Terms), maxTerms)] {
		t := match.Term{Holds: term.Holds}
		// Those that do not hold come first where some have to be left out.
		all := term.Expressions
		if len(all) > maxExpressions {
			all = slices.Clone(all)
			slices.SortStableFunc(all, func(a, b match.Seen) int { return cmp.Compare(number(a.Holds), number(b.Holds)) })
			all = all[:maxExpressions]
		}
		for _, e := range all {
			if len(e.Values) > maxValues {
				e.Values = append(slices.Clone(e.Values[:maxValues]), fmt.Sprintf("… and %d more", len(e.Values)-maxValues))
			}
			t.Expressions = append(t.Expressions, e)
		}
		j.Terms = append(j.Terms, t)
	}
	return j, near
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// OfMatches explains a tenant, a rule or a workload: why what rules want is not made, and why rules do not apply.
func OfMatches(s *MatchSituation) *Explanation {
	d := &decision{s: &Situation{Now: s.Now, Key: s.Key, UI: s.UI}}
	matches := 0
	for i := range s.Tenants {
		t := &s.Tenants[i]
		matches += len(t.Matches) + t.Fine
		d.tenant(t)
	}
	switch {
	case len(s.Judged) == 0, matches > 0, slices.ContainsFunc(s.Judged, func(j Judged) bool { return j.Matches }):
	case s.Title == domain.Workloads.Title:
		d.say(MatchesNothing, "%s", plural(s.Rules, "the only rule that there is does not apply to it", fmt.Sprintf("none of the %d rules applies to it", s.Rules)))
	default:
		d.say(MatchesNothing, "%s", plural(s.Workloads, "it does not apply to the only workload that there is", fmt.Sprintf("it applies to none of the %d workloads", s.Workloads)))
	}
	if len(s.Judged) == 0 && matches == 0 && s.Title != domain.Tenants.Title {
		switch {
		case s.Rules == 0:
			d.say(MatchesNothing, "there are no rules that may apply to it")
		case s.Workloads == 0:
			d.say(MatchesNothing, "no workload is known that it could apply to")
		}
	}
	e := &Explanation{
		Resource: s.Key, Title: s.Title, State: s.State, Since: s.Since.UTC(), Reasons: []Reason{}, Warnings: s.Warnings, Unknown: d.unknown,
		Judged: s.Judged, MoreJudged: s.MoreJudged, now: s.Now.UTC(),
	}
	groups := d.sorted()
	for _, g := range groups[:min(len(groups), maxReasons)] {
		e.Reasons = append(e.Reasons, d.reason(g))
	}
	e.MoreReasons = len(groups) - len(e.Reasons)
	if e.AsWished = len(groups) == 0; e.AsWished {
		e.Summary = fmt.Sprintf("everything is as wished: what there is to be made for %s is there", plural(matches, "1 match", fmt.Sprintf("%d matches", matches)))
		if matches == 0 {
			e.Summary = "everything is as wished: there is nothing to be made"
		}
	} else {
		e.Summary = "not as wished: " + e.Reasons[0].Text
	}
	return e
}

// tenant finds what is wrong with what is known of a tenant, and with its matches.
func (d *decision) tenant(t *TenantMatches) {
	name := t.Tenant.Name
	switch {
	case t.Stream.Connected:
	case t.Stream.Since.IsZero():
		d.say(TenantStale, "the cluster of tenant %q has never told of its workloads", name)
	default:
		d.say(TenantStale, "the cluster of tenant %q has not been connected for %s: what is known is as of then", name, span(d.s.Now.Sub(t.Stream.Ended)))
	}
	for _, one := range t.Stream.LeftOut {
		d.add(LeftOut, one.Reason, 0, place{resource: one.Pod, step: &Attempt{}})
	}
	for _, w := range t.Held {
		d.add(Held, fmt.Sprintf("the last sync did not have it, and spec.deleteGuard (%d percent) of tenant %q keeps it", t.Tenant.Spec.DeleteGuard, name), 0,
			place{resource: w.ResourceNamespace + "/" + w.ResourceName, step: &Attempt{}})
	}
	for _, w := range t.Gone {
		d.add(InGrace, fmt.Sprintf("its cluster has not got it any more, and spec.deleteAfter (%s) of tenant %q keeps it", t.Tenant.Spec.DeleteAfter, name), 0,
			place{resource: w.ResourceNamespace + "/" + w.ResourceName, step: &Attempt{Since: w.Gone}})
	}
	for rule, n := range t.Beyond {
		d.add(BeyondLimit, fmt.Sprintf("rule %s applies to %s more than it may have matches; nothing is made for them", rule, count(n, "workload")), 0, place{})
	}
	for rule, why := range t.Refused {
		d.add(RuleRefused, fmt.Sprintf("rule %s applies to nothing: %s", rule, why), 0, place{})
	}
	away, due := slices.ContainsFunc(t.Run.Steps, func(a Attempt) bool { return a.Step == awaitCluster }), false
	for i := range t.Matches {
		due = due || !t.Matches[i].Due.IsZero()
		d.match(t, &t.Matches[i], away)
	}
	switch {
	case t.Silent != "" && due:
		d.say(EngineSilent, "how far it is cannot be asked: %s", t.Silent)
	case t.Silent != "":
		d.unknown = append(d.unknown, "whether anything is under way: "+t.Silent)
	case due && (t.Run.Status == Running || t.Run.Paused != nil):
		run := t.Run
		run.Steps = slices.DeleteFunc(slices.Clone(run.Steps), func(a Attempt) bool { return a.Step == awaitCluster })
		d.run(&run)
	}
}

// awaitCluster is the activity that waits until the infrastructure cluster of a tenant answers.
const awaitCluster = "AwaitCluster"

// match finds what is wrong with a match.
func (d *decision) match(t *TenantMatches, m *domain.Match, away bool) {
	at := place{Place: Place{App: domain.RuleApp(m.Rule), Cluster: t.Tenant.ClusterName()}, resource: cmp.Or(t.Names[m.Workload], m.Workload)}
	if m.Made != nil {
		at.Cluster = m.Made.Cluster
		at.resource = m.Made.Kind + "/" + m.Made.Name
	}
	at.step = &Attempt{Since: m.Due, Number: m.Attempts, Next: m.Next}
	switch {
	case m.Mark == domain.MarkRefused && strings.HasPrefix(m.Reason, match.NameConflict):
		d.add(NameConflict, m.Reason, 1, at)
	case m.Made == nil && m.Wanted != nil && m.Wanted.Without != "" && m.Wanted.Failed:
		d.add(CannotBeMade, m.Wanted.Without, 1, at)
	case m.Made == nil && m.Wanted != nil && m.Wanted.Without != "":
		d.add(NoPlace, m.Wanted.Without, 1, at)
	case m.Mark.Failed():
		d.add(ResourceRefused, m.Reason, 1, at)
	case m.Due.IsZero():
	case away:
		d.add(ClusterHoldsUp, cmp.Or(m.Reason, "the cluster does not answer"), 1, at)
	case m.Mark.ToDelete() && m.Reason != "":
		d.add(Waiting, "waits: "+m.Reason, 1, at)
	case m.Reason != "":
		d.add(ClusterHoldsUp, m.Reason, 1, at)
	case t.Silent == "" && t.Run.Status != Running:
		d.add(Queued, "", 1, at)
	default:
		d.add(AtWork, "", 1, at)
	}
}
