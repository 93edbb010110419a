package service

import (
	"context"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/readiness"
)

// ReadinessRules reads the rules of users, for a readiness.Book.
func ReadinessRules(ctx context.Context, store Store) ([]readiness.Rule, error) {
	list, err := store.List(ctx, domain.ReadinessRules, "")
	if err != nil {
		return nil, err
	}
	rules := make([]readiness.Rule, 0, len(list))
	for _, o := range list {
		rules = append(rules, compilable(o.(*domain.ReadinessRule)))
	}
	return rules, nil
}

func compilable(r *domain.ReadinessRule) readiness.Rule {
	s := r.Spec
	return readiness.Rule{Name: r.Name, Group: s.Group, Version: s.Version, Kind: s.Kind, Ready: s.Ready, Message: s.Message}
}

// acceptReadinessRule refuses a rule that does not compile, and a second one for a kind.
func (s *Service) acceptReadinessRule(ctx context.Context, c change) error {
	if c.to == nil {
		return nil
	}
	if err := readiness.Check(compilable(c.to.(*domain.ReadinessRule))); err != nil {
		return err
	}
	return s.oneRulePerKind(ctx, c)
}

// oneRulePerKind keeps a kind from having two rules. Two that are created at the same time see each other afterwards,
// and both may be refused.
func (s *Service) oneRulePerKind(ctx context.Context, c change) error {
	if c.to == nil {
		return nil
	}
	wanted := c.to.(*domain.ReadinessRule)
	list, err := s.store.List(ctx, domain.ReadinessRules, "")
	if err != nil {
		return err
	}
	for _, o := range list {
		if r := o.(*domain.ReadinessRule); r.Spec.About() == wanted.Spec.About() && r.Name != wanted.Name {
			return fail.New(fail.Conflict, "spec.kind: %s has a readiness rule already: %q", r.Spec.About(), r.Name)
		}
	}
	return nil
}
