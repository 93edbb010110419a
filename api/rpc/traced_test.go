package rpc_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"

	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/span"
	"github.com/drover-io/drover/internal/span/spantest"
	"github.com/drover-io/drover/internal/universe"
)

// TestWhatATenantSaysOfItsTraceIsALink: a call is recorded in a trace of its own, and what is done for it, too; of who is no tenant nothing is recorded.
func TestWhatATenantSaysOfItsTraceIsALink(t *testing.T) {
	spans := spantest.Record(t)
	const theirs = "0af7651916cd43dd8448eb211c80319c"
	var inside trace.SpanContext
	c := universe.NewWorkloadRuleServiceClient(tenantsBehind(t, func(ctx context.Context, _ *door.Request, _ door.Next) error {
		inside = trace.SpanContextFromContext(ctx)
		return fail.New(fail.Forbidden, "closed")
	}))
	for flags, tenant := range map[string]string{"-01": "tenant1", "-00": "tenant2", "": "tenant3"} {
		spans.Reset()
		ctx := metadata.AppendToOutgoingContext(t.Context(), "tenant-id", tenant, "traceparent", "00-"+theirs+"-00f067aa0ba902b7"+flags)
		_, err := c.List(ctx, &universe.ListRequest{})
		require.Error(t, err)
		var own sdktrace.ReadOnlySpan
		for _, s := range spans.Ended() {
			require.NotEqual(t, theirs, s.SpanContext().TraceID().String(), s.Name())
			if s.Name() == "universe.workload.v1.WorkloadRuleService/List" {
				own = s
			}
		}
		require.NotNil(t, own, "who calls does not decide that it is not recorded")
		require.False(t, own.Parent().IsValid())
		require.Equal(t, own.SpanContext().TraceID(), inside.TraceID(), "what is done for it is in its trace")
		if flags == "" {
			require.Empty(t, own.Links(), "what is none is none")
			continue
		}
		require.Len(t, own.Links(), 1)
		require.Equal(t, theirs, own.Links()[0].SpanContext.TraceID().String())
	}
	spans.Reset()
	_, err := c.List(metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+theirs+"-00f067aa0ba902b7-01"), &universe.ListRequest{})
	require.Error(t, err)
	require.Empty(t, spans.Ended(), "of whom it is not known who calls")
}

// TestARefusalIsNoErrorInATrace: a tenant that asks for what cannot be is nothing that an operator looks for among what has failed.
func TestARefusalIsNoErrorInATrace(t *testing.T) {
	spans := spantest.Record(t)
	var answer error
	c := universe.NewWorkloadRuleServiceClient(tenantsBehind(t, func(context.Context, *door.Request, door.Next) error { return answer }))
	for kind, want := range map[fail.Kind]codes.Code{
		fail.Invalid: codes.Unset, fail.Malformed: codes.Unset, fail.NotFound: codes.Unset, fail.Forbidden: codes.Unset, fail.Conflict: codes.Unset,
		fail.Precondition: codes.Unset, fail.Exhausted: codes.Unset,
		fail.Unavailable: codes.Error, fail.Internal: codes.Error,
	} {
		spans.Reset()
		answer = fail.New(kind, "no")
		_, err := c.List(metadata.AppendToOutgoingContext(t.Context(), "tenant-id", "tenant1"), &universe.ListRequest{})
		require.Error(t, err)
		var own []sdktrace.ReadOnlySpan
		for _, s := range spans.Ended() {
			if s.SpanKind() == trace.SpanKindServer {
				own = append(own, s)
			}
		}
		require.Len(t, own, 1)
		require.Equal(t, want, own[0].Status().Code, kind)
		require.Contains(t, own[0].Attributes(), span.String(span.Outcome, string(kind)))
	}
}
