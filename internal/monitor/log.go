package monitor

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"
)

// SetLog has the Kubernetes libraries log to log, once for the process: they keep their loggers in globals. What
// they say of their own doings is shown when log shows debug.
func SetLog(log *slog.Logger) {
	h := libraries{log.Handler()}
	klog.SetSlogLogger(slog.New(h))
	crlog.SetLogger(logr.FromSlogHandler(h))
}

// libraries is a handler that takes information for debug.
type libraries struct{ slog.Handler }

// Enabled implements slog.Handler.
func (h libraries) Enabled(ctx context.Context, level slog.Level) bool {
	if level >= slog.LevelInfo && level < slog.LevelWarn {
		level = slog.LevelDebug
	}
	return h.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h libraries) WithAttrs(attrs []slog.Attr) slog.Handler {
	return libraries{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h libraries) WithGroup(name string) slog.Handler { return libraries{h.Handler.WithGroup(name)} }
