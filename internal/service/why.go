package service

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/match"
	"github.com/drover-io/drover/internal/policy"
)

// TenantRuns describes what settles the matches of tenants. engine.Engine has it.
type TenantRuns interface {
	// Settling describes the run for a tenant; with its id alone when there is none.
	Settling(ctx context.Context, tenant string) (explain.Run, error)
}

// AskRuns has explanations ask of what goes on, and show where it can be looked at. It is called before the first of them.
func (m *Matcher) AskRuns(runs TenantRuns, ui explain.WebUI) { m.runs, m.ui = runs, ui }

// How many are judged in an explanation where none is asked for.
const (
	nearestWorkloads = 3
	nearestRules     = 10
	mostWarnings     = 20
)

// Why explains a tenant, a workload rule or a workload, by noun, parent and name: why what rules want is not made, and, of rules and
// workloads, why they do not apply, expression by expression. Of a rule the parameter workload, of a workload the parameter rule
// asks for one. Errors: NotFound; Invalid for a rule that none is called; those of the store.
func (m *Matcher) Why(ctx context.Context, noun *domain.Noun, parent domain.Key, name string, parameters url.Values) (*explain.Explanation, error) {
	s := &explain.MatchSituation{Now: m.now(), Title: noun.Title, UI: m.ui, Key: parent.Child(noun.Collection, name)}
	whose, tenants, err := m.concerned(ctx, noun, parent, name)
	if err != nil {
		return nil, err
	}
	if noun == domain.Workloads {
		s.Key = parent.Child(noun.Collection, url.PathEscape(name))
	}
	err = m.inTurn(ctx, whose, tenants, func() error {
		switch noun {
		case domain.Tenants:
			return m.whyTenant(ctx, s, name)
		case domain.Workloads:
			return m.whyWorkload(ctx, s, parent.Name(), name, parameters.Get("rule"))
		default:
			return m.whyRule(ctx, s, noun, tenants, parameters.Get("workload"))
		}
	})
	if err != nil {
		return nil, err
	}
	m.askAbout(ctx, s.Tenants)
	return explain.OfMatches(s), nil
}

// inTurn reads what tenants have when it is the turn of who asks.
func (m *Matcher) inTurn(ctx context.Context, whose string, tenants []string, read func() error) error {
	leave, err := m.reads.begin(ctx, whose, tenants)
	if err != nil {
		return err
	}
	defer leave()
	return read()
}

// askAbout asks what settles the tenants of whose matches something is due. It is called when the turn is another's: what needs the store alone does not wait
// for Temporal, which may be away. Where it is, no tenant more is asked for.
func (m *Matcher) askAbout(ctx context.Context, tenants []explain.TenantMatches) {
	if m.runs == nil {
		return
	}
	asking, cancel := context.WithTimeout(ctx, policy.Explain)
	defer cancel()
	away := ""
	for i := range tenants {
		t := &tenants[i]
		if !slices.ContainsFunc(t.Matches, func(one domain.Match) bool { return !one.Due.IsZero() }) {
			continue
		}
		if t.Silent = away; away != "" {
			continue
		}
		var err error
		if t.Run, err = m.runs.Settling(asking, t.Tenant.Name); err != nil {
			t.Silent = fail.TextOf(err)
		}
		if fail.Is(err, fail.Unavailable) || fail.Is(err, fail.Timeout) {
			away = t.Silent
		}
	}
}

// concerned says which tenants an explanation is about, and which of them what is explained belongs to: "" where it is the operator's. NotFound when there is no
// such tenant: nothing is kept in memory of a name that somebody has made up.
func (m *Matcher) concerned(ctx context.Context, noun *domain.Noun, parent domain.Key, name string) (whose string, tenants []string, err error) {
	switch noun {
	case domain.Tenants:
		return name, []string{name}, m.exists(ctx, noun, domain.TenantKey(name))
	case domain.OperatorRules:
		tenants, _, err = m.matchesIn(ctx, parent.Child(noun.Collection, name))
		return "", tenants, err
	default:
		return parent.Name(), []string{parent.Name()}, m.exists(ctx, domain.Tenants, parent)
	}
}

// tenantKnown is what is known of a tenant.
type tenantKnown struct {
	explain.TenantMatches
	settings  *settings
	workloads []*domain.Workload
	states    map[string]*domain.Match // by rule and workload
}

// knownOf reads what is known of a tenant, of one rule or of all ("").
func (m *Matcher) knownOf(ctx context.Context, tenant string, rule domain.Key) (*tenantKnown, error) {
	s, err := m.settings(ctx, tenant)
	if err != nil {
		return nil, err
	}
	k := &tenantKnown{settings: s, states: map[string]*domain.Match{}}
	k.Tenant = s.tenant
	if k.Stream, err = m.store.TenantStream(ctx, tenant); err != nil {
		return nil, err
	}
	if k.workloads, _, err = m.store.WorkloadsAt(ctx, tenant); err != nil {
		return nil, err
	}
	if k.Matches, err = m.store.Matches(ctx, tenant); err != nil {
		return nil, err
	}
	if rule != "" {
		k.Matches = slices.DeleteFunc(k.Matches, func(one domain.Match) bool { return one.Rule != rule })
	}
	slices.SortFunc(k.Matches, func(a, b domain.Match) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Workload, b.Workload))
	})
	wanted := map[domain.Key]int{}
	for i := range k.Matches {
		one := &k.Matches[i]
		k.states[string(one.Rule)+"\x00"+one.Workload] = one
		if one.Wanted != nil {
			wanted[one.Rule]++
		}
	}
	k.Names = make(map[string]string, len(k.workloads))
	for _, w := range k.workloads {
		k.Names[w.ID] = w.ResourceNamespace + "/" + w.ResourceName
	}
	for _, r := range s.rules {
		if wanted[r.Key()] < limits.RuleMatches || rule != "" && r.Key() != rule {
			continue
		}
		for _, w := range k.workloads {
			if one := k.states[string(r.Key())+"\x00"+w.ID]; (one == nil || one.Wanted == nil) && r.Matches(w) {
				if k.Beyond == nil {
					k.Beyond = map[domain.Key]int{}
				}
				k.Beyond[r.Key()]++
			}
		}
	}
	if k.Refused, err = m.refused(ctx, s.tenant, rule); err != nil {
		return nil, err
	}
	return k, nil
}

// refused are the rules of a tenant that it may not have any more, and why; of one, or of all ("").
func (m *Matcher) refused(ctx context.Context, t *domain.Tenant, rule domain.Key) (map[domain.Key]string, error) {
	all, err := m.store.List(ctx, domain.WorkloadRules, domain.KeyOf(t))
	if err != nil {
		return nil, err
	}
	var refused map[domain.Key]string
	for _, o := range all {
		key := domain.KeyOf(o)
		if rule != "" && key != rule {
			continue
		}
		if err := match.ValidateRule(t, domain.RuleOf(o)); err != nil {
			if refused == nil {
				refused = map[domain.Key]string{}
			}
			refused[key] = fail.TextOf(err)
		}
	}
	return refused, nil
}

func (m *Matcher) whyTenant(ctx context.Context, s *explain.MatchSituation, tenant string) error {
	k, err := m.knownOf(ctx, tenant, "")
	if err != nil {
		return err
	}
	switch {
	case k.Stream.Connected:
		s.State, s.Since = "Connected", k.Stream.Since
	case k.Stream.Since.IsZero():
		s.State, s.Since = "NeverConnected", k.Tenant.Made
	default:
		s.State, s.Since = "Stale", k.Stream.Ended
	}
	s.Workloads, s.Rules = len(k.workloads), len(k.settings.rules)
	for _, w := range k.workloads {
		k.setAside(w)
	}
	applies := map[domain.Key]bool{}
	for i := range k.Matches {
		applies[k.Matches[i].Rule] = true
	}
	idle := 0
	for _, r := range k.settings.rules {
		if applies[r.Key()] {
			continue
		}
		if idle++; idle <= mostWarnings {
			s.Warnings = append(s.Warnings, fmt.Sprintf("workload rule %s applies to none of the %d workloads: GET /v2/%s/explain says why", r.Key(), len(k.workloads), r.Key()))
		}
	}
	if idle > mostWarnings {
		s.Warnings = append(s.Warnings, fmt.Sprintf("%d more workload rules apply to none", idle-mostWarnings))
	}
	s.Tenants = []explain.TenantMatches{k.Brief()}
	return nil
}

// setAside notes a workload that is kept though its cluster has not got it.
func (k *tenantKnown) setAside(w *domain.Workload) {
	if w.Held {
		k.Held = append(k.Held, w)
	}
	if !w.Gone.IsZero() {
		k.Gone = append(k.Gone, w)
	}
}

// judged is what a rule says of a workload, with where their match stands.
func (k *tenantKnown) judged(r *match.Rule, w *domain.Workload) (explain.Judged, float64) {
	j, near := explain.Judge(r, w)
	if one := k.states[string(r.Key())+"\x00"+w.ID]; one != nil {
		shown := matchOf(one)
		j.State, j.Reason = shown.State, shown.Reason
	}
	return j, near
}

func (m *Matcher) whyWorkload(ctx context.Context, s *explain.MatchSituation, tenant, id, only string) error {
	k, err := m.knownOf(ctx, tenant, "")
	if err != nil {
		return err
	}
	at := slices.IndexFunc(k.workloads, func(w *domain.Workload) bool { return w.ID == id })
	if at < 0 {
		if out := slices.IndexFunc(k.Stream.LeftOut, func(l domain.LeftOut) bool { return l.ID == id }); out >= 0 {
			return fail.New(fail.NotFound, "workload %q of tenant %q not found: it was said, and left out, as %s", id, tenant, k.Stream.LeftOut[out].Reason)
		}
		return fail.New(fail.NotFound, "workload %q of tenant %q not found", id, tenant)
	}
	w := k.workloads[at]
	switch {
	case !w.Gone.IsZero():
		s.State, s.Since = "Gone", w.Gone
	case w.Held:
		s.State = "Held"
	case w.Ready:
		s.State = "Ready"
	default:
		s.State = "NotReady"
	}
	k.setAside(w)
	k.Matches = slices.DeleteFunc(k.Matches, func(one domain.Match) bool { return one.Workload != id })
	k.Stream.LeftOut = slices.DeleteFunc(k.Stream.LeftOut, func(l domain.LeftOut) bool { return l.ID != id })
	for rule := range k.Beyond { // is it this one?
		r := k.settings.rules[slices.IndexFunc(k.settings.rules, func(r *match.Rule) bool { return r.Key() == rule })]
		if one := k.states[string(rule)+"\x00"+id]; one != nil && one.Wanted != nil || !r.Matches(w) {
			delete(k.Beyond, rule)
			continue
		}
		k.Beyond[rule] = 1
	}
	rules := k.settings.rules
	if only != "" {
		key, err := ruleNamed(tenant, only)
		if err != nil {
			return err
		}
		rules = slices.DeleteFunc(slices.Clone(rules), func(r *match.Rule) bool { return r.Key() != key })
		k.Matches = slices.DeleteFunc(k.Matches, func(one domain.Match) bool { return one.Rule != key })
		maps.DeleteFunc(k.Beyond, func(of domain.Key, _ int) bool { return of != key })
		maps.DeleteFunc(k.Refused, func(of domain.Key, _ string) bool { return of != key })
		if len(rules) == 0 && len(k.Refused) == 0 {
			return fail.New(fail.NotFound, "workload rule %q not found", only)
		}
	}
	s.Workloads, s.Rules = 1, len(rules)
	near := nearest{most: nearestRules}
	for _, r := range rules {
		near.add(k.judged(r, w))
	}
	s.Judged, s.MoreJudged = near.kept()
	s.Tenants = []explain.TenantMatches{k.Brief()}
	return nil
}

func (m *Matcher) whyRule(ctx context.Context, s *explain.MatchSituation, noun *domain.Noun, tenants []string, only string) error {
	o, err := m.store.Get(ctx, noun, s.Key)
	if err != nil {
		return err
	}
	s.State, s.Since, s.Rules = domain.Created, o.Base().Made, 1
	near := nearest{most: nearestWorkloads}
	matched := false
	for _, tenant := range tenants { // of which none is in memory together with the next
		k, err := m.knownOf(ctx, tenant, s.Key)
		if fail.Is(err, fail.NotFound) && noun == domain.OperatorRules { // it is gone meanwhile
			continue
		}
		if err != nil {
			return err
		}
		at := slices.IndexFunc(k.settings.rules, func(r *match.Rule) bool { return r.Key() == s.Key })
		s.Workloads += len(k.workloads)
		for _, w := range k.workloads {
			if one := k.states[string(s.Key)+"\x00"+w.ID]; one != nil {
				k.setAside(w)
				matched = true
			}
		}
		for _, w := range k.workloads {
			// Why not is a question for a rule that applies to nothing, or for one workload.
			if at >= 0 && (only == "" && !matched || w.ID == only) {
				near.add(k.judged(k.settings.rules[at], w))
			}
		}
		k.Stream.LeftOut = nil
		if noun == domain.OperatorRules && len(k.Matches) == 0 { // a tenant that it says nothing of
			k.Stream.Connected = true
		}
		s.Tenants = append(s.Tenants, k.Brief())
	}
	if only != "" && near.all == 0 && len(s.Tenants) > 0 && len(s.Tenants[0].Refused) == 0 {
		return fail.New(fail.NotFound, "workload %q not found", only)
	}
	if only != "" || !matched {
		s.Judged, s.MoreJudged = near.kept()
	}
	return nil
}

// nearest keeps those that come nearest to be matches of what is judged.
type nearest struct {
	most, all int
	judged    []ranked
}

type ranked struct {
	explain.Judged
	near float64
}

func (n *nearest) add(j explain.Judged, near float64) {
	if j.Matches {
		near = 2
	}
	n.all++
	n.judged = append(n.judged, ranked{j, near})
	if len(n.judged) > 10*n.most { // what is far is not kept in memory
		n.sort()
	}
}

// sort leaves the nearest.
func (n *nearest) sort() {
	slices.SortStableFunc(n.judged, func(a, b ranked) int { return cmp.Compare(b.near, a.near) })
	n.judged = slices.Delete(n.judged, min(len(n.judged), n.most), len(n.judged))
}

func (n *nearest) kept() (kept []explain.Judged, more int) {
	n.sort()
	for _, j := range n.judged {
		kept = append(kept, j.Judged)
	}
	return kept, n.all - len(kept)
}
