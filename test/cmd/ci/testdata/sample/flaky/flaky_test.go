package flaky

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDisturbs(t *testing.T) {
	if err := os.WriteFile(filepath.Join(os.Getenv("SAMPLE"), "other"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestPassesAlone fails when the other one has run before it.
func TestPassesAlone(t *testing.T) {
	if _, err := os.Stat(filepath.Join(os.Getenv("SAMPLE"), "other")); err == nil {
		t.Run("by the other", func(t *testing.T) { t.Error("disturbed") })
	}
	_ = os.Remove(filepath.Join(os.Getenv("SAMPLE"), "other"))
}
