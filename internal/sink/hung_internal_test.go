package sink

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/audit"
)

// hung is a target whose writes end when it is let go, whatever their context says, such as a file of a server that is away.
type hung struct{ let chan struct{} }

func (h *hung) write(_ context.Context, lines []audit.Line) (int, error) {
	<-h.let
	return len(lines), nil
}

func (*hung) close() {}

// TestASinkThatHangs is left behind when the process ends.
func TestASinkThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hung{make(chan struct{})}
		s := start("file", h, slog.New(slog.DiscardHandler))
		s.Put([]audit.Line{{ID: "1"}})
		synctest.Wait()
		begun := time.Now()
		s.Close()
		require.Equal(t, 2*drain, time.Since(begun)) // the bubble's clock
		close(h.let)
		<-s.ended
	})
}
