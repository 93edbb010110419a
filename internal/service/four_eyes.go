package service

import (
	"context"
	"slices"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
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

// fourEyes refuses that who has changed a group approves it, where its project asks for that. When so many have that not all are
// known, anybody may be one of them: an admin of the fleet alone approves then.
func (l *Lifecycle) fourEyes(ctx context.Context, group *domain.DeploymentIntentGroup) error {
	by := proven(ctx)
	known := slices.Contains(group.ChangedBy, by)
	many := by != "" && slices.Contains(group.ChangedBy, domain.ManyChangers) && rights.Of(ctx).Lacks(domain.RoleAdmin, nil, "") != ""
	if !known && !many {
		return nil
	}
	o, err := l.store.Get(ctx, domain.Projects, group.Project())
	if err != nil {
		return err
	}
	if !o.(*domain.Project).FourEyes() {
		return nil
	}
	if !known {
		return fail.New(fail.Forbidden, "deployment intent group %q was changed by more people than are known by name since it was last approved, and "+
			"project %q asks for four eyes: somebody with the role %s of the fleet has to approve it", group.Name, o.(*domain.Project).Name, domain.RoleAdmin)
	}
	return fail.New(fail.Forbidden, "deployment intent group %q was changed by %s since it was last approved, and project %q asks for four eyes: "+
		"somebody else has to approve it", group.Name, by, o.(*domain.Project).Name)
}
