package kubetest

import (
	"os/exec"
	"syscall"
)

// dieWithParent lets the process not outlive the tests, however they end. It has a process group of its own,
// so that an interrupt from the keyboard does not reach it before the tests.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
}
