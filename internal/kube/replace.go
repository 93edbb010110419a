package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
)

// What an object has for good no apply can change. Where the manifest has plan.ReplaceAnnotation, the object is deleted then, and made anew. All the while the
// resource is MarkSent: who goes on, be it another worker, applies it, waits as long as the object goes, and makes it when that has gone.

// replaced makes the object anew that the cluster has refused to change, where the manifest says so, the app has it, and the cluster would take a new one. An
// error is the refusal, and why it is not replaced, or what Outcome.Retry has.
func (w *write) replaced(ctx context.Context, gvk schema.GroupVersionKind, refused error) error {
	manifest, err := decodeObject(w.body)
	if err != nil || annotationOf(manifest, plan.ReplaceAnnotation) != "true" {
		return refused
	}
	if why := w.Resources[w.index].Irreplaceable(); why != "" {
		return unreplaced(refused, why)
	}
	var going *object
	err = whileChanged(ctx, func() (err error) {
		going, err = w.makeRoom(ctx, gvk, manifest, refused)
		return err
	})
	if err == nil && going != nil {
		err = w.awaitGone(ctx, going)
	}
	if err != nil {
		return err
	}
	return w.do(ctx)
}

// makeRoom deletes the object that is there, and gives it; nil when there is none.
func (w *write) makeRoom(ctx context.Context, gvk schema.GroupVersionKind, manifest map[string]any, refused error) (*object, error) {
	found, err := w.metadata(ctx, w.path)
	switch {
	case isAbsent(err):
		return nil, nil
	case err != nil:
		return nil, refusedOr(ctx, refused, err)
	case found.DeletionTimestamp != nil:
		return found, nil
	case !plan.SameContext(w.DeploymentID, found.Labels[plan.DeploymentLabel]):
		return nil, unreplaced(refused, fmt.Sprintf("it does not carry the label %s=%s", plan.DeploymentLabel, w.DeploymentID))
	case plan.IsKept(found.Annotations):
		return nil, unreplaced(refused, "it is annotated in the cluster with "+plan.KeepAnnotation+": "+plan.KeepPolicy)
	}
	if err := w.welcome(ctx, refused); err != nil {
		return nil, err
	}
	propagation, err := w.propagation(ctx, gvk, manifest, refused)
	if isAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	options, err := deleteOptions(propagation, metav1.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion})
	if err != nil {
		return nil, err
	}
	if w.BeforeReplace != nil {
		if err := w.BeforeReplace(ctx, w.index, textOf(refused)); err != nil {
			return nil, err
		}
	}
	_, err = w.send(ctx, request{
		method: http.MethodDelete, path: w.path, contentType: contentJSON, accept: metadataOnly, body: options, discard: true,
	}, func() {
		w.mark(w.index, domain.MarkSent, "it is deleted and made anew, as the cluster refuses to change it: "+textOf(refused))
	})
	switch message, final := refusal(ctx, err); {
	case isAbsent(err):
		return nil, nil
	case isDenied(answerOf(err)), final:
		return nil, unreplaced(refused, "its deletion is refused: "+message)
	default:
		return found, err
	}
}

// welcome is an error unless the cluster would take a new object: what it refuses of that, too, is no reason to delete the one that is there.
func (w *write) welcome(ctx context.Context, refused error) error {
	err := w.asNew(ctx, w.body, "Ignore")
	if a := answerOf(err); a != nil && a.ErrStatus.Reason == metav1.StatusReasonAlreadyExists {
		return nil // there is nothing else against it
	}
	if message, final := refusal(ctx, err); final {
		return unreplaced(refused, "a new one would be refused, too: "+message)
	}
	return err
}

// propagation says what becomes of what the object has made. The Pods of a StatefulSet stay for the next one, if that takes them for its own. Those of a Job
// end before the next one begins. An error is also the refusal, and why the object is not replaced: claims, or Pods that are to stay, would go.
func (w *write) propagation(ctx context.Context, gvk schema.GroupVersionKind, manifest map[string]any, refused error) (metav1.DeletionPropagation, error) {
	switch gvk.GroupKind() {
	case jobKind:
		return metav1.DeletePropagationForeground, nil
	case schema.GroupKind{Group: appsGroup, Kind: "StatefulSet"}:
		data, err := w.send(ctx, request{method: http.MethodGet, path: w.path, accept: contentJSON}, nil)
		if err != nil {
			return "", err
		}
		live, err := decodeObject(data)
		if err != nil {
			return "", notAnAPIServer(err)
		}
		spec := members(live, "spec")
		n, _ := spec["replicas"].(json.Number)
		switch same := reflect.DeepEqual(spec["selector"], members(manifest, "spec")["selector"]); {
		case !same && members(spec, "persistentVolumeClaimRetentionPolicy")["whenDeleted"] == "Delete":
			return "", unreplaced(refused, "its claims would go with it, by persistentVolumeClaimRetentionPolicy.whenDeleted")
		case same && !plan.SaysReplicas(w.body) && n != "" && n != "0" && n != "1":
			return "", unreplaced(refused, fmt.Sprintf("it has %s Pods, and a new one begins with 1 where its manifest does not say spec.replicas: say that for this update", n))
		case same:
			return metav1.DeletePropagationOrphan, nil
		}
	}
	return metav1.DeletePropagationBackground, nil
}

// awaitGone waits for an object that is being deleted, up to Config.StageWait. The error is that it is still there then, and to be waited for by the next try.
func (w *write) awaitGone(ctx context.Context, going *object) error {
	look := pause.Backoff{First: policy.FirstGone, Most: policy.LongestGone}
	for deadline := time.Now().Add(w.config.StageWait); ; {
		found, err := w.metadata(ctx, w.path)
		switch {
		case isAbsent(err), err == nil && found.UID != going.UID:
			return nil
		case err != nil:
			return err
		case time.Now().After(deadline):
			return w.leaves(ctx, found)
		}
		if err := look.Wait(ctx); err != nil {
			return err
		}
	}
}

// unreplaced is a refusal, and why the object is left as it is.
func unreplaced(refused error, why string) error {
	return fail.Wrap(refused, fail.Invalid, "%s; %s: %s", textOf(refused), plan.NotReplaced, why)
}

// textOf is what a cluster has said of what it refuses.
func textOf(refused error) string { return fail.TextOf(kindOf(refused)) }
