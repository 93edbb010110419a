// Package bench measures the product against what it stands on: real Temporal, real store, a real cluster,
// everything in one run, so that its ratios hold on a noisy machine. `make bench` runs it.
package bench

import "time"

// whole is how long a run may take, on any machine. Of it reserve is for what ends after its time, and for the report.
const (
	whole   = 40 * time.Minute
	reserve = 2 * time.Minute
)

// calibration is what takes its time on any machine, whoever asks for it: how fast the machine of a run is.
type calibration struct {
	ClientGo time.Duration // an apply of a bare client-go loop, of those side by side
	Child    time.Duration // a bare child workflow with a local activity that does nothing, of those side by side
	Fsync    time.Duration // 4 KiB written and synced
}

// reference is the calibration of the machine for which the times of the parts are given.
var reference = calibration{ClientGo: 850 * time.Microsecond, Child: 9500 * time.Microsecond, Fsync: 250 * time.Microsecond}

// slowness is how much longer the machine takes than the one of reference. What keeps the processors busy decides: neither Temporal nor
// the store of a stack waits for the disk.
func (c calibration) slowness() float64 {
	return max(c.ClientGo.Seconds()/reference.ClientGo.Seconds(), c.Child.Seconds()/reference.Child.Seconds())
}

// share is how long a part takes on the machine of reference: with all of its rounds, and with the fewest that it may have.
type share struct {
	all, least time.Duration
}

// takes is how long a part takes on a machine that is so slow, with that part of the rounds that may be left out.
func (s share) takes(slowness, rounds float64) time.Duration {
	return time.Duration(slowness * (s.least.Seconds() + rounds*(s.all-s.least).Seconds()) * float64(time.Second))
}

// roundsFor is which part of the rounds that may be left out parts can have so that all of them fit into a time: from 0 to 1.
func roundsFor(parts []share, slowness float64, time time.Duration) float64 {
	var all, least float64
	for _, s := range parts {
		all, least = all+s.all.Seconds(), least+s.least.Seconds()
	}
	has := time.Seconds() / slowness
	switch {
	case has >= all:
		return 1
	case has <= least:
		return 0
	default:
		return (has - least) / (all - least)
	}
}

// indulgence is how many times longer than expected a part may take, where those after it have their time all the same.
const indulgence = 3

// boundOf is the time after which a part is ended that is expected to take own, when so much time is left and the parts after it are
// expected to take after. Time that is there for nobody may be taken; time that is not there is missed by all of them alike. So parts
// never take more than there is, all together.
func boundOf(left, own, after time.Duration) time.Duration {
	if left <= 0 {
		return 0
	}
	spare := left - own - after
	if spare < 0 {
		return time.Duration(float64(left) * (own.Seconds() / (own + after).Seconds()))
	}
	return min(own+spare, indulgence*own)
}

// fitting are those of the parts that have the time for their fewest rounds, and the names of those that do not: what stands first in
// the list is worth more.
func fitting(parts []part, slowness float64, time time.Duration) (fit []part, without []string) {
	for _, p := range parts {
		if needs := p.takes(slowness, 0); needs <= time {
			fit, time = append(fit, p), time-needs
		} else {
			without = append(without, p.name)
		}
	}
	return fit, without
}

// few is how many of so many rounds there are, when this part of those that may be left out is had.
func few(all, least int, rounds float64) int {
	return least + int(rounds*float64(max(all-least, 0))+0.5)
}
