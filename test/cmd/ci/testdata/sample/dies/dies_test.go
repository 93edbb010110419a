package dies

import (
	"os"
	"path/filepath"
	"testing"
)

// mark leaves a line that the test has run.
func mark(t *testing.T) {
	f, err := os.OpenFile(filepath.Join(os.Getenv("SAMPLE"), "dies"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(t.Name() + "\n"); err != nil {
		t.Fatal(err)
	}
}

func TestBefore(t *testing.T) { mark(t) }

func TestBeside(t *testing.T) {
	t.Parallel()
	mark(t)
}

// TestDies takes the binary with it the first time.
func TestDies(t *testing.T) {
	mark(t)
	once := filepath.Join(os.Getenv("SAMPLE"), "once")
	if _, err := os.Stat(once); err != nil {
		_ = os.WriteFile(once, nil, 0o600)
		os.Exit(3)
	}
}

func TestAfter(t *testing.T) { mark(t) }

func TestFailsAfter(t *testing.T) {
	mark(t)
	t.Error("as it would have failed anyway")
}
