package service

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/rights"
)

// Rights reads the roles and bindings of the installation. Those that cannot be read give nothing to anybody: a domain.Unreadable, which
// then comes with the book of all others, names them.
func (s *Service) Rights(ctx context.Context) (*rights.Book, error) {
	nouns := append([]*domain.Noun{domain.Roles}, domain.BindingNouns...)
	of, unreadable := make([][]domain.Object, len(nouns)), make([]error, len(nouns))
	g, ctx := panics.WithContext(ctx) // at once: who waits for a right waits for the slowest, not for the sum
	for i, n := range nouns {
		g.Go(func() (err error) {
			of[i], unreadable[i] = s.store.ListUnder(ctx, n, "")
			_, err = domain.UnreadableOf(unreadable[i])
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var roles []*domain.Role
	var bindings []*domain.RoleBinding
	for _, found := range of {
		for _, o := range found {
			switch o := o.(type) {
			case *domain.Role:
				roles = append(roles, o)
			case *domain.RoleBinding:
				bindings = append(bindings, o)
			}
		}
	}
	var left error
	for _, err := range unreadable {
		left = domain.And(left, err)
	}
	return rights.NewBook(roles, bindings), left
}

// checkRole names the verbs and nouns of a role that there are not.
func checkRole(o domain.Object, p *fail.Problems) { rights.CheckRole(o.(*domain.Role), p) }

// changeRole refuses a role with rights that the caller has not: who has the role would get them.
func (s *Service) changeRole(ctx context.Context, c change) error {
	if c.to == nil {
		return nil
	}
	r := c.to.(*domain.Role)
	if lacks := rights.Of(ctx).Lacks("", r.Spec.Rules, ""); lacks != "" {
		return fail.New(fail.Forbidden, "role %q cannot have a right that you have not in the fleet: %s", r.Name, lacks)
	}
	return nil
}

// changeBinding refuses to give what the caller has not. The last binding that makes somebody admin of the fleet goes by the hand
// of the first service account alone, which stays admin without one.
func (s *Service) changeBinding(ctx context.Context, c change) error {
	granted := rights.Of(ctx)
	if c.to != nil {
		b := c.to.(*domain.RoleBinding)
		own, err := s.rulesOf(ctx, b)
		if err != nil {
			return err
		}
		if lacks := granted.Lacks(b.Spec.Role, own, b.Parent); lacks != "" {
			return fail.New(fail.Forbidden, "you cannot give the role %q here: it has a right that you have not, %s", b.Spec.Role, lacks)
		}
	}
	if granted.Everything() || granted.First() || c.from == nil || !givesAdmin(c.from) || c.to != nil && givesAdmin(c.to) {
		return nil
	}
	all, unread := s.store.List(ctx, domain.RoleBindings, "")
	unreadable, err := domain.UnreadableOf(unread)
	if err != nil {
		return err
	}
	for _, o := range all {
		if givesAdmin(o) && domain.KeyOf(o) != domain.KeyOf(c.from) {
			return nil
		}
	}
	if slices.ContainsFunc(unreadable, func(id string) bool { return domain.Key(id) != domain.KeyOf(c.from) }) {
		return unread // one of these may make somebody admin, or none
	}
	return fail.New(fail.Conflict, "role binding %q is the last one that makes anybody %s of the fleet: bind somebody else first; %s can do without",
		c.from.(*domain.RoleBinding).Name, domain.RoleAdmin, domain.FirstAdmin)
}

// rulesOf are the rules of the role of a binding, nil where that is built in.
func (s *Service) rulesOf(ctx context.Context, b *domain.RoleBinding) ([]domain.RoleRule, error) {
	for _, ref := range b.References() {
		if ref.Noun != domain.Roles {
			continue
		}
		o, err := s.store.Get(ctx, domain.Roles, ref.Key)
		if err != nil {
			return nil, err
		}
		return o.(*domain.Role).Spec.Rules, nil
	}
	return nil, nil
}

// remarkBinding says that a binding gives nothing where it is.
func (s *Service) remarkBinding(ctx context.Context, o domain.Object) ([]string, error) {
	b := o.(*domain.RoleBinding)
	own, err := s.rulesOf(ctx, b)
	if err != nil {
		return nil, err
	}
	if text := rights.Remark(b.Spec.Role, own, b.Parent); text != "" {
		return []string{"spec.role: " + text}, nil
	}
	return nil, nil
}

// remarkRole names the rules of a role that allow nothing.
func (s *Service) remarkRole(_ context.Context, o domain.Object) ([]string, error) {
	return rights.RemarkRules(o.(*domain.Role)), nil
}

// changedBinding looks again whether somebody else has taken another last one away meanwhile.
func (s *Service) changedBinding(ctx context.Context, c change) error {
	if c.from == nil {
		return nil
	}
	return s.changeBinding(ctx, c)
}

// givesAdmin says whether a binding makes somebody admin of the fleet.
func givesAdmin(o domain.Object) bool {
	b := o.(*domain.RoleBinding)
	return b.Parent == "" && b.Spec.Role == domain.RoleAdmin
}

// mayName says whether the caller may refer to something that is there. What lies in the same scope, who writes there may name;
// what is the fleet's, who may read it. A cluster may be named by who may use its provider's clusters; within a project also by
// others, once one of the project's logical clouds has it (used).
func (s *Service) mayName(ctx context.Context, o domain.Object, ref domain.Reference, used usedClusters) (bool, error) {
	granted, scope := rights.Of(ctx), domain.ScopeOf(domain.KeyOf(o))
	switch {
	case granted.Everything(), scope != "" && domain.ScopeOf(ref.Key) == scope:
		return true, nil
	case ref.Noun == domain.Roles, ref.Noun == domain.ServiceAccounts: // what is given, and by whom, is looked at by itself
		return true, nil
	case ref.Noun != domain.ClustersNoun:
		return granted.Sees(ref.Noun, ref.Key), nil
	case granted.May(rights.Use, domain.ClustersNoun, ref.Key):
		return true, nil
	case o.Noun() == domain.ClusterReferences:
		return false, nil
	}
	there, err := used()
	return there[ref.Key], err
}

// usedClusters gives the keys of the clusters, and of their providers, that the logical clouds of a project have. They are read when they are
// first asked for: a placement may name thousands.
type usedClusters func() (map[domain.Key]bool, error)

func (s *Service) usedBy(ctx context.Context, project domain.Key) usedClusters {
	return sync.OnceValues(func() (map[domain.Key]bool, error) {
		if project == "" {
			return nil, nil
		}
		members, err := s.store.ListUnder(ctx, domain.ClusterReferences, project)
		if err != nil {
			return nil, fmt.Errorf("look for the clusters of %s: %w", project, err)
		}
		used := map[domain.Key]bool{}
		for _, m := range members {
			c := m.(*domain.ClusterReference).ClusterName()
			used[c.Key()], used[domain.Join(domain.ClusterProviders.Collection, c.Provider)] = true, true
		}
		return used, nil
	})
}

// unseenProviders are the providers of which a placement or a customization selects clusters by label, and of which the caller may name none:
// what the label is on, or whether the provider is there, would show in what is said of the group.
func (s *Service) unseenProviders(ctx context.Context, o domain.Object, used usedClusters) (unseen []fail.Field, err error) {
	granted := rights.Of(ctx)
	if granted.Everything() {
		return nil, nil
	}
	for _, l := range labelled(o) {
		key := domain.Join(domain.ClusterProviders.Collection, l.provider)
		if granted.Sees(domain.ClusterProviders, key) {
			continue
		}
		there, err := used()
		if err != nil {
			return nil, err
		}
		if !there[key] {
			unseen = append(unseen, fail.Field{Path: l.path + ".clusterProvider", Message: describe(domain.ClusterProviders, key) + " not found"})
		}
	}
	return unseen, nil
}

// selection is where a document selects clusters of a provider by label.
type selection struct{ path, provider string }

func labelled(o domain.Object) (all []selection) {
	switch o := o.(type) {
	case *domain.AppIntent:
		for _, c := range o.Selections() {
			if c.ClusterLabel != "" {
				all = append(all, selection{c.Path, c.ClusterProvider})
			}
		}
	case *domain.Customization:
		if c := o.Spec.ClusterInfo; o.Spec.ClusterSpecific == domain.True && c.Scope == domain.ScopeLabel {
			all = append(all, selection{"spec.clusterInfo", c.ClusterProvider})
		}
	}
	return all
}
