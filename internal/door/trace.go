package door

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/fail"
	recording "github.com/drover-io/drover/internal/span"
)

// Traced gives every request an id, unless its edge did, and a span, "create app", and logs every command: what was asked
// for, by whom as far as somebody said so, and what came of it. Queries are in the log of their edge.
func Traced(log *slog.Logger) Step {
	tracer := otel.Tracer("github.com/drover-io/drover/internal/door")
	return func(ctx context.Context, r *Request, next Next) error {
		if caller.RequestOf(ctx) == nil {
			ctx = caller.WithRequest(ctx, &caller.Request{ID: rand.Text()})
		}
		ctx, span := tracer.Start(ctx, string(r.Verb)+" "+r.Noun.Title)
		defer span.End()
		begun := time.Now()
		err := next(recording.Limited(ctx))
		span.SetAttributes(attribute.String("drover.verb", string(r.Verb)), attribute.String("drover.noun", r.Noun.Kind),
			attribute.String("drover.scope", string(r.Scope())), attribute.String("drover.key", string(r.Key())))
		outcome := outcomeOf(err)
		if fail.IsFault(err) {
			span.SetStatus(codes.Error, outcome)
		}
		if !r.Verb.Command() {
			return err
		}
		fields := IDs(ctx)
		if name := caller.Of(ctx); name != "" {
			fields = append(fields, slog.String("requestedBy", name))
		}
		log.With(fields...).InfoContext(ctx, "command", slog.String("verb", string(r.Verb)), slog.String("noun", r.Noun.Kind),
			slog.String("key", string(r.Key())), slog.String("outcome", outcome), slog.Duration("took", time.Since(begun)))
		return err
	}
}

// IDs are those by which a request is found in logs, in traces and in the Web UI.
func IDs(ctx context.Context) []any {
	found := []any{slog.String("requestId", caller.RequestID(ctx))}
	if id := recording.TraceOf(ctx); id != "" {
		found = append(found, slog.String("traceId", id))
	}
	if operation := caller.RequestOf(ctx).Operation(); operation != "" {
		found = append(found, slog.String("operation", operation))
	}
	return found
}
