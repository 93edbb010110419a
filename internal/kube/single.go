package kube

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
)

// Apply takes over whatever has the name of what it applies. What is made for a match must not: it is created where there is
// nothing, found, and changed only as the very object that was found.

// Found is an object that is in a cluster.
type Found struct {
	UID         string
	Deployment  string            // the value of plan.DeploymentLabel, "" where it has none
	Annotations map[string]string // not to be changed
	Ours        []string          // the names of those annotations that Drover has set
	Ending      bool              // it is being deleted
	// Evicted says of a Pod that a node has given it up, and that it is still there to say so.
	Evicted bool
}

// ErrNoNamespace says that the namespace of what was to be created is not there.
var ErrNoNamespace = fail.New(fail.NotFound, "the namespace is not there")

// Find gets what has the name; nil when the object, or its kind, is not in the cluster. Errors are as Apply's Outcome.Retry has
// them, or the cluster's last word.
func (c *Cluster) Find(ctx context.Context, id plan.ResourceID) (*Found, error) {
	data, err := c.Object(ctx, id)
	if err != nil || data == nil {
		return nil, err
	}
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(data, &o); err != nil || o.UID == "" {
		return nil, notAnAPIServer(err)
	}
	return &Found{
		UID: string(o.UID), Deployment: o.Labels[plan.DeploymentLabel], Annotations: o.Annotations,
		Ours: oursIn(data), Ending: o.DeletionTimestamp != nil,
		Evicted: id.Evicted(data),
	}, nil
}

// oursIn are the annotations of an object that Drover has set.
func oursIn(data []byte) (names []string) {
	live, err := decodeObject(data)
	if err != nil {
		return nil
	}
	for name := range fieldsOf(live, ourFields).of("f:metadata").of("f:annotations") {
		if name, ok := strings.CutPrefix(name, "f:"); ok {
			names = append(names, name)
		}
	}
	return names
}

// Create makes the object as its manifest says it, and returns its UID. Conflict when there is one of its name, which it leaves
// alone; ErrNoNamespace when its namespace is not there. Other errors are as Find has them.
func (c *Cluster) Create(ctx context.Context, id plan.ResourceID, manifest []byte) (uid string, err error) {
	gvk := gvkOf(id)
	r := c.begin(Job{Resources: []plan.Resource{{ResourceID: id}}})
	var body []byte
	var namespace string
	err = c.kinds.at(ctx, gvk, func(m mapped) error {
		if !m.namespaced && id.Namespace != "" {
			return fail.New(fail.Invalid, "objects of the kind %s have no namespace", gvk.Kind)
		}
		if _, namespace, err = r.place(gvk.GroupVersion(), m, 0); err != nil {
			return err
		}
		body, err = r.send(ctx, request{
			method: http.MethodPost, path: m.collection(gvk.GroupVersion(), namespace), query: createQuery,
			contentType: contentJSON, accept: metadataOnly, body: manifest,
		}, nil)
		return err
	})
	switch {
	case err == nil:
		return uidOf(body)
	case namespace != "" && missingNamespace(err) == namespace:
		return "", ErrNoNamespace
	default:
		return "", kindOf(err)
	}
}

func uidOf(body []byte) (string, error) {
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(body, &o); err != nil || o.UID == "" {
		return "", notAnAPIServer(err)
	}
	return string(o.UID), nil
}

// Remove deletes the object if it carries the label of the deployment, and looks for a moment whether it is gone. waits says of
// one that is still there what it waits for, "" of one that is gone. What carries no such label is somebody else's by now, and
// counts as gone. Errors are as Find has them.
func (c *Cluster) Remove(ctx context.Context, id plan.ResourceID, deploymentID string) (waits string, err error) {
	return c.RemoveOurs(ctx, id, deploymentID, nil)
}

// RemoveOurs is Remove where an object that has the label, too, may have taken the name: ours says by UID and annotations whether it is the one that is meant.
func (c *Cluster) RemoveOurs(ctx context.Context, id plan.ResourceID, deploymentID string, ours func(uid string, annotations map[string]string) bool) (waits string, err error) {
	return c.remove(ctx, id, plan.DeploymentLabel, deploymentID, ours)
}

// RemoveNamespace is Remove for a namespace that carries a label with a value.
func (c *Cluster) RemoveNamespace(ctx context.Context, name, label, value string) (waits string, err error) {
	return c.remove(ctx, plan.ResourceID{Version: "v1", Kind: "Namespace", Name: name}, label, value, nil)
}

func (c *Cluster) remove(ctx context.Context, id plan.ResourceID, label, value string, ours func(string, map[string]string) bool) (waits string, err error) {
	r := c.begin(Job{Resources: []plan.Resource{{ResourceID: id}}, Marks: domain.NewMarks(1, domain.MarkDoomed)})
	found, err := r.find(ctx, 0)
	switch {
	case err != nil:
	case found.Labels[label] != value, ours != nil && !ours(string(found.UID), found.Annotations):
		return "", nil
	case found.DeletionTimestamp == nil:
		var gone bool
		if gone, err = r.remove(ctx, 0, found); gone {
			found = nil
		}
	}
	look := pause.Backoff{First: policy.FirstGone, Most: policy.LongestGone}
	for deadline := time.Now().Add(policy.RemoveLooks); err == nil && found != nil && time.Now().Before(deadline); {
		if err = look.Wait(ctx); err != nil {
			break
		}
		uid := found.UID
		if found, err = r.still(ctx, 0, found); err == nil && found.UID != uid {
			found = nil
		}
	}
	switch {
	case isAbsent(err), meta.IsNoMatchError(err), errors.Is(err, errNowhere):
		return "", nil
	case err != nil:
		return "", kindOf(err)
	case found == nil:
		return "", nil
	default:
		return found.waitsFor(), nil
	}
}

// Annotate sets annotations of the very object that was found; null removes one. NotFound when it is gone, Unavailable when it
// is another one by now. Other errors are as Find has them.
func (c *Cluster) Annotate(ctx context.Context, id plan.ResourceID, uid string, annotations map[string]*string) error {
	gvk := gvkOf(id)
	r := c.begin(Job{Resources: []plan.Resource{{ResourceID: id}}})
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "annotations": annotations}})
	if err != nil {
		return err
	}
	err = c.kinds.at(ctx, gvk, func(m mapped) error {
		path, _, err := r.place(gvk.GroupVersion(), m, 0)
		if err != nil {
			return err
		}
		_, err = r.send(ctx, request{
			method: http.MethodPatch, path: path, query: "fieldManager=" + FieldManager,
			contentType: contentMerge, accept: metadataOnly, body: body, discard: true,
		}, nil)
		return err
	})
	if isOther(err) {
		return fail.Wrap(err, fail.Unavailable, "it is another object by now")
	}
	return kindOf(err)
}

// isOther says whether the answer is that the object has another UID than the request says. API servers take that for an attempt
// to change it.
func isOther(err error) bool {
	a := answerOf(err)
	return a != nil && a.ErrStatus.Details != nil && slices.ContainsFunc(a.ErrStatus.Details.Causes, func(c metav1.StatusCause) bool {
		return c.Field == "metadata.uid"
	})
}
