// Package option stands in for the package of this name: see the README two folders up.
package option

import "golang.org/x/oauth2"

// ClientOption changes nothing.
type ClientOption interface{ none() }

type tokenSource struct{}

func (tokenSource) none() {}

// WithTokenSource returns an option that changes nothing.
func WithTokenSource(oauth2.TokenSource) ClientOption { return tokenSource{} }
