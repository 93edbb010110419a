// Package config stands in for the package of this name: see the README one folder up.
package config

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// LoadOptions are none.
type LoadOptions struct{}

// EnvConfig is what the environment says.
type EnvConfig struct {
	Credentials aws.Credentials
}

// WithRegion returns an option that changes nothing.
func WithRegion(string) func(*LoadOptions) error { return func(*LoadOptions) error { return nil } }

// WithClientLogMode returns an option that changes nothing.
func WithClientLogMode(aws.ClientLogMode) func(*LoadOptions) error {
	return func(*LoadOptions) error { return nil }
}

// LoadDefaultConfig returns aws.ErrNotBuilt.
func LoadDefaultConfig(context.Context, ...func(*LoadOptions) error) (aws.Config, error) {
	return aws.Config{}, aws.ErrNotBuilt
}

// NewEnvConfig returns aws.ErrNotBuilt.
func NewEnvConfig() (EnvConfig, error) { return EnvConfig{}, aws.ErrNotBuilt }
