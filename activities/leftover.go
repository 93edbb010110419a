package activities

import (
	"context"
	"fmt"
	"slices"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// leftover adds a warning of what the owner's last instance may still have in clusters because its terminate did not come to its
// end. What the next one has too goes over to it; nobody deletes the rest.
func (l *Lifecycle) leftover(ctx context.Context, owner domain.Owner, warnings []string) ([]string, error) {
	id := owner.Track().ContextID()
	if id == "" {
		return warnings, nil
	}
	i, err := l.Store.Instance(ctx, id)
	switch {
	case fail.Is(err, fail.NotFound):
		return warnings, nil
	case err != nil:
		return nil, err
	case i.Status == domain.ContextTerminateFailed:
		warnings = append(warnings, fmt.Sprintf("instance %s is %s: what it has left in clusters, and this one has not, stays there", id, i.Status))
	}
	return warnings, nil
}

// holds says whether an active record tells what may be in clusters. It does not when the workflow was ended by hand that
// wrote it and its owner has not got the context, or another context has taken over from it of which it does not know.
func (l *Lifecycle) holds(ctx context.Context, i *domain.Instance) (bool, error) {
	owner, err := l.owner(ctx, i.Owner)
	if fail.Is(err, fail.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	h := owner.Track()
	if !h.Knows(i.ContextID) {
		return l.Runs.Running(ctx, domain.Scope{Owner: i.Owner, ContextID: i.ContextID, Operation: i.Working()})
	}
	left := slices.IndexFunc(h.Actions, func(a domain.Action) bool { return a.ContextID == i.ContextID && a.By != "" })
	if left < 0 {
		return true, nil
	}
	_, err = l.Store.Instance(ctx, h.Actions[left].By)
	if fail.Is(err, fail.NotFound) {
		return true, nil
	}
	return false, err
}
