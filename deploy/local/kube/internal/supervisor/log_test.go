package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTailReturnsTheLastLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var content strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&content, "line %d\n", i)
	}
	if err := os.WriteFile(path, []byte(content.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	lines, err := tail(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != tailLines || lines[0] != "line 9985" || lines[tailLines-1] != "line 9999" {
		t.Errorf("got %q", lines)
	}
}

func TestTailLeavesOutStackTraces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	content := "about to fail\npanic: failed\n\ngoroutine 1 [running]:\nmain.main()\n"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	lines, err := tail(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != 2 || lines[1] != "panic: failed" {
		t.Errorf("got %q", lines)
	}
}

func TestLogOfThePreviousRunIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for range 2 {
		if err := setAsideLog(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("run"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(path + ".previous"); err != nil {
		t.Error(err)
	}
}
