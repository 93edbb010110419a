package fail

// ProblemJSON is the media type of a Problem.
const ProblemJSON = "application/problem+json"

// Problem is an error as RFC 9457 has it; for clients that accept JSON rather than text.
type Problem struct {
	Title  string  `json:"title"`            // the status in words
	Status int     `json:"status"`           // the HTTP status
	Detail string  `json:"detail"`           // what is wrong, and what can be done
	Kind   Kind    `json:"kind,omitempty"`   // the kind of error, for programs
	Errors []Field `json:"errors,omitempty"` // the members that are wrong
	// RequestID is the X-Request-Id of the answer; the logs have it too.
	RequestID string `json:"requestID,omitempty"`
	// TraceID is that of the request's trace, where traces are recorded.
	TraceID string `json:"traceID,omitempty"`
}
