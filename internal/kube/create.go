package kube

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/fields"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
)

// Users of logical clouds have the rights that somebody granted them for EMCO, which creates (decision 0019). Where
// one may not patch, objects are created, and updated when they are there.

// writtenAnnotation is on what was created or updated: the digest of what was sent, and by which operation, so that a create whose answer was
// lost is known to be done. It says nothing of what others have changed since, who leave it as it is.
const writtenAnnotation = "drover.io/written"

// fieldsAnnotation is on what was created or updated where the cluster does not say who has which fields of it: what was sent of the object with that UID, see
// knownFields. So it is up to Kubernetes 1.28 where an entry is there twice: with each write it forgets all managedFields.
const fieldsAnnotation = "drover.io/fields"

// maxFields bounds that annotation, in bytes: a Deployment's goes on to each of its ReplicaSets. Of a larger set nothing is noted.
const maxFields = 16 << 10

// createQuery is the query of every create and update.
const createQuery = "fieldManager=" + FieldManager + "&fieldValidation=Warn"

// rights are those to a kind in one namespace.
type rights struct{ group, resource, namespace string }

// String is the kind as authorizers and users have it.
func (r rights) String() string {
	if r.group == "" {
		return r.resource
	}
	return r.resource + "." + r.group
}

// unpatched is what the user of a client may not patch, and since when that is known.
type unpatched struct {
	once  sync.Once
	since *lru.Cache[rights, time.Time]
}

// knownRights is how many it knows: a kind in a namespace each. Of one that is forgotten it is found out again.
const knownRights = 1_000

func (u *unpatched) lately() *lru.Cache[rights, time.Time] {
	u.once.Do(func() { u.since = lru.New[rights, time.Time](knownRights) })
	return u.since
}

func (u *unpatched) patchable(r rights) bool {
	since, known := u.lately().Get(r)
	return !known || time.Since(since) > policy.PatchAgain
}

func (u *unpatched) unpatchable(r rights) { u.lately().Add(r, time.Now()) }

func (u *unpatched) forget(r rights) { u.lately().Remove(r) }

// create makes the object, or updates the one that is there with a label of our context: an update may have an app take it over from another one. Any
// other one is a conflict: it is somebody else's.
func (w *write) create(ctx context.Context) error {
	object, digest, err := written(w.body, w.Operation)
	if err != nil {
		return err
	}
	dropped, tracked, err := w.put(ctx, http.MethodPost, w.collection, object)
	if err == nil {
		w.dropped(dropped)
		if !tracked {
			err = w.noteFields(ctx, digest)
		}
	}
	if a := answerOf(err); a == nil || a.ErrStatus.Reason != metav1.StatusReasonAlreadyExists {
		return err
	}
	return whileChanged(ctx, func() error { return w.replace(ctx, digest, dropped) })
}

// whileChanged does what is about an object as it was found, again where that has been changed meanwhile: a controller may be faster.
func whileChanged(ctx context.Context, do func() error) (err error) {
	for n := range replacements {
		if err := pause.For(ctx, time.Duration(n)*policy.ReplaceWait); err != nil {
			return err
		}
		err = do()
		if a := answerOf(err); a == nil || a.ErrStatus.Reason != metav1.StatusReasonConflict {
			return err
		}
	}
	return err
}

// replace updates the object that is there, unless the operation has written it, see writtenAnnotation: then the create has said which fields
// are dropped.
func (w *write) replace(ctx context.Context, digest string, dropped []string) error {
	data, err := w.send(ctx, request{method: http.MethodGet, path: w.path, accept: contentJSON}, nil)
	if isAbsent(err) {
		return fail.Wrap(err, fail.Unavailable, "it was deleted while it was applied")
	}
	if err != nil {
		return err
	}
	if err := w.lasts(ctx, data); err != nil { // whoever has it: it goes
		return err
	}
	live, err := decodeObject(data)
	if err != nil {
		return notAnAPIServer(err)
	}
	switch {
	case !plan.SameContext(w.DeploymentID, labelOf(live, plan.DeploymentLabel)):
		return fail.New(fail.Conflict, "it is there already and does not carry the label %s=%s; to take it over its user would need the verb patch",
			plan.DeploymentLabel, w.DeploymentID)
	case annotationOf(live, writtenAnnotation) == digest:
		w.dropped(dropped)
		if ourFieldsOf(live) == nil {
			return w.noteFields(ctx, digest)
		}
		return nil
	}
	body, err := plan.DropAccount(w.Resources[w.index].ResourceID, w.body) // of what is there, whoever has made it
	if err != nil {
		return err
	}
	object, _, err := written(body, w.Operation)
	if err != nil {
		return err
	}
	members(members(object, "metadata"), "annotations")[writtenAnnotation] = digest
	said := ""
	if fieldsOf(live, ourFields) == nil {
		said = noteOf(object, live)
	}
	update(object, live)
	noted := carry(object, said)
	if spec := members(live, "spec"); w.scaled() && spec["replicas"] != nil {
		members(object, "spec")["replicas"] = spec["replicas"]
	}
	dropped, tracked, err := w.put(ctx, http.MethodPut, w.path, object)
	if err != nil {
		return err
	}
	w.dropped(dropped)
	if !tracked && !noted {
		return w.noteFields(ctx, digest)
	}
	return nil
}

// noteFields has the object that was written carry what was sent, see fieldsAnnotation. That the cluster refuses it holds nothing up: whose user may not
// update has no update of it either.
func (w *write) noteFields(ctx context.Context, digest string) error {
	err := whileChanged(ctx, func() error {
		data, err := w.send(ctx, request{method: http.MethodGet, path: w.path, accept: contentJSON}, nil)
		if err != nil {
			return err
		}
		live, err := decodeObject(data)
		if err != nil {
			return notAnAPIServer(err)
		}
		sent, err := decodeObject(w.body)
		if err != nil {
			return err
		}
		if annotationOf(live, writtenAnnotation) != digest || ourFieldsOf(live) != nil || !carry(live, noteOf(sent, live)) {
			return nil
		}
		body, err := json.Marshal(live)
		if err != nil {
			return err
		}
		_, err = w.send(ctx, request{
			method: http.MethodPut, path: w.path, query: createQuery, contentType: contentJSON, accept: metadataOnly, body: body, discard: true,
		}, nil)
		return err
	})
	return refusedOr(ctx, nil, err)
}

// noteOf is what an annotation says of what was sent of live, "" where that is too much.
func noteOf(sent, live map[string]any) string {
	text, err := json.Marshal(knownFields{UID: objectUID(live), Fields: notable(sent)})
	if err != nil || len(text) > maxFields {
		return ""
	}
	return string(text)
}

// carry has object carry a note, and says whether it does: not where there is none, nor where the cluster would refuse as many annotations.
func carry(object map[string]any, note string) bool {
	annotations := members(members(object, "metadata"), "annotations")
	room := validation.TotalAnnotationSizeLimitB - len(fieldsAnnotation) - len(note)
	for name, value := range annotations {
		text, _ := value.(string)
		room -= len(name) + len(text)
	}
	if note == "" || room < 0 {
		return false
	}
	annotations[fieldsAnnotation] = note
	return true
}

// managedMember is in the metadata of an object of which the cluster says who has which fields.
var managedMember = []byte(`"managedFields"`)

// put sends an object, and says which of its fields the cluster drops, be it that it is there already, and whether it says who has which. An error is
// also that the object is being deleted, see lasts.
func (w *write) put(ctx context.Context, method, path string, object map[string]any) (dropped []string, tracked bool, err error) {
	body, err := json.Marshal(object)
	if err != nil {
		return nil, false, err
	}
	var warnings []string
	made, err := w.send(ctx, request{
		method: method, path: path, query: createQuery,
		contentType: contentJSON, accept: metadataOnly, body: body, warnings: &warnings,
	}, w.sent)
	if err == nil {
		err = w.lasts(ctx, made)
	}
	found, _ := utilnet.ParseWarningHeaders(warnings) // what cannot be read says nothing of fields
	for _, warning := range found {
		dropped = append(dropped, fields.Named(warning.Text)...)
	}
	return dropped, bytes.Contains(made, managedMember), err
}

// decodeObject reads an object, numbers to the digit.
func decodeObject(data []byte) (object map[string]any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&object); err != nil || object == nil {
		return nil, fmt.Errorf("read an object: %w", err)
	}
	return object, nil
}

// written is the object as an operation sends it, and the digest that it carries.
func written(body []byte, operation string) (object map[string]any, digest string, err error) {
	if object, err = decodeObject(body); err != nil {
		return nil, "", err
	}
	sum := sha256.Sum256(append(body[:len(body):len(body)], operation...))
	digest = hex.EncodeToString(sum[:])
	members(members(object, "metadata"), "annotations")[writtenAnnotation] = digest
	return object, digest, nil
}

// update makes object an update of live: it has its version, and what others have said.
func update(object, live map[string]any) {
	k := keeper{ours: ourFieldsOf(live), all: fieldsOf(live, anyFields)}
	k.all = k.all.join(k.ours)
	metadata := members(live, "metadata")
	delete(metadata, "managedFields") // the cluster keeps them
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		delete(annotations, fieldsAnnotation) // it is of what was sent before
	}
	k.members(object, live)
	members(object, "metadata")["resourceVersion"] = metadata["resourceVersion"]
}

// members are those of the object at name, which is made where there is none.
func members(object map[string]any, name string) map[string]any {
	if m, ok := object[name].(map[string]any); ok {
		return m
	}
	m := map[string]any{}
	object[name] = m
	return m
}

func labelOf(object map[string]any, name string) string {
	value, _ := members(members(object, "metadata"), "labels")[name].(string)
	return value
}

func objectUID(object map[string]any) types.UID {
	uid, _ := members(object, "metadata")["uid"].(string)
	return types.UID(uid)
}

func annotationOf(object map[string]any, name string) string {
	value, _ := members(members(object, "metadata"), "annotations")[name].(string)
	return value
}
