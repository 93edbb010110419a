package fleet_test

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/dynamicinformer"

	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/test/fleet"
)

func newAPI(t *testing.T, config fleet.Config) *api {
	t.Helper()
	f := start(t, config)
	return &api{T: t, dynamic: kubetest.Dynamic(t, f.Kubeconfig(fleet.Name(1))), namespace: "default"}
}

func TestWatchBookmarks(t *testing.T) {
	t.Parallel()
	a := newAPI(t, fleet.Config{Bookmark: time.Millisecond})
	w := a.watching(metav1.ListOptions{AllowWatchBookmarks: true, LabelSelector: "none"})
	made := a.create(configMaps, configMap(a, "a", `{}`))
	for {
		is, o := a.next(w)
		require.Equal(t, watch.Bookmark, is)
		if version(a, o) >= version(a, made) { // a bookmark passes what the watch does not see
			return
		}
	}
}

func TestWatchOfWhatIsForgotten(t *testing.T) {
	t.Parallel()
	const history = 4
	a := newAPI(t, fleet.Config{History: history})
	first := a.create(configMaps, configMap(a, "first", `{}`))
	page, err := a.of(configMaps).List(t.Context(), metav1.ListOptions{Limit: 1})
	require.NoError(t, err)
	for i := range 2 * history {
		a.create(configMaps, configMap(a, "a"+strconv.Itoa(i), `{}`))
	}
	for name, resourceVersion := range map[string]string{"too old": first.GetResourceVersion(), "of the future": "1000000"} {
		w := a.watching(metav1.ListOptions{ResourceVersion: resourceVersion})
		e := <-w.ResultChan()
		require.Equal(t, watch.Error, e.Type, name)
		require.True(t, apierrors.IsResourceExpired(apierrors.FromObject(e.Object)), name)
		_, open := <-w.ResultChan()
		require.False(t, open, name)
	}
	require.Empty(t, page.GetContinue(), "there was one object")
	page, err = a.of(configMaps).List(t.Context(), metav1.ListOptions{Limit: 1})
	require.NoError(t, err)
	for i := range 2 * history {
		require.NoError(t, a.of(configMaps).Delete(t.Context(), "a"+strconv.Itoa(i), metav1.DeleteOptions{}))
	}
	_, err = a.of(configMaps).List(t.Context(), metav1.ListOptions{Limit: 1, Continue: page.GetContinue()})
	require.True(t, apierrors.IsResourceExpired(err), "%v", err)
}

// A watch with more writers than it can keep up with by chance must neither miss nor repeat anything.
func TestWatchMissesNothing(t *testing.T) {
	t.Parallel()
	a := newAPI(t, fleet.Config{})
	const writers, each = 4, 50
	w := a.watching(metav1.ListOptions{ResourceVersion: "1"})
	var writing sync.WaitGroup
	for i := range writers {
		writing.Go(func() {
			for n := range each {
				_, err := a.of(configMaps).Create(a.Context(), configMap(a, "a"+strconv.Itoa(i*each+n), `{}`), metav1.CreateOptions{})
				if err != nil {
					a.Error(err)
				}
			}
		})
	}
	defer writing.Wait() // an event may be here before its write is answered
	seen, last := map[string]bool{}, uint64(0)
	for range writers * each {
		is, o := a.next(w)
		require.Equal(t, watch.Added, is)
		require.False(t, seen[o.GetName()])
		require.Greater(t, version(a, o), last)
		seen[o.GetName()], last = true, version(a, o)
	}
}

// client-go's informers are what agents watch with.
func TestInformer(t *testing.T) {
	t.Parallel()
	a := newAPI(t, fleet.Config{})
	a.create(configMaps, configMap(a, "before", `{}`))
	factory := dynamicinformer.NewDynamicSharedInformerFactory(a.dynamic, 0)
	lister := factory.ForResource(configMaps).Lister().ByNamespace(a.namespace)
	factory.Start(t.Context().Done())
	t.Cleanup(factory.Shutdown)
	factory.WaitForCacheSync(t.Context().Done())
	_, err := lister.Get("before")
	require.NoError(t, err)
	a.create(configMaps, configMap(a, "after", `{"x":"1"}`))
	require.Eventually(t, func() bool {
		o, err := lister.Get("after")
		return err == nil && data(t, o.(*unstructured.Unstructured))["x"] == "1"
	}, deadline, time.Millisecond)
}
