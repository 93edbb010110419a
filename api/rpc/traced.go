package rpc

import (
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/span"
	"github.com/drover-io/drover/internal/universe"
)

// traceparent is the member of a call's metadata that says which trace it comes from, as W3C has it.
const traceparent = "traceparent"

// traced records a tenant's call, once it is known whose it is, in a trace of its own. What the tenant says of its trace is a link: who knows the id of
// another's trace puts nothing into it, and does not decide what is recorded. A stream of workloads is not recorded: it lasts longer than what it was begun for.
func traced(of any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if isNameless(info.FullMethod) || info.FullMethod == universe.WorkloadService_WorkloadStream_FullMethodName {
		return handle(of, stream)
	}
	md, _ := metadata.FromIncomingContext(stream.Context())
	parent := ""
	if parents := md.Get(traceparent); len(parents) == 1 {
		parent = parents[0]
	}
	ctx, end := span.Linked(stream.Context(), span.Parse(parent), span.Server, strings.TrimPrefix(info.FullMethod, "/"))
	err := handle(of, &within{stream, ctx})
	end(measure.OutcomeOf(err), slices.Contains(faults, toStatus(err).Code()))
	return err
}

// faults are the codes by which a call is an error in a trace, by OpenTelemetry's conventions for the spans of servers. All others are of who calls.
var faults = []codes.Code{codes.Unknown, codes.DeadlineExceeded, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss}
