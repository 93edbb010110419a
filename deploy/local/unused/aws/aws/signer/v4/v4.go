// Package v4 stands in for the package of this name: see the README four folders up.
package v4

import (
	"context"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Signer signs nothing.
type Signer struct{}

// NewSigner returns a Signer.
func NewSigner() *Signer { return &Signer{} }

// SignHTTP returns aws.ErrNotBuilt.
func (*Signer) SignHTTP(context.Context, aws.Credentials, *http.Request, string, string, string, time.Time) error {
	return aws.ErrNotBuilt
}
