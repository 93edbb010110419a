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

// TestAViewThatWasEndedForOthersHasNoAnswer: its feed may be looking for the first one meanwhile.
func TestAViewThatWasEndedForOthersHasNoAnswer(t *testing.T) {
	h, err := New(func(domain.Key, Extent) Look { return nil }, Options{}, prometheus.NewRegistry())
	require.NoError(t, err)
	f := newFeed(h, feedKey{"projects/q/logical-clouds/lc", nil})
	for n, name := range []string{"old", "new"} {
		v := newView(asking(name))
		v.made, v.subscribers = uint64(n), 1
		f.views[name] = v
	}
	h.feeds[f.key], h.views = f, 2
	ended := f.views["new"]
	require.False(t, h.take("projects/q", 1, numbers), "nobody takes from himself")
	require.True(t, h.take("projects/p", 1, numbers))
	require.NotContains(t, f.views, "new")
	f.publish([]rendering{{view: ended, answer: &answered{}}})
	require.Nil(t, ended.answer)
	require.Equal(t, 1, h.views)
	require.Zero(t, h.bytes)
	require.False(t, h.take("projects/p", 1, numbers), "it has as many now")
}

// answered is an answer.
type answered struct{ Answer }

func (*answered) Size() int64 { return 200 }
