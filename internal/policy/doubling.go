package policy

import "time"

// Doubling is how waits between tries grow: the first is First, each one after it is twice as long, and none is longer than Most.
// First is more than 0. Who waits in a goroutine uses pause.Backoff, which leaves out a part at random.
type Doubling struct{ First, Most time.Duration }

// After is the wait that follows one of last, 0 for none.
func (d Doubling) After(last time.Duration) time.Duration {
	if last > d.Most/2 {
		return d.Most
	}
	return min(max(2*last, d.First), d.Most)
}

// Nth is the wait after so many others.
func (d Doubling) Nth(others int) time.Duration {
	wait := d.After(0)
	for range others {
		if wait == d.Most {
			break
		}
		wait = d.After(wait)
	}
	return wait
}
