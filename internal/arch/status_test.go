package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
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
var spelled = regexp.MustCompile(
	`ready-?[Ss]tatus|deployed-?[Ss]tatus|(ready|deployed)Counts|(rsync|cluster)-status|NotPresent|\bNotReady\b|^"Ready"$|[uU]nconfirmed-?[cC]lusters`,
)

// spellers may have such words, and why. A path that ends in a slash is of all files below it.
var spellers = map[string]string{
	"internal/status/":                  "the encoders and what they have written, as a client reads it",
	"api/examples.go":                   "examples in the reference of the API",
	"api/openapi.go":                    "the same",
	"internal/domain/app_dependency.go": "EMCO's word for until when an app waits for another one",
	"internal/kube/nodes.go":            "Kubernetes' name of a condition",
	"internal/readiness/readiness.go":   "what it judges is stored by these words",
	"internal/service/why.go":           "our own words for the state of a workload",
	"internal/view/row.go":              "names of rows' values in messages of tests",
}

// TestStatusIsReadAsRows: nobody takes a document of status apart to know what it says. Whoever needs what a status says reads rows.
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
			for _, problem := range asText(t, path, nil, decodes) {
				t.Error(problem)
			}
		}
		require.NotZero(t, files, "the rule meets no file in %s", folder)
	}
}

// TestOnlyTheEncodersSpell: in all of the product nobody but the encoders in internal/status knows how EMCO spells what rows say.
func TestOnlyTheEncodersSpell(t *testing.T) {
	files, used := 0, map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		if d.IsDir() {
			if name == "build" || name == "test" || name == "deploy" || strings.HasPrefix(name, ".git") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".pb.go") {
			return nil
		}
		files++
		found := asText(t, path, nil, spells)
		for speller := range spellers {
			if len(found) > 0 && (name == speller || strings.HasSuffix(speller, "/") && strings.HasPrefix(name, speller)) {
				used[speller] = true
				return nil
			}
		}
		for _, problem := range found {
			t.Error(problem)
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, files, 300, "the rule meets few files")
	for speller := range spellers {
		require.True(t, used[speller], "%s has none of the words any more: take it out of spellers", speller)
	}
}

// A finding is what is wrong with a node, "" for nothing.
type finding func(ast.Node) string

// decodes finds where JSON is decoded.
func decodes(n ast.Node) string {
	if n, ok := n.(*ast.SelectorExpr); ok {
		pkg, ok := n.X.(*ast.Ident)
		if ok && pkg.Name == "json" && (n.Sel.Name == "Unmarshal" || n.Sel.Name == "NewDecoder") {
			return "decodes JSON: read the rows of internal/view"
		}
	}
	return ""
}

// spells finds where a word of EMCO is written.
func spells(n ast.Node) string {
	if n, ok := n.(*ast.BasicLit); ok && n.Kind == token.STRING {
		if word := spelled.FindString(n.Value); word != "" {
			return "knows EMCO's word " + word + ": internal/status spells rows"
		}
	}
	return ""
}

// asText are the findings in a file, by their places.
func asText(t *testing.T, path string, source any, find finding) (problems []string) {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, source, parser.SkipObjectResolution)
	require.NoError(t, err)
	ast.Inspect(f, func(n ast.Node) bool {
		if n != nil {
			if problem := find(n); problem != "" {
				problems = append(problems, set.Position(n.Pos()).String()+" "+problem)
			}
		}
		return true
	})
	return problems
}

// TestTheRulesOfStatusFind what they are there for.
func TestTheRulesOfStatusFind(t *testing.T) {
	const file = "package x\n\ntype d struct {\n\tReady string `json:\"readyStatus\"`\n}\n\nfunc f(b []byte) error { return json.Unmarshal(b, &d{}) }\n"
	require.Len(t, asText(t, "x.go", file, decodes), 1)
	require.Len(t, asText(t, "x.go", file, spells), 1)
	for word, want := range map[string]int{`"Ready"`: 1, `"Ready:  %s"`: 0, `"3 NotReady"`: 1, `"ResourceNotReady"`: 0, `"NotPresent"`: 1} {
		require.Len(t, asText(t, "x.go", "package x\n\nvar w = "+word+"\n", spells), want, word)
	}
}
