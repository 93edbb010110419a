package monitor

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/pause"
)

// pulse renews the Lease.
type pulse struct {
	client    client.Client
	log       *slog.Logger
	namespace string
	now       func() time.Time
}

// Start renews until ctx ends. It implements manager.Runnable.
func (p *pulse) Start(ctx context.Context) error {
	holder, err := os.Hostname()
	if err != nil {
		return err
	}
	for {
		if err := p.renew(ctx, holder); err != nil && ctx.Err() == nil {
			p.log.Warn("lease cannot be renewed", "namespace", p.namespace, "error", err)
		}
		if err := pause.For(ctx, bundle.LeaseRenewal); err != nil {
			return nil //nolint:nilerr // the end of ctx is no failure
		}
	}
}

func (p *pulse) renew(ctx context.Context, holder string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	gvk := schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": gvk.Kind,
		"metadata": map[string]any{"name": bundle.LeaseName, "namespace": p.namespace},
		"spec": map[string]any{
			"holderIdentity": holder, "leaseDurationSeconds": int(bundle.LeaseDuration.Seconds()), "renewTime": metav1.NewMicroTime(p.now()),
		},
	})
	if err != nil {
		return err
	}
	lease := &metav1.PartialObjectMetadata{}
	lease.SetGroupVersionKind(gvk)
	lease.Namespace, lease.Name = p.namespace, bundle.LeaseName
	return p.client.Patch(ctx, lease, client.RawPatch(types.ApplyPatchType, body), client.FieldOwner(fieldManager), client.ForceOwnership)
}
