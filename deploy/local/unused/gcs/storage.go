// Package storage stands in for the package of this name: see the README one folder up.
package storage

import (
	"context"
	"errors"

	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
)

// ErrNotBuilt is what every function that would reach Google Cloud Storage returns.
var ErrNotBuilt = errors.New("this server is built without Google Cloud Storage")

// ScopeFullControl is a right.
const ScopeFullControl = "https://www.googleapis.com/auth/devstorage.full_control"

// The handles, and what is asked of them.
type (
	Client         struct{}
	BucketHandle   struct{}
	ObjectHandle   struct{}
	ObjectIterator struct{}
	Writer         struct{}
	Reader         struct{}
	Query          struct{ Prefix string }
	BucketAttrs    struct{}
	ObjectAttrs    struct{ Name string }
)

// NewClient returns ErrNotBuilt.
func NewClient(context.Context, ...option.ClientOption) (*Client, error) { return nil, ErrNotBuilt }

// Bucket returns a handle.
func (*Client) Bucket(string) *BucketHandle { return &BucketHandle{} }

// Object returns a handle.
func (*BucketHandle) Object(string) *ObjectHandle { return &ObjectHandle{} }

// Objects returns an iterator without objects.
func (*BucketHandle) Objects(context.Context, *Query) *ObjectIterator { return &ObjectIterator{} }

// Attrs returns ErrNotBuilt.
func (*BucketHandle) Attrs(context.Context) (*BucketAttrs, error) { return nil, ErrNotBuilt }

// Attrs returns ErrNotBuilt.
func (*ObjectHandle) Attrs(context.Context) (*ObjectAttrs, error) { return nil, ErrNotBuilt }

// NewWriter returns a Writer that takes nothing.
func (*ObjectHandle) NewWriter(context.Context) *Writer { return &Writer{} }

// NewReader returns ErrNotBuilt.
func (*ObjectHandle) NewReader(context.Context) (*Reader, error) { return nil, ErrNotBuilt }

// Next says that there are no more.
func (*ObjectIterator) Next() (*ObjectAttrs, error) { return nil, iterator.Done }

// Write returns ErrNotBuilt.
func (*Writer) Write([]byte) (int, error) { return 0, ErrNotBuilt }

// Close returns ErrNotBuilt.
func (*Writer) Close() error { return ErrNotBuilt }

// CloseWithError returns nil, as the original does.
func (*Writer) CloseWithError(error) error { return nil }

// Read returns ErrNotBuilt.
func (*Reader) Read([]byte) (int, error) { return 0, ErrNotBuilt }

// Close returns nil.
func (*Reader) Close() error { return nil }
