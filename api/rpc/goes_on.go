package rpc

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/drover-io/drover/internal/universe"
)

// traceparent is the member of a call's metadata that says which trace it belongs to, as W3C has it.
const traceparent = "traceparent"

// goesOn has calls go on in the trace of who makes them. A stream of workloads does not: it lasts longer than what it was begun for.
func goesOn(of any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	parents := md.Get(traceparent)
	if len(parents) != 1 || info.FullMethod == universe.WorkloadService_WorkloadStream_FullMethodName {
		return handle(of, stream)
	}
	ctx := otel.GetTextMapPropagator().Extract(stream.Context(), propagation.MapCarrier{traceparent: parents[0]})
	return handle(of, &proven{stream, ctx})
}
