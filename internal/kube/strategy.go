package kube

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
)

// A Deployment, or a StatefulSet, that rolls has how it does so filled in by the cluster, as nobody's field. That stays when a manifest with another
// strategy is applied, and the cluster refuses the two together. A null in what is applied takes nothing away (tried). So it is with a CRD that converts its
// objects by a webhook no more.

// strategyManager changes a strategy where no apply can. It owns the type that it has set until the next apply, see disown.
const strategyManager = FieldManager + "-strategy"

// One of these is in the metadata of an object in which strategyManager, or nobody who is known, owns something.
var strategyMember, untrackedMember = []byte(`"` + strategyManager + `"`), []byte(`"` + untracked + `"`)

// notRolling sends a resource once more that the cluster has refused for nothing but how it rolls, where its manifest has another strategy and no
// word of that. First the strategy is changed, and what belongs to the one before is taken away, in one step, so that there is no
// time at which it rolls otherwise than somebody has said. Should the cluster then refuse the rest, for what it looks at later (a webhook, say), the new
// strategy is there with the old template: nothing is replaced by that.
func (w *write) notRolling(ctx context.Context, refused error) error {
	object, err := decodeObject(w.body)
	if err != nil {
		return refused
	}
	name, strategy := strategyOf(object)
	if strategy == nil || !isOnly(refused, "spec."+name+".rollingUpdate") {
		return refused
	}
	if !w.patchable(w.rights) { // a PUT takes it away by a null, for which nothing is filled in from the object that is there
		strategy["rollingUpdate"] = nil
		if w.body, err = json.Marshal(object); err != nil {
			return refused
		}
		return w.do(ctx)
	}
	return w.afterwards(ctx, refused, map[string]any{name: map[string]any{"type": strategy["type"], "rollingUpdate": nil}})
}

// unconverted sends a CRD once more that the cluster has refused for nothing but the webhook that converts its objects, where its manifest has none any more:
// others have put something there, as cert-manager does with caBundle, which stays when the rest goes. The way to convert is changed first, as in notRolling.
func (w *write) unconverted(ctx context.Context, refused error) error {
	object, err := decodeObject(w.body)
	if err != nil || !isOnly(refused, "spec.conversion.strategy", "spec.conversion.webhookClientConfig", "spec.conversion.conversionReviewVersions") { // as API servers call them among themselves
		return refused
	}
	conversion := members(members(object, "spec"), "conversion")
	if strategy, said := conversion["strategy"]; said && strategy != "None" || conversion["webhook"] != nil {
		return refused
	}
	found, err := w.metadata(ctx, w.path)
	if err != nil {
		return refusedOr(ctx, refused, err)
	}
	if !plan.SameContext(w.DeploymentID, found.Labels[plan.DeploymentLabel]) {
		return fail.Wrap(refused, fail.Invalid, "%s; its webhook stays, as it may convert others' objects: it does not carry the label %s=%s",
			textOf(refused), plan.DeploymentLabel, w.DeploymentID)
	}
	none := map[string]any{"strategy": "None", "webhook": nil}
	if !w.patchable(w.rights) {
		members(object, "spec")["conversion"] = none
		if w.body, err = json.Marshal(object); err != nil {
			return refused
		}
		return w.do(ctx)
	}
	return w.afterwards(ctx, refused, map[string]any{"conversion": none})
}

// afterwards sends a resource once more that the cluster has refused, when its spec has been changed.
func (w *write) afterwards(ctx context.Context, refused error, spec map[string]any) error {
	if err := whileChanged(ctx, func() error { return w.change(ctx, spec) }); err != nil {
		return refusedOr(ctx, refused, err)
	}
	return w.do(ctx)
}

// strategyOf is the strategy of an object that is not to roll, and says nothing of how it would; nil of any other.
func strategyOf(object map[string]any) (name string, strategy map[string]any) {
	spec, _ := object["spec"].(map[string]any)
	for _, name := range []string{"strategy", "updateStrategy"} {
		strategy, _ := spec[name].(map[string]any)
		kind, _ := strategy["type"].(string)
		if kind != "" && kind != "RollingUpdate" && strategy["rollingUpdate"] == nil {
			return name, strategy
		}
	}
	return "", nil
}

// isOnly says whether an answer is about some of the fields, and about no other.
func isOnly(err error, fields ...string) bool {
	a := answerOf(err)
	return a != nil && a.ErrStatus.Details != nil && len(a.ErrStatus.Details.Causes) > 0 &&
		!slices.ContainsFunc(a.ErrStatus.Details.Causes, func(c metav1.StatusCause) bool { return !slices.Contains(fields, c.Field) })
}

// change merges something into the spec of the object that is there.
func (w *write) change(ctx context.Context, spec map[string]any) error {
	found, err := w.metadata(ctx, w.path)
	if err != nil {
		return err
	}
	if found.DeletionTimestamp != nil { // it goes, and is made anew
		return w.leaves(ctx, found)
	}
	return w.merge(ctx, found, map[string]any{"spec": spec})
}

// disown has strategyManager own nothing any more, and nobody who is not known: by what these own, a strategy, or any field, would stay for ever that a
// manifest has no more. It comes after each apply that finds that, whoever has left it. That the cluster refuses it holds nothing up: the resource is applied.
func (w *write) disown(ctx context.Context) error {
	_, err := w.changeManagers(ctx, func(found *object) {
		found.ManagedFields = slices.DeleteFunc(found.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager == strategyManager || e.Manager == untracked
		})
	})
	return err
}

// changeManagers has change say who owns which fields of the object that is there, and says whether that is another than before. That the cluster refuses it
// holds nothing up.
func (w *write) changeManagers(ctx context.Context, change func(found *object)) (changed bool, err error) {
	err = whileChanged(ctx, func() error {
		found, err := w.metadata(ctx, w.path)
		if err != nil {
			return err
		}
		was := slices.Clone(found.ManagedFields)
		if change(found); reflect.DeepEqual(was, found.ManagedFields) {
			return nil
		}
		changed = true
		return w.merge(ctx, found, map[string]any{"metadata": map[string]any{"managedFields": found.ManagedFields}})
	})
	return changed && err == nil, refusedOr(ctx, nil, err)
}

// merge changes the very object that was found, as it was then.
func (w *write) merge(ctx context.Context, found *object, patch map[string]any) error {
	metadata := members(patch, "metadata")
	metadata["uid"], metadata["resourceVersion"] = found.UID, found.ResourceVersion
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = w.send(ctx, request{
		method: http.MethodPatch, path: w.path, query: "fieldManager=" + strategyManager,
		contentType: contentMerge, accept: metadataOnly, body: body, discard: true,
	}, nil)
	return err
}
