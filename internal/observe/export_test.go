package observe

import "time"

// Later has a watcher take it that it heard agents' Leases so much longer ago, by our clock and by theirs. Its cluster must not be reached meanwhile.
func (w *Watcher) Later(d time.Duration) {
	l := w.auto.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	for in, p := range l.beats {
		l.beats[in] = pulse{p.renewed.Add(-d), p.heard.Add(-d)}
	}
}
