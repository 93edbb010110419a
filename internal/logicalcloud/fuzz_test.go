package logicalcloud_test

import (
	"bytes"
	"encoding/pem"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/logicalcloud"
)

// FuzzIssued: whatever a cluster says that it has issued is a certificate for our key, or a conflict; and a request that can be read is made for one
// user.
func FuzzIssued(f *testing.F) {
	_, request, err := logicalcloud.NewKey("alice")
	require.NoError(f, err)
	f.Add(request)
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n"))
	f.Add([]byte("-----BEGIN "))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, issued := range [][]byte{data, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: data})} {
			_, err := logicalcloud.Read(issued, request)
			require.True(t, fail.Is(err, fail.Conflict), "nobody has signed for this key: %v", err)
		}
		for _, asked := range [][]byte{data, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: data})} {
			if logicalcloud.MadeFor(asked, "alice") {
				require.False(t, logicalcloud.MadeFor(asked, "bob"))
			}
			require.False(t, bytes.Equal(asked, nil) && logicalcloud.MadeFor(asked, ""), "nothing is no request")
		}
	})
}
