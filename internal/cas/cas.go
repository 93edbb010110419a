// Package cas writes by compare-and-set: what was read is replaced only if nobody else has replaced it meanwhile.
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

// Overtaken is ErrOvertaken when err is the Conflict with which a store answers a write of which somebody else was faster, else
// err. It is for the errors of such writes alone: a refusal is a Conflict as well, and is not mended by another try.
func Overtaken(err error) error {
	if fail.Is(err, fail.Conflict) {
		return ErrOvertaken
	}
	return err
}
