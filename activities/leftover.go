package activities

import (
	"context"
	"fmt"

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
