// Package arch checks that imports go down only: each package of ours has a row in rows_test.go that says what it may import.
// It reads the files themselves: a test that runs `go list` would be answered from go test's cache.
package arch

import (
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module = "github.com/drover-io/drover/"
	root   = "../.."
	rows   = "internal/arch/rows_test.go"
)

var update = flag.Bool("update", false, "write the table of docs/architecture.md")

// imports are what the files of a package import, tests apart, in the words of a row.
type imports struct{ ours, libs, world []string }

// TestImports: what a package imports, its row allows; and what its row allows, it imports.
func TestImports(t *testing.T) {
	found := packages(t)
	require.NotEmpty(t, found)
	for _, problem := range check(layers, found) {
		t.Error(problem)
	}
}

// check says what is wrong with the layers, where these packages are found.
func check(layers []layer, found map[string]imports) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	place := map[string]int{} // of a row, from the top
	for _, l := range layers {
		for _, r := range l.rows {
			if _, twice := place[r.pkg]; twice {
				say("%s: package %s has two rows", rows, r.pkg)
			}
			place[r.pkg] = len(place)
		}
	}
	for _, l := range layers {
		for _, r := range l.rows {
			is, there := found[r.pkg]
			if !there {
				say("%s: the row of %s is of no package: take it out", rows, r.pkg)
				continue
			}
			for _, column := range []struct {
				name     string
				may, has []string
			}{{"ours", strings.Fields(r.ours), is.ours}, {"libs", strings.Fields(r.libs), is.libs}, {"world", strings.Fields(r.world), is.world}} {
				used := map[string]bool{}
				for _, imported := range column.has {
					i := slices.IndexFunc(column.may, func(may string) bool { return covers(may, imported, column.name == "libs") })
					if i < 0 {
						say("package %s imports %s, which its row does not allow. It is one of the %s: %s. If that stays true, add %q to %s of the row of %s in %s.",
							r.pkg, imported, l.name, l.about, imported, column.name, r.pkg, rows)
						continue
					}
					used[column.may[i]] = true
				}
				for _, may := range column.may {
					if !used[may] {
						say("%s: the row of %s allows %s, which it does not import: take it out", rows, r.pkg, may)
					}
				}
			}
			for _, below := range strings.Fields(r.ours) {
				if at, known := place[below]; known && at <= place[r.pkg] {
					say("%s: %s may not import %s, which is above it: imports go down only", rows, r.pkg, below)
				}
			}
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(found)) {
		if _, known := place[pkg]; !known {
			is := found[pkg]
			say("package %s has no row. Add this one to the layer of %s to which it belongs, above all that it imports and below all that import it:\n\t%s",
				pkg, rows, row{pkg: pkg, ours: strings.Join(is.ours, " "), libs: strings.Join(is.libs, " "), world: strings.Join(is.world, " ")})
		}
	}
	return problems
}

// String is the row as it is written.
func (r row) String() string {
	text := fmt.Sprintf("{pkg: %q", r.pkg)
	for _, column := range [][2]string{{"ours", r.ours}, {"libs", r.libs}, {"world", r.world}} {
		if column[1] != "" {
			text += fmt.Sprintf(", %s: %q", column[0], column[1])
		}
	}
	return text + "},"
}

// covers says whether what a row names is what is imported, or with parts what that is a part of.
func covers(may, imported string, parts bool) bool {
	return may == imported || parts && strings.HasPrefix(imported, may+"/")
}

// acts says whether with a package of the standard library one can act on the world, wait for it or depend on chance.
func acts(std string) bool {
	first, _, _ := strings.Cut(std, "/")
	return std == "net" || strings.HasPrefix(std, "net/http") || first == "os" || std == "context" || std == "syscall" ||
		strings.HasPrefix(std, "math/rand")
}

// packages finds those of this module.
func packages(t *testing.T) map[string]imports {
	t.Helper()
	found := map[string]imports{}
	require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != root {
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			if err == nil || slices.Contains([]string{"testdata", "build"}, d.Name()) || strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir // another module, or no package
			}
		}
		if d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(name))
		require.NoError(t, err)
		pkg := short(filepath.ToSlash(folder))
		is, err := imported(found[pkg], name)
		found[pkg] = is
		return err
	}))
	return found
}

// imported adds the imports of a file.
func imported(is imports, file string) (imports, error) {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		return is, err
	}
	for _, spec := range f.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return is, err
		}
		first, _, _ := strings.Cut(name, "/")
		switch {
		case strings.HasPrefix(name, module):
			is.ours = add(is.ours, short(strings.TrimPrefix(name, module)))
		case strings.Contains(first, "."):
			is.libs = add(is.libs, name)
		case acts(name):
			is.world = add(is.world, name)
		}
	}
	return is, nil
}

func add(names []string, name string) []string {
	if i, found := slices.BinarySearch(names, name); !found {
		return slices.Insert(names, i, name)
	}
	return names
}

func short(folder string) string { return strings.TrimPrefix(folder, "internal/") }

// TestCheck: each thing that can be wrong is found.
func TestCheck(t *testing.T) {
	found := map[string]imports{
		"top":    {ours: []string{"bottom"}, libs: []string{"example.com/lib/part"}, world: []string{"os"}},
		"bottom": {},
	}
	one := func(rows ...row) []layer { return []layer{{name: "ones", about: "few", rows: rows}} }
	top, bottom := row{pkg: "top", ours: "bottom", libs: "example.com/lib", world: "os"}, row{pkg: "bottom"}
	require.Empty(t, check(one(top, bottom), found))
	for want, layers := range map[string][]layer{
		"has no row":                               one(top),
		`{pkg: "bottom"},`:                         one(top),
		"which is above it":                        one(bottom, top),
		`add "bottom" to ours`:                     one(row{pkg: "top", libs: "example.com/lib", world: "os"}, bottom),
		`add "example.com/lib/part" to libs`:       one(row{pkg: "top", ours: "bottom", libs: "example.com/li", world: "os"}, bottom),
		`add "os" to world`:                        one(row{pkg: "top", ours: "bottom", libs: "example.com/lib"}, bottom),
		"allows context, which it does not import": one(top, row{pkg: "bottom", world: "context"}),
		"the row of other is of no package":        one(top, bottom, row{pkg: "other"}),
		"has two rows":                             one(top, bottom, bottom),
	} {
		require.Contains(t, strings.Join(check(layers, found), "\n"), want)
	}
}

// TestTheTableOfTheDocument has the layers as they are.
func TestTheTableOfTheDocument(t *testing.T) {
	file := path.Join(root, "docs/architecture.md")
	const begin, end = "| layer | packages | what they are |\n|---|---|---|\n", "\n\n"
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(data), begin)
	require.True(t, ok, "%s has no table of layers", file)
	table, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	var lines []string
	for _, l := range layers {
		var names []string
		for _, r := range l.rows {
			names = append(names, "`"+r.pkg+"`")
		}
		lines = append(lines, fmt.Sprintf("| %s | %s | %s |", l.name, strings.Join(names, ", "), l.about))
	}
	want := strings.Join(lines, "\n")
	if *update && table != want {
		require.NoError(t, os.WriteFile(file, []byte(before+begin+want+end+after), 0o644)) // #nosec G306 -- a document
		return
	}
	require.Equal(t, want, table, "go test ./internal/arch -update writes it")
}
