package kube_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/limits"
)

func TestListAndWatch(t *testing.T) {
	t.Parallel()
	kubeconfig := kubetest.Kubeconfig(t)
	cluster, client := kubetest.Open(t, kube.Config{}, kubeconfig), kubetest.Dynamic(t, kubeconfig)
	namespace := kubetest.Name("watch")
	kubetest.MakeNamespace(t, client, namespace)
	target := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(namespace)
	create := func(name string) {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "labels": map[string]any{"own": "yes"}},
			"data": map[string]any{"key": "value"},
		}}
		_, err := target.Create(t.Context(), o, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	var names []string
	for i := range 5 {
		names = append(names, fmt.Sprintf("c%d", i))
		create(names[i])
	}
	q := kube.Collection{Path: "/api/v1/namespaces/" + namespace + "/configmaps", Labels: "own", Metadata: true, Page: 2}
	var listed []string
	version, err := cluster.List(t.Context(), q, func(object json.RawMessage) error {
		listed = append(listed, nameOf(t, object))
		require.NotContains(t, string(object), "value", "only metadata was wanted")
		return nil
	})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(names, listed))

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	create("late")
	require.NoError(t, target.Delete(t.Context(), "c3", metav1.DeleteOptions{}))
	stop := errors.New("seen all")
	var seen []string
	err = cluster.Watch(ctx, q, version, func(version string, e *kube.Event) error {
		require.NotEmpty(t, version)
		if e == nil {
			return nil
		}
		seen = append(seen, fmt.Sprintf("%s %t", nameOf(t, e.Object), e.Deleted))
		if len(seen) == 2 {
			return stop
		}
		return nil
	})
	require.ErrorIs(t, err, stop)
	require.Equal(t, []string{"late false", "c3 true"}, seen)

	ignore := func(string, *kube.Event) error { return nil }
	err = cluster.Watch(ctx, kube.Collection{Path: "/apis/example.com/v1/nothing", Page: 1}, "1", ignore)
	require.True(t, kube.IsUnserved(err) && kube.IsAnswer(err), "%v", err)
	cancel()
	require.ErrorIs(t, cluster.Watch(ctx, q, version, ignore), context.Canceled)
}

func nameOf(t testing.TB, object json.RawMessage) string {
	t.Helper()
	var o metav1.PartialObjectMetadata
	require.NoError(t, json.Unmarshal(object, &o))
	return o.Name
}

func TestServed(t *testing.T) {
	t.Parallel()
	served, down, err := kubetest.Open(t, kube.Config{}, kubetest.Kubeconfig(t)).Served(t.Context())
	require.NoError(t, err)
	require.Empty(t, down)
	paths := map[string]string{}
	for _, s := range served {
		paths[s.GroupKind().String()] = s.Path
	}
	require.Equal(t, "/api/v1/pods", paths["Pod"])
	require.Equal(t, "/apis/apps/v1/deployments", paths["Deployment.apps"])
	require.NotContains(t, paths, "Binding", "it cannot be listed")
	require.NotContains(t, paths, "Scale.autoscaling", "it is a subresource")
}

func TestServedWhileAnAggregatedAPIIsDown(t *testing.T) {
	t.Parallel()
	s := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/apis":
			answer(w, http.StatusOK, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList"}, Groups: []metav1.APIGroup{{
				Name: "metrics.example.com", PreferredVersion: metav1.GroupVersionForDiscovery{Version: "v1"},
			}}})
		case "/api/v1":
			answer(w, http.StatusOK, metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, APIResources: []metav1.APIResource{
				{Name: "pods", Kind: "Pod", Verbs: metav1.Verbs{"list", "watch"}},
			}})
		default:
			http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		}
	})
	served, down, err := s.open(t, kube.Config{}).Served(t.Context())
	require.NoError(t, err)
	require.Len(t, served, 1)
	require.Equal(t, map[string]bool{"metrics.example.com": true}, down)
}

// TestServedIsBounded: all kinds of a cluster are known by heart, whoever has made it.
func TestServedIsBounded(t *testing.T) {
	t.Parallel()
	for name, many := range map[string]struct{ groups, kinds int }{
		"groups":        {limits.ServedGroups, 0},
		"kinds":         {0, limits.ServedKinds + 1},
		"kinds of many": {10, limits.ServedKinds/10 + 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			groups := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList"}}
			for i := range many.groups {
				groups.Groups = append(groups.Groups, metav1.APIGroup{
					Name: fmt.Sprintf("g%d.example.com", i), PreferredVersion: metav1.GroupVersionForDiscovery{Version: "v1"},
				})
			}
			kinds := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}}
			for i := range many.kinds {
				kinds.APIResources = append(kinds.APIResources, metav1.APIResource{
					Name: fmt.Sprintf("k%d", i), Kind: fmt.Sprintf("K%d", i), Verbs: metav1.Verbs{"list", "watch"},
				})
			}
			s := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/apis" {
					answer(w, http.StatusOK, groups)
					return
				}
				answer(w, http.StatusOK, kinds)
			})
			_, _, err := s.open(t, kube.Config{}).Served(t.Context())
			require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
			require.Contains(t, fail.TextOf(err), "the cluster serves more than")
			if many.kinds == 0 {
				require.Equal(t, int64(1), s.requests.Load(), "none of them is asked about")
			}
		})
	}
}

func TestWatchErrors(t *testing.T) {
	t.Parallel()
	q := kube.Collection{Path: "/api/v1/pods", Page: 10}
	events := func(lines string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, lines)
		}
	}
	cases := map[string]struct {
		handle  http.HandlerFunc
		want    func(error) bool
		request time.Duration // 0: one that is not reached
	}{
		"ended by the server": {
			handle: events(`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}`),
			want:   func(err error) bool { return err == nil },
		},
		"expired under way": {
			handle: events(`{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}`),
			want:   func(err error) bool { return errors.Is(err, kube.ErrExpired) },
		},
		"cut off": {
			handle: events(`{"type":"ADDED","obj`),
			want: func(err error) bool {
				return fail.Is(err, fail.Unavailable) && !kube.IsAnswer(err) && !kube.IsBusy(err)
			},
		},
		"forbidden": {
			handle: func(w http.ResponseWriter, _ *http.Request) {
				answer(w, http.StatusForbidden, status(http.StatusForbidden, metav1.StatusReasonForbidden, "no", nil))
			},
			want: func(err error) bool { return fail.Is(err, fail.Forbidden) && kube.IsAnswer(err) },
		},
		"credentials refused": {
			handle: func(w http.ResponseWriter, _ *http.Request) {
				answer(w, http.StatusUnauthorized, status(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "no", nil))
			},
			want: func(err error) bool {
				return fail.Is(err, fail.Unavailable) && !kube.IsAnswer(err) && !kube.IsBusy(err)
			},
		},
		"left alone": {
			handle: func(w http.ResponseWriter, _ *http.Request) {
				answer(w, http.StatusTooManyRequests, status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "storage is (re)initializing", nil))
			},
			want: func(err error) bool {
				return fail.Is(err, fail.Unavailable) && !kube.IsAnswer(err) && kube.IsBusy(err)
			},
		},
		"never answered": {
			handle: hang, request: 300 * time.Millisecond,
			want: func(err error) bool { return fail.Is(err, fail.Timeout) && kube.IsBusy(err) },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, http2, tc.handle).open(t, kube.Config{Request: tc.request})
			err := c.Watch(t.Context(), q, "1", func(string, *kube.Event) error { return nil })
			require.True(t, tc.want(err), "%v", err)
		})
	}
}

// TestManyWatches opens more watches than a server takes requests on a connection: work goes on all the same.
func TestManyWatches(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]protocol{"HTTP/2": http2, "HTTP/1": http1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 300
			s := serve(t, p, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("watch") == "" {
					found(w)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprint(w, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}`)
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			})
			c := s.open(t, kube.Config{})
			require.NoError(t, c.Ping(t.Context()))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var open, ended sync.WaitGroup
			open.Add(n)
			for range n {
				ended.Go(func() {
					_ = c.Watch(ctx, kube.Collection{Path: "/api/v1/pods", Page: 1}, "1", func(string, *kube.Event) error {
						open.Done()
						return nil
					})
				})
			}
			open.Wait()
			require.NoError(t, c.Ping(t.Context()))
			if p == http2 {
				// A connection takes 250 requests; none is made for nothing.
				require.LessOrEqual(t, s.conns.Load(), int64(3))
			}
			cancel()
			ended.Wait()
		})
	}
}
