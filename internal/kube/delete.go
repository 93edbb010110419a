package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/plan"
)

// Delete deletes the job's resources that are marked MarkDoomed or MarkDeleting, in the reverse order of
// Apply. They become MarkDeleting before the request, then MarkDeleted or, with the cluster's message,
// MarkUndeleted. What is absent counts as deleted, also when its kind is gone, and so does what carries
// another deployment's label: it is somebody else's now, which the note says. An object that outlives its
// deletion (finalizers, a pod's grace period) is waited for up to Config.Settle a stage; the note says what
// it waits for then.
func (c *Cluster) Delete(ctx context.Context, j Job) Outcome {
	r := c.begin(j)
	stages := r.stages(domain.MarkDoomed, domain.MarkDeleting)
	slices.Reverse(stages)
	return r.work(ctx, stages, func(ctx context.Context, stage []int) error {
		l := &leaving{objects: map[int]object{}}
		if err := r.each(ctx, stage, func(ctx context.Context, i int) error { return r.delete(ctx, i, l) }); err != nil {
			return err
		}
		return r.awaitLeave(ctx, l)
	})
}

// object is one that was found in the cluster.
type object struct {
	path string
	metav1.PartialObjectMetadata
}

// leaving are the objects of a stage that are being deleted, by index.
type leaving struct {
	mu      sync.Mutex
	objects map[int]object
}

// delete settles resource i, or adds it to those that are leaving.
func (r *run) delete(ctx context.Context, i int, l *leaving) error {
	o, note, err := r.request(ctx, i)
	switch message, refused := refusal(ctx, err); {
	case isAbsent(err), meta.IsNoMatchError(err), errors.Is(err, errNowhere):
		r.mark(i, domain.MarkDeleted, "")
		return nil
	case refused:
		r.mark(i, domain.MarkUndeleted, message)
		return nil
	case err != nil:
		return err
	case o != nil:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.objects[i] = *o
		return nil
	default:
		r.mark(i, domain.MarkDeleted, note)
		return nil
	}
}

// errNowhere says that no cluster can hold the resource: it has no name, say, so that every apply was refused.
var errNowhere = errors.New("it cannot be addressed")

// replacements is how often an object may be another one by the time that its deletion arrives.
const replacements = 3

// request asks for the deletion of resource i, if it is ours. The object is nil unless it is still there.
// A *meta.NoKindMatchError says that its kind is gone in all versions.
func (r *run) request(ctx context.Context, i int) (leaving *object, note string, err error) {
	for range replacements {
		found, err := r.find(ctx, i)
		if err != nil {
			return nil, "", err
		}
		if owner := found.Labels[plan.DeploymentLabel]; owner != r.DeploymentID {
			return nil, foreign(owner), nil
		}
		if found.DeletionTimestamp != nil {
			r.mark(i, domain.MarkDeleting, "")
			return found, "", nil
		}
		gone, err := r.remove(ctx, i, found)
		a := answerOf(err)
		switch {
		case a != nil && a.ErrStatus.Code == http.StatusConflict:
			continue
		case err != nil:
			return nil, "", err
		case gone:
			return nil, "", nil
		default:
			return found, "", nil
		}
	}
	return nil, "", fail.New(fail.Unavailable, "the object is replaced again and again while it is deleted")
}

func foreign(owner string) string {
	if owner == "" {
		return "left in the cluster: it no longer carries the label " + plan.DeploymentLabel
	}
	return fmt.Sprintf("left in the cluster: it belongs to the deployment %s now", owner)
}

// find gets the metadata of resource i, in whatever version the cluster serves it.
func (r *run) find(ctx context.Context, i int) (*object, error) {
	gvk := gvkOf(r.Resources[i].ResourceID)
	gv := gvk.GroupVersion()
	m, err := r.kinds.locate(ctx, gvk)
	for {
		if err == nil {
			var path string
			if path, _, err = r.place(gv, m, i); err != nil {
				return nil, fmt.Errorf("%w: %w", errNowhere, err)
			}
			var o *object
			if o, err = r.metadata(ctx, path); err == nil || !isUnserved(err) {
				return o, err
			}
			err = r.kinds.missing(ctx, gvk)
		}
		if !meta.IsNoMatchError(err) || gv != gvk.GroupVersion() {
			return nil, err
		}
		gv, m, err = r.kinds.elsewhere(ctx, gvk)
		if err != nil {
			return nil, err
		}
	}
}

func (r *run) metadata(ctx context.Context, path string) (*object, error) {
	body, err := r.send(ctx, request{method: http.MethodGet, path: path, accept: metadataOnly}, nil)
	if err != nil {
		return nil, err
	}
	o := &object{path: path}
	if err := json.Unmarshal(body, &o.PartialObjectMetadata); err != nil || o.UID == "" {
		return nil, notAnAPIServer(fmt.Errorf("no metadata at %s", path))
	}
	return o, nil
}

// remove deletes the very object that was found; what it owns is deleted by the cluster afterwards. The
// answer is a Status when the object has gone, and the object when it has not.
func (r *run) remove(ctx context.Context, i int, found *object) (gone bool, err error) {
	propagation := metav1.DeletePropagationBackground
	options, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		PropagationPolicy: &propagation,
		Preconditions:     &metav1.Preconditions{UID: &found.UID},
	})
	if err != nil {
		return false, fmt.Errorf("encode delete options: %w", err)
	}
	body, err := r.send(ctx, request{
		method: http.MethodDelete, path: found.path,
		contentType: contentJSON, accept: metadataOnly, body: options,
	}, func() { r.mark(i, domain.MarkDeleting, "") })
	if err != nil {
		return false, err
	}
	var answer metav1.TypeMeta
	if err := json.Unmarshal(body, &answer); err != nil {
		return false, notAnAPIServer(err)
	}
	return answer.Kind == "Status", nil
}

// The first and the longest time between two looks at an object that is leaving.
const (
	firstLook   = 20 * time.Millisecond
	longestLook = time.Second
)

// awaitLeave waits for what is leaving, up to Config.Settle for all of it.
func (r *run) awaitLeave(ctx context.Context, l *leaving) error {
	deadline := time.Now().Add(r.config.Settle)
	indices := make([]int, 0, len(l.objects))
	for i := range l.objects {
		indices = append(indices, i)
	}
	slices.Sort(indices)
	return r.each(ctx, indices, func(ctx context.Context, i int) error {
		was := l.objects[i]
		for wait := firstLook; ; wait = min(2*wait, longestLook) {
			found, err := r.metadata(ctx, was.path)
			switch message, refused := refusal(ctx, err); {
			case isAbsent(err), isUnserved(err), err == nil && found.UID != was.UID:
				r.mark(i, domain.MarkDeleted, "")
				return nil
			case refused:
				r.mark(i, domain.MarkDeleted, "deletion was accepted; whether it is done cannot be seen: "+message)
				return nil
			case err != nil:
				return err
			case time.Now().After(deadline):
				r.mark(i, domain.MarkDeleted, "deletion was accepted; it waits for "+waitsFor(found))
				return nil
			}
			if err := pause.For(ctx, wait); err != nil {
				return err
			}
		}
	})
}

func waitsFor(o *object) string {
	if len(o.Finalizers) == 0 {
		return "its grace period"
	}
	return "the finalizers " + strings.Join(o.Finalizers, ", ")
}
