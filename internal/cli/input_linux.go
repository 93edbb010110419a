package cli

import "golang.org/x/sys/unix"

// unread is how many bytes have been typed at a terminal that nobody has read.
func unread(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}
