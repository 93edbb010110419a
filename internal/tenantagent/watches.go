package tenantagent

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/drover-io/drover/internal/fail"
)

// watches knows what of the cluster cannot be followed now.
type watches struct {
	mu    sync.Mutex
	wrong map[string]error // by what it is
}

func newWatches() *watches { return &watches{wrong: map[string]error{}} }

// problem says what cannot be followed; nil when all can.
func (w *watches) problem() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(w.wrong)) {
		return fail.Wrap(w.wrong[what], fail.Unavailable, "%s cannot be listed or watched: %v", what, w.wrong[what])
	}
	return nil
}

func (w *watches) say(what string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		delete(w.wrong, what)
		return
	}
	w.wrong[what] = err
}

// follow makes an informer; what is what it follows, in words, of which watches knows how it goes.
func follow[L runtime.Object](w *watches, what string, client any, kind runtime.Object, list func(context.Context, metav1.ListOptions) (L, error),
	watching func(context.Context, metav1.ListOptions) (watch.Interface, error),
) (toolscache.SharedIndexInformer, error) {
	informer := toolscache.NewSharedIndexInformer(toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			opened, err := watching(ctx, o)
			if err == nil || counts(err) { // the informer tries some again by itself, and tells nobody
				w.say(what, err)
			}
			return opened, err
		},
	}, client), kind, 0, nil)
	err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *toolscache.Reflector, err error) {
		if counts(err) {
			w.say(what, err)
		}
		toolscache.DefaultWatchErrorHandler(ctx, r, err) // which logs it
	})
	return informer, err
}

// counts says whether an error is more than the end of a watch, which all have.
func counts(err error) bool {
	return !errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled) && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err)
}
