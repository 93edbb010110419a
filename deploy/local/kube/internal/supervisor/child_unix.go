//go:build unix && !linux

package supervisor

import (
	"os"
	"syscall"
)

// childAttributes keep a child out of the terminal's process group, as on Linux.
// There is no portable parent-death signal: on these systems, the children of a
// supervisor that is killed with SIGKILL must be stopped by hand.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

func ownExecutable() (string, error) {
	return os.Executable()
}
