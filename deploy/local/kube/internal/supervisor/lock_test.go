package supervisor

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestDataDirHasOneSupervisor(t *testing.T) {
	dir := t.TempDir()
	lock, err := lockDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lockDataDir(dir)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("in use by another drover-kube (pid %d)", os.Getpid())) {
		t.Errorf("got %v, want an error that names the holder", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	lock, err = lockDataDir(dir)
	if err != nil {
		t.Fatalf("after the first lock was released: %v", err)
	}
	lock.Close()
}
