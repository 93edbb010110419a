package sandbox

import (
	"errors"
	"os"
	"strings"
	"syscall"
)

// isolating finds the best way to keep children from the network that the kernel allows.
type isolating struct {
	ways  []uintptr // those that may be allowed, best first
	works bool      // the first of them has worked
	told  bool      // that a child has kept the network
}

// start starts a child in the best way that there is. A weaker one takes its place for good only where the kernel does not allow it, and the weaker
// one works: that files, processes or memory are short for a moment says nothing of what is allowed.
func (i *isolating) start(child func(way uintptr) error) (uintptr, error) {
	var err error
	forGood := true
	for n, way := range i.ways {
		err = child(way)
		switch {
		case err == nil:
			if forGood {
				i.ways, i.works = i.ways[n:], true
			}
			return way, nil
		case denied(err):
		case full(err) && !i.works: // there may never be room for it, where a namespace around this one has none: the next child tries again
			forGood = false
		default:
			return 0, err
		}
	}
	return 0, err
}

// denied says whether the kernel does not allow namespaces.
func denied(err error) bool {
	for _, of := range []error{syscall.EPERM, syscall.EACCES, syscall.EINVAL, syscall.ENOSYS} {
		if errors.Is(err, of) {
			return true
		}
	}
	return full(err) && noNamespaces()
}

// noNamespaces says whether there may be none at all.
func noNamespaces() bool {
	return none("/proc/sys/user/max_user_namespaces") || none("/proc/sys/user/max_net_namespaces")
}

// full says whether there are as many namespaces as there may be, or they are as deep.
func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EUSERS) }

// none says whether a file has a limit of nothing.
func none(file string) bool {
	limit, err := os.ReadFile(file) // #nosec G304 -- one of those above
	return err == nil && strings.TrimSpace(string(limit)) == "0"
}
