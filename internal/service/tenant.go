package service

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/match"
	"github.com/drover-io/drover/internal/policy"
)

// Matching keeps the matches of rules and workloads in line with rules, hosts and tenants.
type Matching interface {
	// Changing comes before a write that may change the matches of a tenant, "" for all of them: who dies after the write
	// has left word that somebody is to look. An error refuses the write.
	Changing(ctx context.Context, tenant string) error
	// Changed comes after the write, to look at once. What it cannot do is left to who finds the word of Changing. rule is the
	// key of the rule that was written; "" when all of the tenant's may apply otherwise than before.
	Changed(ctx context.Context, tenant string, rule domain.Key)
	// Unchanged comes in place of it when the write was not done: nobody need look.
	Unchanged(ctx context.Context, tenant string)
	// Fresh comes before a tenant is made: what one before it with its name has said, if that was not forgotten, is not its.
	Fresh(ctx context.Context, tenant string) error
	// Forget removes what is known of a tenant that was deleted, and its namespace.
	Forget(ctx context.Context, tenant string) error
	// Matches are the records of a tenant.
	Matches(ctx context.Context, tenant string) ([]domain.Match, error)
	// LeftIn says what tenants that are gone, or are in another cluster now, may have in a cluster still, sorted by name.
	LeftIn(ctx context.Context, c domain.ClusterName) ([]domain.TenantLeft, error)
	// Preview says what a rule that may be stored would bring about.
	Preview(ctx context.Context, rule *domain.WorkloadRule, parameters url.Values) (*RulePreview, error)
}

// noMatching is for a service that nobody tells of workloads.
type noMatching struct{}

func (noMatching) Changing(context.Context, string) error                  { return nil }
func (noMatching) Changed(context.Context, string, domain.Key)             {}
func (noMatching) Unchanged(context.Context, string)                       {}
func (noMatching) Fresh(context.Context, string) error                     { return nil }
func (noMatching) Forget(context.Context, string) error                    { return nil }
func (noMatching) Matches(context.Context, string) ([]domain.Match, error) { return nil, nil }
func (noMatching) LeftIn(context.Context, domain.ClusterName) ([]domain.TenantLeft, error) {
	return nil, nil
}
func (noMatching) Preview(context.Context, *domain.WorkloadRule, url.Values) (*RulePreview, error) {
	return &RulePreview{}, nil
}

func fillTenant(o domain.Object) { o.(*domain.Tenant).Default() }

// changeTenant gives a tenant its context id for ever, and refuses what would leave its matches behind.
func (s *Service) changeTenant(ctx context.Context, c change) error {
	name := domain.KeyOf(c.object()).Name()
	switch {
	case c.from == nil:
		id, err := newContextID()
		if c.to.(*domain.Tenant).ContextID = id; err != nil {
			return err
		}
		if err := s.ownNamespace(ctx, c); err != nil {
			return err
		}
		return s.forgetEarlier(ctx, c.to)
	case c.to == nil: // another one of the name has other settings
		if err := s.keepMatched(ctx, c); err != nil {
			return err
		}
		return s.matching.Changing(ctx, name)
	}
	c.to.(*domain.Tenant).ContextID = c.from.(*domain.Tenant).ContextID
	if err := s.ownNamespace(ctx, c); err != nil {
		return err
	}
	if err := s.keepMatched(ctx, c); err != nil {
		return err
	}
	return s.matching.Changing(ctx, name)
}

// forgetEarlier removes what a tenant of the same name has left whose deletion nobody has finished. Conflict as long as it has
// something in a cluster.
func (s *Service) forgetEarlier(ctx context.Context, o domain.Object) error {
	name := domain.KeyOf(o).Name()
	_, err := s.store.Get(ctx, domain.Tenants, domain.KeyOf(o))
	if !fail.Is(err, fail.NotFound) {
		return err // where there is one, the write says so
	}
	found, err := s.matching.Matches(ctx, name)
	if err != nil {
		return fmt.Errorf("look for matches of an earlier tenant %s: %w", name, err)
	}
	if slices.ContainsFunc(found, func(m domain.Match) bool { return m.Made != nil }) {
		return fail.New(fail.Conflict, "an earlier tenant %q has something in its cluster still, which is being removed; try again", name)
	}
	return s.matching.Fresh(ctx, name)
}

// keepMatched refuses that a tenant goes, or goes to another cluster, as long as it has matches. A match that is made between
// the look and the write is seen by the second look.
func (s *Service) keepMatched(ctx context.Context, c change) error {
	if c.from == nil {
		return nil
	}
	from := c.from.(*domain.Tenant)
	moves := c.to != nil && c.to.(*domain.Tenant).ClusterName() != from.ClusterName()
	if c.to != nil && !moves {
		return nil
	}
	found, err := s.matching.Matches(ctx, from.Name)
	operators := 0
	for i := range found {
		if domain.RuleNoun(found[i].Rule) == domain.OperatorRules {
			operators++
		}
	}
	remedy, last := "delete its rules and wait until their matches are gone", "if"
	if operators > 0 { // nobody deletes those for one tenant
		remedy += fmt.Sprintf("; for the %d of the operator's rules end its workloads that they match", operators)
		last = "if it cannot end them, or"
	}
	switch {
	case err != nil:
		return fmt.Errorf("look for matches of tenant %s: %w", from.Name, err)
	case len(found) > 0 && moves:
		return fail.New(fail.Conflict, "spec.cluster: tenant %q has %d matches in cluster %s; %s", from.Name, len(found), from.ClusterName(), remedy)
	case len(found) > 0 && c.abandon:
		one := domain.TenantLeft{Tenant: from.Name, ContextID: from.ContextID, Cluster: from.ClusterName(), Namespace: from.Namespace()}
		one.Count(found)
		*c.left = []string{one.String()}
	case len(found) > 0:
		return fail.New(fail.Conflict, "tenant %q has %d matches; %s; %s cluster %s does not come back, delete the tenant with abandon=true",
			from.Name, len(found), remedy, last, from.ClusterName())
	case moves:
		hosts, err := s.store.List(ctx, domain.Hosts, domain.KeyOf(from))
		if err != nil {
			return err
		}
		for _, h := range hosts {
			if err := s.nodesAreFree(ctx, c.to.(*domain.Tenant), h.(*domain.Host)); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownNamespace refuses a tenant that comes to a cluster in which a logical cloud has its namespace: the cloud's user would have rights to what the
// tenant has there, and the cloud's terminate would delete it. Who makes such a cloud later needs the right to put the cluster (ofOthers).
func (s *Service) ownNamespace(ctx context.Context, c change) error {
	if c.to == nil {
		return nil
	}
	t := c.to.(*domain.Tenant)
	if c.from != nil && c.from.(*domain.Tenant).ClusterName() == t.ClusterName() {
		return nil
	}
	key, still, err := s.cloudIn(ctx, t.ClusterName(), func() (*alike, error) {
		return s.cloudsLike(ctx, func(domain.Key) bool { return true }, func(c *domain.LogicalCloud) bool { return c.Spec.Namespace == t.Namespace() })
	})
	cloud := cloudFor(ctx, key, "a logical cloud")
	var u *untold
	switch {
	case errors.As(err, &u):
		return fail.Wrap(err, u.kind, "%s may have namespace %s of the tenant in cluster %s: %s; or give the tenant another name or cluster",
			cloud, t.Namespace(), t.ClusterName(), u.why)
	case errors.Is(err, errLost):
		return fail.New(fail.Conflict, "%s may still have namespace %s of the tenant in cluster %s, as its plan is lost: terminate that cloud, where that fails have it deleted then by who may write all clusters, "+
			"or give the tenant another name or cluster", cloud, t.Namespace(), t.ClusterName())
	case err != nil:
		return fmt.Errorf("look for namespaces of cluster %s: %w", t.ClusterName(), err)
	case key == "":
		return nil
	case still:
		return fail.New(fail.Conflict, "%s still has namespace %s of the tenant in cluster %s: update that cloud, or terminate it, or give the tenant another name or cluster",
			cloud, t.Namespace(), t.ClusterName())
	default:
		return fail.New(fail.Conflict, "namespace %s of the tenant is that of %s in cluster %s: take the cluster out of that cloud, or give the tenant another name or cluster",
			t.Namespace(), cloud, t.ClusterName())
	}
}

// changedTenant looks again after the write.
func (s *Service) changedTenant(ctx context.Context, c change) error {
	if err := s.ownNamespace(ctx, c); err != nil {
		return err
	}
	if err := s.keepMatched(ctx, c); err != nil || c.from == nil || c.to == nil {
		return err
	}
	s.matching.Changed(ctx, c.to.(*domain.Tenant).Name, "")
	return nil
}

// unwritten takes back that something of a tenant was about to change. What was written for a moment others may have gone by: it is looked for what
// they have made of it.
func (s *Service) unwritten(ctx context.Context, tenant string, rule domain.Key, taken bool) {
	if taken {
		s.matching.Changed(ctx, tenant, rule)
	} else {
		s.matching.Unchanged(ctx, tenant)
	}
}

func (s *Service) droppedTenant(ctx context.Context, c change, taken bool) error {
	if c.from != nil { // nothing is said of one that is made
		s.unwritten(ctx, domain.KeyOf(c.from).Name(), "", taken)
	}
	return nil
}

func (s *Service) droppedHost(ctx context.Context, c change, taken bool) error {
	s.unwritten(ctx, c.object().Base().Parent.Name(), "", taken)
	return nil
}

func (s *Service) droppedRule(ctx context.Context, c change, taken bool) error {
	s.unwritten(ctx, domain.RuleOf(c.object()).Tenant(), domain.KeyOf(c.object()), taken)
	return nil
}

// forgetTenant cleans up after a tenant.
func (s *Service) forgetTenant(ctx context.Context, key domain.Key) error {
	if err := s.matching.Forget(ctx, key.Name()); err != nil {
		return err
	}
	s.matching.Changed(ctx, key.Name(), "")
	return nil
}

// forgetRule looks anew when a rule is gone, and forgetHost when a host is.
func (s *Service) forgetRule(ctx context.Context, key domain.Key) error {
	if parent, _ := domain.Cut(domain.RuleNoun(key), key); parent != "" {
		s.matching.Changed(ctx, parent.Name(), key)
	} else {
		s.matching.Changed(ctx, "", key)
	}
	return nil
}

func (s *Service) forgetHost(ctx context.Context, key domain.Key) error {
	parent, _ := domain.Cut(domain.Hosts, key)
	s.matching.Changed(ctx, parent.Name(), "")
	return nil
}

// outruled warns of rules that the tenant's spec does not let be any more: they match nothing.
func (s *Service) outruled(ctx context.Context, o domain.Object) (warnings []string, err error) {
	t := o.(*domain.Tenant)
	list, err := s.store.List(ctx, domain.WorkloadRules, domain.KeyOf(t))
	if err != nil {
		return nil, err
	}
	for _, rule := range list {
		if err := match.ValidateRule(t, domain.RuleOf(rule)); err != nil {
			warnings = append(warnings, fmt.Sprintf("workload rule %q matches nothing now: %s", rule.LocalName(), fail.TextOf(err)))
		}
	}
	return warnings, nil
}

// changeHost refuses a host with a node that another one has, of whatever tenant in the same cluster.
func (s *Service) changeHost(ctx context.Context, c change) error {
	if err := s.oneHostPerNode(ctx, c); err != nil {
		return err
	}
	return s.matching.Changing(ctx, c.object().Base().Parent.Name())
}

// changedHost looks again: of two hosts that are written at the same time, one sees the other at least.
func (s *Service) changedHost(ctx context.Context, c change) error {
	if err := s.oneHostPerNode(ctx, c); err != nil {
		return err
	}
	if c.to != nil {
		s.matching.Changed(ctx, c.to.Base().Parent.Name(), "")
	}
	return nil
}

func (s *Service) oneHostPerNode(ctx context.Context, c change) error {
	if c.to == nil {
		return nil
	}
	t, err := s.tenant(ctx, c.to)
	if err != nil {
		return err
	}
	return s.nodesAreFree(ctx, t, c.to.(*domain.Host))
}

// tenant is the one that a document is below.
func (s *Service) tenant(ctx context.Context, o domain.Object) (*domain.Tenant, error) {
	t, err := s.store.Get(ctx, domain.Tenants, o.Base().Parent)
	if err != nil {
		return nil, err
	}
	return t.(*domain.Tenant), nil
}

// nodesAreFree refuses a host of a tenant when another host in the same cluster has one of its nodes.
func (s *Service) nodesAreFree(ctx context.Context, t *domain.Tenant, host *domain.Host) error {
	if len(host.Spec.Nodes) == 0 {
		return nil
	}
	tenants, err := s.store.List(ctx, domain.Tenants, "")
	if err != nil {
		return err
	}
	hosts, err := s.store.ListUnder(ctx, domain.Hosts, "")
	if err != nil {
		return err
	}
	near := map[domain.Key]bool{domain.KeyOf(t): true}
	for _, o := range tenants {
		if other := o.(*domain.Tenant); other.Name != t.Name && other.ClusterName() == t.ClusterName() {
			near[domain.KeyOf(other)] = true
		}
	}
	for _, o := range hosts {
		other := o.(*domain.Host)
		if !near[other.Parent] || domain.KeyOf(other) == domain.KeyOf(host) {
			continue
		}
		for i, node := range host.Spec.Nodes {
			if slices.Contains(other.Spec.Nodes, node) {
				return fail.New(fail.Conflict, "spec.nodes[%d]: node %q of cluster %s belongs to host %q of tenant %q already",
					i, node, t.ClusterName(), other.Name, other.Parent.Name())
			}
		}
	}
	return nil
}

// acceptRule refuses a rule that match.AcceptRule refuses.
func (s *Service) acceptRule(ctx context.Context, o domain.Object) error {
	rule := domain.RuleOf(o)
	if err := match.Unambiguous(rule); err != nil {
		return err
	}
	if rule.Operators() {
		return match.AcceptRule(nil, rule)
	}
	t, err := s.tenant(ctx, o)
	if err != nil {
		return err
	}
	return match.AcceptRule(t, rule)
}

// changeRule refuses one rule too many, and one with which all have too many bytes.
func (s *Service) changeRule(ctx context.Context, c change) error {
	if err := s.roomForRule(ctx, c); err != nil {
		return err
	}
	return s.matching.Changing(ctx, domain.RuleOf(c.object()).Tenant())
}

// changedRule looks again: of several rules that are made at the same time, those that are too many see it.
func (s *Service) changedRule(ctx context.Context, c change) error {
	if err := s.roomForRule(ctx, c); err != nil {
		return err
	}
	if c.to != nil {
		s.matching.Changed(ctx, domain.RuleOf(c.to).Tenant(), domain.KeyOf(c.to))
	}
	return nil
}

// roomForRule refuses a rule beside which there are too many, or with which all together are too large. One that does not become
// larger may be changed in any case, also where there was no such limit when the others were made.
func (s *Service) roomForRule(ctx context.Context, c change) error {
	if c.to == nil {
		return nil
	}
	size, before := sizeOfRule(c.to), ruleSize{}
	if c.from != nil {
		before = sizeOfRule(c.from)
	}
	if size.bytes <= before.bytes && size.expressions <= before.expressions {
		return nil
	}
	noun, parent := c.to.Noun(), c.to.Base().Parent
	sizes, err := s.ruleSizes.Get(ctx, string(parent.Child(noun.Collection)), func(ctx context.Context) (map[string]ruleSize, error) {
		return s.sizesOfRules(ctx, noun, parent)
	})
	if err != nil {
		return err
	}
	n, all := 1, size
	for name, have := range sizes {
		if name != c.to.LocalName() {
			n, all = n+1, ruleSize{all.bytes + have.bytes, all.expressions + have.expressions}
		}
	}
	switch {
	case n > limits.TenantRules && c.from == nil:
		return full(c.to, limits.TenantRules)
	case all.bytes > limits.TenantRuleBytes && size.bytes > before.bytes:
		return fail.New(fail.Exhausted, "all workload rules together may have %d bytes, and with %q they would have %d; delete one first, or make one smaller",
			limits.TenantRuleBytes, c.to.LocalName(), all.bytes)
	case all.expressions > limits.TenantRuleExpressions && size.expressions > before.expressions:
		return fail.New(fail.Exhausted, "all workload rules together may have %d matchExpressions, and with %q they would have %d; delete one first, or make one smaller",
			limits.TenantRuleExpressions, c.to.LocalName(), all.expressions)
	default:
		return nil
	}
}

// ruleSize is what a rule has of what all may have together.
type ruleSize struct{ bytes, expressions int }

func sizeOfRule(o domain.Object) ruleSize {
	rule := domain.RuleOf(o)
	return ruleSize{rule.Bytes(), rule.Expressions()}
}

// sizesOfRules are those of rules, by name. Who makes many at a time shares a read of them: together they are large.
func (s *Service) sizesOfRules(ctx context.Context, noun *domain.Noun, parent domain.Key) (map[string]ruleSize, error) {
	ctx, cancel := context.WithTimeout(ctx, policy.Plain)
	defer cancel()
	list, err := s.store.List(ctx, noun, parent)
	if err != nil {
		return nil, err
	}
	sizes := make(map[string]ruleSize, len(list))
	for _, o := range list {
		sizes[o.LocalName()] = sizeOfRule(o)
	}
	return sizes, nil
}

// room refuses a document beside which there are so many that with so many more there would be too many.
func (s *Service) room(ctx context.Context, o domain.Object, most, more int) error {
	n, err := s.store.Count(ctx, o.Noun(), o.Base().Parent)
	if err == nil && n+more > most {
		return full(o, most)
	}
	return err
}

func full(o domain.Object, most int) error {
	return fail.New(fail.Exhausted, "%d %s are the most that there may be; delete one first", most, strings.ReplaceAll(o.Noun().Collection, "-", " "))
}
