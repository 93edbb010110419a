package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCtrlCInTheEditor is the editor's, as in vi, which stays in its work by it: what is saved after it is written.
func TestCtrlCInTheEditor(t *testing.T) {
	const was = `{"metadata":{"name":"p","description":"old"}}`
	var written atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut:
			data, err := io.ReadAll(r.Body)
			if err == nil {
				written.Store(string(data))
			}
			_, _ = w.Write(data)
		case r.URL.Path == "/v2/projects":
			_, _ = io.WriteString(w, "["+was+"]")
		default:
			_, _ = io.WriteString(w, was)
		}
	}))
	t.Cleanup(server.Close)
	t.Setenv("DROVER_SERVER", server.URL)
	t.Setenv("DROVER_CONFIG", t.TempDir()+"/config.yaml")
	t.Setenv("DROVER_EDITOR", fmt.Sprintf(`sh -c 'kill -INT %d && sleep 0.3 && sed -i s/old/new/ "$0"'`, os.Getpid()))
	var out, stderr bytes.Buffer
	require.Zero(t, run([]string{"drover", "edit", "project", "p"}, strings.NewReader(""), &out, &stderr), stderr.String())
	require.Equal(t, "projects/p configured\n", out.String())
	require.Contains(t, written.Load(), `"new"`)
}
