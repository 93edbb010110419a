// Package arch checks that imports go down only (docs/architecture.md has the table). It reads the files
// themselves: a test that runs `go list` would be answered from go test's cache.
package arch

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/drover-io/drover/"

// rule says what the packages under a folder may not import, tests apart.
type rule struct {
	reason string
	deny   []string // import paths, or prefixes that end with a slash
}

var (
	clientGo = "k8s.io/client-go/"
	mongo    = "go.mongodb.org/"
	helm     = "helm.sh/"
	temporal = "go.temporal.io/"
	echo     = "github.com/labstack/"
	edges    = []string{module + "api", module + "worker", module + "cmd/", module + "internal/monitor"}
	core     = append([]string{module + "internal/service", module + "internal/engine", module + "workflows", module + "activities"}, edges...)
	adapters = append([]string{module + "internal/store", module + "internal/kube", module + "internal/render"}, core...)
	pure     = append([]string{"net", "net/http", "os", "context", clientGo, mongo, helm, temporal, echo}, adapters...)
)

// rules, top to bottom.
var rules = map[string]rule{
	"api":                   {"the edge knows HTTP and the service, nothing below", []string{module + "workflows", module + "activities", module + "worker", module + "internal/store", module + "internal/kube", clientGo, mongo, helm}},
	"worker":                {"the worker knows workflows and activities, not the edge", []string{module + "api", module + "internal/service"}},
	"internal/service":      {"commands and queries reach the world through their ports", append([]string{module + "internal/engine", module + "workflows", module + "activities", module + "internal/store", module + "internal/kube", module + "internal/render", clientGo, mongo, helm, temporal, echo}, edges...)},
	"internal/door":         {"the door knows the service, and neither its edges nor what is below it", append([]string{module + "internal/engine", module + "workflows", module + "activities", module + "internal/store", module + "internal/kube", module + "internal/render", clientGo, mongo, helm, temporal, echo, "google.golang.org/grpc/"}, edges...)},
	"internal/notify":       {"who tells watchers reaches statuses through a port", append([]string{module + "internal/service", module + "internal/engine", module + "workflows", module + "activities", module + "internal/store", module + "internal/kube", module + "internal/render", clientGo, mongo, helm, temporal, echo}, edges...)},
	"internal/engine":       {"the engine is below the edges", append([]string{module + "internal/service", module + "internal/store", module + "internal/kube", mongo, clientGo}, edges...)},
	"workflows":             {"workflows are deterministic", append([]string{module + "internal/engine", module + "internal/store", module + "internal/service", "net", "net/http", "os", "math/rand", "math/rand/v2", clientGo, mongo, helm}, edges...)},
	"activities":            {"activities reach clusters and store through ports", append([]string{module + "workflows", module + "internal/engine", module + "internal/service", module + "internal/store", clientGo, mongo, helm}, edges...)},
	"internal/store":        {"adapters do not see each other", append([]string{module + "internal/kube", module + "internal/render", clientGo, helm, temporal, echo}, core...)},
	"internal/kube":         {"adapters do not see each other", append([]string{module + "internal/store", module + "internal/render", mongo, helm, temporal, echo}, core...)},
	"internal/render":       {"adapters do not see each other", append([]string{module + "internal/store", module + "internal/kube", clientGo, mongo, temporal, echo}, core...)},
	"internal/observe":      {"who hears clusters knows them alone; what is heard goes to a sink", append([]string{module + "internal/store", module + "internal/render", clientGo, mongo, helm, temporal, echo}, core...)},
	"internal/monitor":      {"the agent is no part of the control plane", append([]string{mongo, helm, temporal, echo}, adapters...)},
	"internal/fields":       {"decisions do no I/O; the schemas of built-in kinds are client-go's", append([]string{"net", "net/http", "os", "context", mongo, helm, temporal, echo}, adapters...)},
	"internal/bundle":       {"decisions do no I/O", pure},
	"internal/readiness":    {"decisions do no I/O; a context bounds what rules of users may take", append([]string{"net", "net/http", "os", clientGo, mongo, helm, temporal, echo}, adapters...)},
	"internal/placement":    {"decisions do no I/O", pure},
	"internal/plan":         {"decisions do no I/O", pure},
	"internal/logicalcloud": {"decisions do no I/O", pure},
	"internal/network":      {"decisions do no I/O", pure},
	"internal/view":         {"decisions do no I/O, and rows know nobody's words", append([]string{module + "internal/status", module + "internal/explain", module + "internal/notify"}, pure...)},
	"internal/status":       {"decisions do no I/O", pure},
	"internal/explain":      {"decisions do no I/O", pure},
	"internal/operations":   {"decisions do no I/O", pure},
	"internal/domain":       {"the nouns know nothing but failures", append([]string{module + "internal/plan", module + "internal/status", module + "internal/placement"}, pure...)},
	"internal/fail":         {"the vocabulary of errors knows nothing", []string{module}},
	"internal/sandbox":      {"who keeps children knows nothing of what they do", []string{module, "net/http", clientGo, mongo, helm, temporal, echo}},
}

func TestImportsGoDownOnly(t *testing.T) {
	for folder, r := range rules {
		t.Run(folder, func(t *testing.T) {
			files := 0
			root := filepath.Join("..", "..", filepath.FromSlash(folder))
			err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
					return err
				}
				files++
				f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
				if err != nil {
					return err
				}
				for _, spec := range f.Imports {
					imported, err := strconv.Unquote(spec.Path.Value)
					require.NoError(t, err)
					require.Falsef(t, r.denies(imported), "%s imports %s: %s", path, imported, r.reason)
				}
				return nil
			})
			require.NoError(t, err)
			require.NotZero(t, files, "the rule meets no file")
		})
	}
}

func (r rule) denies(imported string) bool {
	for _, d := range r.deny {
		if imported == d || strings.HasPrefix(imported, strings.TrimSuffix(d, "/")+"/") && (strings.HasSuffix(d, "/") || strings.HasPrefix(d, module)) {
			return true
		}
	}
	return false
}
