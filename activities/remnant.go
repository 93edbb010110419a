package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/stored"
	"github.com/drover-io/drover/internal/when"
)

// Records are the app contexts that have something, or had, and where.
type Records interface {
	stored.Blobs
	PutBlob(ctx context.Context, data []byte) (domain.Digest, error)
	Instance(ctx context.Context, contextID string) (*domain.Instance, error)
	InstancesOf(ctx context.Context, owner domain.Key) ([]*domain.Instance, error)
	UpdateInstance(ctx context.Context, contextID string, change func(*domain.Instance) error) error
	Unreachable(ctx context.Context) (map[domain.ClusterName]bool, error)
}

// Sweeps are the workflows that remove remnants.
type Sweeps interface {
	// Seen says that clusters report something of a context that has ended: it is looked after at once.
	Seen(ctx context.Context, in RemnantsInput) error
}

// RemnantsInput asks for the removal of what clusters have although the context that it belongs to is terminated: a
// worker that was frozen may have sent it late, and people may have restored it.
type RemnantsInput struct {
	Owner     domain.Key `json:"owner"`
	ContextID string     `json:"contextID"`       // the last one that had the label
	Label     string     `json:"label,omitempty"` // see domain.Instance
	// Ending says that the context is just being terminated.
	Ending bool `json:"ending,omitempty"`
	// Reach says where to look when the owner is deleted, and with it the records: RemnantsResult's.
	Reach domain.Digest `json:"reach,omitempty"`
}

func (in RemnantsInput) label() string { return cmp.Or(in.Label, in.ContextID) }

// RemnantsResult is what came of one look at all clusters.
type RemnantsResult struct {
	Over    bool          `json:"over,omitempty"`    // there is nothing to look for: the label is another context's, or of nobody
	Deleted int           `json:"deleted,omitempty"` // objects
	Left    string        `json:"left,omitempty"`    // for people: what is still there; "" for nothing
	Silent  int           `json:"silent,omitempty"`  // clusters that could not be asked
	Reach   domain.Digest `json:"reach,omitempty"`
}

// Clean says that nothing was found anywhere.
func (r *RemnantsResult) Clean() bool { return r.Deleted == 0 && r.Left == "" && r.Silent == 0 }

// reach is where the contexts of a label may have had something.
type reach struct {
	Deployments []string             `json:"deployments"` // values of plan.DeploymentLabel
	Places      []plan.ResourceID    `json:"places"`      // kinds with namespaces, without names
	Clusters    []domain.ClusterName `json:"clusters"`
}

const (
	// clustersAtOnce is how many clusters are looked at at a time.
	clustersAtOnce = 16
	// lookLeast is the time that an attempt must have left to look at one more cluster, and to say what it has found.
	lookLeast = 4 * policy.Remnants
	// saidRemnants bounds how many remnants are named.
	saidRemnants = 5
)

// RemoveRemnants looks once in all clusters, in all namespaces and for all kinds that the contexts of the label ever had
// something of, and deletes what carries the label. See kube.Cluster.Sweep for what is left alone. As a terminate ends it
// fails, to be tried again, as long as something is being deleted: that is waited for as by leaves.
func (k *Kube) RemoveRemnants(ctx context.Context, in RemnantsInput) (*RemnantsResult, error) {
	var before remnantsWait
	if activity.HasHeartbeatDetails(ctx) {
		if err := activity.GetHeartbeatDetails(ctx, &before); err != nil {
			return nil, fail.Wrap(err, fail.Internal, "read heartbeat details")
		}
		before.Since = when.Past(before.Since, time.Now())
	}
	now := before
	stop := beat(ctx, func() any { return before })
	defer stop()
	ctx, cancel := whileHeld(ctx)
	defer cancel(nil)
	to, digest, last, err := k.reach(ctx, in)
	if err != nil {
		return nil, err
	}
	if to == nil {
		return &RemnantsResult{Over: true}, nil
	}
	clusters := to.Clusters
	if in.Ending { // what does not answer has nothing that it has not been asked to delete, or a later look finds it
		unreachable, err := k.Records.Unreachable(ctx)
		if err != nil {
			return nil, err
		}
		clusters = slices.DeleteFunc(slices.Clone(clusters), func(c domain.ClusterName) bool {
			return unreachable[c] && before.Going[c.String()] == ""
		})
	}
	found := k.look(ctx, in, clusters, kube.Remnants{
		Deployments: to.Deployments, Places: to.Places, Namespaces: in.Ending, TakesAll: domain.Certifies(in.Owner),
	})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	out := &RemnantsResult{Reach: digest, Silent: len(to.Clusters) - len(clusters)}
	var left []string
	now.Going, now.bytes = map[string]string{}, 0
	for i, f := range found {
		c := clusters[i].String()
		out.Deleted += len(f.deleted)
		for _, r := range f.left {
			text := r.Kind + " " + r.Name + " on " + c + ": " + r.Why
			if left = append(left, text); r.Going {
				now.remember(c, text)
			}
		}
		if f.err == nil {
			continue
		}
		out.Silent++
		if was := before.Going[c]; was != "" && len(f.left) == 0 { // it has had something, and may have it still
			now.remember(c, was)
			left = append(left, was+" (now the cluster does not answer: "+fail.TextOf(f.err)+")")
		}
	}
	out.Left = said(left)
	if last != "" {
		if err := k.say(ctx, last, out.Left, domain.ContextTerminated); err != nil {
			return nil, err
		}
	}
	if in.Ending {
		err = k.awaitGone(ctx, in, &now, out.Left)
		stop() // of its words the last one counts
		if len(now.Going) > 0 {
			activity.RecordHeartbeat(ctx, now)
		}
	}
	return out, err
}

// remnantsWait is what heartbeats carry from one attempt to the next.
type remnantsWait struct {
	Since time.Time         `json:"since,omitzero"`  // when the wait began
	Going map[string]string `json:"going,omitempty"` // by cluster: something that is being deleted, and since when
	bytes int
}

const (
	// goingTexts is how many bytes of a heartbeat say of clusters what is being deleted there, and goingMost how many it may have: Temporal
	// takes 2 MiB.
	goingTexts = 512 << 10
	goingMost  = 1536 << 10
)

// remember notes that something is being deleted in a cluster, and what it is as long as there is room for that.
func (w *remnantsWait) remember(cluster, text string) {
	if _, known := w.Going[cluster]; known || w.bytes > goingMost {
		return
	}
	if w.bytes > goingTexts {
		text = "something on " + cluster
	}
	w.Going[cluster] = text
	w.bytes += len(cluster) + len(text) + len(`"":"",`)
}

// awaitGone has the look done again as long as something is being deleted. What is there is said in the context's record.
func (k *Kube) awaitGone(ctx context.Context, in RemnantsInput, w *remnantsWait, left string) error {
	if activity.GetInfo(ctx).IsLocalActivity {
		if len(w.Going) > 0 {
			return ErrNotAtOnce // the activity that comes after this one waits
		}
		return nil
	}
	if len(w.Going) == 0 {
		return k.say(ctx, in.ContextID, "", domain.ContextTerminating)
	}
	if w.Since.IsZero() {
		w.Since = time.Now()
	}
	if err := k.say(ctx, in.ContextID, left, domain.ContextTerminating); err != nil {
		return err
	}
	again := fail.New(fail.Unavailable, "%s", left)
	again.RetryAfter = waitAgain(time.Since(w.Since))
	return again
}

// found is what a look has found in one cluster.
type found struct {
	deleted []plan.ResourceID
	left    []kube.Remnant
	err     error
}

var errNotLookedAt = fail.New(fail.Unavailable, "the look took too long")

// look looks in the clusters, and returns what is found in each. Thousands that take a connection and do not answer take longer than an attempt may:
// those for which no time is left are not looked at, and count as silent. Each look begins with another one.
func (k *Kube) look(ctx context.Context, in RemnantsInput, clusters []domain.ClusterName, s kube.Remnants) []found {
	out := make([]found, len(clusters))
	g := panics.New(ctx)
	g.SetLimit(clustersAtOnce)
	deadline, ends := ctx.Deadline()
	ends = ends && !activity.GetInfo(ctx).IsLocalActivity // the activity that comes after that one has the time
	first := time.Now().UnixNano() % int64(max(len(clusters), 1))
	for n := range clusters {
		i := (int(first) + n) % len(clusters)
		g.Go(func() error {
			f, c := &out[i], clusters[i]
			if ends && time.Until(deadline) < lookLeast {
				f.err = errNotLookedAt
				return nil
			}
			f.err = panics.Do(ctx, func() (err error) { // else nothing would be left there
				f.deleted, f.left, err = k.sweep(ctx, c, s)
				return err
			})
			if len(f.deleted) > 0 || f.err != nil {
				activity.GetLogger(ctx).Warn("remove remnants", "owner", in.Owner, "context", in.label(), "cluster", c,
					"deleted", len(f.deleted), "left", len(f.left), "error", f.err)
			}
			return nil
		})
	}
	_ = g.Wait() // none returns an error
	return out
}

// sweep looks in one cluster; one that is not registered any more has nothing.
func (k *Kube) sweep(ctx context.Context, c domain.ClusterName, s kube.Remnants) ([]plan.ResourceID, []kube.Remnant, error) {
	ctx, cancel := context.WithTimeout(ctx, policy.Remnants)
	defer cancel()
	var deleted []plan.ResourceID
	for {
		cluster, err := k.clusters.Since(ctx, c, time.Now()) // what is deleted must not be that of a cluster that had the name before
		if fail.Is(err, fail.NotFound) {
			return nil, nil, nil
		}
		if err != nil {
			return deleted, nil, err
		}
		some, left, err := cluster.Sweep(ctx, s)
		deleted = append(deleted, some...)
		if !errors.Is(err, kube.ErrReplaced) || ctx.Err() != nil { // the new registration is the one to be asked
			return deleted, left, err
		}
	}
}

// said names what is left.
func said(left []string) string {
	if len(left) == 0 {
		return ""
	}
	slices.Sort(left)
	text := strings.Join(left[:min(len(left), saidRemnants)], "; ")
	if more := len(left) - saidRemnants; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// say notes what is left in the record of a context that stands where it does as it should, unless it says so or its owner
// has been deleted.
func (k *Kube) say(ctx context.Context, contextID, left string, stands domain.ContextStatus) error {
	err := k.Records.UpdateInstance(ctx, contextID, func(i *domain.Instance) error {
		if err := lease.Check(ctx); err != nil {
			return err
		}
		if i.Status != stands || i.Remnants == left {
			return errSaid
		}
		i.Remnants = left
		return nil
	})
	if fail.Is(err, fail.NotFound) || errors.Is(err, errSaid) {
		return nil
	}
	return err
}

var errSaid = fail.New(fail.Conflict, "it is recorded so, or goes on")

// reach finds where to look, nil when the label is not that of an ended context, and which of its contexts was the last
// one, "" when it is being terminated or not known any more.
func (k *Kube) reach(ctx context.Context, in RemnantsInput) (to *reach, digest domain.Digest, last string, err error) {
	all, err := k.Records.InstancesOf(ctx, in.Owner)
	if err != nil {
		return nil, "", "", err
	}
	records := slices.DeleteFunc(all, func(i *domain.Instance) bool { return i.LabelID() != in.label() })
	to = &reach{}
	for _, i := range records {
		if in.Ending && i.ContextID == in.ContextID && i.Status == domain.ContextUpdated {
			return nil, "", "", nil // another context has its label: the terminate's workflow is of a time that is past, see outcome.Over
		}
		switch i.Status {
		case domain.ContextTerminated:
			last = i.ContextID
		case domain.ContextUpdated:
		default:
			if !in.Ending {
				return nil, "", "", nil
			}
		}
		if i.Plan == "" {
			continue
		}
		p, err := stored.JSON[plan.Plan](ctx, k.Records, i.Plan)
		if err != nil {
			return nil, "", "", err
		}
		to.add(in.label(), p)
	}
	if last == "" && !in.Ending {
		if to, err = k.recall(ctx, in.Reach); to == nil || err != nil {
			return nil, "", "", err
		}
	}
	digest, err = save(ctx, k.Records, to) // each look keeps it from being swept
	return to, digest, last, err
}

// recall is where an earlier look has looked, for when the owner is deleted, or just being deleted: that look has found the
// label to be that of an ended context, which it stays. Nil when nobody has looked, or nobody knows any more where.
func (k *Kube) recall(ctx context.Context, digest domain.Digest) (*reach, error) {
	if digest == "" {
		return nil, nil
	}
	to, err := stored.JSON[reach](ctx, k.Records, digest)
	if fail.Is(err, fail.NotFound) {
		return nil, nil
	}
	return to, err
}

func (r *reach) add(label string, p *plan.Plan) {
	for i := range p.Apps {
		app := &p.Apps[i]
		r.Deployments = append(r.Deployments, plan.DeploymentID(label, app.Name))
		report := bundle.New(app.Name, label, p.Namespace).ResourceID
		for _, id := range append(app.Resources[:len(app.Resources):len(app.Resources)], report) {
			id.Namespace, id.Name = cmp.Or(id.Namespace, p.Namespace, "default"), ""
			r.Places = append(r.Places, id)
		}
	}
	for _, h := range p.Held { // the plans that had it may be forgotten
		id := h.Resource
		id.Namespace, id.Name = cmp.Or(id.Namespace, p.Namespace, "default"), ""
		r.Deployments, r.Places = append(r.Deployments, plan.DeploymentID(label, h.App)), append(r.Places, id)
		r.Clusters = append(r.Clusters, h.Clusters...)
	}
	r.Clusters = append(r.Clusters, clustersOf(p, anyTarget)...)
	r.sort()
}

func (r *reach) sort() {
	slices.Sort(r.Deployments)
	r.Deployments = slices.Compact(r.Deployments)
	slices.SortFunc(r.Places, func(a, b plan.ResourceID) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Version, b.Version))
	})
	r.Places = slices.CompactFunc(r.Places, func(a, b plan.ResourceID) bool {
		return a.Group == b.Group && a.Kind == b.Kind && a.Namespace == b.Namespace
	})
	slices.SortFunc(r.Clusters, domain.ClusterName.Compare)
	r.Clusters = slices.Compact(r.Clusters)
}
