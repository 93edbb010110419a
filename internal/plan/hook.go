package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/domain"
)

// Hook is what makes a resource a Helm hook: a step in the life of its release.
type Hook struct {
	Events         []string      `json:"events"`
	Weight         int           `json:"weight,omitempty"`
	DeletePolicies []string      `json:"deletePolicies,omitempty"`
	Timeout        time.Duration `json:"timeout,omitempty"` // how long it is waited for; 0 when the chart does not say
}

// Runs are the hook as a bundle has it: twice when there is an operation that runs it before the release and after it,
// so that what came of each run has a mark of its own. Then the first has the events before, the second those after.
func (h *Hook) Runs() []*Hook {
	var before, after []string
	twice := false
	for _, event := range h.Events {
		if operation, ok := strings.CutPrefix(event, "pre-"); ok {
			before = append(before, event)
			twice = twice || slices.Contains(h.Events, "post-"+operation)
		} else {
			after = append(after, event)
		}
	}
	if !twice {
		return []*Hook{h}
	}
	first, second := *h, *h
	first.Events, second.Events = before, after
	return []*Hook{&first, &second}
}

// DeletePolicy says when the object of a hook is deleted.
type DeletePolicy string

// The policies, as Helm has them. One that names none has BeforeCreation. Never is that of CRDs, for which Helm has no
// word.
const (
	BeforeCreation DeletePolicy = "before-hook-creation"
	WhenSucceeded  DeletePolicy = "hook-succeeded"
	WhenFailed     DeletePolicy = "hook-failed"
	Never          DeletePolicy = "never"
)

// Has says whether the hook has the policy.
func (h *Hook) Has(p DeletePolicy) bool {
	if len(h.DeletePolicies) == 0 {
		return p == BeforeCreation
	}
	return slices.Contains(h.DeletePolicies, string(p))
}

// Tidied is the mark of the hook when its object is deleted as its policies say after a run that has left it with the
// mark m; goes is false when it stays.
func (h *Hook) Tidied(m domain.Mark) (end domain.Mark, goes bool) {
	when := WhenFailed
	if m.Succeeded() {
		when = WhenSucceeded
	}
	if end = m.Tidied(); end == m || !h.Has(when) {
		return m, false
	}
	return end, true
}

// HookLeftover is an object of a hook's name that is in the cluster before the hook is run, and was not made by this run.
type HookLeftover struct {
	Owner string // the value of its DeploymentLabel, "" of one that is not ours
	// For is the value that the label of the hook's object is to have.
	For string
	// Holds says that with it goes what others have.
	Holds bool
	// Keep says that the hook's object is to be kept.
	Keep bool
	// RunsOnce says that its kind runs to an end, so that it cannot be run again by applying it.
	RunsOnce bool
	// Released says that no run of a hook has made it, but a release that had it as a resource.
	Released bool
	// Foreign says that another installation of Drover has made it.
	Foreign bool
	// Expires says that it has come to its end, and that its cluster deletes it some time after that.
	Expires bool
}

// others says that another deployment has it: as a resource of its release, or in another installation, whose contexts nobody here knows. What else has the
// label of another context an earlier instance of the group has left.
func (l HookLeftover) others() bool {
	return l.Owner != "" && !SameContext(l.For, l.Owner) && (l.Released || l.Foreign)
}

// Clearing is what is done about a HookLeftover. The zero Clearing leaves it, and the hook is applied over it.
type Clearing struct {
	Delete bool
	// Fails is the mark with which the hook fails, and Why; zero when it does not.
	Fails domain.Mark
	Why   string
}

// Clear decides what is done about what is left where the hook is to be run.
func (h *Hook) Clear(l HookLeftover) Clearing {
	switch {
	case l.Holds && (l.Keep || l.Owner != "" && !SameContext(l.For, l.Owner)):
		return Clearing{} // what is in it is to stay, or is others': most often an earlier instance of the group has left it
	case l.others() && l.RunsOnce:
		return Clearing{
			Fails: domain.MarkRefused,
			Why:   "an object of its name is there already that another deployment has, by its label " + DeploymentLabel + "=" + l.Owner + ": rename the hook, or delete that by hand",
		}
	case l.others():
		return Clearing{}
	case h.Has(BeforeCreation) && l.Owner != "":
		return Clearing{Delete: true}
	case !l.RunsOnce:
		return Clearing{}
	case (l.Released || l.Expires) && l.Owner == l.For:
		return Clearing{Delete: true} // the hook takes the place of what was none; and what expires is there to be seen, not to be in the way
	case h.Has(BeforeCreation):
		return Clearing{
			Fails: domain.MarkRefused,
			Why:   "an object of its name, that does not carry the label " + DeploymentLabel + ", is there already",
		}
	default:
		return Clearing{
			Fails: domain.MarkUndeleted,
			Why:   "it is there already, from an earlier run; it would have to have the policy " + string(BeforeCreation),
		}
	}
}

// HookSight is what was seen of the object of a hook whose completion is waited for.
type HookSight struct {
	There   bool
	Done    bool
	Failure string        // why it has failed, "" when it has not
	Lacks   string        // why it is not done
	Waited  time.Duration // for so long, see HookWait
	Most    time.Duration // how long it is waited for, 0 for as long as it takes
}

// End decides whether the hook has come to its end, with which mark, and why if it failed.
func (s HookSight) End() (end domain.Mark, why string, over bool) {
	switch {
	case !s.There:
		return domain.MarkRefused, "it was deleted before anybody had seen it complete: whether it has is not known", true
	case s.Done:
		return domain.MarkApplied, "", true
	case s.Failure != "":
		return domain.MarkUndeleted, s.Failure, true
	case s.Most > 0 && s.Waited > s.Most:
		return domain.MarkUndeleted, fmt.Sprintf("it has not completed within %s: %s", s.Most, s.Lacks), true
	default:
		return domain.MarkSent, "", false
	}
}

// HookWait is how long a hook has been waited for. The zero HookWait is of one that is not waited for yet.
type HookWait struct {
	Since time.Time // when that began, later by the silence that does not count
	Heard time.Time // when its cluster has answered last; zero where nobody has noted it
}

// Hear takes an answer of the cluster. Of a silence before it most counts: nobody could see meanwhile what became of the hook. One that answers
// only now and then uses up its time all the same.
func (w HookWait) Hear(now time.Time, most time.Duration) HookWait {
	if w.Since.IsZero() {
		return HookWait{Since: now, Heard: now}
	}
	if silence := now.Sub(w.Heard); !w.Heard.IsZero() && silence > most {
		w.Since = w.Since.Add(silence - most)
	}
	w.Heard = now
	return w
}

// leastTTL is how long a hook's Job stays at least after it has finished, in seconds: its end must be seen, also
// where its cluster is away for a while.
const leastTTL = 24 * 60 * 60

// HookManifest returns the manifest of a hook as it is sent: with the annotations, and a Job with a
// ttlSecondsAfterFinished of leastTTL or more, if it has one. An error is Invalid, as Stamp's.
func HookManifest(manifest []byte, annotations map[string]string) ([]byte, error) {
	object, err := DecodeObject(manifest)
	if err != nil {
		return nil, err
	}
	if err := annotate(object, annotations); err != nil {
		return nil, err
	}
	spec, _ := object["spec"].(map[string]any)
	if ttl, ok := spec["ttlSecondsAfterFinished"].(json.Number); ok && object["kind"] == "Job" {
		if seconds, err := ttl.Int64(); err == nil && seconds < leastTTL {
			spec["ttlSecondsAfterFinished"] = leastTTL
		}
	}
	return json.Marshal(object)
}

// Expired says whether a hook's object that was sent so long ago may have done its work since, and been deleted by its cluster for that.
func (r *Resource) Expired(ago time.Duration) bool {
	return ago > leastTTL*time.Second && r.Expires()
}

// Expires says whether the cluster deletes the resource some time after it has done its work: a Job with a ttlSecondsAfterFinished. That
// such a one is missing says nothing of how it ended.
func (r *Resource) Expires() bool {
	if r.Group != "batch" || r.Kind != "Job" {
		return false
	}
	var job struct {
		Spec struct {
			TTL *json.Number `json:"ttlSecondsAfterFinished"`
		} `json:"spec"`
	}
	return json.Unmarshal(r.Manifest, &job) == nil && job.Spec.TTL != nil
}
