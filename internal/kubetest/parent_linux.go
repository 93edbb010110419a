package kubetest

import (
	"os/exec"
	"syscall"
)

// dieWithParent lets the process not outlive the tests, however they end.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
}
