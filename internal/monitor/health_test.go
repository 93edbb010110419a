package monitor

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/kubetest"
)

// listener is the health of Pods, and its clock.
type listener struct {
	*kindHealth
	now time.Time
}

func newListener() *listener {
	l := &listener{now: time.Unix(1000, 0)}
	h := newHealth(newIndex(""), func() time.Time { return l.now })
	l.kindHealth = &kindHealth{health: h, since: l.now}
	h.of[podKind] = l.kindHealth
	return l
}

func TestWhatIsNotHeard(t *testing.T) {
	l := newListener()
	require.Empty(t, l.health.unheard(), "it has just begun")
	l.now = l.now.Add(unheardAfter + 1)
	require.Equal(t, []bundle.Unheard{{GroupKind: podKind, Reason: "the API server does not answer"}}, l.health.unheard())

	first := apiwatch.NewRaceFreeFake()
	s := l.listen(first, true)
	require.Len(t, l.health.unheard(), 1, "it tells what there is, and may not come to an end")
	first.Action(apiwatch.Bookmark, &metav1.PartialObjectMetadata{})
	<-s.ResultChan()
	require.Len(t, l.health.unheard(), 1, "some servers say nothing but that they are there (Antrea's)")
	first.Action(apiwatch.Bookmark, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}})
	<-s.ResultChan()
	require.Empty(t, l.health.unheard())

	first.Stop()
	_, open := <-s.ResultChan()
	require.False(t, open)
	require.Empty(t, l.health.unheard(), "another one may follow")
	ended := l.now
	l.now = l.now.Add(unheardAfter + 1)
	l.answered(errors.New("refused on port 5000"))
	l.answered(errors.New("refused on port 5001"))
	l.answered(nil)
	require.Equal(t, []bundle.Unheard{{GroupKind: podKind, Since: ended, Reason: "refused on port 5000"}}, l.health.unheard())
	l.answered(apierrors.NewUnauthorized("who are you"))
	require.Equal(t, []bundle.Unheard{{GroupKind: podKind, Since: ended, Reason: "who are you"}}, l.health.unheard())

	s = l.listen(apiwatch.NewRaceFreeFake(), false)
	require.Empty(t, l.health.unheard())
	s.Stop()
	l.health.forget(podKind)
	l.now = l.now.Add(unheardAfter + 1)
	require.Empty(t, l.health.unheard(), "nobody wants to hear it")
}

// TestKindsOfOthersAreListed: a server of an aggregated API may take a watch that begins with what there is, and never say where that ends.
func TestKindsOfOthersAreListed(t *testing.T) {
	for name, c := range map[string]struct {
		kind      schema.GroupVersionKind
		streaming bool
	}{
		"a kind of an aggregated API":    {schema.GroupVersionKind{Group: "projectcalico.org", Version: "v3", Kind: "NetworkPolicy"}, false},
		"a kind of the API server's own": {schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var streamed atomic.Bool
			lw := &toolscache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					return &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
				},
				WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
					w := apiwatch.NewRaceFreeFake()
					if o.SendInitialEvents != nil && *o.SendInitialEvents {
						streamed.Store(true)
						w.Action(apiwatch.Bookmark, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}})
					}
					return w, nil
				},
			}
			o := &metav1.PartialObjectMetadata{}
			o.SetGroupVersionKind(c.kind)
			h := newHealth(newIndex(""), time.Now)
			informer := h.informer(lw, o, 0, toolscache.Indexers{})
			go informer.RunWithContext(t.Context())
			if c.streaming {
				require.Eventually(t, streamed.Load, kubetest.Deadline, kubetest.Tick)
				return
			}
			require.Eventually(t, informer.HasSynced, kubetest.Deadline, kubetest.Tick, "what there is has been seen")
			require.False(t, streamed.Load())
		})
	}
}

func TestAWatchThatFallsSilentIsEnded(t *testing.T) {
	l := newListener()
	w := apiwatch.NewRaceFreeFake()
	s := l.listen(w, false)
	l.now = l.now.Add(mostSilence + 1)
	require.Empty(t, l.health.unheard())
	require.False(t, w.IsStopped(), "it may be of a server without bookmarks")
	w.Action(apiwatch.Bookmark, &metav1.PartialObjectMetadata{})
	<-s.ResultChan()
	l.now = l.now.Add(mostSilence + 1)
	require.Empty(t, l.health.unheard(), "another one may follow")
	_, open := <-s.ResultChan()
	require.False(t, open)
}

func TestTheStatusSaysWhatIsNotHeard(t *testing.T) {
	f := newFixture()
	f.bundles.OnAdd(state(t, "1-a", "a-1", "u1", "", ""), false)
	f.pods.OnAdd(pod(t, "1-a", "p", "Succeeded"), false)
	f.changes()
	unheard := []bundle.Unheard{{GroupKind: podKind, Reason: "forbidden"}}
	f.setUnheard(unheard)
	require.Equal(t, []string{"1-a"}, f.changes())
	v, _ := f.view("1-a")
	require.Equal(t, unheard, v.head.Unheard)
	require.Len(t, v.objects, 1)
	require.False(t, v.head.Ready)
	f.setUnheard(slices.Clone(unheard))
	require.Empty(t, f.changes())
	f.setUnheard(nil)
	require.Equal(t, []string{"1-a"}, f.changes())
	v, _ = f.view("1-a")
	require.True(t, v.head.Ready)
}
