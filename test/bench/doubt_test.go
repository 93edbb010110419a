package bench

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestASlowOrBusyMachineIsToldOf(t *testing.T) {
	require.Empty(t, doubts(1.9, 0.05))
	require.Len(t, doubts(2.2, 0), 1)
	require.Contains(t, doubts(2.2, 0)[0], "2.20 times slower")
	require.Contains(t, doubts(1, 1.5)[0], "1.5 processors")
	require.Len(t, doubts(2.2, 1.5), 2)
	r := &report{Doubts: doubts(2.2, 0), Calibration: map[string]float64{}}
	require.Contains(t, r.text(), "\n**Doubtful**: the machine is 2.20 times slower")
}

func TestAProcessorAtWorkIsSeen(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil { // a processor at work
		}
	}()
	require.Greater(t, othersBusy(300*time.Millisecond), mostBusy)
	cancel()
	<-done
}
