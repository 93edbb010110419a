package app

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/drover-io/drover/internal/domain"
)

// whoMay reads the roles and bindings for the door. What cannot be read gives nothing to anybody, and is logged whenever that is another
// one than before: one that somebody has damaged does not lock out all others, who may have to repair it.
func whoMay[Book any](read func(context.Context) (*Book, error), log *slog.Logger) func(context.Context) (*Book, error) {
	var mu sync.Mutex
	var known []string
	return func(ctx context.Context) (*Book, error) {
		book, unreadable := read(ctx)
		ids, err := domain.UnreadableOf(unreadable)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		if len(ids) > 0 && !slices.Equal(ids, known) {
			log.ErrorContext(ctx, "roles or bindings cannot be read, and give nothing", slog.Any("which", ids), slog.Any("error", unreadable))
		}
		known = ids
		return book, nil
	}
}
