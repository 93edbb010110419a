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
)

// LeaseName is the Lease in the agent's namespace that says until when the agent was alive: a status does not
// change when nothing happens, nor when the agent is gone. It is renewed every LeaseRenewal and, where nobody
// renews it for LeaseDuration, statuses in that cluster are old.
const (
	LeaseName     = "drover-monitor"
	LeaseRenewal  = 10 * time.Second
	LeaseDuration = 30 * time.Second
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
		if !wait(ctx, LeaseRenewal) {
			return nil
		}
	}
}

func (p *pulse) renew(ctx context.Context, holder string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	gvk := schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": gvk.Kind,
		"metadata": map[string]any{"name": LeaseName, "namespace": p.namespace},
		"spec": map[string]any{
			"holderIdentity": holder, "leaseDurationSeconds": int(LeaseDuration.Seconds()), "renewTime": metav1.NewMicroTime(p.now()),
		},
	})
	if err != nil {
		return err
	}
	lease := &metav1.PartialObjectMetadata{}
	lease.SetGroupVersionKind(gvk)
	lease.Namespace, lease.Name = p.namespace, LeaseName
	return p.client.Patch(ctx, lease, client.RawPatch(types.ApplyPatchType, body), client.FieldOwner(fieldManager), client.ForceOwnership)
}
