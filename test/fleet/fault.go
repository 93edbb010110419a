package fleet

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/fail"
)

// Fault is something that goes wrong in a cluster. Verb and Resource say which requests it may strike, Count
// and Probability how many of them it does; the rest says how. Of the faults that strike a request, the
// latencies add up, and the first that has more to it decides the rest.
type Fault struct {
	Verb     string `json:"verb,omitempty"`     // as Requests counts them; any
	Resource string `json:"resource,omitempty"` // configmaps, say; any, and what is not about objects

	Count       int     `json:"count,omitempty"`       // it strikes so many requests; 0 is no bound
	Probability float64 `json:"probability,omitempty"` // that it strikes; 0 is always
	Seed        uint64  `json:"seed,omitempty"`        // of the dice for Probability and Jitter

	Latency Duration `json:"latency,omitempty"` // before the answer
	Jitter  Duration `json:"jitter,omitempty"`  // added to Latency, evenly between 0 and this

	Refuse     bool `json:"refuse,omitempty"`     // the connection is closed, nothing is done
	Hang       bool `json:"hang,omitempty"`       // nothing is done until the fault goes or the client does
	Cut        bool `json:"cut,omitempty"`        // it is done, then the connection is closed without an answer
	Status     int  `json:"status,omitempty"`     // nothing is done, and this is the answer: 403, 429, 500, …
	RetryAfter int  `json:"retryAfter,omitempty"` // seconds, told with Status
}

// Duration is a time.Duration that is a text in JSON: "20ms".
type Duration time.Duration

// MarshalText writes it as time.Duration does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what time.ParseDuration does.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

func (f Fault) validate() error {
	var p fail.Problems
	effects := 0
	for _, is := range []bool{f.Refuse, f.Hang, f.Cut, f.Status != 0} {
		if is {
			effects++
		}
	}
	if effects > 1 {
		p.Add("fault", "can only have one of refuse, hang, cut and status")
	}
	if effects == 0 && f.Latency == 0 && f.Jitter == 0 {
		p.Add("fault", "does nothing")
	}
	if f.Latency < 0 || f.Jitter < 0 {
		p.Add("fault", "cannot answer before it is asked: latency and jitter are not negative")
	}
	if f.Probability < 0 || f.Probability > 1 {
		p.Add("fault.probability", "is between 0 and 1")
	}
	if f.Status != 0 && (f.Status < http.StatusBadRequest || f.Status > 599) {
		p.Add("fault.status", "is between 400 and 599")
	}
	return p.Err()
}

// faults are those of a cluster.
type faults struct {
	mu     sync.Mutex
	active []*active
	gone   chan struct{} // closed when they are replaced
}

type active struct {
	Fault
	dice   *rand.Rand
	struck int
}

func (f *faults) set(list []Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone != nil {
		close(f.gone)
	}
	f.gone, f.active = make(chan struct{}), nil
	for _, fault := range list {
		f.active = append(f.active, &active{Fault: fault, dice: rand.New(rand.NewPCG(fault.Seed, 0))}) // #nosec G404 -- it has to repeat
	}
}

// list are the faults as they were set.
func (f *faults) list() []Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]Fault, len(f.active))
	for i, a := range f.active {
		list[i] = a.Fault
	}
	return list
}

// strike is what befalls a request: how long it takes, and the fault that decides the rest, nil when none
// does. gone is closed when the faults are replaced.
func (f *faults) strike(verb, resource string) (latency time.Duration, decides *Fault, gone <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.active {
		if a.Verb != "" && a.Verb != verb || a.Resource != "" && a.Resource != resource ||
			a.Count > 0 && a.struck == a.Count || a.Probability > 0 && a.dice.Float64() >= a.Probability {
			continue
		}
		decisive := a.Refuse || a.Hang || a.Cut || a.Status != 0
		if decisive && decides != nil {
			continue
		}
		a.struck++
		latency += time.Duration(a.Latency)
		if a.Jitter > 0 {
			latency += time.Duration(a.dice.Int64N(int64(a.Jitter)))
		}
		if decisive {
			decides = &a.Fault
		}
	}
	return latency, decides, f.gone
}

// wait waits for d; false when ctx ends before.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
