package restored_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/drover-io/drover/internal/restored"
)

// TestWatch: a watch is opened where the cluster has come as far, and where nobody can tell.
func TestWatch(t *testing.T) {
	t.Parallel()
	pods, failed := schema.GroupResource{Resource: "pods"}, errors.New("the line is dead")
	for name, c := range map[string]struct {
		from, at string
		err      error // of the list
		opens    bool
		lists    int
	}{
		"as it was":                   {from: "7", at: "7", opens: true, lists: 1},
		"further":                     {from: "7", at: "12", opens: true, lists: 1},
		"behind":                      {from: "12", at: "7", lists: 1},
		"from now on":                 {from: "", at: "7", opens: true},
		"from any time on":            {from: "0", at: "7", opens: true},
		"from what is no number":      {from: "x", at: "7", opens: true},
		"at what is no number":        {from: "7", at: "x", opens: true, lists: 1},
		"who may not list":            {from: "7", err: apierrors.NewForbidden(pods, "", nil), opens: true, lists: 1},
		"what has no list":            {from: "7", err: apierrors.NewMethodNotSupported(pods, "list"), opens: true, lists: 1},
		"a cluster without an answer": {from: "7", err: failed, lists: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lists, want := 0, watch.NewFake()
			opened, err := restored.Watch(func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
				lists++
				require.Equal(t, metav1.ListOptions{Limit: 1}, o)
				return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: c.at}}, c.err
			}, func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
				require.Equal(t, c.from, o.ResourceVersion)
				return want, nil
			})(t.Context(), metav1.ListOptions{ResourceVersion: c.from})
			require.Equal(t, c.lists, lists)
			switch {
			case c.opens:
				require.NoError(t, err)
				require.Same(t, want, opened)
			case c.err != nil:
				require.ErrorIs(t, err, failed)
			default:
				require.True(t, apierrors.IsResourceExpired(err), "%v", err)
			}
		})
	}
}
