package service

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/match"
)

// RulePreview is what a workload rule would bring about if it were stored now.
type RulePreview struct {
	Rule     domain.Key `json:"rule"`     // the path that it would have below /v2
	Replaces bool       `json:"replaces"` // there is a rule of this name: what that has is compared with what this one wants
	// Workloads is how many it was asked of, Matched to how many of them it applies.
	Workloads int `json:"workloads"`
	Matched   int `json:"matched"` // to how many of them it applies
	// Beyond is for how many of those nothing would be made, since a rule has so many matches with a tenant at the most.
	Beyond int                  `json:"beyond"`
	Counts map[match.Effect]int `json:"counts"` // of all pages, how many matches have which effect
	// Items are those of this page, sorted by tenant and workload: all but those that stay as they are.
	Items    []PreviewedMatch `json:"items"`
	Continue string           `json:"continue,omitempty"` // asks for the page that follows, "" at the end
}

// PreviewedMatch is a match of a rule that is not stored.
type PreviewedMatch struct {
	Tenant   string       `json:"tenant"`             // the tenant's name
	Workload string       `json:"workload"`           // the workload's id
	Pod      string       `json:"pod,omitempty"`      // its namespace and name; missing when it is gone
	Effect   match.Effect `json:"effect"`             // what would be done in the cluster
	Reason   string       `json:"reason,omitempty"`   // why nothing would be made
	Cluster  string       `json:"cluster,omitempty"`  // where, as provider+cluster
	Nodes    []string     `json:"nodes,omitempty"`    // the nodes on which it may be; missing for any
	Object   *MatchObject `json:"object,omitempty"`   // what would be made, or deleted
	Manifest any          `json:"manifest,omitempty"` // the whole object, where one workload is asked for
}

// Preview says what a rule would bring about. Nothing is stored, and no cluster is asked: what clusters have is what records
// say. The refusals are those of Create and Put. The parameters tenant (of an operator's rule) and workload select some.
func (s *Service) Preview(ctx context.Context, o domain.Object, parameters url.Values) (*RulePreview, error) {
	if err := validate(o); err != nil {
		return nil, err
	}
	if err := s.parent(ctx, o); err != nil {
		return nil, err
	}
	if err := s.acceptRule(ctx, o); err != nil {
		return nil, err
	}
	before, err := s.store.Get(ctx, o.Noun(), domain.KeyOf(o))
	there := err == nil
	if err != nil && !fail.Is(err, fail.NotFound) {
		return nil, err
	}
	if err := s.roomForRule(ctx, change{from: before, to: o}); err != nil {
		return nil, err
	}
	p, err := s.matching.Preview(ctx, domain.RuleOf(o), parameters)
	if err != nil {
		return nil, err
	}
	p.Replaces = there
	return p, nil
}

// previewed is a match with what it is made of.
type previewed struct {
	domain.Match
	effect   match.Effect
	workload *domain.Workload // nil when it is gone
	of       *settings
	rule     *match.Rule
}

// Preview implements Matching.
func (m *Matcher) Preview(ctx context.Context, rule *domain.WorkloadRule, parameters url.Values) (*RulePreview, error) {
	p := &RulePreview{Rule: ruleKeyOf(rule), Counts: map[match.Effect]int{}}
	tenants, err := m.previewIn(ctx, rule, parameters)
	if err != nil {
		return nil, err
	}
	is := func(place string) bool {
		parts := partsOf(place)
		return len(parts) == 2 && (rule.Operators() || parts[0] == rule.Tenant())
	}
	limit, after, err := pageAsked(parameters, is)
	if err != nil {
		return nil, err
	}
	leave, err := m.reads.begin(ctx, rule.Tenant(), tenants)
	if err != nil {
		return nil, err
	}
	defer leave()
	place := func(x previewed) string { return placeOf(x.Tenant, x.Workload) }
	one := parameters.Get("workload")
	var all []previewed
	slices.Sort(tenants)
	for _, tenant := range tenants { // of which none is in memory together with the next, but for what is shown
		of, err := m.previewOf(ctx, p, tenant, rule)
		if fail.Is(err, fail.NotFound) && rule.Operators() { // it is gone meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		for i := range of {
			p.Counts[of[i].effect]++
		}
		of = slices.DeleteFunc(of, func(x previewed) bool {
			return one == "" && x.effect == match.EffectKeep || one != "" && x.Workload != one || after != "" && place(x) <= after
		})
		slices.SortFunc(of, func(a, b previewed) int { return cmp.Compare(place(a), place(b)) })
		all = append(all, of[:min(len(of), max(limit+1-len(all), 0))]...) // one more says that a page follows
	}
	page, next, err := pageOf(all, parameters, is, place)
	if err != nil {
		return nil, err
	}
	p.Continue, p.Items = next, make([]PreviewedMatch, 0, len(page))
	for i := range page {
		p.Items = append(p.Items, page[i].shown(one != ""))
	}
	return p, nil
}

// ruleKeyOf is the key of a rule of either noun.
func ruleKeyOf(rule *domain.WorkloadRule) domain.Key {
	return rule.Parent.Child(domain.WorkloadRules.Collection, rule.Name)
}

// previewIn are the tenants whose workloads a rule is about.
func (m *Matcher) previewIn(ctx context.Context, rule *domain.WorkloadRule, parameters url.Values) ([]string, error) {
	if !rule.Operators() {
		return []string{rule.Tenant()}, nil
	}
	if only := parameters.Get("tenant"); only != "" {
		if !domain.IsTenantName(only) {
			return nil, fail.Query("tenant", "%q is not the name of a tenant", only)
		}
		return []string{only}, m.exists(ctx, domain.Tenants, domain.TenantKey(only))
	}
	all, err := m.store.List(ctx, domain.Tenants, "")
	tenants := make([]string, 0, len(all))
	for _, t := range all {
		tenants = append(tenants, t.LocalName())
	}
	return tenants, err
}

// previewOf is what a rule would bring about for one tenant: as look does it, but that nothing is written.
func (m *Matcher) previewOf(ctx context.Context, p *RulePreview, tenant string, rule *domain.WorkloadRule) ([]previewed, error) {
	s, err := m.settings(ctx, tenant)
	if err != nil {
		return nil, err
	}
	rules := match.CompileAll(s.tenant, []*domain.WorkloadRule{rule})
	at := scope{rule: ruleKeyOf(rule)}
	workloads, _, err := m.workloads(ctx, tenant, at)
	if err != nil {
		return nil, err
	}
	records, err := m.records(ctx, tenant, at, rules, nil)
	if err != nil {
		return nil, err
	}
	pairs, err := match.Pairs(ctx.Err, rules, workloads)
	if err != nil {
		return nil, err
	}
	kept, _, err := m.within(ctx, tenant, at, pairs, records)
	if err != nil {
		return nil, err
	}
	wanted, err := match.Wanted(ctx.Err, s.tenant, s.hosts, kept)
	if err != nil {
		return nil, err
	}
	p.Workloads += len(workloads)
	p.Matched += len(pairs)
	p.Beyond += len(pairs) - len(kept)
	byID := make(map[string]*domain.Workload, len(workloads))
	for _, w := range workloads {
		byID[w.ID] = w
	}
	after := make(map[string]domain.Match, len(records)) // by workload: there is one rule
	for _, r := range records {
		after[r.Workload] = r
	}
	changes := match.Diff(wanted, records, m.now())
	for _, w := range changes.Write {
		after[w.Workload] = w
	}
	for _, r := range changes.Remove {
		r.Wanted = nil
		after[r.Workload] = r
	}
	all := make([]previewed, 0, len(after))
	for _, one := range after {
		x := previewed{Match: one, effect: match.EffectOf(&one), workload: byID[one.Workload], of: s}
		if len(rules) == 1 {
			x.rule = rules[0]
		}
		all = append(all, x)
	}
	return all, nil
}

// shown is the match as it is answered.
func (x *previewed) shown(whole bool) PreviewedMatch {
	one := PreviewedMatch{Tenant: x.Tenant, Workload: x.Workload, Effect: x.effect, Cluster: x.of.tenant.ClusterName().String()}
	if x.workload != nil {
		one.Pod = x.workload.ResourceNamespace + "/" + x.workload.ResourceName
	}
	if x.Wanted != nil {
		one.Reason = cmp.Or(x.Wanted.Without, x.Reason)
	}
	if x.Made != nil {
		one.Cluster = x.Made.Cluster.String()
		one.Object = objectOf(x.Made.Group, x.Made.Version, x.Made.Kind, x.Made.Namespace, x.Made.Name)
	}
	if !x.IsWanted() || x.workload == nil || x.rule == nil {
		return one
	}
	if r, _ := x.rule.Resource(x.of.tenant, x.of.hosts, x.workload); r != nil {
		one.Cluster, one.Nodes = r.Cluster.String(), r.Nodes
		one.Object = objectOf(r.ID.Group, r.ID.Version, r.ID.Kind, r.ID.Namespace, r.ID.Name)
		if whole {
			one.Manifest = r.Manifest
		}
	}
	return one
}

// objectOf names an object.
func objectOf(group, version, kind, namespace, name string) *MatchObject {
	return &MatchObject{APIVersion: strings.TrimPrefix(group+"/"+version, "/"), Kind: kind, Namespace: namespace, Name: name}
}
