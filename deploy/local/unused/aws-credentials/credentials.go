// Package credentials stands in for the package of this name: see the README one folder up.
package credentials

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// StaticCredentialsProvider has none.
type StaticCredentialsProvider struct{}

// NewStaticCredentialsProvider returns a StaticCredentialsProvider.
func NewStaticCredentialsProvider(string, string, string) StaticCredentialsProvider {
	return StaticCredentialsProvider{}
}

// Retrieve returns aws.ErrNotBuilt.
func (StaticCredentialsProvider) Retrieve(context.Context) (aws.Credentials, error) {
	return aws.Credentials{}, aws.ErrNotBuilt
}
