package status_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/status"
)

// TestDocumentHasEveryMember: what the encoders of EMCO 22's form write, Document has, member for member.
func TestDocumentHasEveryMember(t *testing.T) {
	read := 0
	for _, path := range files(t, "drover") {
		a := parse(t, path)
		query, want := section(t, a, "query"), section(t, a, "want.json")
		if !strings.Contains(query, "status=") || !strings.Contains(want, `"states"`) {
			continue // of the other form, or a list
		}
		decoder := json.NewDecoder(strings.NewReader(want))
		decoder.DisallowUnknownFields()
		var d status.Document
		require.NoError(t, decoder.Decode(&d), path)
		require.NotEmpty(t, d.Name, path)
		read++
	}
	require.Greater(t, read, 10)
}
