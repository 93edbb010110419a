package killed

import (
	"os"
	"syscall"
	"testing"
)

func TestFirst(t *testing.T)    {}
func TestParallel(t *testing.T) { t.Parallel() }
func TestKilled(t *testing.T)   { syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} }
func TestLater(t *testing.T)    {}
