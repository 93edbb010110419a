// Package codec seals what Temporal keeps of workflows: inputs, results, memos, answers of queries, details of heartbeats, and
// what failures say. Names of workflows, activities and search attributes are not payloads, and stay readable.
package codec

import (
	"fmt"
	"net/http"
	"sync/atomic"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"

	"github.com/drover-io/drover/internal/secret"
)

// encoding is what the metadata of a sealed payload say. It is stored in histories.
const encoding = "binary/drover-sealed"

// place is what payloads are bound to. A payload is copied from one event to another, so that it cannot be bound to more.
const place = "temporal payload"

// Codec seals and opens payloads (converter.PayloadCodec).
type Codec struct {
	// sealer is that of payloads, or why there is none yet.
	sealer func() (*secret.Sealer, error)
}

// New makes a codec. Its keys come from the secret of the installation, which stays when sealing keys change: histories cannot be
// sealed anew.
func New(root func() (secret.Root, error)) *Codec {
	var known atomic.Pointer[secret.Sealer]
	return &Codec{func() (*secret.Sealer, error) {
		if s := known.Load(); s != nil {
			return s, nil
		}
		r, err := root()
		if err != nil {
			return nil, err
		}
		s, err := r.Sealer("payloads of Temporal")
		if err == nil {
			known.Store(s)
		}
		return s, err
	}}
}

// Encode implements converter.PayloadCodec.
func (c *Codec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	sealer, err := c.sealer()
	if err != nil {
		return nil, err
	}
	sealed := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		plain, err := proto.Marshal(p)
		if err != nil {
			return nil, fmt.Errorf("encode a payload: %w", err)
		}
		data, err := sealer.SealBytes(place, plain)
		if err != nil {
			return nil, err
		}
		sealed[i] = &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encoding)}, Data: data}
	}
	return sealed, nil
}

// Decode implements converter.PayloadCodec. What was never sealed stays as it is.
func (c *Codec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	open := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		if string(p.GetMetadata()[converter.MetadataEncoding]) != encoding {
			open[i] = p
			continue
		}
		sealer, err := c.sealer()
		if err != nil {
			return nil, err
		}
		plain, err := sealer.OpenBytes(place, p.GetData())
		if err != nil {
			return nil, err
		}
		open[i] = &commonpb.Payload{}
		if err := proto.Unmarshal(plain, open[i]); err != nil {
			return nil, fmt.Errorf("decode a payload: %w", err)
		}
	}
	return open, nil
}

// Data is the converter of all payloads.
func (c *Codec) Data() converter.DataConverter {
	return converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), c)
}

// Failures is the converter of failures, whose messages and stacks are payloads too.
func (c *Codec) Failures() converter.FailureConverter {
	return temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{DataConverter: c.Data(), EncodeCommonAttributes: true})
}

// Handler opens payloads for Temporal's Web UI: POST …/decode.
func (c *Codec) Handler() http.Handler { return converter.NewPayloadCodecHTTPHandler(c) }
