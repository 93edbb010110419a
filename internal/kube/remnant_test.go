package kube_test

import (
	"maps"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/plan"
)

// TestSweepOfWhatChanges: that an object is changed again and again, or is still there after the last look, is not forgotten.
func TestSweepOfWhatChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code    int
		deleted int
		want    string
	}{
		"it is changed before its deletion arrives":   {http.StatusConflict, 0, "the cluster does not delete it as it was found: the object has been modified"},
		"its deletion is accepted, and does not come": {http.StatusOK, 1, "its deletion was accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan string, 1)
			s := serveAll(t, http2, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodDelete {
					select {
					case asked <- bodyOf(r):
					default: // the first one is enough
					}
				}
				switch {
				case r.Method == http.MethodDelete && c.code == http.StatusConflict:
					answer(w, c.code, status(http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified", nil))
				case r.Method == http.MethodDelete:
					answer(w, c.code, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"})
				case path.Base(r.URL.Path) == "configmaps":
					answer(w, http.StatusOK, map[string]any{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "items": []any{
						map[string]any{"metadata": map[string]any{
							"name": "a", "namespace": "ns", "uid": "1", "resourceVersion": "7", "managedFields": []any{map[string]any{"manager": kube.FieldManager}},
						}},
					}})
				case strings.HasPrefix(r.URL.Path, "/apis"):
					answer(w, http.StatusOK, map[string]any{"kind": "APIGroupList", "apiVersion": "v1"})
				default:
					http.NotFound(w, r)
				}
			})
			cluster := s.open(t, kube.Config{})
			deleted, left, err := cluster.Sweep(t.Context(), kube.Remnants{
				Deployments: []string{"1-app"}, Places: []plan.ResourceID{{Version: "v1", Kind: "ConfigMap", Namespace: "ns"}},
			})
			require.NoError(t, err)
			require.Len(t, deleted, c.deleted)
			require.Len(t, left, 1)
			require.Equal(t, c.want, left[0].Why)
			require.True(t, left[0].Going)
			require.JSONEq(t, `{
				"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "1", "resourceVersion": "7"}, "propagationPolicy": "Background"
			}`, <-asked, "the object as it was found: who has taken it over has changed it")
		})
	}
}

// TestSweepDeletesSeveralAtATime: a cluster far away has a bound in time for all that is found there, not one for each of them.
func TestSweepDeletesSeveralAtATime(t *testing.T) {
	t.Parallel()
	const parallel = 3
	var at atomic.Int64
	together := make(chan struct{})
	s := serveAll(t, http2, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodDelete:
			if at.Add(1) == parallel {
				close(together)
			}
			select {
			case <-together:
				answer(w, http.StatusOK, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"})
			case <-r.Context().Done():
			}
		case path.Base(r.URL.Path) == "configmaps":
			var items []any
			for _, name := range []string{"a", "b", "c"}[min(at.Load(), parallel):] {
				items = append(items, map[string]any{"metadata": map[string]any{
					"name": name, "namespace": "ns", "uid": name, "resourceVersion": "7", "managedFields": []any{map[string]any{"manager": kube.FieldManager}},
				}})
			}
			answer(w, http.StatusOK, map[string]any{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "items": items})
		default:
			answer(w, http.StatusOK, map[string]any{"kind": "APIGroupList", "apiVersion": "v1"})
		}
	})
	deleted, left, err := s.open(t, kube.Config{Parallel: parallel, Request: 5 * time.Second}).Sweep(t.Context(), kube.Remnants{
		Deployments: []string{"1-app"}, Places: []plan.ResourceID{{Version: "v1", Kind: "ConfigMap", Namespace: "ns"}},
	})
	require.NoError(t, err, "each waits for the others")
	require.Len(t, deleted, parallel)
	require.Empty(t, left)
}

// TestSweepOfWhatCannotBeListed: a kind that the cluster cannot list, and an object that it cannot delete, hide nothing else.
func TestSweepOfWhatCannotBeListed(t *testing.T) {
	t.Parallel()
	const broken = "conversion webhook failed: no endpoints"
	for name, c := range map[string]struct {
		fails string // what is answered with 500
		goes  []string
	}{
		"a kind":       {"GET configmaps", []string{"s"}}, // one may be to be kept in the namespace
		"namespaces":   {"GET namespaces", []string{"a", "s"}},
		"an object":    {"DELETE a", []string{"ns", "s"}},
		"a namespace":  {"DELETE ns", []string{"a", "s"}},
		"nothing else": {"", []string{"a", "ns", "s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
				last := path.Base(r.URL.Path)
				names := map[string]string{"namespaces": "ns", "configmaps": "a", "secrets": "s"}
				switch {
				case r.Method+" "+last == c.fails:
					answer(w, http.StatusInternalServerError, status(500, metav1.StatusReasonInternalError, broken, nil))
				case r.Method == http.MethodDelete:
					answer(w, http.StatusOK, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"})
				case names[last] != "":
					answer(w, http.StatusOK, map[string]any{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "items": []any{
						map[string]any{"metadata": map[string]any{
							"name": names[last], "uid": "1", "resourceVersion": "7", "managedFields": []any{map[string]any{"manager": kube.FieldManager}},
						}},
					}})
				case strings.HasPrefix(r.URL.Path, "/apis"):
					answer(w, http.StatusOK, map[string]any{"kind": "APIGroupList", "apiVersion": "v1"})
				default:
					http.NotFound(w, r)
				}
			})
			deleted, _, err := s.open(t, kube.Config{}).Sweep(t.Context(), kube.Remnants{
				Namespaces: true, Deployments: []string{"1-app"}, Places: []plan.ResourceID{
					{Version: "v1", Kind: "ConfigMap", Namespace: "ns"}, {Version: "v1", Kind: "Namespace"}, {Version: "v1", Kind: "Secret", Namespace: "ns"},
				},
			})
			var went []string
			for _, id := range deleted {
				went = append(went, id.Name)
			}
			require.ElementsMatch(t, c.goes, went)
			if c.fails == "" {
				require.NoError(t, err)
				return
			}
			require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
			require.Equal(t, broken, fail.TextOf(err))
		})
	}
}

// TestSweepOfANamespaceWithWhatMayBeKept: it stays where something in it is to be kept, whoever owns that, and where nobody may see whether.
func TestSweepOfANamespaceWithWhatMayBeKept(t *testing.T) {
	t.Parallel()
	keep := map[string]any{"helm.sh/resource-policy": "keep"}
	drover := []any{map[string]any{"manager": kube.FieldManager}}
	for name, c := range map[string]struct {
		claim map[string]any // metadata
		codes map[string]int // of lists, by resource
		stays bool
	}{
		"its controller's": {claim: map[string]any{
			"annotations": keep, "managedFields": drover, "ownerReferences": []any{map[string]any{"kind": "Database", "name": "d", "uid": "7", "controller": true}},
		}, stays: true},
		"made by another manager":        {claim: map[string]any{"annotations": keep}, stays: true},
		"that goes already":              {claim: map[string]any{"annotations": keep, "managedFields": drover, "deletionTimestamp": "2026-11-22T09:30:00Z"}},
		"that may not be listed":         {codes: map[string]int{"persistentvolumeclaims": http.StatusForbidden}, stays: true},
		"of a kind that has no list":     {codes: map[string]int{"persistentvolumeclaims": http.StatusMethodNotAllowed}},
		"that may not be listed, not in": {codes: map[string]int{"clusterroles": http.StatusForbidden}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
				list := func(metadata ...map[string]any) {
					items := []any{}
					for _, m := range metadata {
						m["uid"], m["resourceVersion"] = "1", "7"
						items = append(items, map[string]any{"metadata": m})
					}
					answer(w, http.StatusOK, map[string]any{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "items": items})
				}
				switch resource := path.Base(r.URL.Path); {
				case r.Method == http.MethodDelete:
					answer(w, http.StatusOK, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"})
				case c.codes[resource] != 0:
					answer(w, c.codes[resource], status(int32(c.codes[resource]), metav1.StatusReasonForbidden, "you may not", nil))
				case resource == "namespaces":
					list(map[string]any{"name": "ns", "managedFields": drover})
				case resource == "persistentvolumeclaims" && c.claim != nil:
					m := maps.Clone(c.claim)
					m["name"], m["namespace"] = "data", "ns"
					list(m)
				case resource == "persistentvolumeclaims", resource == "clusterroles":
					list()
				case strings.HasPrefix(r.URL.Path, "/apis"):
					answer(w, http.StatusOK, map[string]any{"kind": "APIGroupList", "apiVersion": "v1"})
				default:
					http.NotFound(w, r)
				}
			})
			deleted, left, err := s.open(t, kube.Config{}).Sweep(t.Context(), kube.Remnants{
				Namespaces: true, Deployments: []string{"1-app"}, Places: []plan.ResourceID{
					{Version: "v1", Kind: "PersistentVolumeClaim", Namespace: "ns"}, {Version: "v1", Kind: "Namespace", Namespace: "ns"},
					{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole", Namespace: "ns"},
				},
			})
			require.NoError(t, err, "a look that may not see ends, too")
			require.Equal(t, c.stays, len(deleted) == 0, "%v", deleted)
			if c.stays {
				require.Empty(t, left, "it is to stay")
			}
		})
	}
}
