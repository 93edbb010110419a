package notify

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// asking is a question that has an answer for nobody.
type asking string

func (a asking) ID() string     { return string(a) }
func (a asking) Extent() Extent { return nil }
func (a asking) Answer(context.Context, Snapshot, Answer) (Answer, error) {
	return nil, context.Canceled
}

// TestAViewThatHasMadeRoomIsNotCountedTwice: its feed may be looking for its answer meanwhile, and finds that there is none. Another one of the
// same question may be there by then, and another feed.
func TestAViewThatHasMadeRoomIsNotCountedTwice(t *testing.T) {
	h, err := New(func(domain.Key, Extent) Look { return nil }, Options{}, prometheus.NewRegistry())
	require.NoError(t, err)
	f := newFeed(h, feedKey{"group", nil})
	gone, there := newView(asking("q")), newView(asking("q"))
	gone.left = time.Unix(1, 0)
	h.feeds[f.key], f.views["q"], h.views = f, gone, 1
	require.True(t, h.makeRoom())
	require.Zero(t, h.views)
	require.Error(t, f.ctx.Err(), "nobody is left for it")
	require.False(t, h.makeRoom())

	other := newFeed(h, f.key)
	h.feeds[f.key], f.views["q"], h.views = other, there, 1
	f.remove(gone)
	require.Equal(t, 1, h.views)
	require.Same(t, there, f.views["q"])
	f.finish(last(End, errStopping))
	require.Zero(t, h.views)
	require.Same(t, other, h.feeds[f.key])
}
