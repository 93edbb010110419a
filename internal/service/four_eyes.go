package service

import (
	"context"
	"crypto/rand"
	"slices"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/cas"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/rights"
)

// proven is who asks, "" where nobody has proven who it is.
func proven(ctx context.Context) string {
	who, err := caller.IdentityOf(ctx)
	if err != nil || who.Kind == caller.Anonymous || who.Kind == caller.Open {
		return ""
	}
	return who.String()
}

// fourEyes refuses that who has changed a group does with it what approves of that, where its project asks for that, which asked says. When so
// many have that not all are known, anybody may be one of them: an admin of the fleet alone does it then.
func (l *Lifecycle) fourEyes(ctx context.Context, group *domain.DeploymentIntentGroup, does string) (asked bool, err error) {
	changers := group.Changers()
	if len(changers) == 0 {
		return false, nil
	}
	o, err := l.store.Get(ctx, domain.Projects, group.Project())
	if err != nil || !o.(*domain.Project).FourEyes() {
		return false, err
	}
	by, project := proven(ctx), o.(*domain.Project).Name
	switch {
	case slices.Contains(changers, by):
		return true, fail.New(fail.Forbidden, "deployment intent group %q was changed by %s since it was last approved, and project %q asks for four eyes: "+
			"somebody else has to %s it", group.Name, by, project, does)
	case by != "" && slices.Contains(changers, domain.ManyChangers) && rights.Of(ctx).Lacks(domain.RoleAdmin, nil, "") != "":
		return true, fail.New(fail.Forbidden, "deployment intent group %q was changed by more people than are known by name since it was last approved, and "+
			"project %q asks for four eyes: somebody with the role %s of the fleet has to %s it", group.Name, project, domain.RoleAdmin, does)
	default:
		return true, nil
	}
}

// takingIn begins an operation that takes in what a group has become since it was approved: a group that is instantiated is changed, and
// updated, without another approval, and so is one that is instantiated anew after a terminate. Where its project asks for four eyes somebody
// else has to ask for that than has changed it, and thereby approves it. Who has changed it is known until the operation was begun,
// whoever dies in between, and who changes it meanwhile after that, too. Of several such calls at a time the one that began last answers for
// all whom it found: what another one took in may be known for longer then, and nothing is forgotten that nobody took in.
func (l *Lifecycle) takingIn(ctx context.Context, owner domain.Owner, op domain.Operation, begin func() error) error {
	group, ok := owner.(*domain.DeploymentIntentGroup)
	if !ok {
		return begin()
	}
	asked, err := l.fourEyes(ctx, group, string(op))
	if err != nil {
		return err
	}
	if !asked {
		return begin()
	}
	review := rand.Text()
	err = l.rewrite(ctx, group, func(g *domain.DeploymentIntentGroup) error {
		if _, err := l.fourEyes(ctx, g, string(op)); err != nil { // it may have been changed since
			return err
		}
		if changers := g.Changers(); len(changers) > 0 { // another call may have cleared them
			g.Reviewing, g.Review, g.ChangedBy = changers, review, nil
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = begin()
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), policy.Undo)
	defer cancel()
	// When this fails they go on to count, and the next one who has changed nothing clears them.
	_ = l.rewrite(after, group, func(g *domain.DeploymentIntentGroup) error {
		if g.Review != review {
			return nil
		}
		if err != nil { // nothing was taken in
			g.ChangedBy = g.Changers()
		}
		g.Reviewing, g.Review = nil, ""
		return nil
	})
	return err
}

// rewrite changes what is known of who has changed a group.
func (l *Lifecycle) rewrite(ctx context.Context, group *domain.DeploymentIntentGroup, change func(*domain.DeploymentIntentGroup) error) error {
	return cas.Do(ctx, func() error {
		o, err := l.owner(ctx, domain.KeyOf(group))
		if err != nil {
			return err
		}
		now := o.(*domain.DeploymentIntentGroup)
		if err := change(now); err != nil {
			return err
		}
		return cas.Overtaken(l.store.Replace(ctx, now))
	})
}
