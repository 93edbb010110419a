package observe

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/kube"
)

const definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// errEstablished ends the wait for a definition.
var errEstablished = errors.New("the definition is there")

// awaitDefinition waits until the cluster has the ResourceBundleState CRD, and says whether it has come meanwhile. One that was
// there from the beginning is there without our version, so that nothing will be served in a moment.
func (w *Watcher) awaitDefinition(ctx context.Context) (came bool) {
	c, err := w.config.Clusters.Get(ctx, w.config.Cluster)
	if err != nil {
		return false
	}
	f := &feed{
		Collection: kube.Collection{Path: definitionsPath, Fields: "metadata.name=" + bundle.Resource + "." + bundle.Group, Page: 1},
		follower:   awaited{},
	}
	if f.sync(ctx, c) != nil {
		return false
	}
	return errors.Is(f.follow(ctx, c), errEstablished)
}

// awaited is the follower of one definition.
type awaited struct{}

func (awaited) put(object json.RawMessage) error {
	var o struct {
		Status struct {
			Conditions []struct{ Type, Status string } `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(object, &o); err != nil {
		return unreadable(err)
	}
	for _, c := range o.Status.Conditions {
		if c.Type == "Established" && c.Status == "True" {
			return errEstablished
		}
	}
	return nil
}

func (awaited) remove(json.RawMessage) error { return nil }
func (awaited) begin()                       {}
func (awaited) end()                         {}
