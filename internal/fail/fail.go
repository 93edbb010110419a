// Package fail is the one vocabulary of errors of the program. Every adapter turns foreign errors into a
// Kind at its border, and every edge (HTTP, Temporal, gRPC) turns a Kind into its own codes; in between
// nobody looks at message text.
package fail

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind says what went wrong in terms of what a caller can do about it.
type Kind string

// The kinds. Internal is the default for every error that nobody classified; its text is never shown.
const (
	Invalid      Kind = "Invalid"      // the request can be read, but a value in it is not acceptable
	Malformed    Kind = "Malformed"    // the request cannot be read: bad JSON, wrong type, bad archive, too large
	Unauthorized Kind = "Unauthorized" // credentials missing or not accepted
	Forbidden    Kind = "Forbidden"    // credentials accepted, the action is not allowed
	NotFound     Kind = "NotFound"     // the thing is not there
	Conflict     Kind = "Conflict"     // duplicate, wrong state, in use, or changed by someone else
	Precondition Kind = "Precondition" // a condition of the request does not hold
	Exhausted    Kind = "Exhausted"    // over a limit that the caller has
	Aborted      Kind = "Aborted"      // somebody else has taken the caller's place
	Unavailable  Kind = "Unavailable"  // a dependency does not answer now; trying again may help
	Timeout      Kind = "Timeout"      // a deadline passed; trying again may help
	Internal     Kind = "Internal"     // anything else
)

// Retryable says whether the same call may succeed later without a change by the caller.
func (k Kind) Retryable() bool { return k == Unavailable || k == Timeout || k == Internal }

// Known says whether k is one of the kinds.
func (k Kind) Known() bool {
	switch k {
	case Invalid, Malformed, Unauthorized, Forbidden, NotFound, Conflict, Precondition, Exhausted, Aborted, Unavailable, Timeout, Internal:
		return true
	default:
		return false
	}
}

// Field is one problem of a request: Path names the member as the caller wrote it ("spec.app"), Message
// says what is wrong with it.
type Field struct {
	Path    string `json:"field"`   // the member, such as spec.app
	Message string `json:"message"` // what is wrong with it
}

// Error carries a Kind, a message that is safe to show to a user, and the cause, which is for logs only.
type Error struct {
	Kind    Kind
	Message string
	Fields  []Field
	Cause   error
	// RetryAfter is the delay that the failing side asked for (429, 503); 0 when it did not.
	RetryAfter time.Duration
	// Undone says that it was refused before anything was done: it can be asked for again, whatever it is.
	Undone bool
}

// Error returns the message, then the problems of the fields, then the cause.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Text())
	if e.Cause != nil {
		b.WriteString(": ")
		b.WriteString(e.Cause.Error())
	}
	return b.String()
}

// Text is what a user may see: the message and the fields, without the cause.
func (e *Error) Text() string {
	if len(e.Fields) == 0 {
		return e.Message
	}
	parts := make([]string, 0, len(e.Fields))
	for _, f := range e.Fields {
		parts = append(parts, f.Path+": "+f.Message)
	}
	switch e.Message {
	case "":
		return strings.Join(parts, "\n")
	case queryText:
		return e.Message + " " + strings.Join(parts, "\n")
	}
	return e.Message + "\n" + strings.Join(parts, "\n")
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// New makes an error of the kind with a formatted message that is safe to show.
func New(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// queryText begins what is said of a parameter, in EMCO's words.
const queryText = "Invalid query"

// Query is an Invalid error of a parameter of a query, which is its field: "Invalid query limit: use a number".
func Query(name, format string, args ...any) *Error {
	return &Error{Kind: Invalid, Message: queryText, Fields: []Field{{Path: name, Message: fmt.Sprintf(format, args...)}}}
}

// Wrap is New with a cause that only logs show.
func Wrap(cause error, kind Kind, format string, args ...any) *Error {
	e := New(kind, format, args...)
	e.Cause = cause
	return e
}

// KindOf finds the kind of err through any wrapping. A passed deadline is a Timeout; what nobody
// classified is Internal. It must not be called with nil.
func KindOf(err error) Kind {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Kind
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	default:
		return Internal
	}
}

// Is reports whether err has the kind; false for nil.
func Is(err error, kind Kind) bool { return err != nil && KindOf(err) == kind }

// IsUnanswered says whether who was asked has not answered, or could not: Unavailable or Timeout. Another error is its word.
func IsUnanswered(err error) bool { return Is(err, Unavailable) || Is(err, Timeout) }

// IsFault says whether err is Drover's own, or that of something that it needs: neither a refusal, which its caller can do something about, nor the end of a
// caller that has left.
func IsFault(err error) bool {
	return err != nil && !errors.Is(err, context.Canceled) && KindOf(err).Retryable()
}

// Hidden is what is shown of an error of which nothing may be.
const Hidden = "internal error"

// TextOf is the part of err that may be shown to a user; Hidden when nothing may be.
func TextOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Text()
	}
	return MessageOf(err)
}

// MessageOf is TextOf without the fields.
func MessageOf(err error) string {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Message
	case errors.Is(err, context.DeadlineExceeded):
		return "it took too long"
	default:
		return Hidden
	}
}

// FieldsOf returns the problems by field that err carries, nil when it has none.
func FieldsOf(err error) []Field {
	var e *Error
	if errors.As(err, &e) {
		return e.Fields
	}
	return nil
}

// RetryAfterOf returns the delay that the failing side asked for, 0 when it did not.
func RetryAfterOf(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// IsUndone says whether err tells that nothing was done.
func IsUndone(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Undone
}

// Problems collects what is wrong with a request, so that a caller sees all of it at once: MostProblems in words, and how many more there are. A
// request can have a million members, and each of them may be wrong.
type Problems struct {
	fields []Field
	more   int
}

// MostProblems is how many problems of a request are named.
const MostProblems = 100

// Add notes a problem of the member at path.
func (p *Problems) Add(path, format string, args ...any) {
	if len(p.fields) == MostProblems {
		p.more++
		return
	}
	p.fields = append(p.fields, Field{Path: path, Message: fmt.Sprintf(format, args...)})
}

// Fields are what was added; nil when nothing was.
func (p *Problems) Fields() []Field {
	fields := slices.Clone(p.fields)
	if p.more > 0 {
		fields = append(fields, Field{Path: "...", Message: fmt.Sprintf("and %d more problems", p.more)})
	}
	return fields
}

// Err is nil when nothing was added, else one Invalid error that names every field.
func (p *Problems) Err() error {
	if len(p.fields) == 0 {
		return nil
	}
	return &Error{Kind: Invalid, Message: "Invalid Input:", Fields: p.Fields()}
}
