package fleet_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/test/fleet"
)

// faulty is a cluster of a fleet, as Drover and as client-go see it.
type faulty struct {
	*api
	fleet   *fleet.Fleet
	cluster *kube.Cluster
}

func newFaulty(t *testing.T, faults ...fleet.Fault) *faulty {
	t.Helper()
	f := start(t, fleet.Config{Clusters: 2})
	kubeconfig := f.Kubeconfig(fleet.Name(1))
	require.NoError(t, f.Inject(fleet.Name(1), faults...))
	return &faulty{
		api: &api{T: t, dynamic: kubetest.Dynamic(t, kubeconfig), namespace: "default"}, fleet: f,
		cluster: kubetest.Open(t, kube.Config{Request: deadline}, kubeconfig),
	}
}

// applyOne applies one ConfigMap as Drover does.
func (f *faulty) applyOne(ctx context.Context) (kube.Outcome, *kubetest.Watcher) {
	f.Helper()
	manifest, err := configMap(f, "a", `{}`).MarshalJSON()
	require.NoError(f, err)
	watcher := kubetest.Watch(domain.Marks{domain.MarkPending})
	return f.cluster.Apply(ctx, kube.Job{
		Resources: []plan.Resource{kubetest.Resource(f, 0, manifest)}, Marks: watcher.Marks, Namespace: "default",
		DeploymentID: kubetest.DeploymentID, OnMark: watcher.OnMark,
	}), watcher
}

// there is how many objects of the deployment the cluster has.
func (f *faulty) there() int {
	f.Helper()
	n, err := f.fleet.Objects(fleet.Name(1), plan.DeploymentLabel+"="+kubetest.DeploymentID)
	require.NoError(f, err)
	return n
}

func (f *faulty) requests(verb string) int64 {
	f.Helper()
	counts, err := f.fleet.Requests(fleet.Name(1))
	require.NoError(f, err)
	return counts[verb]
}

func TestFaultsAsDroverSeesThem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault fleet.Fault
		kind  fail.Kind
		after time.Duration // that the cluster asks for
		there int
	}{
		"the connection is refused":           {fleet.Fault{Refuse: true}, fail.Unavailable, 0, 0},
		"the answer is cut off":               {fleet.Fault{Cut: true, Verb: "apply"}, fail.Unavailable, 0, 1},
		"it is too busy":                      {fleet.Fault{Status: http.StatusTooManyRequests, RetryAfter: 7}, fail.Unavailable, 7 * time.Second, 0},
		"it has an error of its own":          {fleet.Fault{Status: http.StatusInternalServerError}, fail.Unavailable, 0, 0},
		"it has one for the resource alone":   {fleet.Fault{Status: http.StatusServiceUnavailable, Resource: "configmaps"}, fail.Unavailable, 0, 0},
		"it has one for what is applied here": {fleet.Fault{Status: http.StatusBadGateway, Verb: "apply", Resource: "configmaps"}, fail.Unavailable, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t, c.fault)
			outcome, watcher := f.applyOne(t.Context())
			require.True(t, fail.Is(outcome.Retry, c.kind), "%v", outcome.Retry)
			require.Equal(t, domain.Marks{domain.MarkSent}, watcher.Marks)
			require.Equal(t, c.there, f.there())
			var said *fail.Error
			require.ErrorAs(t, outcome.Retry, &said)
			require.Equal(t, c.after, said.RetryAfter)
			require.NotZero(t, f.requests("apply"), "what a fault strikes is counted")

			require.NoError(t, f.fleet.Inject(fleet.Name(1)))
			outcome, watcher = f.applyOne(t.Context())
			require.NoError(t, outcome.Retry)
			require.Equal(t, domain.Marks{domain.MarkApplied}, watcher.Marks)
			require.Equal(t, 1, f.there())
		})
	}
}

func TestForbiddenKind(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, fleet.Fault{Status: http.StatusForbidden, Resource: "secrets"}, fleet.Fault{Status: http.StatusForbidden, Resource: "configmaps", Verb: "apply"})
	outcome, watcher := f.applyOne(t.Context())
	require.NoError(t, outcome.Retry)
	require.Equal(t, domain.Marks{domain.MarkRefused}, watcher.Marks)
	require.Contains(t, watcher.Notes[0], "is forbidden")
	_, err := f.of(configMaps).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
}

func TestHang(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, fleet.Fault{Hang: true})
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the client goes")
	ended := make(chan kube.Outcome, 1)
	go func() {
		outcome, _ := f.applyOne(ctx)
		ended <- outcome
	}()
	f.await(func() bool { return f.requests("apply") == 1 })
	cancel(gone)
	require.ErrorIs(t, (<-ended).Retry, gone)
	require.Zero(t, f.there(), "what hangs is not done when the client goes")

	go func() {
		outcome, _ := f.applyOne(t.Context())
		ended <- outcome
	}()
	f.await(func() bool { return f.requests("apply") == 2 })
	require.NoError(t, f.fleet.Inject(fleet.Name(1)))
	require.NoError(t, (<-ended).Retry)
	require.Equal(t, 1, f.there())
}

func (f *faulty) await(is func() bool) {
	f.Helper()
	require.Eventually(f, is, deadline, time.Millisecond)
}

func TestFaultsOfOneClusterAreItsOwn(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, fleet.Fault{Hang: true})
	other := kubetest.Open(t, kube.Config{}, f.fleet.Kubeconfig(fleet.Name(2)))
	require.NoError(t, other.Ping(t.Context()))
	require.NoError(t, f.fleet.Inject(fleet.All, fleet.Fault{Status: http.StatusInternalServerError}))
	require.Error(t, other.Ping(t.Context()))
	require.NoError(t, f.fleet.Inject(fleet.All))
	require.NoError(t, other.Ping(t.Context()))
	require.NoError(t, f.cluster.Ping(t.Context()))
}

func TestCountAndProbability(t *testing.T) {
	t.Parallel()
	const tries = 60
	get := func(f *faulty) []bool {
		struck := make([]bool, tries)
		for i := range struck {
			_, err := f.of(configMaps).Get(t.Context(), "absent", metav1.GetOptions{})
			struck[i] = apierrors.IsInternalError(err)
			require.True(t, struck[i] || apierrors.IsNotFound(err), "%v", err)
		}
		return struck
	}
	count := func(struck []bool) (n int) {
		for _, is := range struck {
			if is {
				n++
			}
		}
		return n
	}
	f := newFaulty(t, fleet.Fault{Status: http.StatusInternalServerError, Count: 3})
	struck := get(f)
	require.Equal(t, 3, count(struck))
	require.Equal(t, []bool{true, true, true, false}, struck[:4])

	half := fleet.Fault{Status: http.StatusInternalServerError, Probability: 0.5, Seed: 7}
	require.NoError(t, f.fleet.Inject(fleet.Name(1), half))
	first := get(f)
	require.Greater(t, count(first), tries/4)
	require.Less(t, count(first), tries*3/4)
	require.NoError(t, f.fleet.Inject(fleet.Name(1), half))
	require.Equal(t, first, get(f), "the same seed strikes the same requests")
}

func TestLatency(t *testing.T) {
	t.Parallel()
	const latency = 80 * time.Millisecond
	f := newFaulty(t, fleet.Fault{Latency: fleet.Duration(latency), Jitter: fleet.Duration(time.Millisecond)})
	begun := time.Now()
	require.NoError(t, f.cluster.Ping(t.Context()))
	require.GreaterOrEqual(t, time.Since(begun), latency)

	both := []fleet.Fault{{Latency: fleet.Duration(latency)}, {Status: http.StatusInternalServerError}}
	require.NoError(t, f.fleet.Inject(fleet.Name(1), both...))
	begun = time.Now()
	require.Error(t, f.cluster.Ping(t.Context()))
	require.GreaterOrEqual(t, time.Since(begun), latency)
}

func TestFaultsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	f := start(t, fleet.Config{})
	for name, fault := range map[string]fleet.Fault{
		"nothing happens":           {Verb: "get"},
		"two things happen at once": {Refuse: true, Hang: true},
		"a success":                 {Status: http.StatusOK},
		"more than always":          {Refuse: true, Probability: 2},
		"an answer before":          {Latency: -1},
	} {
		require.True(t, fail.Is(f.Inject(fleet.Name(1), fault), fail.Invalid), name)
	}
	require.True(t, fail.Is(f.Inject("absent", fleet.Fault{Hang: true}), fail.NotFound))
}

func TestRemoteDoesWhatTheFleetDoes(t *testing.T) {
	t.Parallel()
	f := newFaulty(t)
	remote, err := fleet.NewRemote(f.fleet.Ready())
	require.NoError(t, err)
	t.Cleanup(remote.Close)
	outcome, _ := f.applyOne(t.Context())
	require.NoError(t, outcome.Retry)

	n, err := remote.Objects(t.Context(), fleet.All, plan.DeploymentLabel+"="+kubetest.DeploymentID)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	counts, err := remote.Requests(t.Context(), fleet.Name(1))
	require.NoError(t, err)
	require.Equal(t, int64(1), counts["apply"])

	require.NoError(t, remote.Inject(t.Context(), fleet.Name(1), fleet.Fault{Status: http.StatusBadGateway, Latency: fleet.Duration(time.Millisecond)}))
	require.Error(t, f.cluster.Ping(t.Context()))
	require.NoError(t, remote.Inject(t.Context(), fleet.Name(1)))
	require.NoError(t, f.cluster.Ping(t.Context()))
	kubeconfig, err := remote.Revoke(t.Context(), fleet.Name(1))
	require.NoError(t, err)
	require.ErrorContains(t, f.cluster.Ping(t.Context()), "does not accept the credentials")
	require.NoError(t, kubetest.Open(t, kube.Config{Request: deadline}, kubeconfig).Ping(t.Context()))
	require.NoError(t, kubetest.Open(t, kube.Config{Request: deadline}, f.fleet.Kubeconfig(fleet.Name(2))).Ping(t.Context()), "another cluster has its own")
	_, err = remote.Revoke(t.Context(), "absent")
	require.ErrorContains(t, err, "there is no cluster")
	require.ErrorContains(t, remote.Inject(t.Context(), fleet.Name(1), fleet.Fault{}), "does nothing")
	require.ErrorContains(t, remote.Inject(t.Context(), "absent"), "there is no cluster")
	_, err = remote.Objects(t.Context(), fleet.All, "=(")
	require.Error(t, err)
}
