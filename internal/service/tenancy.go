package service

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
)

// TenantStatus is where a tenant stands.
type TenantStatus struct {
	// Connected says that a stream of the tenant goes on. Without one it is stale: what is known is as of StaleSince.
	Connected  bool       `json:"connected"`
	Since      *time.Time `json:"since,omitempty"`      // when the last stream began
	StaleSince *time.Time `json:"staleSince,omitempty"` // when it ended
	Workloads  int        `json:"workloads"`            // how many there are
	Held       int        `json:"held"`                 // of them, those whose deletion is held by spec.deleteGuard
	Gone       int        `json:"gone"`                 // of them, those that stay for spec.deleteAfter
	// Matches counts matches by state. One whose reason is waited for, such as a node, is Pending.
	Matches map[domain.ResourceState]int `json:"matches"`
	Due     int                          `json:"due"` // of the matches, those with something to do in the cluster
	// Reported counts the objects of matches by what their cluster says of them: Ready, NotReady, Missing, Unknown.
	Reported map[string]int `json:"reported"`
	// LeftOut are workloads that were said and not taken, LeftOutCount of which the first are named.
	LeftOut      []domain.LeftOut `json:"leftOut"`
	LeftOutCount int              `json:"leftOutCount"` // how many there are
}

// WorkloadList is a page of workloads, sorted by id.
type WorkloadList struct {
	Items []*domain.Workload `json:"items"` // the workloads of this page
	// Continue asks for the page that follows, "" at the end.
	Continue string `json:"continue,omitempty"`
}

// Match is a rule and a workload that it applies to, or did, with what was made for them.
type Match struct {
	Tenant   string               `json:"tenant"`             // the tenant's name
	Rule     domain.Key           `json:"rule"`               // the rule's path below /v2
	Workload string               `json:"workload"`           // the workload's id
	State    domain.ResourceState `json:"state"`              // how what was made for it stands
	Wanted   bool                 `json:"wanted"`             // false when it is to go
	Reason   string               `json:"reason,omitempty"`   // why it is not as it is wanted
	Cluster  string               `json:"cluster,omitempty"`  // where it is made, as provider+cluster
	Object   *MatchObject         `json:"object,omitempty"`   // what may be there
	DueSince *time.Time           `json:"dueSince,omitempty"` // since when there is something to do in the cluster
	Next     *time.Time           `json:"next,omitempty"`     // when it is tried again
	Attempts int                  `json:"attempts,omitempty"` // how often it did not succeed
	Reported *MatchReport         `json:"reported,omitempty"` // what the cluster says of the object
}

// MatchObject is the object of a match.
type MatchObject struct {
	APIVersion string `json:"apiVersion"` // group and version
	Kind       string `json:"kind"`       // of the object
	Namespace  string `json:"namespace"`  // where it is
	Name       string `json:"name"`       // of the object
}

// MatchReport is what the cluster says of a match's object.
type MatchReport struct {
	// State is Ready, NotReady, Missing, or Unknown as long as nobody has said anything.
	State   string `json:"state"`
	Message string `json:"message,omitempty"` // why it is NotReady
	Doubt   string `json:"doubt,omitempty"`   // why that may not be so now: nobody would hear of a change
	// LastSeen is when somebody would have heard for the last time.
	LastSeen *time.Time `json:"lastSeen,omitempty"`
}

// MatchList is a page of matches, sorted by workload and rule.
type MatchList struct {
	Items []Match `json:"items"` // the matches of this page
	// Continue asks for the page that follows, "" at the end.
	Continue string `json:"continue,omitempty"`
	// Beyond is how many workloads the rule matches for which nothing is made, since it has as many matches as it may have. It is
	// there for one rule of one tenant.
	Beyond int `json:"beyond,omitempty"`
}

// TenantStatus says where a tenant stands. NotFound when there is no such tenant.
func (m *Matcher) TenantStatus(ctx context.Context, tenant string) (*TenantStatus, error) {
	of, err := m.store.Get(ctx, domain.Tenants, domain.TenantKey(tenant))
	if err != nil {
		return nil, err
	}
	stream, err := m.store.TenantStream(ctx, tenant)
	if err != nil {
		return nil, err
	}
	s := &TenantStatus{
		Connected: stream.Connected, Since: momentOf(stream.Since), StaleSince: momentOf(stream.Ended), Matches: map[domain.ResourceState]int{}, Reported: map[string]int{},
		LeftOut: append([]domain.LeftOut{}, stream.LeftOut...), LeftOutCount: stream.LeftOutCount,
	}
	leave, err := m.reads.begin(ctx, tenant, []string{tenant})
	if err != nil {
		return nil, err
	}
	defer leave()
	workloads, _, err := m.store.WorkloadsAt(ctx, tenant)
	if err != nil {
		return nil, err
	}
	s.Workloads = len(workloads)
	for _, w := range workloads {
		if w.Held {
			s.Held++
		}
		if !w.Gone.IsZero() {
			s.Gone++
		}
	}
	matches, err := m.store.Matches(ctx, tenant)
	if err != nil {
		return nil, err
	}
	seen, err := m.sights(ctx, of.(*domain.Tenant))
	if err != nil {
		return nil, err
	}
	for i := range matches {
		s.Matches[stateOf(&matches[i])]++
		if !matches[i].Due.IsZero() {
			s.Due++
		}
		r, err := seen.of(&matches[i])
		if err != nil {
			return nil, err
		}
		if r != nil {
			s.Reported[r.State]++
		}
	}
	return s, nil
}

// momentOf is a time as documents have it, nil for none.
func momentOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Millisecond)
	return &t
}

// stateOf is how a match is shown.
func stateOf(m *domain.Match) domain.ResourceState {
	connectivity := domain.ConnectivityAvailable
	if m.Attempts > 0 {
		connectivity = domain.ConnectivityRetrying
	}
	return m.Mark.State(!m.Due.IsZero(), connectivity)
}

func (m *Matcher) exists(ctx context.Context, noun *domain.Noun, key domain.Key) error {
	_, err := m.store.Get(ctx, noun, key)
	return err
}

// Workload is one of a tenant's. NotFound when the tenant has none with the id.
func (m *Matcher) Workload(ctx context.Context, tenant, id string) (*domain.Workload, error) {
	if err := m.exists(ctx, domain.Tenants, domain.TenantKey(tenant)); err != nil {
		return nil, err
	}
	found, _, err := m.store.WorkloadsByID(ctx, tenant, []string{id})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fail.New(fail.NotFound, "workload %q of tenant %q not found", id, tenant)
	}
	return found[0], nil
}

// Workloads lists a page of a tenant's: those that are as the parameters namespace, name, node and held say.
func (m *Matcher) Workloads(ctx context.Context, tenant string, parameters url.Values) (*WorkloadList, error) {
	if err := m.exists(ctx, domain.Tenants, domain.TenantKey(tenant)); err != nil {
		return nil, err
	}
	held := parameters.Get("held")
	if _, err := Truth("held", held); err != nil {
		return nil, err
	}
	leave, err := m.reads.begin(ctx, tenant, []string{tenant})
	if err != nil {
		return nil, err
	}
	defer leave()
	all, _, err := m.store.WorkloadsAt(ctx, tenant)
	if err != nil {
		return nil, err
	}
	is := func(name, value string) bool { return !parameters.Has(name) || parameters.Get(name) == value }
	all = slices.DeleteFunc(all, func(w *domain.Workload) bool {
		return !is("namespace", w.ResourceNamespace) || !is("name", w.ResourceName) || !is("node", w.NodeName) || held != "" && w.Held != (held == "true")
	})
	list := &WorkloadList{}
	list.Items, list.Continue, err = pageOf(all, parameters, ofParts(1), func(w *domain.Workload) string { return w.ID })
	return list, err
}

// MatchesOf lists a page of the matches of a tenant, or of a rule: of an operator's those with all tenants. Of a tenant the
// parameters rule and workload select some. Errors: NotFound; Invalid for a rule that none is called; those of the store.
func (m *Matcher) MatchesOf(ctx context.Context, of domain.Key, parameters url.Values) (*MatchList, error) {
	tenants, rule, err := m.matchesIn(ctx, of)
	if err != nil {
		return nil, err
	}
	wanted := rule
	if parameters.Has("rule") {
		if wanted, err = ruleNamed(tenants[0], parameters.Get("rule")); err != nil {
			return nil, err
		}
	}
	single := parameters.Has("workload") && wanted != "" // of each tenant
	if !single {
		whose := ""
		if rule == "" || domain.RuleNoun(rule) == domain.WorkloadRules {
			whose = tenants[0]
		}
		leave, err := m.reads.begin(ctx, whose, tenants)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	var found []Match
	records := map[string]*domain.Match{}
	for _, tenant := range tenants {
		var all []domain.Match
		if single {
			id := domain.MatchID(tenant, wanted, parameters.Get("workload"))
			all, err = m.store.MatchesByID(ctx, tenant, []string{id})
		} else {
			all, err = m.store.Matches(ctx, tenant)
		}
		if err != nil {
			return nil, err
		}
		for i := range all {
			if one := &all[i]; (wanted == "" || one.Rule == wanted) && (!parameters.Has("workload") || one.Workload == parameters.Get("workload")) {
				alone := *one // a part of the list would keep all that the tenant has in memory
				found, records[one.ID()] = append(found, matchOf(one)), &alone
			}
		}
	}
	place := func(one Match) string {
		return placeOf(one.Tenant, one.Workload, string(one.Rule))
	}
	is := func(place string) bool {
		parts := partsOf(place)
		return len(parts) == 3 && (rule == "" && parts[0] == tenants[0] || parts[2] == string(rule))
	}
	slices.SortFunc(found, func(a, b Match) int { return cmp.Compare(place(a), place(b)) })
	list := &MatchList{}
	if rule != "" && len(tenants) == 1 && len(found) >= limits.RuleMatches {
		if list.Beyond, err = m.beyond(ctx, tenants[0], rule, found); err != nil {
			return nil, err
		}
	}
	if list.Items, list.Continue, err = pageOf(found, parameters, is, place); err != nil {
		return nil, err
	}
	return list, m.report(ctx, list.Items, records)
}

// ruleNamed is the key of the rule that a parameter asks for: by its path, as answers have it (workload-rules/r is the operator's),
// or by its name alone, which is the tenant's own. Invalid for what no rule of the tenant's or the operator's can be called; whether there is one, nobody
// looks: matches outlive their rule.
func ruleNamed(tenant, said string) (domain.Key, error) {
	key := domain.TenantKey(tenant).Child(domain.WorkloadRules.Collection, said)
	if strings.Contains(said, "/") {
		key = domain.Key(said)
	}
	names, own := domain.WorkloadRules.Split(key)
	if _, operators := domain.OperatorRules.Split(key); operators || own && names["tenant"] == tenant {
		return key, nil
	}
	return "", fail.Query("rule", "%q is no rule of tenant %q; use the name of one of the tenant's, or workload-rules/ and the name of one of the operator's", said, tenant)
}

// matchesIn says where the matches of a tenant or rule are.
func (m *Matcher) matchesIn(ctx context.Context, of domain.Key) (tenants []string, rule domain.Key, err error) {
	if _, ok := domain.Tenants.Split(of); ok {
		return []string{of.Name()}, "", m.exists(ctx, domain.Tenants, of)
	}
	noun := domain.RuleNoun(of)
	if err := m.exists(ctx, noun, of); err != nil {
		return nil, "", err
	}
	if parent, _ := domain.Cut(noun, of); parent != "" {
		return []string{parent.Name()}, of, nil
	}
	all, err := m.store.List(ctx, domain.Tenants, "")
	for _, t := range all {
		tenants = append(tenants, t.LocalName())
	}
	return tenants, of, err
}

// beyond counts the workloads that a rule matches and that have no match.
func (m *Matcher) beyond(ctx context.Context, tenant string, rule domain.Key, found []Match) (n int, err error) {
	s, err := m.settings(ctx, tenant)
	if err != nil {
		return 0, err
	}
	workloads, _, err := m.store.WorkloadsAt(ctx, tenant)
	if err != nil {
		return 0, err
	}
	have := make(map[string]bool, len(found))
	for i := range found {
		have[found[i].Workload] = found[i].Wanted
	}
	for _, r := range s.rules {
		for _, w := range workloads {
			if r.Key() == rule && !have[w.ID] && r.Matches(w) {
				n++
			}
		}
	}
	return n, nil
}

// matchOf is a match as it is shown.
func matchOf(m *domain.Match) Match {
	one := Match{
		Tenant: m.Tenant, Rule: m.Rule, Workload: m.Workload, State: stateOf(m), Wanted: m.Wanted != nil, Reason: m.Reason,
		DueSince: momentOf(m.Due), Next: momentOf(m.Next), Attempts: m.Attempts,
	}
	if m.Wanted != nil {
		one.Cluster, one.Reason = m.Wanted.Cluster.String(), cmp.Or(m.Reason, m.Wanted.Without)
	}
	if made := m.Made; made != nil {
		one.Cluster = made.Cluster.String()
		one.Object = objectOf(made.Group, made.Version, made.Kind, made.Namespace, made.Name)
	}
	return one
}
