package monitor_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/monitor"
)

// many is the number of pods of the large bundle, and large its size in bytes that is too much for one part.
const (
	many  = 150
	large = bundle.MinSize
)

func TestSplitsALargeBundle(t *testing.T) {
	w := newWorld(t)
	w.awaitAccount()
	w.bundleState()
	w.createPods(many)

	before := heap()
	w.agent(func(c *monitor.Config) { c.MaxSize = large })
	start := time.Now()
	b := w.await("all pods are there", func(b bundle.Bundle) bool { return len(names(b, "Pod")) == many })
	t.Logf("%d pods in %d parts, whole after %s; heap grew by %d KiB", many, len(w.parts()), time.Since(start).Round(time.Millisecond), (heap()-before)>>10)
	require.Greater(t, len(w.parts()), 1)
	for _, o := range b.Objects {
		require.True(t, o.Summarised, "the mark says what is missing")
		require.Contains(t, string(o.JSON), `"phase":"Pending"`, "a summary has the status")
		require.NotContains(t, string(o.JSON), "padding")
	}

	w.delete(pods, "pod-0000")
	w.await("one goes", func(b bundle.Bundle) bool { return len(b.Objects) == many-1 })

	w.deletePods()
	b = w.await("nothing is left", func(b bundle.Bundle) bool { return len(b.Objects) == 0 })
	require.True(t, b.Filled)
	require.Eventually(t, func() bool { return len(w.parts()) == 1 }, deadline, tick, "further parts go when they are not needed")
}

func TestPartsGoWithTheirFirst(t *testing.T) {
	w := newWorld(t)
	w.awaitAccount()
	w.bundleState()
	w.createPods(100)
	w.agent(func(c *monitor.Config) { c.MaxSize = bundle.MinSize })
	w.await("all pods are there", func(b bundle.Bundle) bool { return len(b.Objects) == 100 })
	parts := w.parts()
	require.Greater(t, len(parts), 1)

	w.delete(bundles, bundle.PartName(bundle.Name(w.app, contextID), 2))
	w.await("a part that somebody deletes is made again", func(b bundle.Bundle) bool { return len(b.Objects) == 100 && len(w.parts()) == len(parts) })

	w.delete(bundles, bundle.Name(w.app, contextID))
	// The cluster removes what has lost its owner, some 20 s after it has heard of the kind: it is looked at seldom, as a look reads all.
	require.Eventually(t, func() bool { return len(w.parts()) == 0 }, deadline, time.Second)
}

// TestABundleThatCannotBeWritten says so: no status is shown for a true one that is old.
func TestABundleThatCannotBeWritten(t *testing.T) {
	w := newWorld(t)
	w.awaitAccount()
	w.bundleState()
	w.agent(func(c *monitor.Config) { c.MaxSize = 8 << 20 }) // more than etcd takes
	w.await("it is filled", func(b bundle.Bundle) bool { return b.Filled })
	for i := range 10 {
		o := w.stamped(fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"pod-%04d"},"spec":{"containers":[
			{"name":"c","image":"example.com/c","env":[{"name":"LONG","value":%q}]}]}}`, i, strings.Repeat("padding ", 25_000)))
		_, err := w.client.Resource(pods).Namespace(w.namespace).Create(t.Context(), o, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	var b bundle.Bundle
	require.Eventually(t, func() bool {
		b = w.read()
		return b.Error != ""
	}, deadline, tick)
	require.Contains(t, b.Error, "too large")
	require.Empty(t, b.Objects)
	require.False(t, b.Ready || b.Complete)
	w.deletePods()
	w.await("what fits is written again", func(b bundle.Bundle) bool { return b.Error == "" })
}

// deletePods deletes all of them, of which a busy cluster manages a part at a time.
func (w *world) deletePods() {
	w.Helper()
	now := int64(0)
	require.Eventually(w, func() bool {
		return w.client.Resource(pods).Namespace(w.namespace).
			DeleteCollection(w.Context(), metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}) == nil
	}, deadline, tick)
}

// createPods makes pods, each with what makes it some kilobytes large.
func (w *world) createPods(n int) {
	w.Helper()
	var g errgroup.Group
	g.SetLimit(16)
	for i := range n {
		g.Go(func() error {
			o := w.stamped(fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"pod-%04d"},"spec":{"containers":[
				{"name":"c","image":"example.com/c","env":[{"name":"LONG","value":%q}]}]}}`, i, strings.Repeat("padding ", 300)))
			_, err := w.client.Resource(pods).Namespace(w.namespace).Create(w.Context(), o, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return nil // the answer to a first attempt was lost
			}
			return err
		})
	}
	require.NoError(w, g.Wait())
}

// heap is what is in use, in bytes.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
