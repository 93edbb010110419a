package rpc

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

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

// ours turns an error of a store that was out of time into one that is to be tried again: the caller's time is not over.
func ours(ctx context.Context, err error) error {
	if fail.Is(err, fail.Timeout) && ctx.Err() == nil {
		return fail.Wrap(err, fail.Unavailable, "%s", fail.TextOf(err))
	}
	return err
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

// cutForHeader is cut by the bytes that a text takes in the header of an answer. gRPC writes each byte there that is no plain ASCII, and each
// percent sign, as three, so that a text in another script would be three times as long.
func cutForHeader(s string, most int) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError)) // as gRPC would, after it was counted
	size := 0
	for i, r := range s {
		if r >= ' ' && r <= '~' && r != '%' {
			size++
		} else {
			size += 3 * utf8.RuneLen(r)
		}
		if size > most {
			return s[:i] + "…"
		}
	}
	return s
}

// broken is how a call ends whose client has not sent what its method takes: no message, one too many, or a part of one. The code is Internal, as
// gRPC's own servers say it; InvalidArgument is none that a library gives. It is no defect of ours.
type broken struct{ text string }

// Error implements error.
func (b *broken) Error() string { return b.text }

// GRPCStatus is what a client is told.
func (b *broken) GRPCStatus() *status.Status { return status.New(codes.Internal, b.text) }

// toStatus says what a client may know of an error. What has a code already keeps it.
func toStatus(err error) *status.Status {
	var known *fail.Error
	switch {
	case err == nil:
		return status.New(codes.OK, "")
	case errors.As(err, &known), errors.Is(err, context.DeadlineExceeded):
		return status.New(kinds[fail.KindOf(err)], cutForHeader(fail.TextOf(err), maxText))
	case errors.Is(err, context.Canceled):
		return status.New(codes.Canceled, "the client closed the call")
	}
	if s, ok := status.FromError(err); ok {
		return s
	}
	return status.New(codes.Internal, fail.TextOf(err))
}
