package activities_test

import (
	"context"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/plan"
)

// remnants has a context "1" that was updated to "2", each with a kind of its own, and in the cluster an object of the
// first one's.
func remnants(t *testing.T, status domain.ContextStatus) (l *leaf, asked func() []string) {
	l = newLeaf(t, domain.OpTerminate, 0)
	instance := func(id, kind string, s domain.ContextStatus) {
		digest := l.store.put(t, plan.Plan{ContextID: id, Owner: "owner", Namespace: "ns", Apps: []plan.App{{
			Name: "app", Resources: []plan.ResourceID{{Version: "v1", Kind: kind, Name: "a"}, {Version: "v1", Kind: kind, Name: "b"}},
			Targets: []plan.Target{{ClusterName: l.in.Cluster}},
		}}})
		require.NoError(t, l.store.PutInstance(t.Context(), &domain.Instance{ContextID: id, Owner: "owner", Status: s, Plan: digest, Label: "1"}))
	}
	instance("1", "Secret", domain.ContextUpdated)
	instance("2", "ConfigMap", status)
	back := true
	var paths []string
	l.handle = func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		paths = append(paths, r.Method+" "+r.URL.Path)
		items := []any{}
		switch {
		case r.Method == http.MethodDelete:
			back = false
			answer(w, http.StatusOK, map[string]any{"kind": "Status", "apiVersion": "v1"})
			return
		case r.URL.Path == "/apis":
			answer(w, http.StatusOK, map[string]any{"kind": "APIGroupList", "apiVersion": "v1"})
			return
		case strings.HasPrefix(r.URL.Path, "/apis"):
			refuse(w, http.StatusNotFound, "NotFound", "")
			return
		case path.Base(r.URL.Path) == "secrets" && back:
			items = append(items, map[string]any{"metadata": map[string]any{
				"name": "a", "namespace": "ns", "uid": "1", "resourceVersion": "7", "managedFields": []any{map[string]any{"manager": "drover"}},
			}})
		}
		if r.URL.Query().Get("labelSelector") != "emco/deployment-id in (1-app)" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		answer(w, http.StatusOK, map[string]any{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "items": items})
	}
	return l, func() []string {
		l.mu.Lock()
		defer l.mu.Unlock()
		return slices.Clone(paths)
	}
}

func (l *leaf) remove(in activities.RemnantsInput) *activities.RemnantsResult {
	l.t.Helper()
	value, err := l.env.ExecuteActivity(l.kube.RemoveRemnants, in)
	require.NoError(l.t, err)
	var out activities.RemnantsResult
	require.NoError(l.t, value.Get(&out))
	return &out
}

// TestRemoveRemnants looks for the kinds of all contexts of the label, also when the owner is deleted meanwhile.
func TestRemoveRemnants(t *testing.T) {
	in := activities.RemnantsInput{Owner: "owner", ContextID: "2", Label: "1"}
	for name, ending := range map[string]bool{"as a terminate ends": true, "afterwards": false} {
		t.Run(name, func(t *testing.T) {
			status := domain.ContextTerminated
			if ending {
				status = domain.ContextTerminating
			}
			l, asked := remnants(t, status)
			in := in
			in.Ending = ending
			out := l.remove(in)
			require.Equal(t, 1, out.Deleted)
			require.Empty(t, out.Left)
			require.Zero(t, out.Silent)
			require.Contains(t, asked(), "DELETE /api/v1/namespaces/ns/secrets/a")
			require.Contains(t, asked(), "GET /api/v1/namespaces/ns/configmaps")

			in.Reach = out.Reach
			require.True(t, l.remove(in).Clean())
			if ending {
				own := l.store.instances["2"]
				for status, over := range map[domain.ContextStatus]bool{
					domain.ContextTerminated: false, domain.ContextTerminateFailed: false, domain.ContextUpdated: true,
				} { // its workflow's task is done again after its end, or another context has its label
					own.Status = status
					l.store.instances["2"] = own
					out = l.remove(activities.RemnantsInput{Owner: "owner", ContextID: "2", Label: "1", Ending: true})
					require.Equal(t, over, out.Over, status)
					require.Equal(t, over, out.Reach == "", status)
				}
				l.store.instances = map[string]domain.Instance{}
				in.Ending = false
				before := len(asked())
				out = l.remove(in)
				require.False(t, out.Over)
				require.Greater(t, len(asked()), before)
			}
		})
	}
}

// TestALookForRemnantsEnds before its attempt does: a cluster for which no time is left is one that could not be asked.
func TestALookForRemnantsEnds(t *testing.T) {
	l, asked := remnants(t, domain.ContextTerminated)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	l.options.BackgroundActivityContext = ctx
	l.env.SetWorkerOptions(l.options)
	in := activities.RemnantsInput{Owner: "owner", ContextID: "2", Label: "1"}
	require.Equal(t, 1, l.remove(in).Silent)
	require.Empty(t, asked())
}

// TestRemnantsAreLookedForWhereSomethingIsHeld, though no plan that is still known has it.
func TestRemnantsAreLookedForWhereSomethingIsHeld(t *testing.T) {
	l, asked := remnants(t, domain.ContextTerminated)
	digest := l.store.put(t, plan.Plan{ContextID: "2", Owner: "owner", Namespace: "ns", Held: []plan.Held{{
		App: "gone", Resource: plan.ResourceID{Version: "v1", Kind: "PersistentVolumeClaim", Namespace: "mon", Name: "data"}, Clusters: []domain.ClusterName{l.in.Cluster},
	}}})
	l.store.instances["2"] = domain.Instance{ContextID: "2", Owner: "owner", Status: domain.ContextTerminated, Plan: digest, Label: "1"}
	l.remove(activities.RemnantsInput{Owner: "owner", ContextID: "2", Label: "1"})
	require.Contains(t, asked(), "GET /api/v1/namespaces/mon/persistentvolumeclaims")
}

// TestRemnantsOfADeletedOwner are looked for where a look before has looked, also when that was not the terminate's, and as
// long as anybody knows where that was.
func TestRemnantsOfADeletedOwner(t *testing.T) {
	l, asked := remnants(t, domain.ContextTerminated)
	in := activities.RemnantsInput{Owner: "owner", ContextID: "1", Label: "1"}
	in.Reach = l.remove(in).Reach
	require.NotEmpty(t, in.Reach)
	delete(l.store.instances, "2")
	for _, what := range []string{"half of its records are deleted", "it is deleted"} {
		before := len(asked())
		out := l.remove(in)
		require.False(t, out.Over, what)
		require.Equal(t, in.Reach, out.Reach, what)
		require.Contains(t, asked()[before:], "GET /api/v1/namespaces/ns/configmaps", what)
		clear(l.store.instances)
	}
	delete(l.store.blobs, in.Reach)
	require.True(t, l.remove(in).Over, "nobody knows where to look")
}

// TestRemnantsOfAClusterWhoseRegistrationIsReplaced meanwhile are looked for with the new one.
func TestRemnantsOfAClusterWhoseRegistrationIsReplaced(t *testing.T) {
	l, _ := remnants(t, domain.ContextTerminated)
	takes := l.handle
	var once sync.Once
	l.handle = func(w http.ResponseWriter, r *http.Request) {
		cut := false
		once.Do(func() {
			l.mu.Lock()
			l.replaced++
			l.mu.Unlock()
			cut = l.clusters.Renew(r.Context(), func(domain.ClusterName) bool { return true }) == nil
		})
		if cut {
			<-r.Context().Done()
			return
		}
		takes(w, r)
	}
	out := l.remove(activities.RemnantsInput{Owner: "owner", ContextID: "1", Label: "1"})
	require.Equal(t, 1, out.Deleted)
	require.Zero(t, out.Silent)
	require.Empty(t, out.Left)
}

// TestRemnantsOfARegistrationOfAMomentAgo: what is deleted is of the cluster that is registered now, as of a leaf.
func TestRemnantsOfARegistrationOfAMomentAgo(t *testing.T) {
	l, asked := remnants(t, domain.ContextTerminated)
	other, ofOther := remnants(t, domain.ContextTerminated)
	l.connect(kube.Config{Request: time.Minute, Fresh: time.Hour})
	in := activities.RemnantsInput{Owner: "owner", ContextID: "1", Label: "1"}
	l.remove(in)
	before := len(asked())
	require.NotZero(t, before)
	l.mu.Lock()
	l.server, l.url = other.server, other.url
	l.replaced++
	l.mu.Unlock()
	l.remove(in)
	require.Len(t, asked(), before)
	require.NotEmpty(t, ofOther())
}

// TestTerminateWaitsForRemnants that are being deleted, by one short attempt after the other, also when their cluster does not
// answer any more; the context's record says what for.
func TestTerminateWaitsForRemnants(t *testing.T) {
	l, _ := remnants(t, domain.ContextTerminating)
	takes := l.handle
	var silent, gone atomic.Bool
	l.handle = func(w http.ResponseWriter, r *http.Request) {
		switch {
		case silent.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case path.Base(r.URL.Path) == "secrets" && !gone.Load():
			answer(w, http.StatusOK, map[string]any{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "items": []any{map[string]any{
				"metadata": map[string]any{
					"name": "a", "namespace": "ns", "uid": "1", "resourceVersion": "7", "managedFields": []any{map[string]any{"manager": "drover"}},
					"deletionTimestamp": "2026-11-22T09:30:00Z", "finalizers": []string{"example.com/held"},
				},
			}}})
		default:
			takes(w, r)
		}
	}
	in := activities.RemnantsInput{Owner: "owner", ContextID: "2", Label: "1", Ending: true}
	attempt := func() error {
		var failure error
		l.env = l.environment()
		l.env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&errorsOf{err: &failure}}})
		l.env.SetHeartbeatDetails(l.raw)
		if _, err := l.env.ExecuteActivity(l.kube.RemoveRemnants, in); err != nil {
			require.Error(t, failure, "%v", err)
		}
		return failure
	}
	const held = "Secret a on p+c: being deleted since 2026-11-22T09:30:00Z, waits for finalizer example.com/held"
	for range 2 {
		err := attempt()
		require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
		require.Equal(t, held, fail.TextOf(err))
		require.GreaterOrEqual(t, fail.RetryAfterOf(err), time.Second)
		require.Equal(t, held, l.store.instances["2"].Remnants)
	}
	silent.Store(true)
	err := attempt()
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	require.Contains(t, fail.TextOf(err), held+" (now the cluster does not answer: ")
	l.store.unreachable = map[domain.ClusterName]bool{l.in.Cluster: true}
	err = attempt()
	require.True(t, fail.Is(err, fail.Unavailable), "what goes there is waited for, also once the cluster is known not to answer: %v", err)
	require.Contains(t, fail.TextOf(err), held)
	l.store.unreachable = nil
	silent.Store(false)
	gone.Store(true)
	require.NoError(t, attempt())
	require.Empty(t, l.store.instances["2"].Remnants)
}

// TestTerminateDoesNotAskWhatDoesNotAnswer for remnants, where none was seen to go: a later look does.
func TestTerminateDoesNotAskWhatDoesNotAnswer(t *testing.T) {
	l, asked := remnants(t, domain.ContextTerminating)
	l.store.unreachable = map[domain.ClusterName]bool{l.in.Cluster: true}
	in := activities.RemnantsInput{Owner: "owner", ContextID: "2", Label: "1", Ending: true}
	out := l.remove(in)
	require.Equal(t, 1, out.Silent)
	require.Empty(t, asked())
}

// TestRemnantsOfALiveContext are none.
func TestRemnantsOfALiveContext(t *testing.T) {
	for _, status := range []domain.ContextStatus{
		domain.ContextInstantiated, domain.ContextInstantiating, domain.ContextInstantiateFailed, domain.ContextTerminating, domain.ContextTerminateFailed,
		domain.ContextUpdated,
	} {
		l, asked := remnants(t, status)
		for _, in := range []activities.RemnantsInput{
			{Owner: "owner", ContextID: "1", Label: "1"}, {Owner: "owner", ContextID: "2", Label: "1"}, {Owner: "another", ContextID: "1"},
		} {
			require.True(t, l.remove(in).Over, status)
		}
		require.Empty(t, asked())
	}
}

// TestRemnantsThatStay are told in the context's record until they have gone.
func TestRemnantsThatStay(t *testing.T) {
	l, _ := remnants(t, domain.ContextTerminated)
	takes := l.handle
	l.handle = func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			refuse(w, http.StatusForbidden, "Forbidden", "a")
			return
		}
		takes(w, r)
	}
	in := activities.RemnantsInput{Owner: "owner", ContextID: "1", Label: "1"}
	const want = "Secret a on p+c: its deletion is refused: it is Forbidden"
	require.Equal(t, want, l.remove(in).Left)
	require.Equal(t, want, l.store.instances["2"].Remnants, "the last context of the label is the one that is shown")
	l.handle = takes
	require.Equal(t, 1, l.remove(in).Deleted)
	require.Empty(t, l.store.instances["2"].Remnants)

	l.stop()
	require.Equal(t, 1, l.remove(in).Silent, "a cluster that does not answer is looked at again")
}
