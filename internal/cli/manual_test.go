package cli_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/cli"
)

var update = flag.Bool("update", false, "write golden files and docs/cli.md")

// TestTheManualIsTheHelp holds docs/cli.md to what the commands say.
func TestTheManualIsTheHelp(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, cli.Manual(&b, nil))
	const file = "../../docs/cli.md"
	if *update {
		require.NoError(t, os.WriteFile(file, b.Bytes(), 0o644)) // #nosec G306 -- a document
	}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(data), b.String(), "go test ./internal/cli -update writes it")
}
