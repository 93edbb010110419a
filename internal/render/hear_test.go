package render

import (
	"fmt"
	"log" //nolint:depguard // as Helm does
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is logged is heard once, without values, within bounds, and only as long as somebody listens. Nothing runs beside it: the log is
// the process's.
func TestListen(t *testing.T) {
	logger, out, flags := slog.Default(), log.Writer(), log.Flags()
	stop := listen()
	for range 2 {
		log.Printf("warning: table for %s (%v)", "b.c", "secret\nand more")
		slog.Warn("no truth", "path", "a.b")
		slog.Info("hello")
	}
	require.Equal(t, []string{"Helm: no truth, path a.b", "Helm: table for b.c"}, stop())
	require.Same(t, logger, slog.Default())
	require.Equal(t, out, log.Writer())
	require.Equal(t, flags, log.Flags())

	stop = listen()
	for i := range 100 {
		log.Print(fmt.Sprint(i), strings.Repeat("ä", maxHeardText))
	}
	heard := stop()
	require.Len(t, heard, maxHeard+1)
	require.Less(t, len(heard[0]), maxHeardText+len("Helm: ")+1)
	require.Equal(t, "Helm warns of more", heard[maxHeard])
}
