package cli_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/access"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kube"
)

// after has something done, once, when the API has done what a command has asked with a method of the cluster, and before that command hears of it.
func (a *account) after(method string, do func()) {
	done := false
	a.answer = func(out http.ResponseWriter, r *http.Request, api http.Handler) {
		if done || r.Method != method || !strings.HasSuffix(r.URL.Path, "/clusters/edge01") {
			api.ServeHTTP(out, r)
			return
		}
		done = true
		answer := httptest.NewRecorder()
		api.ServeHTTP(answer, r)
		do()
		for name, values := range answer.Header() {
			out.Header()[name] = values
		}
		out.WriteHeader(answer.Code)
		_, _ = out.Write(answer.Body.Bytes())
	}
	a.t.Cleanup(func() { require.True(a.t, done) })
}

// accounts is how many ServiceAccounts there are.
func (a *account) accounts() int {
	a.t.Helper()
	list, err := a.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace(a.name).
		List(a.t.Context(), metav1.ListOptions{LabelSelector: "drover.io/account"})
	require.NoError(a.t, err)
	return len(list.Items)
}

// TestARotateThatWasStoppedEndsNothingOfALaterOne: it has registered its token and stops, as by Ctrl-Z, before it ends those before; another one comes and goes.
func TestARotateThatWasStoppedEndsNothingOfALaterOne(t *testing.T) {
	for _, stopped := range []string{"rotate", "add"} {
		t.Run(stopped, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t)
			a.done(append([]string{"cluster", "add"}, a.at...)...)
			a.after(http.MethodPut, func() { a.done(append([]string{"cluster", "rotate"}, a.at...)...) })
			r := a.run(append([]string{"cluster", stopped}, a.at...)...)
			require.Equal(t, 1, r.code, r.out+r.err)
			require.Contains(t, r.err, "another command has replaced the token of the account "+a.name)
			require.True(t, a.works(), "the token that is registered")
			require.Equal(t, 1, a.accounts())
			a.answer = nil
			a.done(append([]string{"cluster", "rotate"}, a.at...)...)
			require.True(t, a.works())
			require.Equal(t, 1, a.accounts())
		})
	}
}

// TestARotateTakesNoRightsFromOneMeanwhile: it has looked who is bound, and another one comes before it makes its own ServiceAccount and binds it.
func TestARotateTakesNoRightsFromOneMeanwhile(t *testing.T) {
	b := newBorder(t)
	a := b.account
	rotate := append([]string{"cluster", "rotate"}, a.at...)
	a.done(append([]string{"cluster", "add"}, a.at...)...)
	for _, refused := range []bool{true, false} {
		first := once(http.MethodPost, "/namespaces/"+a.name+"/serviceaccounts")
		var good []byte
		b.first = func(r *http.Request) {
			if first(r) {
				a.done(rotate...)
				good = a.sent
				if refused {
					pass := a.answer
					a.answer = func(out http.ResponseWriter, _ *http.Request, _ http.Handler) {
						a.answer = pass
						refuse(out, "no", http.StatusBadRequest)
					}
				}
			}
		}
		r := a.run(rotate...)
		b.first = nil
		require.NotEmpty(t, good)
		if refused {
			require.Equal(t, 1, r.code, r.out+r.err)
			a.sent = good
		} else {
			require.Zero(t, r.code, r.err)
		}
		role, err := access.ClusterRole(a.name, domain.ReportAuto, false)
		require.NoError(t, err)
		seen, err := kube.See(t.Context(), a.sent, role)
		require.NoError(t, err)
		require.Empty(t, seen.Lacks, "refused: %t", refused)
	}
	a.done(rotate...)
	require.True(t, a.works())
	require.Equal(t, 1, a.accounts(), "what the one meanwhile had is ended by the next")
}

// TestARemoveThatWasStoppedLeavesALaterAdd: the cluster is registered anew when the first command comes to the account.
func TestARemoveThatWasStoppedLeavesALaterAdd(t *testing.T) {
	a := newAccount(t)
	a.done(append([]string{"cluster", "add"}, a.at...)...)
	a.after(http.MethodDelete, func() { a.done(append([]string{"cluster", "add"}, a.at...)...) })
	r := a.run(append([]string{"cluster", "remove"}, a.at...)...)
	require.NotZero(t, r.code, r.out)
	require.Contains(t, r.err, "another command has made the ServiceAccount")
	require.True(t, a.works())
	a.answer = nil
	a.done(append([]string{"cluster", "remove"}, a.at...)...)
	require.Zero(t, a.accounts())
	require.False(t, a.has("clusterroles"))
}
