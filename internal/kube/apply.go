package kube

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
)

// applyQuery is the query of every apply. force, because what an app context says of a field holds. The
// field validation that is left out costs a server a tenth of the request, and would only find members that
// are there twice, which a stamped manifest cannot have; server-side apply refuses unknown fields itself, see
// write.apply.
const applyQuery = "fieldManager=" + FieldManager + "&force=true&fieldValidation=Ignore"

// Apply applies the selected resources of the job that are to be applied by their marks, by server-side apply,
// one request a resource. They become MarkSent before the request, then MarkApplied or, with the cluster's
// message, what domain.Mark's Refuse makes of the mark before. One whose object is being deleted stays MarkSent and is to
// be tried again: it would go with that object. A stage with one that the cluster answers with what may pass holds up those behind it, but for
// what guards others, see Job.Failing.
func (c *Cluster) Apply(ctx context.Context, j Job) Outcome {
	r := c.begin(j)
	failed, at := ofNone, 0
	pass := func(ctx context.Context, stage []int) (err error) {
		at = r.Resources[stage[0]].Stage
		failed, err = r.each(ctx, r.mixed(stage), r.apply)
		return err
	}
	outcome := r.work(ctx, r.stages(domain.Mark.ToApply), pass)
	if outcome.Retry == nil {
		r.awaitServed(ctx)
	}
	if failed != ofSome || !r.goesOn() {
		return outcome
	}
	// What stands in the way may be a webhook of the app's own, whose configuration the manifests behind mend.
	var guards [][]int
	for _, stage := range r.stages(domain.Mark.ToApply) {
		if r.Resources[stage[0]].Stage > at {
			stage = slices.DeleteFunc(stage, func(i int) bool { return !r.guardsAlready(ctx, i) })
			guards = append(guards, stage)
		}
	}
	guards = slices.DeleteFunc(guards, func(stage []int) bool { return len(stage) == 0 })
	outcome.Reached = r.work(ctx, guards, pass).Reached || outcome.Reached
	return outcome
}

// awaitServed waits, up to Config.StageWait, until the cluster serves the kinds of the CRDs that were applied. Apps that depend on this one begin when the job
// has ended, and a kind that is not served is refused for good. If it does not come to that, nothing is wrong with what was applied.
func (r *run) awaitServed(ctx context.Context) {
	deadline := time.Now().Add(r.config.StageWait)
	for i := range r.Resources {
		if !r.Resources[i].IsDefinition() || !r.before[i].ToApply() || r.marked(i) != domain.MarkApplied {
			continue
		}
		d := plan.DefinitionIn(r.Resources[i].Manifest)
		for {
			served, err := r.servesAll(ctx, d)
			if served {
				break
			}
			if err != nil && !fail.KindOf(err).Retryable() || time.Now().After(deadline) || pause.For(ctx, policy.DiscoverAgain) != nil {
				return
			}
		}
	}
}

// servesAll says whether the cluster serves a kind in all versions that its CRD has served. Errors are those of Serves.
func (c *Cluster) servesAll(ctx context.Context, d plan.Definition) (bool, error) {
	for _, version := range d.Served {
		if served, err := c.Serves(ctx, plan.ResourceID{Group: d.Group, Version: version, Kind: d.Kind}); err != nil || !served {
			return false, err
		}
	}
	return true, nil
}

// guardsAlready says whether resource i guards others, and the app has it in the cluster: one that is not there yet guards nothing before what answers for it
// is there.
func (r *run) guardsAlready(ctx context.Context, i int) bool {
	gvk := gvkOf(r.Resources[i].ResourceID)
	if gvk.Group != "admissionregistration.k8s.io" {
		return false
	}
	ours := false
	_ = r.kinds.at(ctx, gvk, func(m mapped) error { // what cannot be told waits, as everything else
		path, _, err := r.place(gvk.GroupVersion(), m, i)
		if err != nil {
			return err
		}
		found, err := r.metadata(ctx, path)
		switch {
		case err == nil:
			ours = plan.SameContext(found.Labels[plan.DeploymentLabel], r.DeploymentID)
		case isForbidden(err): // who may not read it goes by what was applied
			ours = r.before[i] == domain.MarkOutdated
		}
		return err
	})
	return ours
}

// apply settles resource i.
func (r *run) apply(ctx context.Context, i int) error {
	refused := r.marked(i).Refuse()
	err := r.applyServed(ctx, i)
	switch message, final := refusal(ctx, err); {
	case err == nil:
		r.mark(i, domain.MarkApplied, "")
		return nil
	case final && isForbidden(err) && r.hasDefinition(ctx, i):
		r.mark(i, domain.MarkKept, "its user may not write it ("+message+"); the cluster serves the kind, and has it left as it is")
		return nil
	case final:
		r.mark(i, refused, message)
		return nil
	default:
		return err
	}
}

// hasDefinition says whether resource i is a CRD that stays in any case, and the cluster serves its kind in all of its versions: who has rights in a namespace
// alone has charts whose CRDs others have installed, as with Helm's --skip-crds.
func (r *run) hasDefinition(ctx context.Context, i int) bool {
	if !r.Resources[i].Keep || !r.Resources[i].IsDefinition() {
		return false
	}
	d := plan.DefinitionIn(r.Resources[i].Manifest)
	served, err := r.servesAll(ctx, d)
	return err == nil && served && len(d.Served) > 0
}

func isForbidden(err error) bool {
	a := answerOf(err)
	return a != nil && a.ErrStatus.Code == http.StatusForbidden
}

// applyServed applies resource i. A kind whose CRD is in the job is waited for: it is served some time after
// the CRD was applied.
func (r *run) applyServed(ctx context.Context, i int) error {
	id := r.Resources[i].ResourceID
	for deadline := time.Now().Add(r.config.StageWait); ; {
		err := r.applyOnce(ctx, i)
		switch {
		case meta.IsNoMatchError(err) && r.defines(id):
			if time.Now().After(deadline) {
				if err := r.vanished(ctx, i, r.definition(id), func(j int) bool {
					of := r.Resources[j].ResourceID
					return of.Group == id.Group && of.Kind == id.Kind
				}); err != nil {
					return err
				}
				return fail.Wrap(err, fail.Unavailable, "the cluster does not serve the kind yet, although its CRD was applied")
			}
		case isUnsettled(err) && r.defines(id), isStoredInGone(err): // an API server may know the CRD as it was, whoever has changed it
			if time.Now().After(deadline) {
				return unread(err)
			}
		case r.provides(missingNamespace(err)):
			name := missingNamespace(err)
			if err := r.vanished(ctx, i, r.provider(name), func(j int) bool { return r.namespaceOf(j) == name }); err != nil {
				return err
			}
			return fail.Wrap(err, fail.Unavailable, "%s", answerOf(err).ErrStatus.Message)
		default:
			return unread(err)
		}
		if err := pause.For(ctx, policy.DiscoverAgain); err != nil {
			return err
		}
	}
}

// unread is err, or, of an object that its cluster cannot read, that no time changes it, and what does.
func unread(err error) error {
	if !isStoredInGone(err) {
		return err
	}
	return fail.Wrap(err, fail.Invalid, "%s", clip(advice(answerOf(err))+": "+answerOf(err).ErrStatus.Message))
}

// applyOnce sends resource i. A *meta.NoKindMatchError says that the cluster does not have its kind.
func (r *run) applyOnce(ctx context.Context, i int) error {
	gvk := gvkOf(r.Resources[i].ResourceID)
	return r.kinds.at(ctx, gvk, func(m mapped) error { return r.applyAt(ctx, i, gvk, m) })
}

// applyAt sends resource i to where its kind is served.
func (r *run) applyAt(ctx context.Context, i int, gvk schema.GroupVersionKind, m mapped) error {
	path, namespace, err := r.place(gvk.GroupVersion(), m, i)
	if err != nil {
		return err
	}
	manifest := r.Resources[i].Manifest
	if gvk.GroupKind() == secretKind {
		if manifest, err = plan.EncodeStrings(manifest); err != nil {
			return err
		}
	}
	body, err := plan.Stamp(manifest, namespace, map[string]string{plan.DeploymentLabel: r.DeploymentID})
	if err != nil {
		return err
	}
	_, builtIn := builtInKinds[gvk.GroupKind()]
	w := &write{
		run: r, custom: !builtIn, index: i, path: path, collection: m.collection(gvk.GroupVersion(), namespace), body: body,
		rights: rights{group: gvk.Group, resource: m.resource, namespace: namespace},
	}
	err = w.do(ctx)
	if unprocessable(err) && gvk.GroupKind() == jobKind {
		err = w.asLabelled(ctx, err)
	}
	if unprocessable(err) && gvk.Group == appsGroup {
		err = w.notRolling(ctx, err)
	}
	if unprocessable(err) && r.Resources[i].IsDefinition() {
		err = w.unconverted(ctx, err)
	}
	if unprocessable(err) {
		err = w.outlived(ctx, err)
	}
	if unprocessable(err) {
		w.body = body
		err = w.replaced(ctx, gvk, err)
	}
	switch {
	case gvk.GroupKind() == secretKind && answerOf(err) != nil && (isSchemaError(answerOf(err)) || isOutgrown(answerOf(err))):
		message, _, _ := strings.Cut(answerOf(err).ErrStatus.Message, gotten)
		return fail.New(fail.Invalid, "%s", clip(message))
	case isPinned(err, manifest):
		return fail.Wrap(err, fail.Conflict, "%s", clip(answerOf(err).ErrStatus.Message))
	default:
		return err
	}
}

func unprocessable(err error) bool {
	a := answerOf(err)
	return a != nil && a.ErrStatus.Code == http.StatusUnprocessableEntity
}

// secretKind is the kind of which no value may be told.
var secretKind = schema.GroupKind{Kind: "Secret"}

// gotten comes before the value in what server-side apply says of a type that does not fit. A value may have several lines, as it is, so that
// nobody can say where it ends.
const gotten = ", got "

// jobKind is the kind whose template can never be changed.
var jobKind = schema.GroupKind{Group: "batch", Kind: "Job"}

// appsGroup has the kinds that replace their Pods by a strategy.
const appsGroup = "apps"

// isPinned says whether err is a conflict that the manifest brings on itself, by naming the version or the
// identity that the object must have.
func isPinned(err error, manifest []byte) bool {
	a := answerOf(err)
	if a == nil || a.ErrStatus.Code != http.StatusConflict {
		return false
	}
	var object struct {
		Metadata struct{ ResourceVersion, UID string }
	}
	return json.Unmarshal(manifest, &object) == nil && object.Metadata.ResourceVersion+object.Metadata.UID != ""
}

// defines says whether the kind is served soon, in this version, because its CRD comes with the job.
func (r *run) defines(id plan.ResourceID) bool { return r.definition(id) >= 0 }

// definition is the index of that CRD, -1 where there is none.
func (r *run) definition(id plan.ResourceID) int {
	for i := range r.Resources {
		if r.Resources[i].Kind != "CustomResourceDefinition" || !r.comes(i) {
			continue
		}
		d := plan.DefinitionIn(r.Resources[i].Manifest)
		if d.Group == id.Group && d.Kind == id.Kind && slices.Contains(d.Served, id.Version) {
			return i
		}
	}
	return -1
}

// provides says whether the namespace is there soon, because it comes with the job.
func (r *run) provides(namespace string) bool { return r.provider(namespace) >= 0 }

// provider is the index of the namespace, -1 where there is none.
func (r *run) provider(namespace string) int {
	if namespace == "" {
		return -1
	}
	for i := range r.Resources {
		if id := r.Resources[i].ResourceID; id.IsNamespace() && id.Name == namespace && r.comes(i) {
			return i
		}
	}
	return -1
}

// vanished has resource i, a namespace or a CRD that another one needs, applied by the next try with all in it, where it was applied before the job and
// the cluster has it no more: somebody has deleted it by hand, and an update sends only what it changes. One that this job has applied is only slow to
// be seen. What another job is to apply is left to that: for a hook the error says so, as no try of its step finds it.
func (r *run) vanished(ctx context.Context, needing, i int, within func(j int) bool) error {
	r.vanishing.Lock() // of those that wait for it the first one does it, for all
	defer r.vanishing.Unlock()
	there := func(j int) bool {
		m := r.marked(j)
		return m == domain.MarkApplied && m == r.before[j] && r.Resources[j].Hook == nil
	}
	if i < 0 || !there(i) {
		return nil
	}
	gvk := gvkOf(r.Resources[i].ResourceID)
	err := r.kinds.at(ctx, gvk, func(m mapped) error {
		path, _, err := r.place(gvk.GroupVersion(), m, i)
		if err == nil {
			_, err = r.metadata(ctx, path)
		}
		return err
	})
	if !isAbsent(err) { // it is there, or nobody can say
		return nil
	}
	if id := r.Resources[i].ResourceID; !r.selected(i) && r.Resources[needing].Hook != nil {
		return fail.New(fail.Conflict,
			"the app's %s %s, which it needs, was deleted by hand, and is not applied in this step: make it by hand, and then update with reapply", id.Kind, id.Name)
	}
	for j := range r.Resources {
		if r.selected(j) && (j == i || within(j) && there(j)) {
			r.mark(j, domain.MarkSent, "")
		}
	}
	return nil
}

// comes says whether what needs resource i is to wait for it: the job applies it, or it was applied, and the cluster may
// take a moment. Nothing comes of what another job is to apply, of what is refused, or of what was there once.
func (r *run) comes(i int) bool {
	m := r.marked(i)
	return m == domain.MarkApplied || m.ToApply() && r.selected(i)
}
