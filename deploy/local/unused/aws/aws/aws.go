// Package aws stands in for the package of this name: see the README two folders up.
package aws

import (
	"context"
	"errors"
)

// ErrNotBuilt is what every function that would reach AWS returns.
var ErrNotBuilt = errors.New("this server is built without AWS")

// Config is how to reach AWS.
type Config struct {
	Credentials CredentialsProvider
}

// Credentials are a key and its secret.
type Credentials struct {
	AccessKeyID, SecretAccessKey, SessionToken string
}

// CredentialsProvider has credentials.
type CredentialsProvider interface {
	Retrieve(ctx context.Context) (Credentials, error)
}

// ClientLogMode says what is logged.
type ClientLogMode uint64

// Retryer knows which errors pass.
type Retryer interface {
	IsErrorRetryable(err error) bool
}

// String returns a pointer to v.
func String(v string) *string { return &v }

// Int32 returns a pointer to v.
func Int32(v int32) *int32 { return &v }
