package trail

import (
	"context"
	"time"
)

// RunAt is Run at the times that a test says.
func (t *Trail) RunAt(ctx context.Context, seal, look, drop <-chan time.Time) {
	t.run(ctx, seal, look, drop)
}
