// Package restored has informers notice that their cluster was restored from a backup.
package restored

import (
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Lister lists a collection for an informer.
type Lister func(context.Context, metav1.ListOptions) (runtime.Object, error)

// Opener opens a watch for an informer.
type Opener func(context.Context, metav1.ListOptions) (watch.Interface, error)

// Watch is open, of the collection that list lists, but for a version that is still to come: an API server takes a watch from there, says nothing of what
// happens until then, and does not say that it has never come so far. So the collection is asked for its version first, by a list of one object. Where it
// is behind, the error is that of a version that has expired, after which an informer lists anew. Who may not list is not asked.
func Watch(list Lister, open Opener) Opener {
	return func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		if from := number(o.ResourceVersion); from > 0 {
			now, err := version(ctx, list)
			switch {
			case apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err):
			case err != nil:
				return nil, err
			case now > 0 && now < from:
				return nil, apierrors.NewResourceExpired(fmt.Sprintf("the cluster is at version %d, behind %d: it was restored from a backup", now, from))
			}
		}
		return open(ctx, o)
	}
}

// version is that of the collection as it is now, 0 for one that cannot be compared.
func version(ctx context.Context, list Lister) (uint64, error) {
	page, err := list(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	l, err := meta.ListAccessor(page)
	if err != nil {
		return 0, err
	}
	return number(l.GetResourceVersion()), nil
}

// number is a version as API servers have them; 0 for another one.
func number(version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
