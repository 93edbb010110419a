package arch

import (
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNamedTestsAreThere: each test that docs/security.md names as what shows something is a test. Where two packages have one of the name,
// it says which one's it means, as in "TestTokens (internal/oidc)".
func TestNamedTestsAreThere(t *testing.T) {
	text, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	named := regexp.MustCompile(`\b((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)\b(?: \(([a-z0-9/]+)\))?`).FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(named), 30)
	list := exec.CommandContext(t.Context(), "git", "grep", "-oE", `^func (Test|Fuzz)[A-Za-z0-9]+\(`, "--", "*_test.go")
	list.Dir = "../.."
	found, err := list.Output()
	require.NoError(t, err)
	packages := map[string][]string{} // by the name of a test
	for line := range strings.Lines(string(found)) {
		file, declared, _ := strings.Cut(strings.TrimSpace(line), ":")
		name := strings.TrimSuffix(strings.TrimPrefix(declared, "func "), "(")
		packages[name] = append(packages[name], path.Dir(file))
	}
	for _, match := range named {
		name, of := match[1], match[2]
		require.NotEmpty(t, packages[name], "docs/security.md names %s, and there is no such test", name)
		if of != "" {
			require.Contains(t, packages[name], of, "docs/security.md names %s of %s", name, of)
			continue
		}
		require.Len(t, packages[name], 1, "docs/security.md names %s, and does not say of which package", name)
	}
}
