//go:build !linux

package kubetest

import "os/exec"

// dieWithParent is Main's work alone where the system offers nothing.
func dieWithParent(*exec.Cmd) {}
