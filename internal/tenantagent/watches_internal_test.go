package tenantagent

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// TestAWatchThatIsRefusedIsSeen: a list is answered, and then its watch is refused, as by an API server that has too much to do. An
// informer tries that again by itself, and tells nobody.
func TestAWatchThatIsRefusedIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatches()
		var open atomic.Bool
		informer, err := follow(w, "the Pods", nil, &corev1.Pod{},
			func(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
				return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
			},
			func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				if !open.Load() {
					return nil, apierrors.NewTooManyRequests("later", 1)
				}
				return watch.NewRaceFreeFake(), nil
			})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); informer.RunWithContext(ctx) }()
		<-time.After(time.Minute)
		synctest.Wait()
		require.ErrorContains(t, w.problem(), "the Pods cannot be listed or watched")
		open.Store(true)
		<-time.After(time.Hour)
		synctest.Wait()
		require.NoError(t, w.problem())
		cancel()
		<-ended
	})
}

// TestAClusterThatWasRestored from a backup has not the Pods that it had: they are listed anew, though a watch from a version that is still to come
// would be opened.
func TestAClusterThatWasRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatches()
		var restored atomic.Bool
		opened := watch.NewRaceFreeFake()
		informer, err := follow(w, "the Pods", nil, &corev1.Pod{},
			func(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
				name, version := "before", "1000"
				if restored.Load() {
					name, version = "after", "7"
				}
				return &corev1.PodList{
					ListMeta: metav1.ListMeta{ResourceVersion: version}, Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: name}}},
				}, nil
			},
			func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
				if o.SendInitialEvents != nil {
					return nil, apierrors.NewBadRequest("an older API server")
				}
				opened = watch.NewRaceFreeFake()
				return opened, nil
			})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); informer.RunWithContext(ctx) }()
		<-time.After(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"before"}, informer.GetStore().ListKeys())
		restored.Store(true)
		opened.Stop() // as of an API server that is started anew
		<-time.After(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"after"}, informer.GetStore().ListKeys())
		require.NoError(t, w.problem())
		cancel()
		<-ended
	})
}
