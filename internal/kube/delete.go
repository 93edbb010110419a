package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
)

// Delete deletes the selected resources of the job that are to be deleted by their marks, in the reverse order of
// Apply. They become MarkDeleting before the request, then MarkDeleted or, with the cluster's message,
// MarkUndeleted. What is absent counts as deleted, also when its kind is gone, and so does what carries
// another deployment's label: it is somebody else's now, which the note says. An object that outlives its
// deletion (finalizers, a pod's grace period) is waited for up to Config.StageWait a stage; then it is MarkEnding, with a
// note that says what it waits for, and the next stage is begun. As long as there is one the outcome is to try again, and
// says for what in Waits; one that was MarkEnding before is looked at once. So does one that the cluster answers with what may pass hold up the next stage
// for no longer than that, see Job.Failing: its webhook may never come back. What is only to be looked for by its mark is
// MarkKept when it is found, and is never deleted; else it becomes what it would have become by a deletion. A job that prunes leaves alone
// what somebody has annotated in the cluster to be kept, as Helm does, and what that would go with, which the note says: that counts as deleted, too. So does any job with the namespace
// of a PersistentVolumeClaim that is annotated so, but for one with TakesAll; in one that does not prune it is MarkKept.
func (c *Cluster) Delete(ctx context.Context, j Job) Outcome {
	r := c.begin(j)
	stages := r.stages(func(m domain.Mark) bool { return m.ToDelete() || m.ToLookFor() })
	slices.Reverse(stages)
	stuck := &ending{objects: map[int]object{}}
	goesOn := r.goesOn()
	var failed error // in a stage before
	passed := func(of failures, err error) error {
		if of == ofSome && goesOn {
			failed, err = cmp.Or(failed, err), nil
		}
		return err
	}
	outcome := r.work(ctx, stages, func(ctx context.Context, stage []int) error {
		l := &ending{objects: map[int]object{}}
		err := passed(r.each(ctx, r.turns(stage), func(ctx context.Context, i int) error { return r.delete(ctx, i, l, stuck) }))
		if err != nil {
			return err
		}
		return passed(r.awaitEnd(ctx, l, stuck))
	})
	outcome.Retry = cmp.Or(outcome.Retry, failed)
	if outcome.Retry == nil {
		outcome.Waits = r.waits(stuck)
	}
	if outcome.Waits != "" {
		outcome.Retry = fail.New(fail.Unavailable, "%s", outcome.Waits)
	}
	return outcome
}

// mostLooks bounds how many objects that do not go are looked at anew in a stage: a thousand that wait for the same
// finalizer are not asked for one by one, every time. Once they go, all are found to be gone.
const mostLooks = 32

// turns are the indices of a stage in the order in which they are worked on: those last that were being deleted before, each of
// which has its chance to be looked at.
func (r *run) turns(stage []int) []int {
	var fresh, old []int
	for _, i := range stage {
		if r.marked(i) == domain.MarkEnding {
			old = append(old, i)
		} else {
			fresh = append(fresh, i)
		}
	}
	fresh = r.mixed(fresh)
	if len(old) > mostLooks { // the first one is always looked at: the message is the same from try to try
		rand.Shuffle(len(old)-1, func(a, b int) { old[a+1], old[b+1] = old[b+1], old[a+1] })
	}
	return append(fresh, old...)
}

// waits says what is waited for, "" for nothing.
func (r *run) waits(stuck *ending) string {
	first, n := -1, 0
	for i := range r.Resources {
		if !r.selected(i) || r.marked(i) != domain.MarkEnding {
			continue
		}
		n++
		if _, seen := stuck.objects[i]; seen && first < 0 {
			first = i
		}
	}
	if first < 0 {
		return ""
	}
	id, more := r.Resources[first].ResourceID, ""
	if n > 1 {
		more = fmt.Sprintf(" (and %d more)", n-1)
	}
	o := stuck.objects[first]
	return fmt.Sprintf("waits until %s %s is gone: %s%s", id.Kind, id.Name, o.waitsFor(), more)
}

// object is one that was found in the cluster.
type object struct {
	path string
	metav1.PartialObjectMetadata
	says string // of a kind that says itself what its deletion waits for
}

// ending are objects that are being deleted, by index.
type ending struct {
	mu      sync.Mutex
	objects map[int]object
}

func (l *ending) add(i int, o *object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.objects[i] = *o
}

func (l *ending) number() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.objects)
}

// delete settles resource i, or adds it to those that are being deleted, or to those that were before and still are.
func (r *run) delete(ctx context.Context, i int, l, stuck *ending) error {
	before, keeps := r.marked(i) == domain.MarkEnding, r.marked(i).ToLookFor()
	if before && stuck.number() >= mostLooks {
		return nil
	}
	ask := r.request
	if keeps {
		ask = r.ours
	}
	o, note, err := ask(ctx, i)
	switch message, refused := refusal(ctx, err); {
	case isAbsent(err), meta.IsNoMatchError(err), errors.Is(err, errNowhere):
		r.mark(i, domain.MarkDeleted, "")
		return nil
	case refused:
		r.mark(i, domain.MarkUndeleted, message)
		return nil
	case err != nil:
		return err
	case o != nil && keeps:
		r.mark(i, domain.MarkKept, "")
		return nil
	case o != nil && before && r.marked(i) == domain.MarkEnding:
		return r.outlives(ctx, i, o, stuck)
	case o != nil:
		l.add(i, o)
		return nil
	default:
		r.mark(i, r.settled(i), note)
		return nil
	}
}

// settled is the mark of what is not there any more, or is nobody's; of what a job that does not prune has left, that it is kept.
func (r *run) settled(i int) domain.Mark {
	if r.wasLeft(i) && !r.Prunes {
		return domain.MarkKept
	}
	return domain.MarkDeleted
}

// errNowhere says that no cluster can hold the resource: it has no name, say, so that every apply was refused.
var errNowhere = errors.New("it cannot be addressed")

// replacements is how often an object may be another one by the time that its deletion arrives.
const replacements = 3

// request asks for the deletion of resource i, if it is ours. The object is nil unless it is still there.
// A *meta.NoKindMatchError says that its kind is gone in all versions.
func (r *run) request(ctx context.Context, i int) (still *object, note string, err error) {
	var before *object
	var conflict error // with what the cluster had before
	for range replacements {
		found, note, err := r.ours(ctx, i)
		if found == nil || err != nil {
			return nil, note, err
		}
		if before != nil && found.UID == before.UID && found.ResourceVersion != "" && found.ResourceVersion == before.ResourceVersion {
			return nil, "", conflict // it is no other object, and says why it stays
		}
		if found.DeletionTimestamp != nil {
			if r.marked(i) != domain.MarkEnding {
				r.mark(i, domain.MarkDeleting, "")
			}
			return found, "", nil
		}
		if r.Prunes && plan.IsKept(found.Annotations) {
			r.leave(i)
			return nil, "left in the cluster: it is annotated there with " + plan.KeepAnnotation + ": keep", nil
		}
		switch j, err := r.keeper(ctx, i); {
		case err != nil:
			return nil, "", err
		case j >= 0:
			return nil, wouldTake(r.Resources[j].Kind, r.Resources[j].Name), nil
		}
		wanted, err := r.isWanted(ctx, i, found)
		if err != nil || wanted {
			return nil, "", err
		}
		if id := r.Resources[i].ResourceID; id.IsNamespace() && !r.TakesAll {
			claim, err := r.keptClaim(ctx, id.Name)
			if err != nil {
				return nil, "", err
			}
			if claim != "" {
				r.leave(i)
				return nil, wouldTake("PersistentVolumeClaim", claim), nil
			}
		}
		gone, err := r.remove(ctx, i, found)
		a := answerOf(err)
		switch {
		case isDenied(a):
			return nil, "", fail.Wrap(err, fail.Conflict, "%s", clip(a.ErrStatus.Message))
		case a != nil && a.ErrStatus.Code == http.StatusConflict:
			before, conflict = found, err
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

// leave notes that resource i was left as it, or what would go with it, is annotated to be kept.
func (r *run) leave(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left == nil {
		r.left = map[int]bool{}
	}
	r.left[i] = true
}

// keeper is a resource of a job that prunes that is annotated in the cluster to be kept, and would go with resource i; -1 for none. Namespaces and CRDs
// come last. What was dealt with in an earlier attempt is looked at once more: it may have been left. So is what could not be looked at: as long as that is
// so, nobody knows whether it is to be kept.
func (r *run) keeper(ctx context.Context, i int) (int, error) {
	h, holds := plan.HolderOf(i, &r.Resources[i])
	if !r.Prunes || !holds {
		return -1, nil
	}
	for j := range r.Resources {
		if j == i || !h.Has(r.Resources[j].ResourceID, cmp.Or(r.Namespace, "default")) {
			continue
		}
		if r.wasLeft(j) {
			return j, nil
		}
		if m := r.marked(j); m != domain.MarkGone && !m.ToDelete() {
			continue
		}
		found, _, err := r.ours(ctx, j)
		_, refused := refusal(ctx, err)
		switch {
		case isAbsent(err), meta.IsNoMatchError(err), errors.Is(err, errNowhere), refused:
		case err != nil:
			return -1, err
		case found != nil && found.DeletionTimestamp == nil && plan.IsKept(found.Annotations):
			return j, nil
		}
	}
	return -1, nil
}

func (r *run) wasLeft(i int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left[i]
}

// wouldTake says why an object keeps another one in the cluster.
func wouldTake(kind, name string) string {
	return fmt.Sprintf("left in the cluster: with it would go %s %s, which is annotated there with %s: keep", kind, name, plan.KeepAnnotation)
}

// keptClaim is a PersistentVolumeClaim in a namespace that is annotated to be kept, "" for none. Whose it is does not matter: one that an ended deployment has
// left carries its label, and one that a StatefulSet has made carries none. What may not be seen is none.
func (c *Cluster) keptClaim(ctx context.Context, namespace string) (name string, err error) {
	claims := Collection{Path: "/api/v1" + escape("namespaces", namespace, "persistentvolumeclaims"), Metadata: true, Page: pageOfRemnants}
	_, err = c.List(ctx, claims, func(item json.RawMessage) error {
		var o metav1.PartialObjectMetadata
		if err := json.Unmarshal(item, &o); err != nil {
			return notAnAPIServer(err)
		}
		if name == "" && o.DeletionTimestamp == nil && plan.IsKept(o.Annotations) {
			name = o.Name
		}
		return nil
	})
	_, refused := refusal(ctx, err)
	switch {
	case name != "", refused && !errors.Is(err, ErrExpired):
		return name, nil
	case errors.Is(err, ErrExpired):
		return "", fail.Wrap(err, fail.Unavailable, "PersistentVolumeClaims could not be listed in time")
	default:
		return "", err
	}
}

// isWanted says whether what was found of resource i is the same object as another resource of the job that has been applied. A kind without
// namespaces takes any namespace of a manifest for none, and one object may be served in two groups: a plan has two resources of it then.
func (r *run) isWanted(ctx context.Context, i int, found *object) (bool, error) {
	id := r.Resources[i].ResourceID
	for _, j := range r.applied()[nameOfKind{id.Kind, id.Name}] {
		elsewhere := found.Namespace != "" && found.Namespace != r.namespaceOf(j)
		// Two runs of a hook are one object, of which each is tidied up by itself.
		if j == i || elsewhere || r.Resources[j].Hook != nil && r.Resources[i].Hook != nil {
			continue
		}
		o, err := r.find(ctx, j)
		_, refused := refusal(ctx, err)
		switch {
		case isAbsent(err), meta.IsNoMatchError(err), errors.Is(err, errNowhere), refused:
		case err != nil:
			return false, err
		case o.UID == found.UID:
			return true, nil
		}
	}
	return false, nil
}

// nameOfKind is what two resources have in common that may be one object.
type nameOfKind struct{ kind, name string }

// applied are the resources of the job that are in the cluster and stay there.
func (r *run) applied() map[nameOfKind][]int {
	r.staying.Do(func() {
		r.stays = map[nameOfKind][]int{}
		for j := range r.Resources {
			if id := r.Resources[j].ResourceID; r.marked(j) == domain.MarkApplied {
				r.stays[nameOfKind{id.Kind, id.Name}] = append(r.stays[nameOfKind{id.Kind, id.Name}], j)
			}
		}
	})
	return r.stays
}

// ours finds resource i, nil if somebody else has it now, which the note says. Its errors are those of find.
func (r *run) ours(ctx context.Context, i int) (found *object, note string, err error) {
	found, err = r.find(ctx, i)
	if err != nil {
		return nil, "", err
	}
	if owner := found.Labels[plan.DeploymentLabel]; owner != r.DeploymentID {
		return nil, foreign(owner), nil
	}
	return found, "", nil
}

func foreign(owner string) string {
	if owner == "" {
		return "left in the cluster: it no longer carries the label " + plan.DeploymentLabel
	}
	return fmt.Sprintf("left in the cluster: it belongs to the deployment %s now", owner)
}

// find gets the metadata of resource i, in whatever version the cluster serves it.
func (r *run) find(ctx context.Context, i int) (o *object, err error) {
	err = r.kinds.anywhere(ctx, gvkOf(r.Resources[i].ResourceID), func(gv schema.GroupVersion, m mapped) error {
		path, _, err := r.place(gv, m, i)
		if err != nil {
			return fmt.Errorf("%w: %w", errNowhere, err)
		}
		o, err = r.metadata(ctx, path)
		return err
	})
	return o, err
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

// deleteOptions is the body of a deletion.
func deleteOptions(propagation metav1.DeletionPropagation, preconditions metav1.Preconditions) ([]byte, error) {
	options, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		PropagationPolicy: &propagation,
		Preconditions:     &preconditions,
	})
	if err != nil {
		return nil, fmt.Errorf("encode delete options: %w", err)
	}
	return options, nil
}

// remove deletes the very object that was found; what it owns is deleted by the cluster afterwards. The
// answer is a Status when the object has gone, and the object when it has not.
func (r *run) remove(ctx context.Context, i int, found *object) (gone bool, err error) {
	options, err := deleteOptions(metav1.DeletePropagationBackground, metav1.Preconditions{UID: &found.UID})
	if err != nil {
		return false, err
	}
	body, err := r.send(ctx, request{
		method: http.MethodDelete, path: found.path,
		contentType: contentJSON, accept: metadataOnly, body: options,
	}, func() { r.mark(i, domain.MarkDeleting, "") })
	if err != nil {
		return false, err
	}
	var answer metav1.PartialObjectMetadata
	if err := json.Unmarshal(body, &answer); err != nil {
		return false, notAnAPIServer(err)
	}
	if answer.UID == found.UID {
		found.PartialObjectMetadata = answer
	}
	return answer.Kind == "Status", nil
}

// awaitEnd waits for what is being deleted, up to Config.StageWait for all of it. What is there then is stuck.
func (r *run) awaitEnd(ctx context.Context, l, stuck *ending) (failures, error) {
	deadline := time.Now().Add(r.config.StageWait)
	indices := make([]int, 0, len(l.objects))
	for i := range l.objects {
		indices = append(indices, i)
	}
	slices.Sort(indices)
	return r.each(ctx, indices, func(ctx context.Context, i int) error {
		was := l.objects[i]
		last := &was
		look := pause.Backoff{First: policy.FirstGone, Most: policy.LongestGone}
		for {
			found, err := r.still(ctx, i, last)
			switch message, refused := refusal(ctx, err); {
			case isAbsent(err), meta.IsNoMatchError(err), err == nil && found.UID != was.UID:
				r.mark(i, domain.MarkDeleted, "")
				return nil
			case refused:
				r.mark(i, domain.MarkDeleted, "deletion was accepted; whether it is done cannot be seen: "+message)
				return nil
			case err == nil && time.Now().After(deadline):
				return r.outlives(ctx, i, found, stuck)
			case err == nil:
				last, err = found, look.Wait(ctx)
			}
			if err != nil {
				r.mark(i, domain.MarkEnding, last.waitsFor()) // the last word, should somebody have stopped it
				return err
			}
		}
	})
}

// still gets an object that was found once more, wherever it is by now: that nothing is served there may be a proxy's word, and
// the object is still in the cluster. Errors are those of find.
func (r *run) still(ctx context.Context, i int, was *object) (*object, error) {
	found, err := r.metadata(ctx, was.path)
	if isUnserved(err) {
		return r.find(ctx, i)
	}
	return found, err
}

// outlives says of an object that it is still there.
func (r *run) outlives(ctx context.Context, i int, o *object, stuck *ending) error {
	if err := r.hear(ctx, i, o); err != nil {
		return err
	}
	stuck.add(i, o)
	r.mark(i, domain.MarkEnding, o.waitsFor())
	return nil
}

// hear reads what a namespace, or the definition of a kind, says of its own deletion: it ends with that of what it has.
func (r *run) hear(ctx context.Context, i int, o *object) error {
	var tells func(condition metav1.Condition) bool
	switch r.Resources[i].Kind {
	case "Namespace":
		tells = func(c metav1.Condition) bool { return c.Status == metav1.ConditionTrue }
	case "CustomResourceDefinition":
		tells = func(c metav1.Condition) bool { return c.Status == metav1.ConditionTrue && c.Type == "Terminating" }
	default:
		return nil
	}
	body, err := r.send(ctx, request{method: http.MethodGet, path: o.path, accept: contentJSON}, nil)
	switch _, refused := refusal(ctx, err); {
	case isAbsent(err), refused: // the next look finds it gone, or nobody may look
		return nil
	case err != nil:
		return err
	}
	var is struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(body, &is); err != nil {
		return notAnAPIServer(err)
	}
	var said []string
	for _, c := range is.Status.Conditions {
		if tells(c) && c.Message != "" {
			said = append(said, c.Message)
		}
	}
	o.says = clip(strings.Join(said, "; "))
	return nil
}

// waitsFor says since when the object is being deleted and what that waits for.
func (o *object) waitsFor() string {
	var why string
	var grace time.Duration
	if s := o.DeletionGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	switch {
	case o.says != "":
		why = ": " + o.says
	case len(o.Finalizers) == 1:
		why = ", waits for finalizer " + o.Finalizers[0]
	case len(o.Finalizers) > 1:
		why = ", waits for the finalizers " + strings.Join(o.Finalizers, ", ")
	case grace > 0:
		why = fmt.Sprintf(", with a grace period of %s", grace)
	}
	if o.DeletionTimestamp == nil { // it is not known yet to be on its way
		return "its deletion was accepted" + why
	}
	// The timestamp is the one at which the grace period is over.
	return "being deleted since " + o.DeletionTimestamp.Add(-grace).UTC().Format(time.RFC3339) + why
}
