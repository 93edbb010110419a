// Package smithy stands in for the package of this name: see the README one folder up.
package smithy

// APIError is an answer of AWS.
type APIError interface {
	error
	ErrorCode() string
}
