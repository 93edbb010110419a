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
