package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/drover-io/drover/internal/app"
	"github.com/drover-io/drover/internal/config"
)

const keysUsage = `usage: drover keys list|rotate|drop ID [flags]

  list      say how much each secret key seals
  rotate    have the first key seal everything, while the product runs; it may be broken off and run again
  drop ID   take a key that seals nothing out of the file of keys

drover keys list -h lists the flags: those of the database and of the secret keys.`

// keys does what is asked with the keys that seal the store.
func keys(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	ask, id := "", ""
	if len(args) > 0 {
		ask, args = args[0], args[1:]
	}
	switch ask {
	case "list", "rotate":
	case "drop":
		if len(args) == 0 || args[0] == "" || args[0][0] == '-' {
			fmt.Fprintln(stderr, keysUsage)
			return wrongLine(errors.New("drover keys drop needs the name of a key"))
		}
		id, args = args[0], args[1:]
	case "", "-h", "-help", "--help":
		fmt.Fprintln(stderr, keysUsage)
		return nil
	default:
		fmt.Fprintln(stderr, keysUsage)
		return wrongLine(fmt.Errorf("drover keys has no command %q", ask))
	}
	c, err := config.Read(config.Keys, args, os.Getenv, stderr)
	if err != nil {
		return wrongLine(err)
	}
	return app.Keys(ctx, c, app.Logger(c, stderr), ask, id, stdout)
}
