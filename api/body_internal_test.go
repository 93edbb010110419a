package api

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// taker takes an answer at a rate. Its time passes with what it takes, and it takes nothing beyond the deadline.
type taker struct {
	http.ResponseWriter
	second   int // bytes a second
	now, end time.Time
	taken    bytes.Buffer
}

func (x *taker) Write(p []byte) (int, error) {
	takes := time.Duration(len(p)) * time.Second / time.Duration(x.second)
	if left := x.end.Sub(x.now); takes > left {
		n := int(left * time.Duration(x.second) / time.Second)
		x.taken.Write(p[:n])
		return n, os.ErrDeadlineExceeded
	}
	x.now = x.now.Add(takes)
	return x.taken.Write(p)
}

// deadline is relative to the taker's own time.
func (x *taker) deadline(at time.Time) error {
	if x.end = at; !at.IsZero() {
		x.end = x.now.Add(time.Until(at).Round(time.Second))
	}
	return nil
}

// TestAFileArrivesAtWhoTakesItSlowly: it is one write, and takes as long as it takes. Who takes next to nothing is gone.
func TestAFileArrivesAtWhoTakesItSlowly(t *testing.T) {
	t.Parallel()
	file := bytes.Repeat([]byte("0123456789abcde\n"), 300_001)
	for _, timed := range []bool{false, true} {
		x := &taker{second: 50 << 10, now: time.Now()}
		a := &steadyAnswer{ResponseWriter: x, deadline: x.deadline, wait: DefaultBodyWait, timed: timed}
		n, err := a.Write(file)
		require.NoError(t, err)
		require.Equal(t, len(file), n)
		require.Equal(t, file, x.taken.Bytes())
		require.Equal(t, timed, x.end.IsZero(), "between two writes of HTTP/2 there is no deadline")

		x = &taker{second: 1 << 10, now: time.Now()}
		a = &steadyAnswer{ResponseWriter: x, deadline: x.deadline, wait: DefaultBodyWait, timed: timed}
		n, err = a.Write(file)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, x.taken.Len(), n)
	}
}
