package kube_test

import (
	"net/http"
	"path"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
)

// TestPruneOfANamespaceWhoseObjectsCannotBeSeen: what goes on after a stage that fails deletes no namespace, as something in it may be to be kept.
func TestPruneOfANamespaceWhoseObjectsCannotBeSeen(t *testing.T) {
	t.Parallel()
	for fails, tc := range map[string]string{http.MethodGet: "1d1r1D", http.MethodDelete: "1D1r1D"} {
		s := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case path.Base(r.URL.Path) == "a" && r.Method == fails:
				answer(w, http.StatusInternalServerError, status(500, metav1.StatusReasonInternalError, "no endpoints", nil))
			case r.Method == http.MethodDelete:
				answer(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"}})
			default:
				found(w)
			}
		})
		resources := kubetest.Resources(t, false, `
apiVersion: v1
kind: Namespace
metadata: {name: ns}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: ns}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: b, namespace: elsewhere}
`)
		for i := range resources {
			resources[i].Stage = min(i, 1)
		}
		j, watcher := job(resources, domain.MarkDoomed)
		j.Marks = domain.Marks("drd")
		j.Prunes, j.Failing = true, time.Now().Add(-time.Hour)
		copy(watcher.Marks, j.Marks)
		outcome := s.open(t, kube.Config{}).Delete(t.Context(), j)
		require.Equal(t, "ConfigMap a: no endpoints", fail.TextOf(outcome.Retry), fails)
		require.Equal(t, tc, watcher.Marks.Encode(), "what cannot be deleted alone, is known not to be kept: %s", fails)
	}
}

// TestANamespaceWhoseVolumesMayNotBeSeen goes, as it does where there are none; where the cluster cannot say, it is asked again.
func TestANamespaceWhoseVolumesMayNotBeSeen(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]domain.Mark{
		http.StatusForbidden: domain.MarkDeleted, http.StatusNotFound: domain.MarkDeleted, http.StatusInternalServerError: domain.MarkDoomed,
	} {
		s := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case path.Base(r.URL.Path) == "persistentvolumeclaims":
				answer(w, code, status(int32(code), metav1.StatusReasonUnknown, "no", nil))
			case r.Method == http.MethodDelete:
				answer(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"}})
			default:
				found(w)
			}
		})
		j, watcher := job(kubetest.Resources(t, false, `{apiVersion: v1, kind: Namespace, metadata: {name: ns}}`), domain.MarkDoomed)
		outcome := s.open(t, kube.Config{}).Delete(t.Context(), j)
		require.Equal(t, want, watcher.Marks[0], code)
		require.Equal(t, want != domain.MarkDeleted, outcome.Retry != nil, "%d: %v", code, outcome.Retry)
	}
}
