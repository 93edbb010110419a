package kube

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
)

// TestWhatAClusterSaysOfItsKindsIsBounded: what is kept of it is no more than any cluster serves, whatever it says in how many answers, and it is not
// asked for versions without number.
func TestWhatAClusterSaysOfItsKindsIsBounded(t *testing.T) {
	kinds := limits.ServedKinds / 2
	asked := 0
	k := newKinds(func(_ context.Context, path string) ([]byte, error) {
		asked++
		var b strings.Builder
		if path == "/apis" {
			for i := range limits.ServedVersions + 1 {
				fmt.Fprintf(&b, `{"version":"v%d"},`, i+2)
			}
			return []byte(`{"kind":"APIGroupList","groups":[{"name":"g","versions":[` + strings.TrimSuffix(b.String(), ",") + `]}]}`), nil
		}
		for i := range kinds {
			fmt.Fprintf(&b, `{"name":"n%[1]d","kind":"K%[1]d"},`, i)
		}
		return []byte(`{"kind":"APIResourceList","resources":[` + strings.TrimSuffix(b.String(), ",") + `]}`), nil
	}, time.Minute)
	for i := range 10 {
		_, err := k.locate(t.Context(), schema.GroupVersionKind{Group: fmt.Sprint("g", i), Version: "v1", Kind: "K7"})
		require.NoError(t, err)
		kept := 0
		for _, l := range k.served {
			kept += len(l.kinds)
		}
		require.LessOrEqual(t, kept, limits.ServedKinds)
	}
	require.Equal(t, 10, asked)
	_, _, err := k.elsewhere(t.Context(), schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Other"})
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	require.Equal(t, 11, asked)
	kinds = limits.ServedKinds + 1
	_, err = k.locate(t.Context(), schema.GroupVersionKind{Group: "large", Version: "v1", Kind: "K7"})
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
}

// TestKindsThatHaveMoved: what Kubernetes serves by another group now is the same object.
func TestKindsThatHaveMoved(t *testing.T) {
	t.Parallel()
	k := newKinds(func(_ context.Context, path string) ([]byte, error) {
		switch path {
		case "/apis":
			return []byte(`{"kind":"APIGroupList","groups":[{"name":"networking.k8s.io","versions":[{"version":"v1"}],"preferredVersion":{"version":"v1"}}]}`), nil
		case "/apis/networking.k8s.io/v1":
			return []byte(`{"kind":"APIResourceList","resources":[{"name":"ingresses","kind":"Ingress","namespaced":true}]}`), nil
		default:
			return nil, apierrors.NewGenericServerResponse(404, "GET", schema.GroupResource{}, "", "", 0, false)
		}
	}, time.Minute)
	for kind, group := range map[string]string{"Ingress": "networking.k8s.io", "Deployment": "", "Other": ""} {
		gv, m, err := k.elsewhere(t.Context(), schema.GroupVersionKind{Group: "extensions", Version: "v1beta1", Kind: kind})
		if group == "" {
			require.True(t, meta.IsNoMatchError(err), "%v", err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, schema.GroupVersion{Group: group, Version: "v1"}, gv)
		require.Equal(t, mapped{"ingresses", true}, m)
	}
}
