package cli

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTablesInAllScripts: a column is as wide as a terminal shows it, whatever its characters take.
func TestTablesInAllScripts(t *testing.T) {
	var out bytes.Buffer
	table := newTable(&out, "WHO", "WHAT")
	table.row("東京", "a")
	table.row("e\u0301va", "b") // an accent of its own
	table.row("🚀", "c")
	require.NoError(t, table.flush())
	require.Equal(t, "WHO    WHAT\n東京   a\ne\u0301va    b\n🚀     c\n", out.String())
}

// TestFilesOfWindows: editors there put a mark before a text, which is none of a token, nor of a certificate.
func TestFilesOfWindows(t *testing.T) {
	token, err := oneToken("\ufeffsesame\r\n", "it")
	require.NoError(t, err)
	require.Equal(t, "sesame", token)
	s := httptest.NewTLSServer(nil)
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "ca.crt")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	require.NoError(t, os.WriteFile(file, append([]byte("\ufeff"), certificate...), 0o600))
	pool, err := poolOf(file)
	require.NoError(t, err)
	_, err = s.Certificate().Verify(x509.VerifyOptions{Roots: pool})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte("none"), 0o600))
	_, err = poolOf(file)
	require.ErrorContains(t, err, "has no certificates (PEM)")
}

// TestFoldersWhereCaseDoesNotCount: files of two documents have two folders there, too.
func TestFoldersWhereCaseDoesNotCount(t *testing.T) {
	e := &exported{}
	require.Equal(t, filepath.Join("files", "projects", "p", "apps", "web"), e.folder("projects/p/apps/web"))
	require.Equal(t, filepath.Join("files", "projects", "p", "apps", "Web~2"), e.folder("projects/p/apps/Web"))
	require.Equal(t, filepath.Join("files", "projects", "p", "apps", "WEB~3"), e.folder("projects/p/apps/WEB"))
	require.Equal(t, filepath.Join("files", "projects", "p", "apps", "sink"), e.folder("projects/p/apps/sink"))
}
