package cli_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/internal/access"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
)

// account is what registers a cluster with an account of Drover's own, over an API that may be made to answer something else.
type account struct {
	*world
	name  string   // of the ServiceAccount and its namespace
	at    []string // of commands
	admin dynamic.Interface
	// answer may answer in place of the API, or after it; nil lets all requests pass.
	answer func(out http.ResponseWriter, r *http.Request, api http.Handler)
	sent   []byte // the kubeconfig that came last
}

func newAccount(t *testing.T) *account {
	t.Helper()
	return accountOf(t, newWorld(t))
}

func accountOf(t *testing.T, w *world) *account {
	t.Helper()
	kubeconfig := kubetest.Kubeconfig(t)
	a := &account{world: w, name: kubetest.Name("own"), admin: kubetest.Dynamic(t, kubeconfig)}
	api, err := url.Parse(a.url)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(api)
	between := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.Method != http.MethodGet && strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
			copied := r.Clone(r.Context())
			copied.Body = io.NopCloser(bytes.NewReader(body))
			if f, _, err := copied.FormFile("file"); err == nil {
				a.sent, _ = io.ReadAll(f)
			}
		}
		if a.answer != nil {
			a.answer(out, r, proxy)
			return
		}
		proxy.ServeHTTP(out, r)
	}))
	t.Cleanup(between.Close)
	a.env["DROVER_SERVER"] = between.URL
	a.at = []string{"site/edge01", "--kubeconfig", a.file("admin.conf", string(kubeconfig)), "--account", a.name, "--account-namespace", a.name}
	return a
}

// works says whether the credential that was sent last is good.
func (a *account) works() bool {
	a.t.Helper()
	require.NotEmpty(a.t, a.sent)
	role, err := access.ClusterRole(a.name, domain.ReportAuto, false)
	require.NoError(a.t, err)
	_, err = kube.See(a.t.Context(), a.sent, role)
	return err == nil
}

// ends waits until the credential that was sent last is no longer good. API servers remember tokens for some seconds, and a
// look is five requests: that it is not twenty a second was half of what the tests of this package cost.
func (a *account) ends(reason ...any) {
	a.t.Helper()
	require.Eventually(a.t, func() bool { return !a.works() }, kubetest.Deadline, 10*kubetest.Tick, reason...)
}

// has says whether the cluster has an object of RBAC of the account's name.
func (a *account) has(resource string) bool {
	a.t.Helper()
	_, err := a.admin.Resource(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: resource}).Get(a.t.Context(), a.name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		require.NoError(a.t, err)
	}
	return err == nil
}

// TestWhatTheAPIMayHaveStaysGood: a token is taken back only where the API has refused it. A label that fails, or a fault of the API's own,
// cuts no cluster off.
func TestWhatTheAPIMayHaveStaysGood(t *testing.T) {
	a := newAccount(t)
	add := append([]string{"cluster", "add", "--label", "edge"}, a.at...)
	r := a.run(append([]string{"cluster", "add", "--label", "no label"}, a.at...)...)
	require.Equal(t, 2, r.code, r.err)
	require.Contains(t, r.err, "--label")
	require.False(t, a.has("clusterroles"), "before anything is made")

	on := func(part string, do func(out http.ResponseWriter, r *http.Request, api http.Handler)) {
		a.answer = func(out http.ResponseWriter, r *http.Request, api http.Handler) {
			if r.Method != http.MethodGet && strings.Contains(r.URL.Path, part) {
				do(out, r, api)
				return
			}
			api.ServeHTTP(out, r)
		}
	}
	on("/clusters", func(out http.ResponseWriter, _ *http.Request, _ http.Handler) {
		refuse(out, "no", http.StatusBadRequest)
	})
	require.Equal(t, 1, a.run(add...).code)
	require.False(t, a.has("clusterroles"), "what is refused leaves nothing behind")
	a.ends("API servers remember tokens for some seconds")

	on("/clusters", func(out http.ResponseWriter, r *http.Request, api http.Handler) {
		api.ServeHTTP(httptest.NewRecorder(), r)
		refuse(out, "its answer is lost", http.StatusInternalServerError)
	})
	r = a.run(add...)
	require.Equal(t, 1, r.code, r.err)
	require.Contains(t, r.err, "may have the new token")
	require.True(t, a.works())

	for _, code := range []int{http.StatusForbidden, http.StatusInternalServerError} {
		on("/labels", func(out http.ResponseWriter, _ *http.Request, _ http.Handler) { refuse(out, "no", code) })
		require.NotZero(t, a.run(add...).code)
		require.True(t, a.works(), "the cluster is registered with it")
	}
	good := a.sent
	on("/clusters", func(out http.ResponseWriter, _ *http.Request, _ http.Handler) {
		refuse(out, "no", http.StatusBadRequest)
	})
	require.Equal(t, 1, a.run(append([]string{"cluster", "rotate"}, a.at...)...).code)
	a.sent = good
	require.True(t, a.works(), "what was registered before")

	a.answer = nil
	require.Contains(t, a.done(add...), "/labels/edge created\n", "a second run goes on")
	require.True(t, a.works())
}

// TestAClusterThatGoesAway is what is said not to answer, with what was done there, and not the API.
func TestAClusterThatGoesAway(t *testing.T) {
	a := newAccount(t)
	there, leave := a.through()
	a.answer = func(out http.ResponseWriter, r *http.Request, api http.Handler) {
		if strings.HasSuffix(r.URL.Path, "/labels") && r.Method == http.MethodPost { // the last thing that is registered
			leave()
		}
		api.ServeHTTP(out, r)
	}
	r := a.run(append([]string{"cluster", "add", "--label", "edge"}, there...)...)
	require.Equal(t, 5, r.code, r.out)
	require.Contains(t, r.err, "drover: try the credential from here: the cluster cannot be reached")
	require.Equal(t, 1, strings.Count(r.err, "refused"), r.err)
	require.NotContains(t, r.err, "http://")
	require.NotContains(t, r.err, "the API")
}

// through are the arguments of the cluster by way of a port of its own, which leave closes with all connections.
func (a *account) through() (args []string, leave func()) {
	a.t.Helper()
	file, err := clientcmd.LoadFromFile(a.at[2])
	require.NoError(a.t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(a.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	leave = func() {
		cancel()
		_ = l.Close()
	}
	a.t.Cleanup(leave)
	var to string
	for _, c := range file.Clusters {
		u, err := url.Parse(c.Server)
		require.NoError(a.t, err)
		to, c.Server = u.Host, "https://"+l.Addr().String()
	}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			context.AfterFunc(ctx, func() { _, _ = in.Close(), out.Close() })
			go func() { _, _ = io.Copy(out, in) }()
			go func() { _, _ = io.Copy(in, out) }()
		}
	}()
	data, err := clientcmd.Write(*file)
	require.NoError(a.t, err)
	args = slices.Clone(a.at)
	args[2] = a.file("through.conf", string(data))
	return args, leave
}
