package rpc

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/drover-io/drover/internal/fail"
)

const internalCode = codes.Internal

// kinds is the one place where a Kind becomes a gRPC code.
var kinds = map[fail.Kind]codes.Code{
	fail.Invalid:      codes.InvalidArgument,
	fail.Malformed:    codes.InvalidArgument,
	fail.Unauthorized: codes.Unauthenticated,
	fail.Forbidden:    codes.PermissionDenied,
	fail.NotFound:     codes.NotFound,
	fail.Conflict:     codes.AlreadyExists,
	fail.Precondition: codes.FailedPrecondition,
	fail.Exhausted:    codes.ResourceExhausted,
	fail.Aborted:      codes.Aborted,
	fail.Unavailable:  codes.Unavailable,
	fail.Timeout:      codes.DeadlineExceeded,
	fail.Internal:     codes.Internal,
}

// maxText bounds the text of an error, which is in a header of the answer and in a log: clients take little in all headers together,
// and what they have sent may be in it. maxEcho bounds one value of a call's metadata in it.
const (
	maxText = 6 << 10
	maxEcho = 100
)

// cut is the beginning of a text.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// toStatus says what a client may know of an error. What has a code already keeps it.
func toStatus(err error) *status.Status {
	var known *fail.Error
	switch {
	case err == nil:
		return status.New(codes.OK, "")
	case errors.As(err, &known), errors.Is(err, context.DeadlineExceeded):
		return status.New(kinds[fail.KindOf(err)], cut(fail.TextOf(err), maxText))
	case errors.Is(err, context.Canceled):
		return status.New(codes.Canceled, "the client closed the call")
	}
	if s, ok := status.FromError(err); ok {
		return s
	}
	return status.New(codes.Internal, fail.TextOf(err))
}
