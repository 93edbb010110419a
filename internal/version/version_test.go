package version

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/stretchr/testify/require"
)

func TestTheRootSaysTheVersion(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "VERSION"))
	require.NoError(t, err)
	require.Equal(t, number, string(data))
	v, err := semver.StrictNewVersion(Of().Version[1:])
	require.NoError(t, err)
	require.Contains(t, []string{"", "dev"}, v.Prerelease())
}

func TestBuildIDs(t *testing.T) {
	at := time.Date(2026, 11, 23, 11, 39, 3, 0, time.FixedZone("east", 3600))
	for name, c := range map[string]struct {
		of   Info
		want string
	}{
		"a release":              {Info{Version: "v0.1.0", Revision: "63b9931abcdef0", at: at}, "0.1.0"},
		"a release with changes": {Info{Version: "v0.1.0", Revision: "63b9931abcdef0", Modified: true, at: at}, "0.1.0+changed"},
		"on the way to one":      {Info{Version: "v0.2.0-dev", Revision: "63b9931abcdef012", at: at}, "0.2.0-dev.20261123103903.g63b9931abcde"},
		"with changes":           {Info{Version: "v0.2.0-dev", Revision: "63b9931abcdef012", Modified: true, at: at}, "0.2.0-dev.20261123103903.g63b9931abcde.changed"},
		"a release with changes, by what is in it": {Info{Version: "v0.1.0", Modified: true, content: "0123456789ab"}, "0.1.0+changed.h0123456789ab"},
		"with changes, by what is in it": {
			Info{Version: "v0.2.0-dev", Revision: "63b9931abcdef012", Modified: true, at: at, content: "0123456789ab"},
			"0.2.0-dev.20261123103903.g63b9931abcde.changed.h0123456789ab",
		},
		"built from no repository, by what is in it": {Info{Version: "v0.2.0-dev", content: "0123456789ab"}, "0.2.0-dev.h0123456789ab"},
		"built from no repository":                   {Info{Version: "v0.2.0-dev"}, "0.2.0-dev"},
		"of a commit of a short name":                {Info{Version: "v0.2.0-dev", Revision: "63b", at: at}, "0.2.0-dev.20261123103903.g63b"},
		"of a commit without its time":               {Info{Version: "v0.2.0-dev", Revision: "63b"}, "0.2.0-dev.00010101000000.g63b"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, c.of.BuildID())
		})
	}
}

// TestBuildsOfNoCommitDiffer: the binary of a test is built from no commit.
func TestBuildsOfNoCommitDiffer(t *testing.T) {
	id, err := Build()
	require.NoError(t, err)
	path, err := os.Executable()
	require.NoError(t, err)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	sum := sha256.Sum256(data)
	require.Equal(t, Of().BuildID()+".h"+hex.EncodeToString(sum[:])[:shortRevision], id)
}

func TestBuildsHaveAnOrder(t *testing.T) {
	order := []string{
		"what is no build of ours",
		"0.1.0-dev.20261123103903.g63b9931abcde",
		"0.1.0",
		"0.2.0-dev",
		"0.2.0-dev.20261123103903.gfff9931abcde",
		"0.2.0-dev.20261123103903.gfff9931abcde.changed",
		"0.2.0-dev.20261123103903.gfff9931abcde.changed.h0123456789ab",
		"0.2.0-dev.20261123103903.gfff9931abcde.changed.hf123456789ab",
		"0.2.0-dev.20261123103904.g63b9931abcde",
		"0.2.0",
		"0.2.0+changed.h0123456789ab",
		"0.2.0+changed.hf123456789ab",
		"0.10.0",
	}
	for i, older := range order {
		require.False(t, Newer(older, older), older)
		for _, newer := range order[i+1:] {
			require.True(t, Newer(newer, older), "%s, %s", newer, older)
			require.False(t, Newer(older, newer), "%s, %s", older, newer)
		}
	}
}
