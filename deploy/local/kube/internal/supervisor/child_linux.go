package supervisor

import "syscall"

// childAttributes make the kernel kill a child whose supervisor died without
// stopping it. The child is kept out of the terminal's process group, since an
// interrupt from the keyboard would otherwise reach all components at once and
// undo the order in which they are stopped.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// ownExecutable names the program that runs, even if its file has been replaced
// or removed since: a restarted component must not be of another build.
func ownExecutable() (string, error) {
	return "/proc/self/exe", nil
}
