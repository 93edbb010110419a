package kube

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
)

// FieldManager owns the fields that Drover applies. It is stored in every object: it never changes.
const FieldManager = "drover"

// Job is work on the resources of one app.
type Job struct {
	Resources []plan.Resource
	// Marks say what is done already, by index in Resources. The job changes a copy.
	Marks domain.Marks
	// Selects says on which resources the job works, by index; nil for all. The others stay as they are, whatever their
	// marks say.
	Selects func(index int) bool
	// Namespace is for namespaced resources that name none.
	Namespace string
	// DeploymentID is the value of plan.DeploymentLabel.
	DeploymentID string
	// Operation tells apart the runs of operations, all tries of one having the same: what another one has created or updated is written anew, as somebody may
	// have changed it since.
	Operation string
	// Failing is since when tries at the work are answered, and are in vain; zero for no try yet. Then none of many resources is always behind the same
	// ones that fail, and what fails holds up no other stage of a Delete, and no webhook configuration of an Apply, for longer than Config.StageWait.
	Failing time.Time
	// Prunes says that what is deleted is what an update does not want any more.
	Prunes bool
	// TakesAll says that a namespace that is deleted goes with all that is in it, also with a volume that somebody keeps: a logical cloud's own.
	TakesAll bool
	// BeforeStage, when not nil, is called before anything of a stage is sent, with the indices of what is
	// to be sent; its error ends the job and is the outcome's.
	BeforeStage func(ctx context.Context, indices []int) error
	// BeforeReplace, when not nil, is called before an object is deleted that is made anew, as the cluster refuses to change it, from several goroutines: with
	// the index and the cluster's words. Its error is why nothing is deleted yet, and the outcome's.
	BeforeReplace func(ctx context.Context, index int, refused string) error
	// OnMark, when not nil, is called before a request is sent and after it was answered, from several
	// goroutines, but never twice at a time for one index. The note is what the cluster said about a
	// refusal, or what a user should know.
	OnMark func(index int, m domain.Mark, note string)
	// OnDropped, when not nil, is called before a resource is marked as applied whose kind, in this cluster, does not
	// have some of its members: with their paths, sorted. They are not in the cluster.
	OnDropped func(index int, fields []string)
	// OnShared, when not nil, is called before a resource is marked as applied of which one of tools, by whose hand it was there before,
	// have fields that the manifest has, too: with the names of those managers. What the next manifest has no more stays theirs.
	OnShared func(index int, managers []string)
	// OnUnpatchable, when not nil, is called with the resource name of a kind ("deployments.apps") whose objects are
	// created and updated instead of applied, as the client's user may not patch them.
	OnUnpatchable func(resource string)
}

// Outcome is how a job ended.
type Outcome struct {
	// Retry is nil when every resource is settled. Else it says what stands in the way: an error of a
	// retryable kind, with the delay that the cluster asked for; BeforeStage's or BeforeReplace's error; or the cause of the
	// context's end, untouched.
	Retry error
	// Reached says that something answered in the cluster's place, to this job or another, meanwhile.
	Reached bool
	// Waits says, of a Delete whose Retry is about nothing else, which objects outlive their deletion and what they wait
	// for. The cluster answers then.
	Waits string
}

// refusal is the message of the cluster's last word on a resource; ok is false when err is none. The end of
// a context is never one, whatever its cause.
func refusal(ctx context.Context, err error) (message string, ok bool) {
	if err == nil || ctx.Err() != nil && answerOf(err) == nil {
		return "", false
	}
	kind := kindOf(err)
	return fail.TextOf(kind), !fail.KindOf(kind).Retryable()
}

// run is a job that is going on.
type run struct {
	*Cluster
	Job
	heard int64        // Cluster.answers at the beginning
	mu    sync.Mutex   // guards Job.Marks and left
	left  map[int]bool // see leave

	before    domain.Marks // as the job began
	vanishing sync.Mutex   // see vanished

	staying sync.Once
	stays   map[nameOfKind][]int // see applied

	scaling sync.Once
	scales  []autoscaler // see autoscalers
}

func (c *Cluster) begin(j Job) *run {
	before := j.Marks
	j.Marks = slices.Clone(before)
	return &run{Cluster: c, Job: j, before: slices.Clone(before), heard: c.answers.Load()}
}

// mark notes the mark and tells of it.
func (r *run) mark(i int, m domain.Mark, note string) {
	r.mu.Lock()
	r.Marks[i] = m
	r.mu.Unlock()
	if r.OnMark != nil {
		r.OnMark(i, m, note)
	}
}

func (r *run) marked(i int) domain.Mark {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Marks[i]
}

// goesOn says whether the job's tries have failed for so long that what fails may never come back by itself.
func (r *run) goesOn() bool {
	return !r.Failing.IsZero() && time.Since(r.Failing) > r.config.StageWait
}

// selected says whether the job works on resource i.
func (r *run) selected(i int) bool { return r.Selects == nil || r.Selects(i) }

// stages groups the selected indices with such a mark by stage, in the order of the stages.
func (r *run) stages(is func(domain.Mark) bool) [][]int {
	byStage := map[int][]int{}
	for i := range r.Resources {
		if r.selected(i) && is(r.Marks[i]) {
			stage := r.Resources[i].Stage
			byStage[stage] = append(byStage[stage], i)
		}
	}
	stages := make([][]int, 0, len(byStage))
	for _, stage := range slices.Sorted(maps.Keys(byStage)) {
		stages = append(stages, byStage[stage])
	}
	return stages
}

// send is Cluster.do at one of the cluster's places; before is called once there is one.
func (r *run) send(ctx context.Context, q request, before func()) ([]byte, error) {
	release, err := r.slot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if before != nil {
		before()
	}
	q.writes = q.method != http.MethodGet
	return r.do(ctx, q)
}

// place says how resource i is addressed; namespace is "" when its kind has none.
func (r *run) place(gv schema.GroupVersion, m mapped, i int) (path, namespace string, err error) {
	id := r.Resources[i].ResourceID
	if err := checkSegment("metadata.name", id.Name); err != nil {
		return "", "", err
	}
	if m.namespaced {
		namespace = r.namespaceOf(i)
		if err := checkSegment("metadata.namespace", namespace); err != nil {
			return "", "", err
		}
	}
	return m.path(gv, namespace, id.Name), namespace, nil
}

// namespaceOf is the namespace of resource i, if its kind has one.
func (r *run) namespaceOf(i int) string {
	return cmp.Or(r.Resources[i].Namespace, r.Namespace, "default")
}

// checkSegment refuses what would lead a URL elsewhere, such as "..".
func checkSegment(member, value string) error {
	if value == "" {
		return fail.New(fail.Invalid, "%s is required", member)
	}
	if problems := content.IsPathSegmentName(value); len(problems) > 0 {
		return fail.New(fail.Invalid, "%s %q %s", member, value, problems[0])
	}
	return nil
}

func gvkOf(id plan.ResourceID) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: id.Group, Version: id.Version, Kind: id.Kind}
}
