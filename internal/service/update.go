package service

import (
	"context"
	"fmt"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// UpdateOptions say how an update is made.
type UpdateOptions struct {
	// Reapply has all that is wanted applied, also what is there as it is wanted by the records: somebody else may have changed it in a
	// cluster, or taken it away.
	Reapply bool
}

// Update brings what an owner has in clusters in line with what is wanted now. It returns when the way there is
// planned and recorded, with the revision that the instance has then: the one it had when there is no difference, of
// which a warning tells. With Reapply what is there by the records is applied again, which is a difference; where nothing is, a warning
// tells that, too.
func (l *Lifecycle) Update(ctx context.Context, key domain.Key, how UpdateOptions) (revision int, warnings []string, err error) {
	owner, t, observed, err := l.decide(ctx, key, domain.OpUpdate)
	if err != nil {
		return 0, nil, err
	}
	if t.Same {
		return 0, whyNot(t), nil
	}
	err = l.takingIn(ctx, owner, domain.OpUpdate, func() error {
		revision, warnings, err = l.change(ctx, key, domain.OpUpdate, seen(owner, observed), domain.Goal{Reapply: how.Reapply})
		return err
	})
	if err == nil && revision == owner.Track().Revision() {
		warnings = append(warnings, how.nothing(owner)...)
	}
	return revision, warnings, err
}

// whyNot is the warning of an operation that does nothing.
func whyNot(t domain.Transition) (warnings []string) {
	if t.Same && t.Why != "" {
		warnings = append(warnings, t.Why)
	}
	return warnings
}

// nothing are the warnings of an update that has applied nothing.
func (how UpdateOptions) nothing(owner domain.Owner) []string {
	if !how.Reapply {
		return nil
	}
	return []string{fmt.Sprintf("nothing of %s was applied again: it has nothing in clusters that could be", describe(owner.Noun(), domain.KeyOf(owner)))}
}

// Rollback brings what an owner has in clusters back to what it was at a revision since the last instantiate; what
// the owner wants stays as it is, and is what the next update goes by. NotFound names a revision that is not there.
func (l *Lifecycle) Rollback(ctx context.Context, key domain.Key, revision int) (warnings []string, err error) {
	owner, _, observed, err := l.decide(ctx, key, domain.OpRollback)
	if err != nil {
		return nil, err
	}
	revert, err := revisionOf(owner, key, revision)
	if err != nil {
		return nil, err
	}
	_, warnings, err = l.change(ctx, key, domain.OpRollback, seen(owner, observed), domain.Goal{Revert: revert})
	return warnings, err
}

// revisionOf is the context of a revision since the last instantiate.
func revisionOf(owner domain.Owner, key domain.Key, revision int) (contextID string, err error) {
	known := []string{}
	for _, a := range owner.Track().Revisions() {
		if a.Revision == revision {
			return a.ContextID, nil
		}
		known = append(known, fmt.Sprint(a.Revision))
	}
	return "", fail.New(fail.NotFound, "No matching ContextId found: %s has no revision %d; there are %s",
		describe(owner.Noun(), key), revision, strings.Join(known, ", "))
}

// Migrate hands what a group has in clusters over to an approved group of the same composite app, mostly of another version, and
// brings it in line with what that one wants.
func (l *Lifecycle) Migrate(ctx context.Context, source domain.Key, version, group string) (warnings []string, err error) {
	from, _, _, err := l.decide(ctx, source, domain.OpMigrate)
	if err != nil {
		return nil, err
	}
	target, err := targetOf(source, version, group)
	if err != nil {
		return nil, err
	}
	to, _, observed, err := l.decide(ctx, target, domain.OpReceive)
	if err != nil {
		return nil, err
	}
	_, warnings, err = l.change(ctx, target, domain.OpMigrate, seen(to, observed), domain.Goal{Source: source, SourceHistory: from.Track().Sign()})
	return warnings, err
}

// targetOf is the key of another group of a version of the composite app that source is a group of.
func targetOf(source domain.Key, version, group string) (domain.Key, error) {
	noun := domain.DeploymentIntentGroups
	names, ok := noun.Split(source)
	if !ok {
		return "", fail.New(fail.Internal, "%s is no deployment intent group", source)
	}
	if names["compositeAppVersion"] == version && names["deploymentIntentGroup"] == group {
		return "", fail.New(fail.Invalid, "spec.targetDeploymentIntentGroup: %s of %s is the group itself; use update", group, version)
	}
	names["compositeAppVersion"], names["deploymentIntentGroup"] = version, group
	target, _ := noun.Key(names)
	return target, nil
}

// change starts an operation whose context takes over from another one.
func (l *Lifecycle) change(ctx context.Context, key domain.Key, op domain.Operation, seen domain.Seen, goal domain.Goal) (int, []string, error) {
	id, err := newContextID()
	if err != nil {
		return 0, nil, err
	}
	return l.engine.Change(ctx, domain.Scope{Owner: key, ContextID: id, Operation: op}, seen, goal)
}
