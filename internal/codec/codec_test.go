package codec_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/drover-io/drover/internal/codec"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/workflows"
)

const marked = "xyzzy"

func newCodec(t *testing.T) *codec.Codec {
	t.Helper()
	root, err := secret.NewRoot()
	require.NoError(t, err)
	return codec.New(func() (secret.Root, error) { return root, nil })
}

func TestPayloadsComeBackAndSayNothing(t *testing.T) {
	c := newCodec(t)
	for name, value := range map[string]any{"text": marked, "struct": struct{ A, B string }{marked, "b"}, "bytes": []byte(marked), "nothing": nil} {
		t.Run(name, func(t *testing.T) {
			sealed, err := c.Data().ToPayloads(value)
			require.NoError(t, err)
			data, err := proto.Marshal(sealed)
			require.NoError(t, err)
			require.NotContains(t, string(data), marked)
			open, err := c.Decode(sealed.GetPayloads())
			require.NoError(t, err)
			plain, err := converter.GetDefaultDataConverter().ToPayloads(value)
			require.NoError(t, err)
			require.True(t, proto.Equal(plain, &commonpb.Payloads{Payloads: open}))
		})
	}
}

// TestPayloadsThatWereNotSealed are read: those of search attributes, and of histories from before.
func TestPayloadsThatWereNotSealed(t *testing.T) {
	plain, err := converter.GetDefaultDataConverter().ToPayloads(marked)
	require.NoError(t, err)
	var got string
	require.NoError(t, newCodec(t).Data().FromPayloads(plain, &got))
	require.Equal(t, marked, got)
}

func TestPayloadsOfAnotherInstallation(t *testing.T) {
	sealed, err := newCodec(t).Data().ToPayloads(marked)
	require.NoError(t, err)
	var got string
	require.Error(t, newCodec(t).Data().FromPayloads(sealed, &got))
	away := codec.New(func() (secret.Root, error) { return secret.Root{}, errors.New("the database is away") })
	require.ErrorContains(t, away.Data().FromPayloads(sealed, &got), "away")
	_, err = away.Data().ToPayloads(marked)
	require.ErrorContains(t, err, "away")
}

func TestFailuresSayNothing(t *testing.T) {
	c := newCodec(t)
	cause := workflows.ToTemporal(fail.Wrap(errors.New(marked), fail.Invalid, "the value %q is wrong", marked), 1)
	failure := c.Failures().ErrorToFailure(cause)
	data, err := proto.Marshal(failure)
	require.NoError(t, err)
	require.NotContains(t, string(data), marked)
	back := c.Failures().FailureToError(failure)
	require.ErrorContains(t, back, marked)
	of, ok := workflows.FromTemporal(back)
	require.True(t, ok)
	require.NotEmpty(t, fail.TextOf(of))
}

func TestTheWebUIHasPayloadsOpened(t *testing.T) {
	c := newCodec(t)
	sealed, err := c.Data().ToPayloads(marked)
	require.NoError(t, err)
	body, err := protojson.Marshal(sealed)
	require.NoError(t, err)
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/codec/decode", bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	c.Handler().ServeHTTP(answer, request)
	require.Equal(t, http.StatusOK, answer.Code, answer.Body)
	open := &commonpb.Payloads{}
	require.NoError(t, protojson.Unmarshal(answer.Body.Bytes(), open))
	var got string
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(open, &got))
	require.Equal(t, marked, got)
}
