package service

import (
	"context"
	"slices"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// proven is who asks, "" where nobody has proven who it is.
func proven(ctx context.Context) string {
	who, err := caller.IdentityOf(ctx)
	if err != nil || who.Kind == caller.Anonymous || who.Kind == caller.Open {
		return ""
	}
	return who.String()
}

// fourEyes refuses that who has changed a group approves it, where its project asks for that.
func (l *Lifecycle) fourEyes(ctx context.Context, group *domain.DeploymentIntentGroup) error {
	by := proven(ctx)
	if !slices.Contains(group.ChangedBy, by) {
		return nil
	}
	o, err := l.store.Get(ctx, domain.Projects, group.Project())
	if err != nil {
		return err
	}
	if !o.(*domain.Project).FourEyes() {
		return nil
	}
	return fail.New(fail.Forbidden, "deployment intent group %q was changed by %s since it was last approved, and project %q asks for four eyes: "+
		"somebody else has to approve it", group.Name, by, o.(*domain.Project).Name)
}
