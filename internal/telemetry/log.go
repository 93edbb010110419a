package telemetry

import (
	"context"
	"errors"
	"log/slog"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
)

// TemporalLogger logs what the Temporal SDK says. It calls every attempt at an activity that fails an error; here one
// that is followed by another, or that was cancelled, is a warning in one line.
func TemporalLogger(l *slog.Logger) log.Logger { return logger{log.NewStructuredLogger(l)} }

type logger struct{ log.Logger }

// With implements log.WithLogger.
func (l logger) With(pairs ...any) log.Logger { return logger{log.With(l.Logger, pairs...)} }

// Error implements log.Logger.
func (l logger) Error(message string, pairs ...any) {
	for i, value := range pairs {
		if err, ok := value.(error); ok && passes(err) {
			pairs[i] = err.Error()
			l.Warn(message, pairs...)
			return
		}
	}
	l.Logger.Error(message, pairs...)
}

// passes says whether an attempt's failure is not the end of its activity, or the end that was asked for.
func passes(err error) bool {
	var failure *temporal.ApplicationError
	if errors.As(err, &failure) {
		return !failure.NonRetryable()
	}
	return temporal.IsCanceledError(err) || errors.Is(err, context.Canceled)
}
