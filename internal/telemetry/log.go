package telemetry

import (
	"context"
	"errors"
	"log/slog"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"

	"github.com/drover-io/drover/internal/fail"
)

// TemporalLogger logs what the Temporal SDK says. To the SDK every attempt at an activity that fails is an error. Here the first
// attempt that is tried again is a warning in one line, and so is one that was cancelled; further attempts are for debugging. An
// attempt that refuses what somebody asked for is no fault at all. Of that the log has the kind alone: the text is for who asked, and may quote
// what is secret, such as a value that a chart's schema refuses.
func TemporalLogger(l *slog.Logger) log.Logger { return logger{log.NewStructuredLogger(l)} }

type logger struct{ log.Logger }

// With implements log.WithLogger.
func (l logger) With(pairs ...any) log.Logger { return logger{log.With(l.Logger, pairs...)} }

// Error implements log.Logger.
func (l logger) Error(message string, pairs ...any) {
	for i, value := range pairs {
		err, ok := value.(error)
		if !ok {
			continue
		}
		say, text := l.Warn, err.Error()
		switch kind := kindOf(err); {
		case passes(err) && again(pairs):
			say = l.Debug
		case passes(err):
		case kind.Known() && !kind.Retryable(): // an answer to what somebody asked for
			say, text = l.Info, string(kind)
		default:
			continue
		}
		pairs[i] = text
		say(message, pairs...)
		return
	}
	l.Logger.Error(message, pairs...)
}

// again says whether an attempt is not the first one.
func again(pairs []any) bool {
	for i := 0; i+1 < len(pairs); i += 2 {
		if attempt, ok := pairs[i+1].(int32); ok && pairs[i] == "Attempt" {
			return attempt > 1
		}
	}
	return false
}

// kindOf is the kind of a failure of ours, none for others.
func kindOf(err error) fail.Kind {
	var failure *temporal.ApplicationError
	if !errors.As(err, &failure) {
		return ""
	}
	return fail.Kind(failure.Type())
}

// passes says whether an attempt's failure is not the end of its activity, or the end that was asked for.
func passes(err error) bool {
	var failure *temporal.ApplicationError
	if errors.As(err, &failure) {
		return !failure.NonRetryable()
	}
	return temporal.IsCanceledError(err) || errors.Is(err, context.Canceled)
}
