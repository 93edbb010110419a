package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/fields"
	"github.com/drover-io/drover/internal/plan"
)

// write is one resource on its way into the cluster.
type write struct {
	*run
	index      int
	path       string // of the object
	collection string // of its siblings
	body       []byte // the stamped manifest
	rights     rights
	custom     bool // not a built-in kind
}

// do applies the resource, or creates it where its user may not patch, or an apply cannot take it. What its kind does not know is left out.
func (w *write) do(ctx context.Context) error {
	if !w.patchable(w.rights) {
		err := w.create(ctx)
		if !mayNot(err, "create") && !mayNot(err, "update") && !mayNot(err, "get") {
			w.told()
			return err
		}
		w.forget(w.rights) // the rights may be others by now
	}
	err := w.apply(ctx)
	switch a := answerOf(err); {
	case a == nil:
		return err
	case isTwice(err):
		return w.asCreated(ctx, err)
	case namesGone(a):
		return w.renamed(ctx, err)
	case isOutgrown(a):
		return w.overgrown(ctx, err)
	}
	if !mayNot(err, "patch") {
		return err
	}
	w.unpatchable(w.rights)
	created := w.create(ctx)
	if mayNot(created, "create") {
		return err // nothing would do but the right to patch
	}
	w.told()
	return created
}

// asCreated has a resource that server-side apply refuses, as an entry of a list is there twice, created or updated: that takes it, unless the
// kind itself does not. Nothing is left out, as ports with one number may have two names that others go by.
func (w *write) asCreated(ctx context.Context, refused error) error {
	err := w.create(ctx)
	taken := answerOf(err) == nil && fail.KindOf(err) == fail.Conflict // somebody else's: only an apply would take it over
	if taken || mayNot(err, "create") || mayNot(err, "update") || mayNot(err, "get") {
		return refused
	}
	return err
}

// renamed applies a resource whose object names versions in its managedFields that its CRD has no more: what they say is said of the version that
// is applied. So what Drover has applied before, and the manifest has no more, still goes. What others have is theirs in so far as it is called the same.
func (w *write) renamed(ctx context.Context, refused error) error {
	id := w.Resources[w.index].ResourceID
	applied := schema.GroupVersion{Group: id.Group, Version: id.Version}.String()
	changed, err := w.changeManagers(ctx, func(found *object) { found.ManagedFields = renameVersions(found.ManagedFields, applied) })
	if err != nil {
		return err
	}
	if !changed {
		return refused
	}
	return w.apply(ctx)
}

// renameVersions are the entries with that version alone: a cluster forgets all of them with a write that leaves one of a version which is gone. Of several
// that somebody has for his updates, of which each version has its own, the one of that version stays, or else the first.
func renameVersions(entries []metav1.ManagedFieldsEntry, version string) []metav1.ManagedFieldsEntry {
	all := make([]metav1.ManagedFieldsEntry, 0, len(entries))
	for _, e := range entries {
		if e.APIVersion != version {
			e.APIVersion = version
			same := func(other metav1.ManagedFieldsEntry) bool {
				return other.APIVersion == version && other.Manager == e.Manager && other.Operation == e.Operation && other.Subresource == e.Subresource
			}
			if slices.ContainsFunc(entries, same) || slices.ContainsFunc(all, same) {
				continue
			}
		}
		all = append(all, e)
	}
	return all
}

// untracked is who is said to have all that is in an object, where nobody is said to have anything when it is applied (apimachinery, managedfields). So it is
// with a custom resource once its CRD has a version no more that is named in its managedFields, and anybody has written it: the cluster forgets all of them.
const untracked = "before-first-apply"

// overgrown has a resource updated whose object does not fit the schema of its kind any more: an update does not look at that. What is said of who has which
// fields goes with it, so that it is applied, too. Where the apply is refused once more, as what somebody else has still does not fit, the resource is as its
// manifest says.
func (w *write) overgrown(ctx context.Context, refused error) error {
	if err := w.asCreated(ctx, refused); err != nil {
		return err
	}
	return refusedOr(ctx, nil, w.apply(ctx))
}

// asLabelled sends a Job once more that the cluster has refused, with the label that the template of the one there has: no template of a Job can be
// changed. So it is with one that another app has had, or that was kept and whose context is another one now. Its Pods keep that label.
func (w *write) asLabelled(ctx context.Context, refused error) error {
	data, err := w.send(ctx, request{method: http.MethodGet, path: w.path, accept: contentJSON}, nil)
	if err != nil {
		return refusedOr(ctx, refused, err)
	}
	live, err := decodeObject(data)
	if err != nil {
		return refused
	}
	object, err := decodeObject(w.body)
	if err != nil {
		return refused
	}
	label, _ := templateLabels(live)[plan.DeploymentLabel].(string)
	if label == "" || label == w.DeploymentID {
		return refused
	}
	templateLabels(object)[plan.DeploymentLabel] = label
	if w.body, err = json.Marshal(object); err != nil {
		return refused
	}
	return w.do(ctx)
}

// templateLabels are the labels of the Pods that an object makes.
func templateLabels(object map[string]any) map[string]any {
	return members(members(members(members(object, "spec"), "template"), "metadata"), "labels")
}

// refusedOr is what the cluster has refused before, where err is its last word as well; else err, by which it is to be tried again.
func refusedOr(ctx context.Context, refused, err error) error {
	if _, final := refusal(ctx, err); final {
		return refused
	}
	return err
}

// told says that the resource is not applied.
func (w *write) told() {
	if w.OnUnpatchable != nil {
		w.OnUnpatchable(w.rights.String())
	}
}

func (w *write) sent() { w.mark(w.index, domain.MarkSent, "") }

// maxUnknown bounds how often a resource is sent again without the fields that its kind does not know. Mostly once is
// enough.
const maxUnknown = 8

// unnamed is the body with which what may be there already is written, see plan.DropAccount. The digest of what is written is of the body without that, as it
// is the same in each try.
func (w *write) unnamed() ([]byte, error) {
	if w.before[w.index] == domain.MarkPending {
		return w.body, nil
	}
	return plan.DropAccount(w.Resources[w.index].ResourceID, w.body)
}

// apply is server-side apply. A refusal because of fields that the kind does not know is none: a create, and kubectl,
// drop them, and so charts have them (EMCO's collectd). They are left out, and told of.
func (w *write) apply(ctx context.Context) error {
	if err := w.handOver(ctx); err != nil {
		return err
	}
	body, err := w.unnamed()
	if err != nil {
		return err
	}
	var dropped []string
	for n := 0; ; n++ {
		pruned, err := w.patch(ctx, body)
		if err == nil {
			w.dropped(append(dropped, pruned...))
			return nil
		}
		a := answerOf(err)
		if a == nil || !isSchemaError(a) || n == maxUnknown {
			return err
		}
		unknown := fields.Undeclared(a.ErrStatus.Message)
		if len(unknown) == 0 {
			return err
		}
		all, strictErr := w.unknown(ctx, body)
		if strictErr != nil {
			return strictErr
		}
		rest, gone, cutErr := fields.Without(body, all)
		if len(gone) == 0 {
			rest, gone, cutErr = fields.Without(body, unknown)
		}
		if cutErr != nil || len(gone) == 0 {
			return err
		}
		body, dropped = rest, append(dropped, gone...)
	}
}

// patch says which fields the cluster has dropped without a word: of custom kinds it does so where their schema has an
// object without any properties. An error is also that the object is being deleted, see lasts.
func (w *write) patch(ctx context.Context, body []byte) (pruned []string, err error) {
	q := request{method: http.MethodPatch, path: w.path, query: applyQuery, contentType: contentApply, accept: metadataOnly, body: body}
	if w.custom {
		q.accept = contentJSON
	}
	made, err := w.send(ctx, q, w.sent)
	if err == nil {
		err = w.lasts(ctx, made)
	}
	if err == nil && (bytes.Contains(made, strategyMember) || bytes.Contains(made, untrackedMember)) {
		err = w.disown(ctx)
	}
	if err == nil && bytes.Contains(made, updatedMember) {
		made, err = w.reapply(ctx, q, made)
	}
	if err == nil {
		w.shared(made)
	}
	if err != nil || !w.custom {
		return nil, err
	}
	return fields.Missing(body, made), nil
}

// updatedMember is in the metadata of an object that was created or updated before, where no apply was possible.
var updatedMember = []byte(`"manager":"` + FieldManager + `","operation":"Update"`)

// reapply has the fields that were created or updated be owned as those that are applied, and applies once more: an apply takes away nothing but what was
// applied, so that fields which the manifest has no more would stay. That the cluster refuses the first holds nothing up; what it refuses of the second, such
// as a field that may not go, it would have refused of the apply.
func (w *write) reapply(ctx context.Context, q request, made []byte) ([]byte, error) {
	changed, err := w.changeManagers(ctx, func(found *object) {
		was := slices.Clone(found.ManagedFields)
		if csaupgrade.UpgradeManagedFields(&found.PartialObjectMetadata, sets.New(FieldManager), FieldManager) != nil { // nobody but the cluster writes them
			found.ManagedFields = was
		}
	})
	if err != nil || !changed {
		return made, err
	}
	return w.send(ctx, q, nil)
}

// toolMembers are what is in the metadata of an object of which a tool has applied fields: what each of tools has as its manager begins with that.
var toolMembers = func() (members [][]byte) {
	for _, name := range tools {
		members = append(members, []byte(`"manager":"`+name))
	}
	return members
}()

// shared tells of the tools that have fields of the object which the manifest has, too.
func (w *write) shared(made []byte) {
	if w.OnShared == nil || !slices.ContainsFunc(toolMembers, func(member []byte) bool { return bytes.Contains(made, member) }) {
		return
	}
	live, err := decodeObject(made)
	if err != nil {
		return
	}
	if names := sharers(live); len(names) > 0 {
		w.OnShared(w.index, names)
	}
}

// deletionMember is in the metadata of an object that is being deleted.
var deletionMember = []byte(`"deletionTimestamp"`)

// lasts is an error where the object that the cluster has answered with is being deleted. A cluster takes what is applied
// to such an object and answers as ever, and the object goes all the same once its finalizers are gone: it is to be tried
// again until then, and made anew.
func (w *write) lasts(ctx context.Context, made []byte) error {
	if !bytes.Contains(made, deletionMember) && json.Valid(made) { // nearly always, at a sixth of what decoding costs
		return nil
	}
	o := object{path: w.path}
	if err := json.Unmarshal(made, &o.PartialObjectMetadata); err != nil {
		return notAnAPIServer(err)
	}
	if o.DeletionTimestamp == nil {
		return nil
	}
	return w.leaves(ctx, &o)
}

// leaves is that an object is being deleted, and has to be gone first.
func (w *write) leaves(ctx context.Context, o *object) error {
	if err := w.hear(ctx, w.index, o); err != nil {
		return err
	}
	return fail.New(fail.Unavailable, "it is made anew when the one of its name is gone: %s", o.waitsFor())
}

// outlived is a refusal, or what lasts says where it is about an object that is being deleted: what cannot be changed of that one is made
// anew with the next.
func (w *write) outlived(ctx context.Context, refused error) error {
	found, err := w.metadata(ctx, w.path)
	switch {
	case isAbsent(err): // it went in between
		return w.do(ctx)
	case answerOf(err) != nil && !isOfCluster(err):
		return refused
	case err != nil:
		return err
	case found.DeletionTimestamp == nil:
		return refused
	default:
		return w.leaves(ctx, found)
	}
}

// unknown asks the cluster for all the fields that the kind does not know: server-side apply names one of each object.
// Nothing is made: it is a dry run, and it fails where there are such fields. None when the cluster does not say them:
// the user may not create, say. An error is one of the way to the cluster.
func (w *write) unknown(ctx context.Context, body []byte) ([]string, error) {
	err := w.asNew(ctx, body, "Strict")
	a := answerOf(err)
	switch {
	case err == nil:
		return nil, nil
	case a == nil || isOfCluster(err):
		return nil, err
	default:
		return fields.Named(a.ErrStatus.Message), nil
	}
}

// asNew asks the cluster whether it would take the body as a new object, with that fieldValidation. It is a dry run, which makes nothing. An error is the
// cluster's answer, or one of the way to it.
func (w *write) asNew(ctx context.Context, body []byte, validation string) error {
	_, err := w.send(ctx, request{
		method: http.MethodPost, path: w.collection, query: "dryRun=All&fieldValidation=" + validation + "&fieldManager=" + FieldManager,
		contentType: contentJSON, accept: metadataOnly, body: body, discard: true,
	}, nil)
	return err
}

// dropped tells of fields that are not in the cluster. Metadata of a template that the manifest does not have are our label's, on a kind that has none
// there (Notebooks of Kubeflow): nobody misses them.
func (w *write) dropped(paths []string) {
	missed := slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
		if path != labelled {
			return false
		}
		_, own, err := fields.Without(w.Resources[w.index].Manifest, []string{path})
		return err == nil && len(own) == 0
	})
	if len(missed) > 0 && w.OnDropped != nil {
		slices.Sort(missed)
		w.OnDropped(w.index, slices.Compact(missed))
	}
}

// labelled is where the label of a template is, see plan.Stamp.
const labelled = "spec.template.metadata"

// mayNot says whether the answer is that the user lacks the right to the verb. Webhooks, quotas and the rules against
// granting rights that one does not have answer 403 too, in other words (apiserver, responsewriters/errors.go).
func mayNot(err error, verb string) bool {
	a := answerOf(err)
	return a != nil && a.ErrStatus.Code == http.StatusForbidden && strings.Contains(a.ErrStatus.Message, " cannot "+verb+" resource ")
}
