package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// listeners are what begins to listen, or makes a server, without the bounds of internal/connections: functions and types, by package.
var listeners = map[string][]string{
	"net":                    {"Listen", "ListenTCP", "ListenConfig", "ListenUnix", "FileListener"},
	"net/http":               {"Server", "Serve", "ServeTLS", "ListenAndServe", "ListenAndServeTLS"},
	"net/http/fcgi":          {"Serve"},
	"crypto/tls":             {"Listen", "NewListener"},
	"net/rpc":                {"Accept"},
	"google.golang.org/grpc": {"NewServer"},
	"sigs.k8s.io/controller-runtime/pkg/metrics/server": {"NewServer"},
}

// mayListen are the files that may, with what they may and why.
var mayListen = map[string]struct {
	what []string
	why  string
}{
	"internal/connections/listen.go":              {[]string{"net.ListenConfig", "http.Server", "tls.NewListener"}, "is where all others come to"},
	"api/rpc/rpc.go":                              {[]string{"grpc.NewServer"}, "is where all servers of gRPC are made"},
	"deploy/local/stack.go":                       {[]string{"net.ListenConfig"}, "looks whether ports are free"},
	"deploy/local/kube/internal/cluster/ports.go": {[]string{"net.Listen"}, "looks whether ports are free"},
	"deploy/local/temporal/ports.go":              {[]string{"net.ListenConfig"}, "looks for ports that are free"},
	"deploy/local/ferret/ferret.go":               {[]string{"net.ListenConfig"}, "speaks MongoDB's protocol, on loopback alone"},
	"deploy/tools/idp/main.go":                    {[]string{"net.ListenConfig", "http.Server"}, "is a provider for tests"},
	"internal/freeport/freeport.go":               {[]string{"net.Listen"}, "finds ports for tests"},
	"internal/kmstest/kmstest.go":                 {[]string{"net.ListenConfig", "grpc.NewServer"}, "is a plugin for tests, on a socket of its own"},
	"internal/mongotest/proxy.go":                 {[]string{"net.Listen"}, "stands between tests and their database"},
}

// TestNothingElseListens: what bounds one listener bounds all, as they are made in one place. Tests may listen as they like.
func TestNothingElseListens(t *testing.T) {
	found := map[string][]string{}
	require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, err := filepath.Rel(root, name)
		require.NoError(t, err)
		path = filepath.ToSlash(path)
		if d.IsDir() && name != root && (slices.Contains([]string{"testdata", "build", "node_modules"}, d.Name()) || strings.HasPrefix(d.Name(), ".") || path == "test") {
			return fs.SkipDir
		}
		if d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		if used := listens(t, string(text)); len(used) > 0 {
			found[path] = used
		}
		return nil
	}))
	for file, used := range found {
		for _, what := range used {
			require.Contains(t, mayListen[file].what, what, "%s has %s: take what package internal/connections makes, which has the bounds", file, what)
		}
	}
	for file, may := range mayListen {
		require.ElementsMatch(t, may.what, found[file], "%s, which %s, has not what the list lets it have: shorten the list", file, may.why)
	}
}

// listens are the names of listeners that a file has, sorted.
func listens(t *testing.T, text string) (used []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	require.NoError(t, err)
	named := map[string]string{} // packages, by what the file calls them
	for _, spec := range f.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		if _, one := listeners[path]; !one {
			continue
		}
		name := path[strings.LastIndex(path, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		named[name] = path
	}
	pointers := map[ast.Expr]bool{} // *http.Server is a word of who is given one
	ast.Inspect(f, func(n ast.Node) bool {
		if star, ok := n.(*ast.StarExpr); ok {
			pointers[star.X] = true
		}
		s, ok := n.(*ast.SelectorExpr)
		if !ok || pointers[s] {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && slices.Contains(listeners[named[x.Name]], s.Sel.Name) {
			used = add(used, x.Name+"."+s.Sel.Name)
		}
		return true
	})
	return used
}

// TestListens: other names of packages, and pointers.
func TestListens(t *testing.T) {
	require.Equal(t, []string{"h.Server", "net.ListenConfig"}, listens(t, `package x
import (h "net/http"; "net")
var a = &h.Server{}
var b net.ListenConfig
var c *h.Server`))
	require.Empty(t, listens(t, `package x
import "net/http"
func f(s *http.Server, h http.Handler) { s.Serve(nil) }`))
}
