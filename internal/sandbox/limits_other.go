//go:build !linux

package sandbox

import (
	"os"
	"syscall"
	"time"
)

// Other systems have the limits that the parent and Go's runtime enforce: time, output and stack.

var isolations = []uintptr{0}

func attributes(uintptr) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func self() (string, error) { return os.Executable() }

func setLimits(Limits) error { return nil }

// untilParentGoes returns when the process is another one's.
func untilParentGoes() {
	parent := os.Getppid()
	for range time.Tick(time.Second) {
		if os.Getppid() != parent {
			return
		}
	}
}

func allowCPU(time.Duration) error { return nil }
