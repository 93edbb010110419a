package mongotest

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Question is a kind of command that a store has sent: of a collection, the parts of a divided one together, by members of it.
type Question struct {
	Command, Collection string
	By                  string // such as "_id", "_id range", "_id among", "parent", "all"; "" for what is no find
}

// Answers are how many there were, how long they took in all, and how many bytes the longest question had.
type Answers struct {
	N       int
	Took    time.Duration
	Longest int
}

// Asked is what has been asked since the last call.
func (p *Proxy) Asked() map[Question]Answers {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.asked
	p.asked = map[Question]Answers{}
	return asked
}

// count notes what a message asks; what it returns is to be called with the answer.
func (p *Proxy) count(message []byte) func() {
	command, collection := commandOf(message)
	if command == "" || slices.Contains(aside, command) {
		return func() {}
	}
	q, began := Question{command, strings.TrimRight(collection, "-0123456789"), byOf(message)}, time.Now()
	add := func(more Answers) {
		p.mu.Lock()
		defer p.mu.Unlock()
		a := p.asked[q]
		p.asked[q] = Answers{a.N + more.N, a.Took + more.Took, max(a.Longest, more.Longest)}
	}
	add(Answers{N: 1, Longest: len(message)}) // now: who has his answer may look before this goes on
	return func() { add(Answers{Took: time.Since(began)}) }
}

// byOf says by what a find looks.
func byOf(message []byte) string {
	filter, ok := bodyOf(message).Lookup("filter").DocumentOK()
	if !ok {
		return ""
	}
	elements, err := filter.Elements()
	if err != nil || len(elements) == 0 {
		return "all"
	}
	var by []string
	for _, e := range elements {
		how := e.Key()
		if condition, ok := e.Value().DocumentOK(); ok {
			if _, err := condition.LookupErr("$in"); err == nil {
				how += " among"
			} else {
				how += " range"
			}
		}
		by = append(by, how)
	}
	return strings.Join(by, ", ")
}

// slowness is that of a database that has more to do than it can.
type slowness struct {
	each  atomic.Int64 // ns
	lanes chan struct{}
}

// Crawl has the database take so long for each command from now on, those included that wait, and do so many at a time: what has come waits
// for its turn, whether or not its sender still wants an answer, as in a database that is overloaded. How many at a time is said once.
func (p *Proxy) Crawl(each time.Duration, atOnce int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slow == nil {
		p.slow = &slowness{lanes: make(chan struct{}, atOnce)}
	}
	p.slow.each.Store(int64(each))
}

// crawl waits until a message has had its turn.
func (p *Proxy) crawl(message []byte) {
	p.mu.Lock()
	slow := p.slow
	p.mu.Unlock()
	if command, _ := commandOf(message); slow == nil || slices.Contains(aside, command) {
		return
	}
	slow.lanes <- struct{}{}
	<-time.After(time.Duration(slow.each.Load()))
	<-slow.lanes
}
