package kube_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
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
	kubeconfig := kubetest.Kubeconfig(t)
	client, group := kubetest.Dynamic(t, kubeconfig), kubetest.Name("group")+".example.com"
	defined := []schema.GroupVersionResource{kubetest.Widgets(t, client, group, false), kubetest.OneVersion(t, client, group, "v1alpha1", "Gadget")}
	t.Cleanup(func() {
		for _, d := range defined {
			kubetest.Undefine(t, client, d)
		}
	})
	served, down, err := kubetest.Open(t, kube.Config{}, kubeconfig).Served(t.Context())
	require.NoError(t, err)
	require.Empty(t, down)
	require.True(t, slices.IsSortedFunc(served, func(a, b kube.Served) int { return strings.Compare(a.Group+"/"+a.Kind, b.Group+"/"+b.Kind) }))
	paths := map[string]string{}
	for _, s := range served {
		require.NotContains(t, paths, s.GroupKind().String())
		paths[s.GroupKind().String()] = s.Path
	}
	require.Equal(t, "/apis/"+group+"/v2/widgets", paths["Widget."+group], "the preferred version")
	require.Equal(t, "/apis/"+group+"/v1alpha1/gadgets", paths["Gadget."+group], "the preferred version of the group has no such kind")
	require.Equal(t, "/api/v1/pods", paths["Pod"])
	require.Equal(t, "/apis/apps/v1/deployments", paths["Deployment.apps"])
	require.NotContains(t, paths, "Binding", "it cannot be listed")
	require.NotContains(t, paths, "Scale.autoscaling", "it is a subresource")
}

// TestServedWhileAGroupIsDown: whatever an aggregated API says, or does not, the others' kinds are known as long as the API server answers.
func TestServedWhileAGroupIsDown(t *testing.T) {
	t.Parallel()
	list := func(w http.ResponseWriter, kinds ...string) {
		l := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}}
		for _, k := range kinds {
			l.APIResources = append(l.APIResources, metav1.APIResource{Name: strings.ToLower(k) + "s", Kind: k, Verbs: metav1.Verbs{"list", "watch"}})
		}
		answer(w, http.StatusOK, l)
	}
	cases := map[string]struct {
		v1, version http.HandlerFunc
		want        fail.Kind
		kinds       int
	}{
		"is not available": {v1: func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		}, kinds: 2},
		"wants to be left alone": {v1: func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusTooManyRequests, status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "no", &metav1.StatusDetails{RetryAfterSeconds: 1}))
		}, kinds: 2},
		"does not know the API server": {v1: func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusUnauthorized, status(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "no", nil))
		}, kinds: 2},
		"is no API":                  {v1: func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "hello") }, kinds: 1},
		"hangs":                      {v1: hang, kinds: 1},
		"hangs, as does the cluster": {v1: hang, version: hang, want: fail.Timeout},
		"is busy, as is the cluster": {
			v1: func(w http.ResponseWriter, _ *http.Request) {
				answer(w, http.StatusTooManyRequests, status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "no", nil))
			},
			version: func(w http.ResponseWriter, _ *http.Request) {
				answer(w, http.StatusTooManyRequests, status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "no", nil))
			},
			want: fail.Unavailable,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/apis":
					answer(w, http.StatusOK, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList"}, Groups: []metav1.APIGroup{{
						Name: "metrics.example.com", PreferredVersion: metav1.GroupVersionForDiscovery{Version: "v1"},
						Versions: []metav1.GroupVersionForDiscovery{{Version: "v1"}, {Version: "v1alpha1"}},
					}}})
				case "/api/v1":
					list(w, "Pod")
				case "/apis/metrics.example.com/v1":
					tc.v1(w, r)
				case "/version":
					if tc.version != nil {
						tc.version(w, r)
						return
					}
					answer(w, http.StatusOK, map[string]string{"gitVersion": "v1.36.0"})
				default:
					list(w, "Metric")
				}
			})
			served, down, err := s.open(t, kube.Config{Request: 300 * time.Millisecond}).Served(t.Context())
			if tc.want != "" {
				require.True(t, fail.Is(err, tc.want), "%v", err)
				return
			}
			require.NoError(t, err)
			require.Len(t, served, tc.kinds)
			require.Equal(t, map[string]bool{"metrics.example.com": true}, down)
		})
	}
}

// TestServedIsBounded: all kinds of a cluster are known by heart, whoever has made it.
func TestServedIsBounded(t *testing.T) {
	t.Parallel()
	for name, many := range map[string]struct{ groups, versions, kinds int }{
		"groups":        {limits.ServedGroups + 1, 1, 0},
		"versions":      {limits.ServedGroups/limits.ServedVersions + 1, limits.ServedVersions, 0},
		"kinds":         {0, 1, limits.ServedKinds + 1},
		"kinds of many": {10, 1, limits.ServedKinds/10 + 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			groups := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList"}}
			for i := range many.groups {
				group := metav1.APIGroup{Name: fmt.Sprintf("g%d.example.com", i), PreferredVersion: metav1.GroupVersionForDiscovery{Version: "v1"}}
				for v := range many.versions {
					group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{Version: fmt.Sprintf("v%d", v+1)})
				}
				groups.Groups = append(groups.Groups, group)
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

// TestPagesOfAList: a list whose pages have no end is given up, however few objects are asked for at a time; one that has fewer on a page
// than were asked for is read.
func TestPagesOfAList(t *testing.T) {
	t.Parallel()
	const all = 3000
	for name, tc := range map[string]struct {
		page, onEach int
		want         int // objects; 0 when the list is given up
	}{
		"nothing on each":           {page: 10},
		"nothing on each large one": {page: 500},
		"one on each":               {page: 10, onEach: 1},
		"one was asked for":         {page: 1, onEach: 1, want: all},
		"fewer than asked for":      {page: 500, onEach: 20, want: all},
		"more than asked for":       {page: 10, onEach: all, want: all},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
				from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
				meta := map[string]any{"resourceVersion": "7"}
				if from+tc.onEach < all {
					meta["continue"] = strconv.Itoa(from + tc.onEach)
				}
				items := make([]map[string]any, tc.onEach)
				for i := range items {
					items[i] = map[string]any{"metadata": map[string]any{"name": strconv.Itoa(from + i)}}
				}
				answer(w, http.StatusOK, map[string]any{"kind": "List", "metadata": meta, "items": items})
			})
			objects := 0
			_, err := s.open(t, kube.Config{}).List(t.Context(), kube.Collection{Path: "/api/v1/configmaps", Page: tc.page}, func(json.RawMessage) error {
				objects++
				return nil
			})
			if tc.want == 0 {
				require.ErrorContains(t, err, "not an API server")
				require.Less(t, s.requests.Load(), int64(250))
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, objects)
		})
	}
}
