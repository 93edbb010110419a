package cli

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
)

// TestALoginThatCannotBeRenewedHere is said to be so, and not that the API is away, which would be asked again for ever.
func TestALoginThatCannotBeRenewedHere(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(folder, ".login.lock"), 0o700)) // as in a folder that may not be written
	s := &session{Options: Options{Getenv: func(string) string { return "" }}}
	s.flags.config = filepath.Join(folder, "config.yaml")
	expired := Context{Name: "c", Token: "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"exp": 1}`)) + ".x", RefreshToken: "old"}
	c := client.New("http://127.0.0.1:1/v2", client.WithTokens((&tokens{session: s, context: expired}).get))
	defer c.Close()
	_, err := c.API().List(t.Context(), domain.Projects, "")
	require.ErrorContains(t, err, ".login.lock: is a directory")
	require.False(t, transient(err))
	require.Equal(t, exitUsage, codeOf(err))
}
