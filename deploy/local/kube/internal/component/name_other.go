//go:build !linux

package component

// showName has no effect: other systems show the name of the executable.
func showName(string) {}
