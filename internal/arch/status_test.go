package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// readers are packages that status is made in, or read by, beside those that import internal/status or internal/view. What is known comes to
// all of them as rows of internal/view.
var readers = []string{"internal/door", "internal/explain", "internal/notify", "internal/outcome", "internal/service", "internal/status", "internal/view"}

// decoders are the packages that read texts into values.
var decoders = []string{
	"encoding/json", "encoding/json/v2", "encoding/json/jsontext", "go.mongodb.org/mongo-driver/v2/bson", "go.yaml.in/yaml/v3", "sigs.k8s.io/yaml",
}

// texts may decode, and what. A path that ends in a slash is of all files below it.
var texts = map[string]string{
	"activities/hook.go":            "what a cluster has of a hook",
	"activities/marktexts.go":       "marks in payloads of Temporal",
	"activities/spare.go":           "versions of a CRD in manifests",
	"activities/value.go":           "answers of other hosts",
	"api/decode.go":                 "bodies of requests",
	"api/examples.go":               "examples in the reference of the API",
	"api/pass.go":                   "names in bodies of requests",
	"api/yaml.go":                   "bodies of requests",
	"internal/cli/":                 "a client has documents and nothing else",
	"internal/client/":              "the same",
	"internal/combined/document.go": "a list of tables as a client reads it",
	"internal/combined/object.go":   "definitions of kinds in manifests",
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
	"internal/readiness/gateway.go":     "a condition of Kubernetes has the word",
	"internal/service/why.go":           "our own words for the state of a workload",
	"internal/view/row.go":              "names of rows' values in messages of tests",
}

// TestStatusIsReadAsRows: nobody takes a document of status apart to know what it says. Whoever needs what a status says reads rows.
func TestStatusIsReadAsRows(t *testing.T) {
	reads, files, decoded := map[string]bool{}, map[string]int{}, map[string][]token.Position{}
	for _, folder := range readers {
		reads[folder] = true
	}
	sources(t, product, func(name string, set *token.FileSet, f *ast.File) {
		folder := path.Dir(name)
		if importedAs(f, module+"internal/status") != "" || importedAs(f, module+"internal/view") != "" {
			reads[folder] = true
		}
		files[folder]++
		for _, at := range found(f, decodes(f)) {
			decoded[folder] = append(decoded[folder], set.Position(at))
		}
	})
	used := map[string]bool{}
	for folder := range reads {
		require.NotZero(t, files[folder], "the rule meets no file in %s", folder)
		for _, at := range decoded[folder] {
			text := among(texts, filepath.ToSlash(strings.TrimPrefix(at.Filename, root+string(filepath.Separator))))
			if used[text] = true; text == "" {
				t.Errorf("%s decodes: read the rows of internal/view", at)
			}
		}
	}
	for text := range texts {
		require.True(t, used[text], "%s decodes nothing any more: take it out of texts", text)
	}
	require.Greater(t, len(reads), len(readers), "others import internal/status")
}

// among is which of some paths is that of a file, or of a folder above it; "" for none.
func among(paths map[string]string, name string) string {
	for p := range paths {
		if name == p || strings.HasSuffix(p, "/") && strings.HasPrefix(name, p) {
			return p
		}
	}
	return ""
}

// importedAs is the name by which a file has a package, "" where it does not import it.
func importedAs(f *ast.File, of string) string {
	for _, i := range f.Imports {
		if i.Path.Value == strconv.Quote(of) {
			if i.Name != nil {
				return i.Name.Name
			}
			for version.MatchString(path.Base(of)) {
				of = path.Dir(of)
			}
			return path.Base(of)
		}
	}
	return ""
}

// version is an element at the end of the path of a package that is not its name.
var version = regexp.MustCompile(`^v[0-9]+$`)

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

// decodes finds where a file decodes a text, by whatever name it has the package that does.
func decodes(f *ast.File) func(ast.Node) bool {
	names := map[string]bool{}
	for _, of := range decoders {
		if name := importedAs(f, of); name != "" {
			names[name] = true
		}
	}
	return func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok || !strings.HasPrefix(s.Sel.Name, "Unmarshal") && s.Sel.Name != "NewDecoder" || s.Sel.Name == "UnmarshalTypeError" {
			return false
		}
		pkg, ok := s.X.(*ast.Ident)
		return ok && names[pkg.Name]
	}
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
	const file = "package x\n\nimport \"encoding/json\"\n\ntype d struct {\n\tReady string `json:\"readyStatus\"`\n}\n\nfunc f(b []byte) error { return json.Unmarshal(b, &d{}) }\n"
	for text, want := range map[string]int{
		file: 1,
		strings.Replace(strings.Replace(file, `"enc`, `as "enc`, 1), "json.U", "as.U", 1):                     1,
		strings.Replace(file, "encoding/json", "encoding/json/v2", 1):                                         1,
		strings.Replace(file, "encoding/json", "example.com/json", 1):                                         0,
		strings.Replace(strings.Replace(file, "encoding/json", "sigs.k8s.io/yaml", 1), "json.U", "yaml.U", 1): 1,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", text, parser.SkipObjectResolution)
		require.NoError(t, err)
		require.Len(t, found(f, decodes(f)), want, text)
	}
	require.Len(t, asText(t, "x.go", file, spells), 1)
	for word, want := range map[string]int{`"Ready"`: 1, `"Ready:  %s"`: 0, `"3 NotReady"`: 1, `"ResourceNotReady"`: 0, `"NotPresent"`: 1} {
		require.Len(t, asText(t, "x.go", "package x\n\nvar w = "+word+"\n", spells), want, word)
	}
}
