package component

import (
	"os"

	"github.com/spf13/pflag"
)

// HideGlobalFlags keeps the flags that linked packages have registered for the
// whole process away from a command that is about to be made. cobra would offer
// all of them, and one of them, the servers' --version, clashes with its own.
// The servers do need them.
func HideGlobalFlags() {
	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ExitOnError)
}
