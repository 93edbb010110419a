package monitor_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// TestAClusterThatWasRestored from a backup has not what it had, nor will it have the versions that the agent knows before long: all is listed anew.
func TestAClusterThatWasRestored(t *testing.T) {
	w := newWorld(t)
	before := &ahead{}
	s := w.behind(before)
	w.bundleState()
	w.configMap("a")
	w.agent(nil)
	w.await("it is there", has("ConfigMap", "a"))
	<-time.After(2 * time.Second) // a watch that has lasted for less is no reason to go on from there
	before.over.Store(true)
	s.CloseClientConnections() // as of an API server that is started anew; what it had meanwhile was never told
	w.delete(configMaps, "a")
	w.configMap("b")
	w.await("what there is now is told", has("ConfigMap", "b"))
}

// ahead has what a cluster says of its versions be of a time that is still to come, until that is over. Objects have theirs.
type ahead struct{ over atomic.Bool }

// behind has agents ask the cluster through a proxy, which tells them of such versions.
func (w *world) behind(a *ahead) *httptest.Server {
	w.Helper()
	upstream, err := rest.TransportFor(w.config)
	require.NoError(w, err)
	target, err := url.Parse(w.config.Host)
	require.NoError(w, err)
	s := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			if accept := r.Out.Header.Get("Accept"); strings.Contains(accept, "protobuf") {
				r.Out.Header.Set("Accept", protobuf.ReplaceAllString(accept, ""))
			}
		},
		ModifyResponse: a.answer,
		Transport:      upstream,
		FlushInterval:  -1,
	})
	w.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	w.config = &rest.Config{Host: s.URL}
	return s
}

var (
	protobuf = regexp.MustCompile(`application/vnd\.kubernetes\.protobuf[^,]*,`)
	// said is the version of a list, which comes before its items, or of a bookmark.
	said = regexp.MustCompile(`^(\{"kind":"\w+List","apiVersion":"[^"]+","metadata":\{|\{"type":"BOOKMARK".*)"resourceVersion":"(\d+)"`)
)

func (a *ahead) answer(r *http.Response) error {
	if a.over.Load() || r.StatusCode != http.StatusOK || strings.Count(r.Request.URL.Path, "/") < 3 {
		return nil
	}
	from, to := r.Body, new(io.PipeWriter)
	r.Body, to = io.Pipe()
	r.ContentLength = -1
	r.Header.Del("Content-Length")
	go func() {
		defer from.Close()
		lines := bufio.NewReader(from)
		for {
			line, err := lines.ReadBytes('\n')
			if _, wrote := to.Write(further(line)); wrote != nil {
				return
			}
			if err != nil {
				to.CloseWithError(err)
				return
			}
		}
	}()
	return nil
}

// further is what a cluster says, with a version that is a million later.
func further(line []byte) []byte {
	m := said.FindSubmatchIndex(line)
	if m == nil {
		return line
	}
	version, _ := strconv.Atoi(string(line[m[4]:m[5]]))
	return bytes.Join([][]byte{line[:m[4]], line[m[5]:]}, fmt.Appendf(nil, "%d", version+1_000_000))
}
