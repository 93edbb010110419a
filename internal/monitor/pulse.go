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
	"github.com/drover-io/drover/internal/lasting"
	"github.com/drover-io/drover/internal/pause"
)

// How often the Lease is renewed, and how soon it is looked again whether it can be.
var (
	renewEvery = bundle.LeaseRenewal
	lookFit    = time.Second
)

// A renewal has renewTime, and one that has failed is tried again after renewAgain: a single one that gets no answer, or some that are
// refused, do not have the Lease run out.
const (
	renewTime  = bundle.LeaseRenewal
	renewAgain = 2 * time.Second
)

// pulse renews the Lease as long as what the agent has written can be relied on: the control plane goes by the Lease alone.
type pulse struct {
	client    client.Client
	log       *slog.Logger
	namespace string
	now       func() time.Time
	fitness   *fitness
}

// Start renews until ctx ends. It implements manager.Runnable.
func (p *pulse) Start(ctx context.Context) error {
	holder, err := os.Hostname()
	if err != nil {
		return err
	}
	var stale, failing lasting.Trouble // it may not be renewed, and cannot be
	renewed := false
	unfit := time.Time{} // since when; zero for not
	for wait := renewEvery; ; wait = renewEvery {
		if lacks := p.fitness.lacks(); lacks != "" {
			if unfit.IsZero() {
				unfit = p.now()
			}
			if (renewed || p.now().Sub(unfit) > unheardAfter) && stale.Begins("") { // at the start it takes some time
				p.log.Warn("lease is not renewed: what is reported may be old", "namespace", p.namespace, "reason", lacks)
			}
			wait = lookFit
		} else {
			renewed, unfit = true, time.Time{}
			switch err := p.renew(ctx, holder); {
			case err == nil:
				if paused, failed := stale.Ends(), failing.Ends(); paused || failed {
					p.log.Info("lease is renewed again", "namespace", p.namespace)
				}
			case ctx.Err() == nil:
				if failing.Begins(err.Error()) {
					p.log.Warn("lease cannot be renewed, which is tried again and again", "namespace", p.namespace, "error", err)
				}
				wait = min(renewAgain, renewEvery)
			}
		}
		if err := pause.For(ctx, wait); err != nil {
			return nil //nolint:nilerr // the end of ctx is no failure
		}
	}
}

func (p *pulse) renew(ctx context.Context, holder string) error {
	ctx, cancel := context.WithTimeout(ctx, renewTime)
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
