package kube

import (
	"context"
	"encoding/json"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/plan"
)

// Serves says whether the cluster has the kind, in the version given. Once it has, it is not asked again.
func (c *Cluster) Serves(ctx context.Context, id plan.ResourceID) (bool, error) {
	_, err := c.kinds.locate(ctx, gvkOf(id))
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, kindOf(err)
}

// Object gets one object, in another version where the cluster does not serve the one that is asked for any more; nil when it, or its kind, is
// not in the cluster.
func (c *Cluster) Object(ctx context.Context, id plan.ResourceID) (json.RawMessage, error) {
	r := c.begin(Job{Resources: []plan.Resource{{ResourceID: id}}})
	var body []byte
	err := c.kinds.anywhere(ctx, gvkOf(id), func(gv schema.GroupVersion, m mapped) error {
		path, _, err := r.place(gv, m, 0)
		if err != nil {
			return err
		}
		body, err = r.send(ctx, request{method: http.MethodGet, path: path, accept: contentJSON}, nil)
		return err
	})
	if isAbsent(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	return body, kindOf(err)
}
