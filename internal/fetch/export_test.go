package fetch

import "time"

// Within sets how long an answer may take.
func (h *Hosts) Within(d time.Duration) { h.within = d }
