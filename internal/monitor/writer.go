package monitor

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/span"
)

// fieldManager is the name under which the agent owns what it writes. It is in every cluster and must not change.
const fieldManager = "drover-monitor"

// requestTime bounds one request of the agent.
const requestTime = 30 * time.Second

// fullRate is how many bytes may be written of one bundle in an interval. A bundle that writes more waits longer:
// etcd keeps every version of an object until it compacts, and a megabyte a second would fill it.
const fullRate = 256 << 10

// quiet is the time from the beginning of a write of size bytes to that of the next one.
func quiet(interval time.Duration, size int) time.Duration {
	return max(interval, time.Duration(float64(interval)*float64(size)/fullRate))
}

// writer keeps the statuses of ResourceBundleStates as the index has them.
type writer struct {
	index    *index
	arrears  *arrears
	client   client.Client
	log      *slog.Logger
	interval time.Duration
	maxSize  int
	now      func() time.Time

	mu sync.Mutex
	// shares by deployment id. A share is used by one Reconcile at a time.
	shares map[string]*share
}

// share is what the writer remembers of a deployment.
type share struct {
	written   map[string]*written               // by UID of the first ResourceBundleState
	summaries map[*bundle.Object]*bundle.Object // of objects that are in the present status
}

// written is what was last written of one bundle. The zero value was never written.
type written struct {
	version int64
	lost    int                 // see first
	sums    [][sha256.Size]byte // of the parts' statuses
	next    time.Time           // until then nothing more is written
	failed  int                 // writes in a row
	error   string              // that stands in its place

	restore time.Time     // until then nothing is put right that others have written or removed
	wait    time.Duration // from the last time to that
}

// mostRestore is the longest wait between two times that a bundle is put right which others write. It doubles: two agents that say
// something else would write one after the other for ever.
const mostRestore = 5 * time.Minute

// restored says that what others did is about to be put right.
func (s *written) restored(f first, now time.Time, interval time.Duration) {
	if now.Sub(s.restore) > mostRestore {
		s.wait = 0
	}
	s.wait = policy.Doubling{First: interval, Most: mostRestore}.After(s.wait)
	s.sums, s.error, s.lost, s.restore = nil, "", f.lost, now.Add(s.wait)
}

// from is when the bundle may be written as it is in a view; false when it need not be.
func (s *written) from(f first, version int64) (time.Time, bool) {
	switch {
	case s.version != version:
		return s.next, true
	case s.lost == f.lost:
		return time.Time{}, false
	case s.restore.After(s.next):
		return s.restore, true
	}
	return s.next, true
}

// patience is how many writes of a bundle may fail in a row before it says so itself.
const patience = 3

// Reconcile implements reconcile.TypedReconciler: it brings the ResourceBundleStates of a deployment id up to date,
// those at once that have not been written for an interval, the others when it has passed.
func (w *writer) Reconcile(ctx context.Context, id string) (reconcile.Result, error) {
	v, ok := w.index.view(id)
	if !ok {
		w.mu.Lock()
		delete(w.shares, id)
		w.mu.Unlock()
		w.arrears.written(id)
		return reconcile.Result{}, nil
	}
	s := w.share(id)
	s.keep(v.first)
	var again time.Duration
	var due []first
	for _, f := range v.first {
		from, ok := s.written[f.UID].from(f, v.version)
		if !ok {
			continue
		}
		if wait := from.Sub(w.now()); wait > 0 {
			again = sooner(again, wait)
			continue
		}
		due = append(due, f)
	}
	if len(due) == 0 {
		w.arrears.written(id)
		return reconcile.Result{RequeueAfter: again}, nil
	}
	w.arrears.owe(id) // what has waited for its interval, or is tried again
	made := content{view: v}
	if made.statuses, made.unmade = bundle.Split(v.head, v.objects, w.maxSize, s.summarise); made.unmade == nil {
		s.forget(v.objects)
	}
	var wrong []error
	said := true
	for _, f := range due {
		if err := w.bringTraced(ctx, id, f, made, s.written[f.UID]); err != nil {
			failures.Inc()
			said = said && s.written[f.UID].error != "" // nobody takes it for true
			wrong = append(wrong, fmt.Errorf("write %s/%s: %w", f.Namespace, f.Name, err))
		} else if state := s.written[f.UID]; state.version == v.version && state.lost != f.lost { // it is too soon to put that right
			again = sooner(again, max(state.restore.Sub(w.now()), 1))
		}
	}
	if said {
		w.arrears.written(id)
	}
	return reconcile.Result{RequeueAfter: again}, errors.Join(wrong...)
}

// sooner is the shorter one of two waits; 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b < a {
		return b
	}
	return a
}

// content is what the bundles of a deployment are to say.
type content struct {
	view
	statuses []json.RawMessage // of its parts
	unmade   error             // why there are none
}

// bringTraced is bring, in a trace of its own: who has deployed what is reported asked for it long ago.
func (w *writer) bringTraced(ctx context.Context, id string, f first, c content, state *written) error {
	ctx, end := span.First(ctx, "report", span.String("drover.deployment", id), span.Int("drover.parts", len(c.statuses)), span.Int("drover.objects", len(c.objects)))
	err := w.bring(ctx, f, c, state)
	end(measure.SucceededOf(err), err != nil)
	return err
}

// bring brings a bundle up to date, or has it say why that is not possible: what it says is old by then.
func (w *writer) bring(ctx context.Context, f first, c content, state *written) error {
	err := c.unmade
	if err == nil {
		err = w.write(ctx, f, c.version, c.statuses, state)
	}
	if err == nil {
		state.failed, state.error = 0, ""
		return nil
	}
	if state.failed++; state.failed < patience || state.error == err.Error() {
		return err
	}
	status, unsaid := bundle.Unwritten(c.head, len(c.objects), err)
	if unsaid == nil {
		unsaid = w.writePart(ctx, f.Owner, 1, status)
	}
	if unsaid == nil {
		state.error, state.sums = err.Error(), nil
	}
	return errors.Join(err, unsaid)
}

func (w *writer) share(id string) *share {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.shares[id]
	if s == nil {
		s = &share{written: map[string]*written{}, summaries: map[*bundle.Object]*bundle.Object{}}
		w.shares[id] = s
	}
	return s
}

// keep remembers these bundles and no others.
func (s *share) keep(all []first) {
	kept := make(map[string]*written, len(all))
	for _, f := range all {
		if kept[f.UID] = s.written[f.UID]; kept[f.UID] == nil {
			kept[f.UID] = &written{version: -1}
		}
	}
	s.written = kept
}

func (s *share) summarise(o *bundle.Object) (*bundle.Object, error) {
	if short := s.summaries[o]; short != nil {
		return short, nil
	}
	short, err := bundle.Summarise(o)
	if err == nil {
		s.summaries[o] = short
	}
	return short, err
}

// forget forgets the summaries of objects that are no more.
func (s *share) forget(objects []*bundle.Object) {
	if len(s.summaries) == 0 {
		return
	}
	kept := make(map[*bundle.Object]*bundle.Object, len(s.summaries))
	for _, o := range objects {
		if short := s.summaries[o]; short != nil {
			kept[o] = short
		}
	}
	s.summaries = kept
}

// write writes the parts that have changed, the first one last: it says how many there are. Parts that are too
// many go after that. A bundle that is gone is no error.
func (w *writer) write(ctx context.Context, f first, version int64, statuses []json.RawMessage, state *written) error {
	if f.lost != state.lost && !w.now().Before(state.restore) {
		state.restored(f, w.now(), w.interval)
	}
	have := state.sums
	if len(have) != len(statuses) {
		have = make([][sha256.Size]byte, len(statuses))
		copy(have, state.sums)
	}
	size := 0
	for i := len(statuses) - 1; i >= 0; i-- {
		sum := sha256.Sum256(statuses[i])
		if sum == have[i] {
			continue
		}
		began := w.now()
		if err := w.writePart(ctx, f.Owner, i+1, statuses[i]); err != nil {
			if i == 0 && apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("part %d: %w", i+1, err)
		}
		have[i] = sum
		state.sums = have
		size += len(statuses[i])
		state.next = began.Add(quiet(w.interval, size)) // however long a write takes, the next may begin then
		writes.Inc()
		writtenBytes.Add(float64(len(statuses[i])))
	}
	for _, number := range f.parts {
		if number > len(statuses) {
			if err := w.deletePart(ctx, f.Owner, number); err != nil {
				return fmt.Errorf("delete part %d: %w", number, err)
			}
		}
	}
	state.sums, state.version = have, version
	w.log.Debug("status written", "bundle", f.Namespace+"/"+f.Name, "bytes", size, "parts", len(statuses))
	return nil
}

// writePart applies a part, which it makes unless it is the first, and its status.
func (w *writer) writePart(ctx context.Context, o bundle.Owner, number int, status json.RawMessage) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	target := partObject(o, number)
	var made []string
	done := w.index.writes(o.DeploymentID, client.ObjectKeyFromObject(target))
	defer func() { done(made) }()
	if number > 1 {
		if err := w.client.Patch(ctx, target, client.RawPatch(types.ApplyPatchType, bundle.NewPart(o, number)), client.FieldOwner(fieldManager), client.ForceOwnership); err != nil {
			return err
		}
		made = append(made, target.ResourceVersion)
	} else {
		target.UID = types.UID(o.UID) // one of the same name that has taken its place is not meant
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": bundle.Group + "/" + bundle.Version, "kind": bundle.Kind,
		"metadata": map[string]any{"name": target.Name, "namespace": target.Namespace, "uid": target.UID},
		"status":   status,
	})
	if err != nil {
		return err
	}
	if err := w.client.Status().Patch(ctx, target, client.RawPatch(types.ApplyPatchType, body), client.FieldOwner(fieldManager), client.ForceOwnership); err != nil {
		return err
	}
	made = append(made, target.ResourceVersion)
	return nil
}

func (w *writer) deletePart(ctx context.Context, o bundle.Owner, number int) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return client.IgnoreNotFound(w.client.Delete(ctx, partObject(o, number)))
}

// partObject names a part; the answers of the API server fill in the rest, without the status.
func partObject(o bundle.Owner, number int) *metav1.PartialObjectMetadata {
	p := &metav1.PartialObjectMetadata{}
	p.SetGroupVersionKind(schema.GroupVersionKind{Group: bundle.Group, Version: bundle.Version, Kind: bundle.Kind})
	p.Namespace, p.Name = o.Namespace, bundle.PartName(o.Name, number)
	return p
}
