// Package s3 stands in for the package of this name: see the README one folder up.
package s3

import (
	"context"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// Client refuses every call with aws.ErrNotBuilt.
type Client struct{}

// Options say how to reach S3.
type Options struct {
	BaseEndpoint *string
	UsePathStyle bool
}

// NewFromConfig returns a Client.
func NewFromConfig(aws.Config, ...func(*Options)) *Client { return &Client{} }

// The parameters and answers of calls.
type (
	HeadBucketInput  struct{ Bucket *string }
	HeadBucketOutput struct{}
	HeadObjectInput  struct{ Bucket, Key *string }
	HeadObjectOutput struct{}
	PutObjectInput   struct {
		Bucket, Key *string
		Body        io.Reader
	}
	PutObjectOutput    struct{}
	GetObjectInput     struct{ Bucket, Key *string }
	GetObjectOutput    struct{ Body io.ReadCloser }
	ListObjectsV2Input struct {
		Bucket, Prefix, Delimiter, ContinuationToken *string
		MaxKeys                                      *int32
	}
	ListObjectsV2Output struct {
		CommonPrefixes        []types.CommonPrefix
		Contents              []types.Object
		IsTruncated           *bool
		NextContinuationToken *string
	}
)

// HeadBucket returns aws.ErrNotBuilt.
func (*Client) HeadBucket(context.Context, *HeadBucketInput, ...func(*Options)) (*HeadBucketOutput, error) {
	return nil, aws.ErrNotBuilt
}

// HeadObject returns aws.ErrNotBuilt.
func (*Client) HeadObject(context.Context, *HeadObjectInput, ...func(*Options)) (*HeadObjectOutput, error) {
	return nil, aws.ErrNotBuilt
}

// PutObject returns aws.ErrNotBuilt.
func (*Client) PutObject(context.Context, *PutObjectInput, ...func(*Options)) (*PutObjectOutput, error) {
	return nil, aws.ErrNotBuilt
}

// GetObject returns aws.ErrNotBuilt.
func (*Client) GetObject(context.Context, *GetObjectInput, ...func(*Options)) (*GetObjectOutput, error) {
	return nil, aws.ErrNotBuilt
}

// ListObjectsV2 returns aws.ErrNotBuilt.
func (*Client) ListObjectsV2(context.Context, *ListObjectsV2Input, ...func(*Options)) (*ListObjectsV2Output, error) {
	return nil, aws.ErrNotBuilt
}
