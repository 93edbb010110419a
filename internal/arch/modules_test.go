package arch

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// builtTogether are the modules that a machine builds one after the other, the first one's folder being the repository's.
var builtTogether = []string{".", "deploy/local", "deploy/local/kube", "test"}

// mayDiffer are the modules of which a second version is worth what it costs.
var mayDiffer = map[string]string{
	"github.com/antlr4-go/antlr/v4": "with cel-go",
	"github.com/google/cel-go":      "Kubernetes judges rules with the version that it was released with; Drover judges its own with a later one",
}

// TestOneVersionOfAModule: a package is compiled again for each version of each module that it imports, or that these
// import. That golang.org/x/net differed made two of Kubernetes' API, client and all that lies above.
func TestOneVersionOfAModule(t *testing.T) {
	used := map[string]map[string]string{}
	for _, dir := range builtTogether {
		data, err := os.ReadFile(filepath.Join(root, dir, "go.mod"))
		require.NoError(t, err)
		used[dir] = versions(string(data))
		require.NotEmpty(t, used[dir], dir)
	}
	for _, problem := range differing(used) {
		t.Error(problem)
	}
}

// differing says which modules are used in more than one version, by folder.
func differing(used map[string]map[string]string) (problems []string) {
	first := map[string]string{} // the folder where a module is seen first
	for _, dir := range slices.Sorted(maps.Keys(used)) {
		for _, module := range slices.Sorted(maps.Keys(used[dir])) {
			other, seen := first[module]
			switch {
			case !seen:
				first[module] = dir
			case mayDiffer[module] == "" && used[dir][module] != used[other][module]:
				problems = append(problems, fmt.Sprintf("%s is %s in %s/go.mod and %s in %s/go.mod: raise the lower one (go get %s@VERSION and go mod tidy in its folder)",
					module, used[other][module], other, used[dir][module], dir, module))
			}
		}
	}
	return problems
}

// versions are those of the modules that a go.mod requires, as its replacements leave them. A module that is replaced by a
// folder is not one of them.
func versions(gomod string) map[string]string {
	required, replaced, block := map[string]string{}, map[string]string{}, ""
	for line := range strings.Lines(gomod) {
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			continue
		case words[0] == ")":
			block = ""
			continue
		case len(words) == 2 && words[1] == "(":
			block = words[0]
			continue
		}
		verb := block
		if block == "" {
			verb, words = words[0], words[1:]
		}
		switch verb {
		case "require":
			required[words[0]] = words[1]
		case "replace":
			to := words[slices.Index(words, "=>")+1:]
			replaced[words[0]] = cmp.Or(strings.Join(to[1:], ""), "folder")
		}
	}
	for module, version := range replaced {
		if _, is := required[module]; is {
			required[module] = version
		}
	}
	maps.DeleteFunc(required, func(_, version string) bool { return version == "folder" })
	return required
}

func TestVersions(t *testing.T) {
	require.Equal(t, map[string]string{"a.org/one": "v1.0.0", "a.org/two": "v1.9.0", "a.org/three": "v3.0.0"}, versions(`
module a.org/self

go 1.26.0

require a.org/one v1.0.0

require (
	a.org/two v2.0.0 // indirect
	a.org/three v3.0.0
	a.org/four v0.0.0
)

replace a.org/four => ../four

replace (
	a.org/two => a.org/two v1.9.0 // because
	a.org/five => a.org/five v5.0.0
)
`))
	require.Empty(t, differing(map[string]map[string]string{
		".":    {"a.org/one": "v1.0.0", "github.com/google/cel-go": "v0.31.0"},
		"kube": {"a.org/one": "v1.0.0", "github.com/google/cel-go": "v0.26.0"},
	}))
	problems := differing(map[string]map[string]string{".": {"a.org/one": "v1.0.0"}, "kube": {"a.org/one": "v1.1.0"}})
	require.Len(t, problems, 1)
	require.Contains(t, problems[0], "a.org/one is v1.0.0 in ./go.mod and v1.1.0 in kube/go.mod")
}

// TestOneGo: the image is built by the Go that the documents ask for, which is the newest one that a module of ours needs.
func TestOneGo(t *testing.T) {
	said := func(file, pattern string) string {
		data, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		found := regexp.MustCompile(pattern).FindStringSubmatch(string(data))
		require.Len(t, found, 2, "%s names no version of Go", file)
		return found[1]
	}
	needed := said("deploy/local/go.mod", `(?m)^go (\S+)$`)
	require.Equal(t, needed, said("deploy/Dockerfile", `FROM golang:(\S+) `))
	for _, file := range []string{"README.md", "docs/develop.md", "docs/tutorial.md"} {
		require.Equal(t, needed, said(file, `Go (\S+) or later`), file)
	}
}
