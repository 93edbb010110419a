package temporal

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

// logger is the server's logging interface on top of slog.
//
// Services that share a process complain, on its way up and down, that the
// others do not answer yet or any more. So whatever is said while the server is
// not running counts as debug output.
type logger struct {
	l       *slog.Logger
	running *atomic.Bool
}

// ofNoUse are warnings that the server gives each time that it starts, and of which nobody can conclude anything: here that a service
// of its own asks another one without a wish for what comes along with the answer.
var ofNoUse = []string{"TrailerToContextMetadataInterceptor: Trailer had metadata but context not wrapped"}

var _ log.WithLogger = logger{}

func newLogger(l *slog.Logger, running *atomic.Bool) logger {
	return logger{l: l, running: running}
}

// SLog lets the SDK clients inside the server log to the same place.
func (l logger) SLog() *slog.Logger { return l.l }

func (l logger) With(tags ...tag.Tag) log.Logger {
	args := make([]any, len(tags))
	for i, t := range tags {
		args[i] = slog.Any(t.Key(), t.Value())
	}
	return logger{l: l.l.With(args...), running: l.running}
}

func (l logger) Debug(msg string, tags ...tag.Tag)  { l.log(slog.LevelDebug, msg, tags) }
func (l logger) Info(msg string, tags ...tag.Tag)   { l.log(slog.LevelInfo, msg, tags) }
func (l logger) Warn(msg string, tags ...tag.Tag)   { l.log(slog.LevelWarn, msg, tags) }
func (l logger) Error(msg string, tags ...tag.Tag)  { l.log(slog.LevelError, msg, tags) }
func (l logger) DPanic(msg string, tags ...tag.Tag) { l.log(slog.LevelError, msg, tags) }

// Panic logs and panics, as its contract says.
func (l logger) Panic(msg string, tags ...tag.Tag) { l.die(msg, tags) }

// Fatal logs and panics. Its contract is that it does not return; to end the
// process is not for a library to do.
func (l logger) Fatal(msg string, tags ...tag.Tag) { l.die(msg, tags) }

func (l logger) log(level slog.Level, msg string, tags []tag.Tag) {
	ctx := context.Background()
	if !l.running.Load() || slices.Contains(ofNoUse, msg) {
		level = slog.LevelDebug
	}
	if !l.l.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, len(tags))
	for i, t := range tags {
		attrs[i] = slog.Any(t.Key(), t.Value())
	}
	l.l.LogAttrs(ctx, level, msg, attrs...) //nolint:sloglint // the words are the server's
}

func (l logger) die(msg string, tags []tag.Tag) {
	l.log(slog.LevelError, msg, tags)
	for _, t := range tags {
		msg += fmt.Sprintf(" %s=%v", t.Key(), t.Value())
	}
	panic(msg)
}
