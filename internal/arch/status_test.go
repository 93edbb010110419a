package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// readers are the packages that status is made in, or read by. What is known comes to them as rows of internal/view.
var readers = []string{
	"api/rpc", "internal/door", "internal/explain", "internal/notify", "internal/outcome", "internal/service", "internal/status", "internal/view",
}

// spelled are EMCO's words for what rows say, which are told apart by the form that a query asks for.
var spelled = regexp.MustCompile(`ready-?[Ss]tatus|deployed-?[Ss]tatus|(ready|deployed)Counts|(rsync|cluster)-status|NotPresent|[uU]nconfirmed-?[cC]lusters`)

// TestStatusIsReadAsRows: nobody takes a document of status apart to know what it says, and nobody but the encoders in
// internal/status knows how it is spelled. Whoever needs what a status says reads rows.
func TestStatusIsReadAsRows(t *testing.T) {
	for _, folder := range readers {
		paths, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		require.NoError(t, err)
		files := 0
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			files++
			source, err := os.ReadFile(path)
			require.NoError(t, err)
			for _, problem := range asText(t, path, source, folder == "internal/status") {
				t.Error(problem)
			}
		}
		require.NotZero(t, files, "the rule meets no file in %s", folder)
	}
}

// asText are the places of a file where a document is decoded or, but in the encoders, spelled.
func asText(t *testing.T, path string, source []byte, encoder bool) (problems []string) {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, source, parser.SkipObjectResolution)
	require.NoError(t, err)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			if ok && pkg.Name == "json" && (n.Sel.Name == "Unmarshal" || n.Sel.Name == "NewDecoder") {
				problems = append(problems, set.Position(n.Pos()).String()+" decodes JSON: read the rows of internal/view")
			}
		case *ast.BasicLit:
			if word := spelled.FindString(n.Value); !encoder && n.Kind == token.STRING && word != "" {
				problems = append(problems, set.Position(n.Pos()).String()+" knows EMCO's word "+word+": internal/status spells rows")
			}
		}
		return true
	})
	return problems
}

// TestTheRuleOfStatusFinds what it is there for.
func TestTheRuleOfStatusFinds(t *testing.T) {
	const file = "package x\n\ntype d struct {\n\tReady string `json:\"readyStatus\"`\n}\n\nfunc f(b []byte) error { return json.Unmarshal(b, &d{}) }\n"
	require.Len(t, asText(t, "x.go", []byte(file), false), 2)
	require.Len(t, asText(t, "x.go", []byte(file), true), 1, "an encoder may spell")
}
