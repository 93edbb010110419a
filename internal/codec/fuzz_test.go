package codec_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/drover-io/drover/internal/codec"
	"github.com/drover-io/drover/internal/secret"
)

// FuzzDecodeRequest: whatever the Web UI is made to send is opened when it was sealed here, comes back as it is when it says of itself that it was not
// sealed, and is refused as the sender's mistake else.
func FuzzDecodeRequest(f *testing.F) {
	root, err := secret.NewRoot()
	require.NoError(f, err)
	c := codec.New(func() (secret.Root, error) { return root, nil })
	sealed, err := c.Data().ToPayloads(marked)
	require.NoError(f, err)
	good, err := protojson.Marshal(sealed)
	require.NoError(f, err)
	f.Add(good)
	for _, seed := range []string{
		``, `{}`, `[]`, `{"payloads":null}`, `{"payloads":[null]}`, `{"payloads":[{}]}`, `{"payloads":[{"metadata":{"encoding":"anNvbi9wbGFpbg=="},"data":"InBsYWluIg=="}]}`,
		`{"payloads":[{"metadata":{"encoding":"YmluYXJ5L2Ryb3Zlci1zZWFsZWQ="},"data":"AAAA"}]}`, `{"payloads":[{"metadata":{"encoding":"YmluYXJ5L2Ryb3Zlci1zZWFsZWQ="}}]}`,
		`{"payloads":[{"metadata":{"encoding":"?"}}]}`, `{"payloads":[{"data":"AA=="},{"externalPayloads":[{"sizeBytes":"-1"}]}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/codec/decode", bytes.NewReader(body))
		answer := httptest.NewRecorder()
		c.Handler().ServeHTTP(answer, request)
		require.Contains(t, []int{http.StatusOK, http.StatusBadRequest}, answer.Code)
		if answer.Code != http.StatusOK {
			return
		}
		sent, open := &commonpb.Payloads{}, &commonpb.Payloads{}
		require.NoError(t, protojson.Unmarshal(answer.Body.Bytes(), open))
		require.NoError(t, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body, sent))
		require.Len(t, open.GetPayloads(), len(sent.GetPayloads()))
		for i, p := range sent.GetPayloads() {
			if string(p.GetMetadata()[converter.MetadataEncoding]) == "binary/drover-sealed" {
				require.Equal(t, sealed.GetPayloads()[0].GetData(), p.GetData(), "nobody else can seal")
			} else {
				require.Equal(t, p.GetData(), open.GetPayloads()[i].GetData())
			}
		}
	})
}
