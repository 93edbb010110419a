package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
)

// Remnants says which objects are not to be in a cluster: those that carry the label of one of the deployments.
type Remnants struct {
	Deployments []string // values of plan.DeploymentLabel
	// Places are the kinds, each with the namespace in which it is looked for. Names do not matter.
	Places []plan.ResourceID
	// Namespaces says that namespaces go, too, with all that others may have put into them, but for those with something in a place that is to be kept.
	Namespaces bool
	TakesAll   bool // as a Job's
}

// Remnant is an object that is still there, and why.
type Remnant struct {
	plan.ResourceID
	Why string
	// Going says that its deletion was accepted, or will be: it is to be waited for.
	Going bool
}

// String is for people.
func (r Remnant) String() string { return r.Kind + " " + r.Name + ": " + r.Why }

const (
	// sweeps is how often the places are looked at until nothing is found that could be deleted.
	sweeps = 4
	// pageOfRemnants is how many objects are asked for at a time, deploymentsAtOnce for how many deployments.
	pageOfRemnants    = 500
	deploymentsAtOnce = 50
)

// Sweep deletes what is in the cluster of the remnants, and looks again, a few times, as long as what it has deleted is
// there. It returns what it has deleted, and what its last look has found. An object counts when Drover has applied it.
// Left alone are objects that are annotated to be kept, and the namespaces that they are in, or a PersistentVolumeClaim that anybody keeps so, that a controller owns, which goes first, and
// CustomResourceDefinitions. What the cluster does not let be listed is left out, and the namespace that it may be in stays. An error is as Apply's Outcome.Retry; what
// was deleted before is returned, and, where the cluster's answer was about some objects or kinds, what the last look has found of the others.
func (c *Cluster) Sweep(ctx context.Context, s Remnants) (deleted []plan.ResourceID, left []Remnant, err error) {
	var missed error
	asked, again := false, pause.Backoff{First: policy.FirstSweep, Most: policy.LongestSweep}
	for n := range sweeps {
		if n > 0 {
			if err := again.Wait(ctx); err != nil {
				return deleted, left, err
			}
		}
		found, unlisted, err := c.remnants(ctx, s)
		if err != nil {
			return deleted, left, kindOf(err)
		}
		left, missed = nil, unlisted
		fates, failed := c.discardAll(ctx, found, s)
		for i, f := range fates {
			if f.err != nil {
				missed = cmp.Or(missed, kindOf(f.err))
				continue
			}
			if f.of == accepted {
				deleted = append(deleted, found[i].id)
			}
			asked = asked || f.of == accepted || f.of == changed
			if f.of != gone && f.of != kept {
				left = append(left, Remnant{ResourceID: found[i].id, Why: f.why, Going: f.of != stays})
			}
		}
		if failed != nil {
			return deleted, left, kindOf(failed)
		}
		// What was being deleted before is waited for by whoever asks.
		if !asked || !slices.ContainsFunc(left, func(r Remnant) bool { return r.Going }) {
			break
		}
	}
	return distinct(deleted), left, missed
}

// fate is what becomes of an object that is to be deleted.
type fate int

const (
	gone     fate = iota
	accepted      // its deletion
	changed       // since it was found, so that nothing was done
	going         // it was being deleted before
	stays
	kept // as it is to be, so that nothing is said of it
)

func distinct(ids []plan.ResourceID) []plan.ResourceID {
	slices.SortFunc(ids, func(a, b plan.ResourceID) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(ids)
}

// remnant is one that was found.
type remnant struct {
	object
	id    plan.ResourceID
	stays bool // it is to be kept
}

// remnants lists the places. unlisted is the cluster's answer to one of those that it could not list, where it answers for others: a kind whose
// webhook is broken, say.
func (c *Cluster) remnants(ctx context.Context, s Remnants) (found []remnant, unlisted, err error) {
	var mu sync.Mutex
	var first string            // the kind of unlisted: the message is the same from look to look
	hidden := map[string]bool{} // by namespace: something there may not be listed
	g, ctx := panics.WithContext(ctx)
	g.SetLimit(c.config.Parallel)
	for ids := range slices.Chunk(s.Deployments, deploymentsAtOnce) {
		selector := fmt.Sprintf("%s in (%s)", plan.DeploymentLabel, strings.Join(ids, ","))
		for _, place := range s.Places {
			g.Go(func() error {
				some, err := c.listed(ctx, place, selector)
				mu.Lock()
				defer mu.Unlock()
				found = append(found, some...)
				if _, refused := refusal(ctx, err); refused {
					hidden[place.Namespace] = hidden[place.Namespace] || !plan.ClusterScoped(place.Group, place.Kind)
					return nil
				}
				if err == nil || isOfCluster(err) || isSlow(err) {
					return err
				}
				if kind := place.Kind + "." + place.Group; unlisted == nil || kind < first {
					first, unlisted = kind, err
				}
				return nil
			})
		}
	}
	if err := g.Wait(); err != nil {
		return nil, nil, err
	}
	slices.SortFunc(found, func(a, b remnant) int { return cmp.Compare(a.path, b.path) })
	// Of two groups that a kind has, each lists it: see movedKinds.
	found = slices.CompactFunc(found, func(a, b remnant) bool { return a.path == b.path })
	holds := map[string]bool{} // by namespace: with it would go what is to be kept
	for _, r := range found {
		holds[r.id.Namespace] = holds[r.id.Namespace] || r.stays
	}
	found = slices.DeleteFunc(found, func(r remnant) bool {
		if r.stays || !r.id.IsNamespace() || s.TakesAll {
			return r.stays
		}
		unsure := unlisted != nil && s.Namespaces // what is to be kept may be of the kind that is not listed
		return unsure || holds[r.id.Name] || s.Namespaces && hidden[r.id.Name]
	})
	return found, kindOf(unlisted), nil
}

// listed are the remnants in one place. Its errors are the cluster's refusals, too.
func (c *Cluster) listed(ctx context.Context, place plan.ResourceID, selector string) (found []remnant, err error) {
	err = c.kinds.anywhere(ctx, gvkOf(place), func(gv schema.GroupVersion, m mapped) error {
		found, err = c.listedAt(ctx, place, gv, m, selector)
		return err
	})
	switch {
	case errors.Is(err, ErrExpired):
		return nil, fail.Wrap(err, fail.Unavailable, "%s could not be listed in time", place.Kind)
	case meta.IsNoMatchError(err), fail.Is(err, fail.NotFound), isUnlistable(err):
		return nil, nil
	}
	return found, err
}

// isUnlistable says whether the answer is that the kind has no list: nothing is kept of it.
func isUnlistable(err error) bool {
	var status *apierrors.StatusError
	return errors.As(err, &status) && status.ErrStatus.Code == http.StatusMethodNotAllowed
}

// listedAt are the remnants in one place, of a kind that is served there. That nothing is served there is the cluster's answer as
// it was.
func (c *Cluster) listedAt(ctx context.Context, place plan.ResourceID, gv schema.GroupVersion, m mapped, selector string) (found []remnant, err error) {
	namespace := ""
	if m.namespaced {
		namespace = place.Namespace
		if err := checkSegment("metadata.namespace", namespace); err != nil {
			return nil, nil //nolint:nilerr // nothing was ever applied there
		}
	}
	collection := strings.TrimSuffix(m.path(gv, namespace, ""), "/")
	_, err = c.List(ctx, Collection{Path: collection, Labels: selector, Metadata: true, Page: pageOfRemnants}, func(item json.RawMessage) error {
		var r remnant
		if err := json.Unmarshal(item, &r.PartialObjectMetadata); err != nil || r.UID == "" {
			return notAnAPIServer(fmt.Errorf("no metadata at %s", collection))
		}
		r.stays = plan.IsKept(r.Annotations) // whoever owns it: with its namespace it would go all the same
		if r.stays && r.DeletionTimestamp != nil || !r.stays && !r.isRemnant(place.Kind) {
			return nil
		}
		r.id = place
		r.id.Namespace, r.id.Name = r.Namespace, r.Name
		r.path = collection + escape(r.Name)
		found = append(found, r)
		return nil
	})
	var status *apierrors.StatusError
	if errors.As(err, &status) && isUnserved(status) {
		return nil, status // not as it was judged
	}
	return found, err
}

// isRemnant says whether an object of the kind that carries the label, and is not to be kept, is one, see Sweep.
func (o *object) isRemnant(kind string) bool {
	return kind != "CustomResourceDefinition" && metav1.GetControllerOf(o) == nil &&
		(notedFields(o.Annotations[fieldsAnnotation], o.UID) != nil || slices.ContainsFunc(o.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
			return f.Manager == FieldManager && f.Subresource == ""
		}))
}

// fated is what has become of a remnant, and why it is still there.
type fated struct {
	of  fate
	why string
	err error // the cluster's answer about this one
}

// discardAll discards what was found, as many at a time as the cluster takes requests. An error is about the cluster as a whole: those that had not
// begun by then are as they were, and have it, too.
func (c *Cluster) discardAll(ctx context.Context, found []remnant, s Remnants) (fates []fated, err error) {
	fates = make([]fated, len(found))
	var mu sync.Mutex
	failed := func() error {
		mu.Lock()
		defer mu.Unlock()
		return err
	}
	g := panics.New(ctx)
	g.SetLimit(c.config.Parallel)
	for i := range found {
		g.Go(func() error {
			f := &fates[i]
			if f.err = failed(); f.err != nil {
				return nil
			}
			f.of, f.why, f.err = c.discard(ctx, &found[i], s)
			if f.err != nil && (isOfCluster(f.err) || isSlow(f.err)) {
				mu.Lock()
				defer mu.Unlock()
				err = cmp.Or(err, f.err)
			}
			return nil
		})
	}
	if panicked := g.Wait(); panicked != nil {
		return fates, panicked
	}
	return fates, err
}

// discard deletes the very object that was found, as it was found: an instance that has taken it over meanwhile has
// changed it. why says why it is still there.
func (c *Cluster) discard(ctx context.Context, r *remnant, s Remnants) (of fate, why string, err error) {
	if r.id.IsNamespace() && !s.TakesAll && r.DeletionTimestamp == nil {
		if claim, err := c.keptClaim(ctx, r.Name); claim != "" || err != nil {
			return kept, "", err
		}
	}
	switch {
	case r.DeletionTimestamp != nil:
		return going, r.waitsFor(), nil
	case r.id.IsNamespace() && !s.Namespaces:
		return stays, "a namespace that was not deleted then, or has turned up again, is not deleted now, as others may use it: delete it by hand", nil
	}
	options, err := deleteOptions(metav1.DeletePropagationBackground, metav1.Preconditions{UID: &r.UID, ResourceVersion: &r.ResourceVersion})
	if err != nil {
		return 0, "", err
	}
	release, err := c.slot(ctx)
	if err != nil {
		return 0, "", err
	}
	defer release()
	_, err = c.do(ctx, request{
		method: http.MethodDelete, path: r.path, contentType: contentJSON, accept: metadataOnly, body: options, discard: true, writes: true,
	})
	message, refused := refusal(ctx, err)
	switch a := answerOf(err); {
	case isAbsent(err):
		return gone, "", nil
	case isDenied(a):
		return stays, "its deletion is refused: " + clip(a.ErrStatus.Message), nil
	case a != nil && a.ErrStatus.Code == http.StatusConflict:
		return changed, "the cluster does not delete it as it was found: " + clip(a.ErrStatus.Message), nil
	case refused:
		return stays, "its deletion is refused: " + message, nil
	default:
		return accepted, "its deletion was accepted", err
	}
}
