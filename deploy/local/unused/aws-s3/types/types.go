// Package types stands in for the package of this name: see the README two folders up.
package types

// NoSuchBucket is an answer of S3.
type NoSuchBucket struct{}

// Error names the error.
func (*NoSuchBucket) Error() string { return "NoSuchBucket" }

// NoSuchKey is an answer of S3.
type NoSuchKey struct{}

// Error names the error.
func (*NoSuchKey) Error() string { return "NoSuchKey" }

// CommonPrefix is a part of a listing.
type CommonPrefix struct {
	Prefix *string
}

// Object is a part of a listing.
type Object struct {
	Key *string
}
