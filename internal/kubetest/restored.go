package kubetest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/internal/freeport"
	"github.com/drover-io/drover/internal/tempdir"
)

// Ahead is a way to a cluster by which its version is one that is still to come, until it is restored: who asks for the version lists one object. restore
// waits until somebody has.
func Ahead(t testing.TB, config *rest.Config) (through *rest.Config, restore func()) {
	asked, over := new(atomic.Bool), new(atomic.Bool)
	through = rest.CopyConfig(config)
	through.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(q *http.Request) (*http.Response, error) {
			query := q.URL.Query()
			if query.Get("limit") != "1" || over.Load() {
				return next.RoundTrip(q)
			}
			if query.Has("labelSelector") {
				t.Errorf("%s: some API servers read the whole collection until an object has the label", q.URL)
			}
			q = q.Clone(q.Context())
			q.Header.Set("Accept", protobuf.ReplaceAllString(q.Header.Get("Accept"), ""))
			answer, err := next.RoundTrip(q)
			if err != nil || answer.StatusCode != http.StatusOK {
				return answer, err
			}
			defer asked.Store(true)
			return further(answer)
		})
	})
	return through, func() {
		t.Helper()
		require.Eventually(t, asked.Load, Deadline, Tick)
		over.Store(true)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

var protobuf = regexp.MustCompile(`application/vnd\.kubernetes\.protobuf[^,]*,`)

// further has a list be of a version that is a million later.
func further(answer *http.Response) (*http.Response, error) {
	var list map[string]any
	err := json.NewDecoder(answer.Body).Decode(&list)
	answer.Body.Close()
	if err != nil {
		return nil, err
	}
	meta := list["metadata"].(map[string]any)
	version, err := strconv.Atoi(meta["resourceVersion"].(string))
	if err != nil {
		return nil, err
	}
	meta["resourceVersion"] = strconv.Itoa(version + 1_000_000)
	body, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	answer.Header.Del("Content-Length")
	return answer, nil
}

// Own is a local cluster of a test's own, whose database can be put back to an earlier time. It has no controllers.
type Own struct {
	testing.TB
	Kubeconfig []byte // of the administrator
	path       string // of the program
	dir        string
	port       int
	proc       *exec.Cmd // nil while it does not run
}

// NewOwn starts one, which ends with the test.
func NewOwn(t testing.TB) *Own {
	t.Helper()
	o := &Own{TB: t, path: built.Binary(t, "drover-kube"), port: freeport.Block(ports)[0]}
	var err error
	o.dir, err = tempdir.Make("drover-kubetest-own")
	require.NoError(t, err)
	t.Cleanup(func() {
		o.stop()
		_ = os.RemoveAll(o.dir)
	})
	o.start()
	o.Kubeconfig, err = os.ReadFile(filepath.Join(o.dir, inDir, "kubeconfig"))
	require.NoError(t, err)
	return o
}

func (o *Own) start() {
	o.Helper()
	var err error
	o.proc, err = up(o.path, o.dir, o.port, "etcd,kube-apiserver")
	require.NoError(o, err)
}

func (o *Own) stop() {
	if o.proc != nil {
		_ = o.proc.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = o.proc.Wait()
		o.proc = nil
	}
}

// BackUp keeps what the cluster's database has now. restore puts it back, as it is done by hand: while neither the database nor the API server runs.
func (o *Own) BackUp() (restore func()) {
	o.Helper()
	data, kept := filepath.Join(o.dir, inDir, "etcd"), filepath.Join(o.dir, "kept")
	o.stop()
	require.NoError(o, os.CopyFS(kept, os.DirFS(data)))
	o.start()
	return func() {
		o.Helper()
		o.stop()
		require.NoError(o, os.RemoveAll(data))
		require.NoError(o, os.Rename(kept, data))
		o.start()
	}
}
