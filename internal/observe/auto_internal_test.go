package observe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTakeover: an agent that lives is looked at after a while, and one that crashes again and again never.
func TestTakeover(t *testing.T) {
	t.Parallel()
	const after, silence, second = 30 * time.Second, 40 * time.Second, time.Second
	for name, c := range map[string]struct {
		beats []time.Duration // since the one before; a negative one is of an agent that does not count as alive
		looks []int           // at which beats
	}{
		"it lives": {
			beats: []time.Duration{0, 10 * second, 10 * second, 10 * second, 10 * second, 10 * second}, looks: []int{4},
		},
		"it lives on": {
			beats: []time.Duration{0, 31 * second, 30 * second, 30 * second, 30 * second, 31 * second}, looks: []int{1, 5},
		},
		"a beat between two crashes": {beats: []time.Duration{0, 60 * second, 60 * second, 60 * second, 60 * second}},
		"some beats between two crashes": {
			beats: []time.Duration{0, 10 * second, 10 * second, 60 * second, 10 * second, 10 * second, 60 * second, 10 * second},
		},
		"its Lease is old": {beats: []time.Duration{0, -35 * second, 10 * second, 10 * second, 10 * second}},
		"it comes back for good": {
			beats: []time.Duration{0, 60 * second, 10 * second, 10 * second, 11 * second}, looks: []int{4},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			turn, now := takeover{after: after, silence: silence}, time.Unix(0, 0)
			var looks []int
			for i, d := range c.beats {
				lives := d >= 0
				now = now.Add(max(d, -d))
				if turn.beat(now, lives) {
					looks = append(looks, i)
				}
			}
			require.Equal(t, c.looks, looks)
		})
	}
}
