package domain

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// ErrUnreadable says of what is stored that it cannot be opened or decoded: somebody has damaged it, or its key is missing. Who goes on without
// it asks for this and not for the kind, which is Internal, as that of what the database fails at is, too: that says nothing of what is stored.
var ErrUnreadable = errors.New("it cannot be read")

// ErrNoKey says of what cannot be read that it is whole: its key is not configured, and it can be read when that is back.
var ErrNoKey = errors.New("no such key")

// Unreadable is the error of a read of many of which some cannot be read: somebody has damaged them, or has not sealed them. What comes
// with it are all others. So who decides by what was read fails, as with any other error; who shows it shows the others, and names
// these.
type Unreadable struct {
	IDs   []string // of documents their keys, in the order in which they were met
	Cause error    // of the first; Internal
	Whole error    // of the first that is not damaged: its key is missing, or a newer build has written it; nil where there is none
}

// Error names the first.
func (u *Unreadable) Error() string {
	if len(u.IDs) > 1 {
		return fmt.Sprintf("%s and %d more: %v", u.IDs[0], len(u.IDs)-1, u.Cause)
	}
	return fmt.Sprintf("%s: %v", u.IDs[0], u.Cause)
}

// Unwrap is why the first cannot be read, and why one that is whole cannot: who removes what is damaged asks for that of all.
func (u *Unreadable) Unwrap() []error {
	if u.Whole == nil {
		return []error{u.Cause}
	}
	return []error{u.Cause, u.Whole}
}

// And is the error of two reads one after the other: what neither can read, when that is all.
func And(first, second error) error {
	var a, b *Unreadable
	switch {
	case first == nil:
		return second
	case !errors.As(first, &a), second == nil:
		return first
	case !errors.As(second, &b):
		return second
	default:
		return &Unreadable{IDs: append(slices.Clip(a.IDs), b.IDs...), Cause: a.Cause, Whole: cmp.Or(a.Whole, b.Whole)}
	}
}

// UnreadableOf are those that err says cannot be read, when that is all that is wrong; else err.
func UnreadableOf(err error) ([]string, error) {
	var u *Unreadable
	if errors.As(err, &u) {
		return u.IDs, nil
	}
	return nil, err
}

// Blank is a document that says nothing but its key: one that cannot be read, as far as it is known.
func Blank(n *Noun, key Key) Object {
	parent, local := Cut(n, key)
	o := n.New()
	o.Base().Parent = parent
	if m, ok := o.(interface{ rename(name string) }); ok {
		m.rename(local)
	}
	return o
}

// rename gives a document that is made for it its name.
func (m *Metadata) rename(name string) { m.Name = name }
