package monitor_test

import (
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/deploy/crd"
	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/kubetest"
)

// closing is a body of which somebody is told when it is closed.
type closing struct {
	io.ReadCloser
	then func()
}

func (c *closing) Close() error {
	defer c.then()
	return c.ReadCloser.Close()
}

// TestAClusterThatWasRestored from a backup has not what it had: the agent ends, and one that is started anew tells what there is. A cluster whose API
// server is started anew is no such one.
func TestAClusterThatWasRestored(t *testing.T) {
	own := kubetest.NewOwn(t)
	w := worldOf(t, own.Kubeconfig)
	kubetest.Define(t, w.client, crd.ResourceBundleStates().Manifest)
	var looks atomic.Int64
	w.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(q *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(q)
			if query := q.URL.Query(); q.URL.Path == "/api/v1/namespaces" && query.Get("limit") == "1" && err == nil {
				if query.Has("labelSelector") {
					t.Errorf("%s: some API servers read the whole collection until an object has the label", q.URL)
				}
				answer.Body = &closing{ReadCloser: answer.Body, then: func() { looks.Add(1) }} // by then what it says was read
			}
			return answer, err
		})
	})
	w.bundleState()
	w.configMap("kept")
	cancel, ended := w.run(nil)
	t.Cleanup(cancel)
	w.await("it is there", has("ConfigMap", "kept"))
	restore := own.BackUp()
	for i := range 300 { // an API server that is started writes something, too
		w.configMap("lost" + strconv.Itoa(i))
	}
	w.await("all are there", func(b bundle.Bundle) bool { return len(names(b, "ConfigMap")) == 301 })
	before := looks.Load()
	require.Eventually(t, func() bool { return looks.Load() > before }, deadline, tick)
	restore()
	w.configMap("new")
	select {
	case err := <-ended:
		require.ErrorContains(t, err, "it was restored from a backup")
	case <-time.After(deadline):
		require.Fail(t, "the agent goes on")
	}
	w.agent(nil)
	w.await("what there is now is told", has("ConfigMap", "kept", "new"))
}
