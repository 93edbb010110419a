package cli_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/internal/kubetest"
)

// border stands before a cluster and before the API: it counts what a command writes, and kills the command at one of its writes.
type border struct {
	t       *testing.T
	account *account
	cluster string                // URL of the cluster's side
	first   func(r *http.Request) // is told of what the cluster is asked before it is; nil for nobody
	// lost says of a write whether its answer is lost; nil for none.
	lost func(r *http.Request) bool

	mu      sync.Mutex
	command *exec.Cmd
	writes  int
	at      int           // kill at this write; 0 for never
	after   bool          // when it is done, and before it is answered
	killed  string        // at which write
	died    chan struct{} // closed when the command has
	tokens  []string      // all that the cluster has issued
	ended   []string      // those that are to be good no more
}

// newBorder puts one before the cluster and the API of an account.
func newBorder(t *testing.T) *border {
	t.Helper()
	b := &border{t: t, account: newAccount(t)}
	admin, err := clientcmd.RESTConfigFromKubeConfig(kubetest.Kubeconfig(t))
	require.NoError(t, err)
	to, err := url.Parse(admin.Host)
	require.NoError(t, err)
	administrator, err := rest.TransportFor(admin)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(admin.CAData))
	anybody := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(anybody.CloseIdleConnections)
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("Authorization") == "" {
			return administrator.RoundTrip(r)
		}
		return anybody.RoundTrip(r) // whose token it is
	})
	proxy.ModifyResponse = func(r *http.Response) error {
		if !strings.HasSuffix(r.Request.URL.Path, "/token") {
			return nil
		}
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var issued struct {
			Status struct {
				Token string `json:"token"`
			} `json:"status"`
		}
		if json.Unmarshal(body, &issued) == nil && issued.Status.Token != "" {
			b.mu.Lock()
			b.tokens = append(b.tokens, issued.Status.Token)
			b.mu.Unlock()
		}
		return err
	}
	front := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if b.first != nil {
			b.first(r)
		}
		b.pass("cluster", out, r, proxy)
	}))
	t.Cleanup(front.Close)
	b.cluster = front.URL
	b.account.answer = func(out http.ResponseWriter, r *http.Request, api http.Handler) { b.pass("API", out, r, api) }
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})
	file, err := clientcmd.Load(kubetest.Kubeconfig(t))
	require.NoError(t, err)
	for _, c := range file.Clusters {
		c.Server, c.CertificateAuthorityData, c.CertificateAuthority = front.URL, ca, ""
	}
	data, err := clientcmd.Write(*file)
	require.NoError(t, err)
	b.account.file("admin.conf", string(data))
	return b
}

// anew has what is done next be about another account.
func (b *border) anew() {
	b.account.name, b.tokens = kubetest.Name("own"), nil
	b.account.at = []string{
		"site/edge01", "--kubeconfig", b.account.env["XDG_CONFIG_HOME"] + "/admin.conf", "--account", b.account.name, "--account-namespace", b.account.name,
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// pass lets a request through, unless the command dies of it. What only asks is no write.
func (b *border) pass(where string, out http.ResponseWriter, r *http.Request, to http.Handler) {
	if r.Method == http.MethodGet || strings.Contains(r.URL.Path, "selfsubject") {
		to.ServeHTTP(out, r)
		return
	}
	if b.lost != nil && b.lost(r) {
		to.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
	b.mu.Lock()
	b.writes++
	dies := b.writes == b.at
	if dies {
		b.killed = fmt.Sprintf("%s %s of the %s", r.Method, r.URL.Path, where)
	}
	b.mu.Unlock()
	if !dies {
		to.ServeHTTP(out, r)
		return
	}
	if b.after {
		to.ServeHTTP(httptest.NewRecorder(), r)
	}
	_ = b.command.Process.Kill() // SIGKILL
	<-b.died
	panic(http.ErrAbortHandler)
}

// dies runs a command that is killed at its n-th write, before it or after it, and says at which that was, "" when there are fewer.
func (b *border) dies(n int, after bool, args ...string) string {
	b.t.Helper()
	self, err := os.Executable()
	require.NoError(b.t, err)
	var said bytes.Buffer
	c := exec.CommandContext(b.t.Context(), self, args...)
	c.Stdout, c.Stderr = &said, &said
	c.Env = append(os.Environ(), asCommand+"=1")
	for name, value := range b.account.env {
		c.Env = append(c.Env, name+"="+value)
	}
	b.mu.Lock()
	b.command, b.writes, b.at, b.after, b.killed, b.died = c, 0, n, after, "", make(chan struct{})
	b.mu.Unlock()
	err = c.Run()
	close(b.died)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = 0
	if b.killed == "" {
		require.NoError(b.t, err, said.String())
	} else {
		require.Equal(b.t, -1, c.ProcessState.ExitCode(), said.String())
	}
	return b.killed
}

// refused says whether the cluster takes none of the tokens that are to be good no more.
func (b *border) refused() bool {
	b.t.Helper()
	trusting := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // #nosec G402 -- the test's own border
	defer trusting.CloseIdleConnections()
	for _, token := range b.ended {
		r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.cluster+"/api/v1/namespaces", nil)
		require.NoError(b.t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := trusting.Do(r)
		require.NoError(b.t, err)
		answer.Body.Close()
		if answer.StatusCode != http.StatusUnauthorized {
			return false
		}
	}
	return true
}

// clean says that only the account of the last token is there, which is the one that the API has; all others have ended.
func (b *border) clean(what string) {
	b.t.Helper()
	accounts, err := b.account.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace(b.account.name).
		List(b.t.Context(), metav1.ListOptions{LabelSelector: "drover.io/account"})
	require.NoError(b.t, err)
	require.Len(b.t, accounts.Items, 1, what)
	require.True(b.t, b.account.works(), what)
	last := len(b.tokens) - 1
	require.Contains(b.t, string(b.account.sent), b.tokens[last], what)
	b.ended = append(b.ended, b.tokens[:last]...)
}

// gone says that nothing of it is left, and all tokens have ended.
func (b *border) gone(what string) {
	b.t.Helper()
	for _, r := range []string{"clusterroles", "clusterrolebindings"} {
		require.False(b.t, b.account.has(r), what)
	}
	there, err := b.account.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(b.t.Context(), b.account.name, metav1.GetOptions{})
	require.True(b.t, apierrors.IsNotFound(err) || there.GetDeletionTimestamp() != nil, what)
	require.Equal(b.t, 3, b.account.run("cluster", "check", "site/edge01").code, what)
	b.ended = append(b.ended, b.tokens...)
}

// TestACommandThatIsKilledIsGoneOnWith: add, rotate and remove die of SIGKILL before and after each of their writes, to the cluster and to the API.
// Another add, or remove, brings it to a clean state: no token is left that nobody knows.
func TestACommandThatIsKilledIsGoneOnWith(t *testing.T) {
	for _, c := range []struct {
		command string
		more    []string
		least   int // writes of which it can die
	}{{"add", []string{"--label", "edge"}, 8}, {"rotate", nil, 6}, {"remove", nil, 4}} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/after=%t", c.command, after), func(t *testing.T) {
				t.Parallel()
				b := newBorder(t)
				for n := 1; ; n++ {
					b.anew()
					run := func(command string, more ...string) []string {
						return append(append([]string{"cluster", command}, b.account.at...), more...)
					}
					if c.command != "add" {
						b.account.done(run("add")...)
					}
					at := b.dies(n, after, run(c.command, c.more...)...)
					if at == "" {
						require.Greater(t, n, c.least)
						require.NotEmpty(t, b.ended)
						require.Eventually(t, b.refused, kubetest.Deadline, kubetest.Tick, "API servers remember tokens for some seconds")
						return
					}
					t.Log(n, at)
					// Every other time what is left is taken away at once.
					if n%2 == 0 {
						b.account.done(run("remove")...)
						b.gone(at)
						continue
					}
					b.account.done(run("add", c.more...)...)
					b.clean(at)
					b.account.done(run("remove")...)
					b.gone(at)
				}
			})
		}
	}
}
