// Package retry stands in for the package of this name: see the README three folders up.
package retry

// Standard retries nothing.
type Standard struct{}

// NewStandard returns a Standard.
func NewStandard() *Standard { return &Standard{} }

// IsErrorRetryable returns false: that AWS is not built does not pass.
func (*Standard) IsErrorRetryable(error) bool { return false }
