package app

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/fail"
)

// TestAwaitSaysWhatIsToBeDone: where the audit log waits for a clock the database is there, and nobody is sent to start it.
func TestAwaitSaysWhatIsToBeDone(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		remedy string
	}{
		"the database is away":    {fail.New(fail.Unavailable, "the store is not reachable"), "start a MongoDB"},
		"this clock is behind it": {fail.Wrap(audit.ErrClock, fail.Unavailable, "this clock is 2h0m0s behind the database's"), clockRemedy},
	} {
		t.Run(name, func(t *testing.T) {
			var said bytes.Buffer
			fails := c.err
			d := dependency{"audit log", "start a MongoDB", func(context.Context) error {
				err := fails
				fails = nil
				return err
			}}
			require.NoError(t, await(t.Context(), slog.New(slog.NewTextHandler(&said, nil)), d))
			require.Contains(t, said.String(), `remedy="`+c.remedy+`"`)
		})
	}
}
