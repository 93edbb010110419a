// Package cas is the loop of compare-and-set: read, decide, and write if nobody else has written meanwhile; else again.
package cas

import (
	"context"
	"errors"
	"time"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/pause"
)

// ErrOvertaken says that what was to be replaced is not what is stored any more.
var ErrOvertaken = errors.New("overtaken by another write")

// The waits before another try. A store takes some milliseconds for one, and of several that were overtaken by the same write
// one is the next.
const (
	firstWait   = time.Millisecond
	longestWait = 50 * time.Millisecond
)

// Do calls do, which reads, decides and writes, again and again as long as it returns ErrOvertaken. It returns any other
// result of do, and the cause of ctx's end when ctx ends before.
func Do(ctx context.Context, do func() error) error {
	wait := pause.Backoff{First: firstWait, Most: longestWait}
	for {
		err := do()
		if !errors.Is(err, ErrOvertaken) {
			return err
		}
		if err := wait.Wait(ctx); err != nil {
			return err
		}
	}
}

// Overtaken is ErrOvertaken when err is a Conflict, else err. It is for the errors of a store's writes alone: there a Conflict
// means that somebody else was faster. Elsewhere a refusal is a Conflict as well, and no further try mends it.
func Overtaken(err error) error {
	if fail.Is(err, fail.Conflict) {
		return ErrOvertaken
	}
	return err
}
