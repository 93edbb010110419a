package activities_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
)

// deaf is a cluster that closes every connection without an answer until it hears, after one more of those that it is asked from soon on.
// It counts requests.
type deaf struct {
	server *httptest.Server
	asked  atomic.Int32
	soon   atomic.Bool
	hears  atomic.Bool
}

func newDeaf(t *testing.T) *deaf {
	t.Helper()
	d := &deaf{}
	d.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		d.asked.Add(1)
		if !d.hears.Load() {
			d.hears.Store(d.soon.Load())
			panic(http.ErrAbortHandler)
		}
		answer(w, http.StatusOK, map[string]any{"major": "1"})
	}))
	d.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	d.server.StartTLS()
	t.Cleanup(d.server.Close)
	return d
}

func (d *deaf) kubeconfig(t *testing.T) []byte {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: d.server.Certificate().Raw})
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: d.server.URL, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: "token"}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	})
	require.NoError(t, err)
	return data
}

// beside is another tenant of the same cluster, with the same rule.
func (m *matches) beside(n int) *matches {
	m.Helper()
	o := *m
	tenant, rule := *m.tenant, *m.rule
	tenant.Name, tenant.ContextID, tenant.Revision = fmt.Sprint(tenant.Name, "-", n), fmt.Sprintf("%019d", n+1), 0
	rule.Parent, rule.Revision = domain.TenantKey(tenant.Name), 0
	o.tenant, o.rule, o.workloads = &tenant, &rule, map[string]*domain.Workload{}
	require.NoError(m, m.store.Create(m.Context(), o.tenant))
	require.NoError(m, m.store.Create(m.Context(), o.rule))
	return &o
}

// do runs an activity, and returns what it does.
func (m *matches) do(activity, in, out any) error {
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.SetTestTimeout(time.Minute)
	env.RegisterActivity(m.match)
	value, err := env.ExecuteActivity(activity, in)
	if err == nil && out != nil {
		err = value.Get(out)
	}
	return err
}

// TestTenantsOfAClusterThatDoesNotAnswer: few of many ask it, and the others send nothing, and note nothing as sent.
func TestTenantsOfAClusterThatDoesNotAnswer(t *testing.T) {
	const tenants = 20
	activities.SetSilentFor(t, time.Hour) // however slow this machine is
	m := newMatches(t)
	d := newDeaf(t)
	m.register(d.kubeconfig(t))
	all := []*matches{m}
	for n := range tenants - 1 {
		all = append(all, m.beside(n))
	}
	for _, o := range all {
		o.run("w1", nil)
		o.evaluate()
	}
	var g errgroup.Group
	for _, o := range all {
		r := o.record()
		id := r.ID()
		g.Go(func() error {
			var out activities.Settled
			err := o.do(m.match.SettleMatches, activities.MatchesInput{Tenant: o.tenant.Name, IDs: []string{id}}, &out)
			if err == nil && !out.Away {
				err = fmt.Errorf("tenant %s: %+v", o.tenant.Name, out)
			}
			return err
		})
	}
	require.NoError(t, g.Wait())
	sent := 0
	for _, o := range all {
		r := o.record()
		require.False(t, r.Due.IsZero())
		if r.Made != nil {
			sent++
		}
	}
	require.Positive(t, sent)
	require.Less(t, sent, tenants/2)
	require.Less(t, int(d.asked.Load()), tenants/2)

	before := d.asked.Load()
	d.soon.Store(true)
	for _, o := range all {
		g.Go(func() error { return o.do(m.match.AwaitCluster, activities.TenantInput{Tenant: o.tenant.Name}, nil) })
	}
	require.NoError(t, g.Wait(), "all go on when one has heard the cluster")
	require.Less(t, int(d.asked.Load()-before), tenants)
}

// TestALocalTryGoesByWhatOthersHaveHeard: no activity is begun for it.
func TestALocalTryGoesByWhatOthersHaveHeard(t *testing.T) {
	m := newMatches(t)
	d := newDeaf(t)
	m.register(d.kubeconfig(t))
	o := m.beside(1)
	for _, of := range []*matches{m, o} {
		of.run("w1", nil)
		of.evaluate()
	}
	try := func(of *matches) (out activities.Settled, err error) {
		r := of.record()
		env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
		env.RegisterActivity(m.match)
		value, err := env.ExecuteLocalActivity(m.match.SettleMatches, activities.MatchesInput{Tenant: of.tenant.Name, IDs: []string{r.ID()}})
		if err == nil {
			err = value.Get(&out)
		}
		return out, err
	}
	_, err := try(m)
	require.ErrorContains(t, err, "not done at once", "it may be for its own short time")
	for { // a machine that stands still for long lets the other one ask, too
		asked := d.asked.Load()
		out, err := try(o)
		if err == nil {
			require.True(t, out.Away)
			require.Equal(t, asked, d.asked.Load())
			return
		}
		require.NoError(t, context.Cause(t.Context()))
		_, _ = try(m)
	}
}
