package temporal_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"go.temporal.io/server/common/log/tag"

	"github.com/drover-io/drover/deploy/local/temporal"
)

// TestWarningsOfNoUse are not shown, others are; before the server runs none is.
func TestWarningsOfNoUse(t *testing.T) {
	var out bytes.Buffer
	l, running := temporal.Logger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn})))
	l.Warn("the others do not answer yet")
	running.Store(true)
	l.Warn("TrailerToContextMetadataInterceptor: Trailer had metadata but context not wrapped", tag.NewStringTag("method", "m"))
	l.Warn("the disk is full", tag.NewStringTag("disk", "d"))
	if said := out.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, `msg="the disk is full" disk=d`) {
		t.Errorf("it says:\n%s", said)
	}
}
