package notify

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzAfter: of whatever is sent as Last-Event-ID only an id that was given out is known, and it is the event's whose id it is.
func FuzzAfter(f *testing.F) {
	v := newView(nil)
	v.epoch, v.number, v.backlog = "epoch", 20, make([]Event, 5)
	for _, seed := range []string{"", "1", v.id(17), v.epoch + "-", v.epoch + "-+17", v.epoch + "-017", v.epoch + "-18446744073709551616", "x-" + v.id(17)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		number, known := v.after(id)
		if !known {
			return
		}
		require.GreaterOrEqual(t, number, v.oldest())
		require.LessOrEqual(t, number, v.number)
	})
}
