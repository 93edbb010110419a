// Package built finds the programs that tests run: those that `make build servers prometheus` has put into build/bin.
package built

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module is the line by which the repository's root is known.
const module = "module github.com/drover-io/drover\n"

// Binary is the path of a program. Without it the test is skipped, saying how to build it, or fails when
// DROVER_TEST_REQUIRE is set.
func Binary(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(Root(t), "build", "bin", name)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("DROVER_TEST_REQUIRE") != "" {
			t.Fatalf("%s is not built: run make build servers prometheus", name)
		}
		t.Skipf("%s is not built: run make build servers prometheus", name)
	}
	return path
}

// Root is the repository's folder, found upwards from the test's.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(data), module) {
			return dir
		}
	}
	t.Fatal("the test does not run in the repository")
	return ""
}
