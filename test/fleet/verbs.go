package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// maxBody is the largest request that API servers take, in bytes.
const maxBody = 3 << 20

// metadataOnly says whether the client wants the metadata alone.
func metadataOnly(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
}

func readBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, apierrors.NewBadRequest("the body cannot be read: " + err.Error())
	case len(body) > maxBody:
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	default:
		return body, nil
	}
}

// read decodes the body, an object of the target's kind, name and namespace.
func (t target) read(r *http.Request) (map[string]any, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	return t.decode(body)
}

func (t target) decode(body []byte) (map[string]any, error) {
	var content map[string]any
	if err := utiljson.Unmarshal(body, &content); err != nil {
		return nil, apierrors.NewBadRequest("the object provided is not JSON: " + err.Error())
	}
	return content, t.check(content)
}

// check compares the content with where it was sent to.
func (t target) check(content map[string]any) error {
	if gv, name := t.kind.GroupVersion().String(), t.kind.Kind; text(content, "apiVersion") != gv || text(content, "kind") != name {
		return apierrors.NewBadRequest(fmt.Sprintf("the object provided is a %s of %s, not a %s of %s",
			text(content, "kind"), text(content, "apiVersion"), name, gv))
	}
	metadata, ok := content["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		content["metadata"] = metadata
	}
	if name := text(metadata, "name"); t.name != "" && name != "" && name != t.name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, t.name))
	}
	if namespace := text(metadata, "namespace"); t.kind.namespaced && namespace != "" && namespace != t.namespace {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// manager is who changes something.
func manager(r *http.Request) string {
	if name := r.URL.Query().Get("fieldManager"); name != "" {
		return name
	}
	name, _, _ := strings.Cut(r.UserAgent(), "/")
	return name
}

func (t target) get(w http.ResponseWriter, r *http.Request) error {
	t.cluster.mu.RLock()
	o := t.cluster.objects[t.id]
	t.cluster.mu.RUnlock()
	if o == nil {
		return apierrors.NewNotFound(t.kind.groupResource(), t.name)
	}
	writeBody(w, http.StatusOK, o.encoded(metadataOnly(r)))
	return nil
}

func (t target) create(w http.ResponseWriter, r *http.Request) error {
	if t.kind == reviewKind { // in whatever encoding it is asked
		writeJSON(w, http.StatusCreated, authorizationv1.SelfSubjectAccessReview{
			TypeMeta: metav1.TypeMeta{APIVersion: reviewKind.GroupVersion().String(), Kind: reviewKind.Kind},
			Status:   authorizationv1.SubjectAccessReviewStatus{Allowed: true},
		})
		return nil
	}
	content, err := t.read(r)
	if err != nil {
		return err
	}
	t.name = text(member(content, "metadata"), "name")
	o, err := t.cluster.create(t.id, content, manager(r))
	if err != nil {
		return err
	}
	writeBody(w, http.StatusCreated, o.encoded(metadataOnly(r)))
	return nil
}

// update replaces an object, or its status. A request for a certificate is signed as soon as it is approved.
func (t target) update(w http.ResponseWriter, r *http.Request, signs *signer) error {
	content, err := t.read(r)
	if err != nil {
		return err
	}
	if t.approval {
		if err := signs.sign(content); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
	}
	return t.change(w, r, func(map[string]any) (map[string]any, error) { return content, nil })
}

func (t target) merge(w http.ResponseWriter, r *http.Request) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != string(types.MergePatchType) {
		e := apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, t.verb, t.kind.groupResource(), t.name, "", 0, false)
		e.ErrStatus.Message = "the body of the request was in an unknown format - accepted media types include: " +
			string(types.MergePatchType) + ", " + contentApply
		return e
	}
	body, err := readBody(r)
	if err != nil {
		return err
	}
	var patch map[string]any
	if err := utiljson.Unmarshal(body, &patch); err != nil {
		return apierrors.NewBadRequest("the patch is not a JSON object: " + err.Error())
	}
	return t.change(w, r, func(content map[string]any) (map[string]any, error) {
		// What is not said of the version is not compared.
		if member(patch, "metadata")["resourceVersion"] == nil {
			delete(member(content, "metadata"), "resourceVersion")
		}
		content = merge(content, patch)
		return content, t.check(content)
	})
}

// merge is the JSON merge patch of RFC 7386.
func merge(into, patch map[string]any) map[string]any {
	if into == nil {
		into = map[string]any{}
	}
	for name, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(into, name)
		case map[string]any:
			into[name] = merge(member(into, name), value)
		default:
			into[name] = value
		}
	}
	return into
}

func (t target) change(w http.ResponseWriter, r *http.Request, edit func(map[string]any) (map[string]any, error)) error {
	o, err := t.cluster.change(t.id, t.status, manager(r), edit)
	if err != nil {
		return err
	}
	writeBody(w, http.StatusOK, o.encoded(metadataOnly(r)))
	return nil
}

func (t target) apply(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	manager := query.Get("fieldManager")
	if manager == "" {
		return apierrors.NewBadRequest("PatchOptions.meta.k8s.io is invalid: fieldManager: Required value: is required for apply patch")
	}
	body, err := readBody(r)
	if err != nil {
		return err
	}
	of := manifestOf(t.id, manager, body)
	if !t.status {
		if o, created := t.cluster.repeat(of); o != nil {
			writeApplied(w, r, o, created)
			return nil
		}
	}
	if body, err = yaml.ToJSON(body); err != nil {
		return apierrors.NewBadRequest("error decoding YAML: " + err.Error())
	}
	content, err := t.decode(body)
	if err != nil {
		return err
	}
	o, created, err := t.cluster.apply(of, t.status, content, manager, isTrue(query, "force"))
	if err != nil {
		return err
	}
	writeApplied(w, r, o, created)
	return nil
}

func writeApplied(w http.ResponseWriter, r *http.Request, o *object, created bool) {
	code := http.StatusOK
	if created {
		code = http.StatusCreated
	}
	writeBody(w, code, o.encoded(metadataOnly(r)))
}

func (t target) delete(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(r)
	if err != nil {
		return err
	}
	var options metav1.DeleteOptions
	if len(body) > 0 {
		if err := json.Unmarshal(body, &options); err != nil {
			return apierrors.NewBadRequest("the delete options are not JSON: " + err.Error())
		}
	}
	if policy := r.URL.Query().Get("propagationPolicy"); policy != "" {
		options.PropagationPolicy = (*metav1.DeletionPropagation)(&policy)
	}
	if len(options.DryRun) > 0 {
		return errors.New("the fleet has no dry run")
	}
	was, leaving, err := t.cluster.deleteOne(t.id, options)
	if err != nil {
		return err
	}
	if leaving != nil {
		writeBody(w, http.StatusOK, leaving.encoded(metadataOnly(r)))
		return nil
	}
	writeJSON(w, http.StatusOK, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: was.name, Group: t.kind.Group, Kind: t.kind.resource, UID: was.uid},
	})
	return nil
}
