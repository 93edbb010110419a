package arch

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNamedTestsAreThere: each test that docs/security.md names as what shows something is a test.
func TestNamedTestsAreThere(t *testing.T) {
	text, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	named := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z][A-Za-z0-9]*\b`).FindAllString(string(text), -1)
	require.Greater(t, len(named), 30)
	list := exec.CommandContext(t.Context(), "git", "grep", "-hoE", `^func (Test|Fuzz)[A-Za-z0-9]+\(`, "--", "*_test.go")
	list.Dir = "../.."
	found, err := list.Output()
	require.NoError(t, err)
	there := map[string]bool{}
	for line := range strings.Lines(string(found)) {
		there[strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "func "), "(")] = true
	}
	for _, name := range named {
		require.True(t, there[name], "docs/security.md names %s, and there is no such test", name)
	}
}
