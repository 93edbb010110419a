// Package lasting has what a log says once of something that lasts, and that is come upon again and again.
package lasting

import "sync"

// Trouble is one thing that goes wrong for some time: the log is told when it begins, when its reason is another one, and when it is over. Who logs it
// says in which words, and at which level. The zero value says that all is well. It may be used by many at a time.
type Trouble struct {
	mu     sync.Mutex
	there  bool
	reason string
}

// Begins says whether it is to be logged that there is trouble: there was none, or it had another reason. Where the reason makes no
// difference, it is "".
func (t *Trouble) Begins(reason string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.there && t.reason == reason {
		return false
	}
	t.there, t.reason = true, reason
	return true
}

// Ends says whether it is to be logged that it is over: there was trouble.
func (t *Trouble) Ends() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.there
	t.there, t.reason = false, ""
	return was
}
