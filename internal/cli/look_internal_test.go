package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/client"
)

// TestWhatIsDeletedIsToldOnce, and then known no more; what nobody was told of is not told as deleted. One that is made anew is told again.
func TestWhatIsDeletedIsToldOnce(t *testing.T) {
	var out strings.Builder
	s := &session{Options: Options{Out: &out}}
	p, err := newValuePrinter("jsonpath={.resource} {.status.state}")
	require.NoError(t, err)
	known := map[string]string{}
	for _, step := range []struct {
		kind, data, told string
		known            int
	}{
		{"status", `{"a":{"state":"Created"},"b":{"state":"Created"}}`, "a Created\nb Created\n", 2},
		{"change", `{"a":null}`, "a \n", 1},
		{"change", `{"a":null,"never":null}`, "", 1},
		{"status", `{}`, "b \n", 0}, // after the API was away
		{"status", `{}`, "", 0},
		{"change", `{"a":{"state":"Created"}}`, "a Created\n", 1},
		{"status", `{"a":{"state":"Created"}}`, "", 1},
	} {
		out.Reset()
		require.NoError(t, s.tell(known, client.Event{Kind: step.kind, Data: step.data}, p))
		require.Equal(t, step.told, out.String(), step.data)
		require.Len(t, known, step.known, step.data)
	}
}
