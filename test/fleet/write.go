package fleet

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// create makes a new object. Without a name, it gets one that begins with metadata.generateName.
func (c *cluster) create(at id, content map[string]any, manager string) (*object, error) {
	metadata := member(content, "metadata")
	if prefix := text(metadata, "generateName"); at.name == "" && prefix != "" {
		const random = 5
		at.name = prefix + rand.String(random)
	}
	metadata["name"] = at.name
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.admit(at); err != nil {
		return nil, err
	}
	if c.objects[at] != nil {
		return nil, apierrors.NewAlreadyExists(at.kind.groupResource(), at.name)
	}
	if text(metadata, "resourceVersion") != "" {
		return nil, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	if at.kind.status {
		delete(content, "status")
	}
	empty := &unstructured.Unstructured{Object: map[string]any{}}
	empty.SetGroupVersionKind(at.kind.GroupVersionKind)
	managed := at.kind.main().UpdateNoErrors(empty, typed(at, content), manager)
	return c.finish(at, nil, objectOf(managed), unapplied)
}

// admit says whether a new object may be made in its namespace.
func (c *cluster) admit(at id) error {
	if !at.kind.namespaced {
		return nil
	}
	namespace, ok := c.objects[id{kind: namespaceKind, name: at.namespace}]
	switch {
	case !ok:
		return apierrors.NewNotFound(namespaceKind.groupResource(), at.namespace)
	case namespace.leaving:
		e := apierrors.NewForbidden(at.kind.groupResource(), at.name,
			fmt.Errorf("unable to create new content in namespace %s because it is being terminated", at.namespace))
		e.ErrStatus.Details.Causes = append(e.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", at.namespace), Field: "metadata.namespace",
		})
		return e
	default:
		return nil
	}
}

// apply merges the manager's configuration into the object, or makes it.
func (c *cluster) apply(of manifest, status bool, content map[string]any, manager string, force bool) (o *object, created bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := of.id
	live := c.objects[at]
	if live == nil {
		if err := c.admit(at); err != nil {
			return nil, false, err
		}
		if status {
			return nil, false, apierrors.NewNotFound(at.kind.groupResource(), at.name)
		}
	}
	fields, applied := at.kind.main(), of.digest
	if text(member(content, "metadata"), "resourceVersion") != "" {
		applied = unapplied // the version that it asks for is not there a second time
	}
	switch {
	case status:
		fields, applied = at.kind.sub(), unapplied
		content = map[string]any{
			"metadata": map[string]any{"name": at.name}, "status": content["status"],
			"apiVersion": content["apiVersion"], "kind": content["kind"],
		}
	case at.kind.status:
		delete(content, "status")
	}
	base := &unstructured.Unstructured{Object: map[string]any{}}
	base.SetGroupVersionKind(at.kind.GroupVersionKind)
	if live != nil {
		base.Object = live.content()
	}
	merged, err := fields.Apply(base, &unstructured.Unstructured{Object: content}, manager, force)
	if err != nil {
		return nil, false, err
	}
	o, err = c.finish(at, live, objectOf(merged), applied)
	if err == nil && live == nil && applied != unapplied {
		c.memo.learn(of, o)
	}
	return o, live == nil, err
}

// change replaces the object by what edit makes of its content, or of its status alone. The content that
// edit gets is its own.
func (c *cluster) change(at id, status bool, manager string, edit func(content map[string]any) (map[string]any, error)) (*object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	live := c.objects[at]
	if live == nil {
		return nil, apierrors.NewNotFound(at.kind.groupResource(), at.name)
	}
	wanted, err := edit(live.content())
	if err != nil {
		return nil, err
	}
	is := live.content()
	fields := at.kind.main()
	switch {
	case status:
		fields = at.kind.sub()
		wanted = onlyStatus(is, wanted)
	case at.kind.status:
		wanted["status"] = is["status"]
	}
	if wanted["status"] == nil {
		delete(wanted, "status")
	}
	managed := fields.UpdateNoErrors(typed(at, is), typed(at, wanted), manager)
	return c.finish(at, live, objectOf(managed), unapplied)
}

// onlyStatus is the object with another status.
func onlyStatus(is, wanted map[string]any) map[string]any {
	o := maps.Clone(is)
	o["metadata"] = maps.Clone(member(is, "metadata"))
	if version := text(member(wanted, "metadata"), "resourceVersion"); version != "" {
		member(o, "metadata")["resourceVersion"] = version
	}
	o["status"] = wanted["status"]
	return o
}

// finish gives the content what the server decides, and keeps it in place of live unless nothing has
// changed. The caller holds the lock.
func (c *cluster) finish(at id, live *object, content map[string]any, applied digest) (*object, error) {
	metadata := member(content, "metadata")
	if err := c.identify(at, live, metadata); err != nil {
		return nil, err
	}
	complete(at.kind, content)
	var was map[string]any
	if live != nil {
		was = live.content()
	}
	if err := validate(at, was, content); err != nil {
		return nil, err
	}
	number(at.kind, was, content)
	condition, after := "", time.Duration(0)
	if live == nil && at.kind == jobKind {
		var err error
		if condition, after, err = ends(content); err != nil {
			return nil, err
		}
	}
	if live != nil {
		same := seal(at, live.version, content)
		if bytes.Equal(same.raw, live.raw) {
			return live, nil
		}
		if same.leaving && !same.held && !c.waited(same) {
			c.remove(same)
			return same, nil
		}
	}
	version := c.next()
	setVersion(content, version)
	o := seal(at, version, content)
	o.applied = applied
	c.store(o, live)
	c.run(o, condition, after)
	return o, nil
}

// identify sets the metadata that a client cannot choose, having compared what it wants it to be.
func (c *cluster) identify(at id, live *object, metadata map[string]any) error {
	version, uid := text(metadata, "resourceVersion"), text(metadata, "uid")
	fixed := map[string]any{"uid": string(uuid.NewUUID()), "creationTimestamp": now()}
	if live != nil {
		if version != "" && version != strconv.FormatUint(live.version, 10) {
			return apierrors.NewConflict(at.kind.groupResource(), at.name,
				errors.New("the object has been modified; please apply your changes to the latest version and try again"))
		}
		fixed = member(live.content(), "metadata")
	}
	if uid != "" && uid != fixed["uid"] {
		return apierrors.NewConflict(at.kind.groupResource(), at.name,
			fmt.Errorf("%s: UID in precondition: %s, UID in object meta: %s", "Precondition failed", uid, existing(live)))
	}
	for _, name := range []string{"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "generation"} {
		if value, ok := fixed[name]; ok {
			metadata[name] = value
		} else {
			delete(metadata, name)
		}
	}
	metadata["name"] = at.name
	if at.kind.namespaced {
		metadata["namespace"] = at.namespace
	} else {
		delete(metadata, "namespace")
	}
	return nil
}

// mismatch says that the object is not the one that is to be deleted. API servers name the kind here.
func mismatch(at id, of string, wanted, is any, perhaps string) error {
	return apierrors.NewConflict(schema.GroupResource{Group: at.kind.Group, Resource: at.kind.Kind}, at.name,
		fmt.Errorf("the %s in the precondition (%v) does not match the %[1]s in record (%[3]v). The object might have been %[4]s", of, wanted, is, perhaps))
}

func existing(o *object) string {
	if o == nil {
		return ""
	}
	return string(o.uid)
}

// complete adds what the server derives from the rest.
func complete(k *kind, content map[string]any) {
	switch {
	case k == namespaceKind:
		completeNamespace(content)
	case k == crdKind:
		completeDefinition(content)
	case k.Kind == "Secret" && k.Group == "":
		completeSecret(content)
	}
}

func completeNamespace(content map[string]any) {
	metadata := member(content, "metadata")
	labels := maps.Clone(member(metadata, "labels"))
	if labels == nil {
		labels = map[string]any{}
	}
	labels[corev1.LabelMetadataName] = metadata["name"]
	metadata["labels"] = labels
	phase := corev1.NamespaceActive
	if metadata["deletionTimestamp"] != nil {
		phase = corev1.NamespaceTerminating
	}
	content["spec"] = map[string]any{"finalizers": []any{string(corev1.FinalizerKubernetes)}}
	content["status"] = map[string]any{"phase": string(phase)}
}

// completeDefinition says that the kind is served, which it is from this moment.
func completeDefinition(content map[string]any) {
	var conditions []any
	since := member(content, "metadata")["creationTimestamp"]
	for _, condition := range []string{"NamesAccepted", "Established"} {
		conditions = append(conditions, map[string]any{
			"type": condition, "status": string(metav1.ConditionTrue), "reason": "Accepted", "message": "", "lastTransitionTime": since,
		})
	}
	spec := member(content, "spec")
	var stored []any
	for _, v := range list(spec, "versions") {
		if version, _ := v.(map[string]any); version["storage"] == true {
			stored = append(stored, version["name"])
		}
	}
	content["status"] = map[string]any{"conditions": conditions, "acceptedNames": spec["names"], "storedVersions": stored}
}

// completeSecret moves stringData, which is never read back, into data.
func completeSecret(content map[string]any) {
	plain := member(content, "stringData")
	if len(plain) > 0 {
		data := maps.Clone(member(content, "data"))
		if data == nil {
			data = map[string]any{}
		}
		for name := range plain {
			data[name] = base64.StdEncoding.EncodeToString([]byte(text(plain, name)))
		}
		content["data"] = data
	}
	delete(content, "stringData")
	if content["type"] == nil {
		content["type"] = string(corev1.SecretTypeOpaque)
	}
}

// number counts the changes of what is wanted: the generation, of the kinds that have one.
func number(k *kind, was, content map[string]any) {
	_, hasSpec := content["spec"]
	if k.crd == "" && (k.Group == "" || !hasSpec) {
		return
	}
	metadata := member(content, "metadata")
	if was == nil {
		metadata["generation"] = int64(1)
		return
	}
	generation, _ := metadata["generation"].(int64)
	if !equal(desired(k, was), desired(k, content)) {
		generation++
	}
	metadata["generation"] = generation
}

// desired is the content without what the generation does not count.
func desired(k *kind, content map[string]any) map[string]any {
	d := maps.Clone(content)
	delete(d, "metadata")
	if k.status {
		delete(d, "status")
	}
	return d
}

func equal(a, b map[string]any) bool {
	var x, y bytes.Buffer
	write(&x, a)
	write(&y, b)
	return bytes.Equal(x.Bytes(), y.Bytes())
}

// deleteOne deletes an object on a client's demand. The object is nil unless it is still there.
func (c *cluster) deleteOne(at id, options metav1.DeleteOptions) (was, leaving *object, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.objects[at]
	if o == nil {
		return nil, nil, apierrors.NewNotFound(at.kind.groupResource(), at.name)
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && *p.UID != o.uid {
			return nil, nil, mismatch(at, "UID", *p.UID, o.uid, "deleted and then recreated")
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != strconv.FormatUint(o.version, 10) {
			return nil, nil, mismatch(at, "ResourceVersion", *p.ResourceVersion, o.version, "modified")
		}
	}
	if at.kind == namespaceKind && (at.name == "default" || strings.HasPrefix(at.name, "kube-")) {
		return nil, nil, apierrors.NewForbidden(at.kind.groupResource(), at.name, errors.New("this namespace may not be deleted"))
	}
	if p := options.PropagationPolicy; p != nil && *p == metav1.DeletePropagationOrphan && c.owned > 0 {
		c.orphan(o)
	}
	c.delete(o)
	return o, c.objects[at], nil
}

// orphan takes the references to o out of the objects that it owns.
func (c *cluster) orphan(o *object) {
	for _, dependent := range c.sorted(func(d *object) bool { return len(d.owners) > 0 }) {
		content := dependent.content()
		metadata := member(content, "metadata")
		var others []any
		for _, owner := range list(metadata, "ownerReferences") {
			if reference, _ := owner.(map[string]any); text(reference, "uid") != string(o.uid) {
				others = append(others, owner)
			}
		}
		if len(others) == len(dependent.owners) {
			continue
		}
		metadata["ownerReferences"] = others
		version := c.next()
		setVersion(content, version)
		c.store(seal(dependent.id, version, content), dependent)
	}
}

// delete removes the object, or marks it as leaving when it waits for finalizers or for what it contains.
// The caller holds the lock.
func (c *cluster) delete(o *object) {
	waited := c.waited(o)
	if !o.held && !waited {
		c.remove(o)
		return
	}
	if !o.leaving {
		content := o.content()
		metadata := member(content, "metadata")
		metadata["deletionTimestamp"] = now()
		metadata["deletionGracePeriodSeconds"] = int64(0)
		complete(o.kind, content)
		version := c.next()
		setVersion(content, version)
		leaving := seal(o.id, version, content)
		c.store(leaving, o)
	}
	if !waited {
		return
	}
	for _, inner := range c.sorted(func(inner *object) bool { return inside(inner, o) }) {
		if current := c.objects[inner.id]; current != nil {
			c.delete(current) // the last one takes what contains it along
		}
	}
}

// typed is the content as an object of its kind.
func typed(at id, content map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: content}
	o.SetGroupVersionKind(at.kind.GroupVersionKind)
	return o
}

// objectOf is the content of what typed made.
func objectOf(o runtime.Object) map[string]any {
	return o.(*unstructured.Unstructured).Object
}
