package bench

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// What makes the figures of a run doubtful: others that keep more than a tenth of a processor at work before it begins, and a machine
// more than twice as slow as the one of reference.
const (
	mostBusy = 0.1
	mostSlow = 2
)

// doubts say why the figures of a run say little about the product: the machine is slow, or busy of processors were at others' work when
// the run began.
func doubts(slowness, busy float64) []string {
	var why []string
	if busy > mostBusy {
		why = append(why, fmt.Sprintf("others kept %.1f processors at work when the run began: measure again when nothing else runs", busy))
	}
	if slowness > mostSlow {
		why = append(why, fmt.Sprintf("the machine is %.2f times slower than the one of reference: compare a figure only with one of another commit, measured on the same day", slowness))
	}
	return why
}

// othersBusy is how many processors are at work while this process waits for so long, 0 where the kernel does not tell.
func othersBusy(during time.Duration) float64 {
	idle, all := processorTicks()
	time.Sleep(during)
	idleNow, allNow := processorTicks()
	if allNow <= all {
		return 0
	}
	return float64(runtime.NumCPU()) * (1 - (idleNow-idle)/(allNow-all))
}

// processorTicks are the time of all processors since the machine began, and how much of it they had nothing to do.
func processorTicks() (idle, all float64) {
	data, _ := os.ReadFile("/proc/stat")
	first, _, _ := strings.Cut(string(data), "\n")
	for i, field := range strings.Fields(strings.TrimPrefix(first, "cpu")) {
		const idleField, waitField, guestField = 3, 4, 8 // proc_stat(5); a guest's time is also a user's
		n, err := strconv.ParseFloat(field, 64)
		if err != nil || i >= guestField {
			break
		}
		if i == idleField || i == waitField {
			idle += n
		}
		all += n
	}
	return idle, all
}
