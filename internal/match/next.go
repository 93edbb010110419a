package match

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/when"
)

// How a record that is due is settled, one step after the other, by who acts on clusters. Each of the functions below that
// return a record says what is to be stored; the one that comes before a request is stored before that is sent.
//
//	Next → Rest, or Forget the record
//	     → Look at what is there: nothing → Gone; ours → Settled; somebody else's → Taken; it does not let us → Unclear
//	     → Sending (stored), create → Settled, Taken, Refused, Later, or Unanswered
//	     → Withdrawing (stored), delete → Withdrawn, Later, or Stuck

// Step is what is to be done next for a record.
type Step int

// The steps.
const (
	Forget   Step = iota // nothing is wanted, and nothing is there: the record goes
	Rest                 // nothing can be made now
	Create               // nothing is there by our doing as far as is known: it is to be made
	Look                 // it may be there as it is wanted
	Withdraw             // what was made is to be deleted, for good or because another one is wanted
)

// Next decides what is to be done for a record that is due.
func Next(m *domain.Match) Step {
	switch {
	case m.Made == nil && m.Wanted == nil:
		return Forget
	case m.Made == nil && !m.IsWanted():
		return Rest
	case m.Made == nil:
		return Create
	case m.Mark.ToDelete(), !stays(m):
		return Withdraw
	case m.Mark == domain.MarkSent && m.Made.UID == "": // that it is not there would not say that it does not come
		return Create
	default:
		return Look
	}
}

// again are the waits before what was gone, or did not get through, is tried again.
var again = policy.Doubling{First: policy.FirstAgain, Most: policy.LongestAgain}

// Sending is the record when r is about to be created.
func Sending(m domain.Match, r *Resource, now time.Time) domain.Match {
	m.Made = &domain.Made{
		Cluster: r.Cluster, Group: r.ID.Group, Version: r.ID.Version, Kind: r.ID.Kind, Namespace: r.ID.Namespace, Name: r.ID.Name,
		Label: r.Label, Spec: r.Spec, Annotations: r.Annotations, Sent: now,
	}
	m.Mark, m.Reason = domain.MarkSent, ""
	return m
}

// Unanswered is the record when a create has ended without an answer.
func Unanswered(m domain.Match, now time.Time) domain.Match {
	made := *m.Made
	made.Over = now
	m.Made = &made
	return m
}

// Doomed is the record when what is there is not what is wanted: it is deleted, and made anew.
func Doomed(m domain.Match) domain.Match {
	m.Mark = domain.MarkDoomed
	return m
}

// Annotated is the record when what is there has the annotations of r.
func Annotated(m domain.Match, r *Resource) domain.Match {
	made := *m.Made
	made.Annotations = r.Annotations
	m.Made = &made
	return m
}

// Annotations are the annotations of an object that are to be another, nil for none any more, so that it has those of r. Ours are
// the names of those that we have set; what others have said stays.
func Annotations(have map[string]string, ours []string, r *Resource) map[string]*string {
	want := annotationsOf(r.Manifest)
	changed := map[string]*string{}
	for name, value := range want {
		if is, ok := have[name]; !ok || is != value {
			changed[name] = &value
		}
	}
	for _, name := range ours {
		_, wanted := want[name]
		if _, there := have[name]; there && !wanted {
			changed[name] = nil
		}
	}
	return changed
}

func annotationsOf(manifest []byte) map[string]string {
	var o struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(manifest, &o) // it is ours
	return o.Metadata.Annotations
}

// Due are the records of which something is due that may be done at a time, those first that have been for longest; next is when
// more may be done, zero for never. A wait that is longer than any is of a clock that was ahead, and is over.
func Due(records []domain.Match, now time.Time) (due []domain.Match, next time.Time) {
	for i := range records {
		switch m := &records[i]; {
		case m.Due.IsZero():
		case !m.Next.After(now), m.Next.Sub(now) > policy.LongestAgain+policy.ClockSkew:
			due = append(due, *m)
		case next.IsZero() || m.Next.Before(next):
			next = m.Next
		}
	}
	slices.SortStableFunc(due, func(a, b domain.Match) int { return a.Due.Compare(b.Due) })
	return due, next
}

// LabelTenant is the label of a tenant's namespace: its context id. On the operator's it is domain.OperatorContext.
const LabelTenant = "drover.io/tenant"

// Namespace is the namespace in which a tenant's matches are. It carries no label of a deployment: nothing is to report on it.
func Namespace(t *domain.Tenant, name string) *Resource {
	owner := t.ContextID
	if name == domain.OperatorNamespace {
		owner = domain.OperatorContext
	}
	metadata := map[string]any{"name": name, "labels": map[string]any{LabelTenant: owner}}
	return &Resource{
		Cluster: t.ClusterName(), ID: plan.ResourceID{Version: "v1", Kind: "Namespace", Name: name},
		Manifest: encode(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}),
	}
}

// Settled is the record when what is wanted is there.
func Settled(m domain.Match, uid string) domain.Match {
	made := *m.Made
	made.UID = uid
	m.Made, m.Mark, m.Reason, m.Due, m.Next = &made, domain.MarkApplied, "", time.Time{}, time.Time{}
	return m
}

// Rested is the record when nothing can be made: Wanted says why.
func Rested(m domain.Match) domain.Match {
	m.Mark, m.Due, m.Next = domain.MarkPending, time.Time{}, time.Time{}
	if m.Wanted.Failed {
		m.Mark = domain.MarkRefused
	}
	return m
}

// NameConflict begins the reason of Taken.
const NameConflict = "NameConflict"

// Taken is the record when somebody else has an object of the name. That may be put right in the cluster, where nobody tells us:
// it is tried again.
func Taken(m domain.Match, now time.Time) domain.Match {
	due := m.Due
	m = Refused(m, NameConflict+": the cluster has an object of this name that was not made for the match; it is left alone")
	m.Due, m.Next = due, now.Add(policy.LongestAgain)
	return m
}

// Refused is the record when the cluster has refused what is wanted, and has nothing of it.
func Refused(m domain.Match, why string) domain.Match {
	m.Made, m.Mark, m.Reason, m.Due, m.Next = nil, domain.MarkRefused, why, time.Time{}, time.Time{}
	return m
}

// Unsent is the record when what was to be sent was not; before is what was read.
func Unsent(m, before domain.Match) domain.Match {
	m.Made, m.Mark = before.Made, before.Mark
	return m
}

// Unclear is the record when the cluster has refused what is wanted, and what was made before may be there still.
func Unclear(m domain.Match, why string) domain.Match {
	m.Mark, m.Reason, m.Due, m.Next = domain.MarkUndeleted, why, time.Time{}, time.Time{}
	return m
}

// Gone is the record when what was made is not there any more, though it is wanted: it is made again after a while, the longer
// the more often that was so.
func Gone(m domain.Match, why string, now time.Time) domain.Match {
	if now.Sub(m.Made.Sent) > policy.Lives {
		m.Attempts = 0
	}
	m.Made, m.Mark = nil, domain.MarkPending
	return Later(m, why, now)
}

// Later is the record when the cluster could not do it now.
func Later(m domain.Match, why string, now time.Time) domain.Match {
	m.Reason = why
	m.Next = now.Add(again.Nth(m.Attempts))
	m.Attempts++
	return m
}

// Withdrawing is the record when what was made is about to be deleted.
func Withdrawing(m domain.Match) domain.Match {
	m.Mark = domain.MarkDeleting
	return m
}

// Arriving is until when a create may still be on its way whose answer nobody got; zero when none may. As long as one may, that
// nothing is there does not say that nothing will be.
func Arriving(m *domain.Match, now time.Time) (until time.Time) {
	if m.Made == nil || m.Made.UID != "" || m.Made.Sent.IsZero() {
		return time.Time{}
	}
	until = m.Made.Sent.Add(policy.SendWithin + policy.CreateLasts + policy.CreateArrives)
	if !m.Made.Over.IsZero() {
		until = m.Made.Over.Add(policy.CreateArrives)
	}
	if !now.Before(until) {
		return time.Time{}
	}
	return until
}

// Sent is the record when its create was sent in the past, though a clock that was ahead says otherwise: else it would be on its way for as long as that
// clock was ahead.
func Sent(m domain.Match, now time.Time) domain.Match {
	made := *m.Made
	made.Sent, made.Over = when.Past(made.Sent, now), when.Past(made.Over, now)
	m.Made = &made
	return m
}

// Evicted is the record when a node has given the object up: it is deleted, and made again after a while, as one that is gone.
func Evicted(m domain.Match, now time.Time) domain.Match {
	gone := Gone(m, "", now)
	m.Mark, m.Attempts = domain.MarkDoomed, gone.Attempts
	return m
}

// Withdrawn is the record when what was made is gone.
func Withdrawn(m domain.Match, now time.Time) domain.Match {
	m.Made, m.Mark, m.Reason, m.Next = nil, domain.MarkPending, "", time.Time{}
	if m.Attempts > 0 {
		m.Next = now.Add(again.Nth(m.Attempts - 1))
	}
	return m
}

// Ending is the record when what is deleted is still there, and why.
func Ending(m domain.Match, why string, now time.Time) domain.Match {
	m.Mark = domain.MarkEnding
	return Waiting(m, why, now)
}

// Waiting is the record when something is waited for that takes as long as it takes: a finalizer, say. Nobody needs to know at
// once that it is over after an hour.
func Waiting(m domain.Match, why string, now time.Time) domain.Match {
	m.Reason, m.Next = why, now.Add(min(max(now.Sub(m.Due)/4, policy.FirstAgain), policy.LongestWait))
	return m
}

// Stuck is the record when the cluster refuses to delete what was made. That is tried again.
func Stuck(m domain.Match, why string, now time.Time) domain.Match {
	m.Mark, m.Reason, m.Next = domain.MarkDoomed, why, now.Add(policy.LongestAgain)
	return m
}

// Missed are the records that have to change by what a cluster reports of what one rule's matches have made there: what is there
// no more is due, so that it is looked at and made again, and what is there unrecorded gets a record, so that it is removed. The
// report may be older than the records: of what is unrecorded the cluster is to be asked first.
func Missed(records []domain.Match, o *domain.Observation, tenant string, now time.Time) (due, unrecorded []domain.Match) {
	if o.Error != "" {
		return nil, nil
	}
	type place struct{ kind, namespace, name string }
	there, known := map[place]bool{}, map[place]bool{}
	byID := make(map[string]int, len(records))
	for i := range o.Resources {
		r := &o.Resources[i]
		if !(plan.ResourceID{Group: r.Group, Kind: r.Kind}).Evicted(r.JSON) {
			there[place{r.Kind, r.Namespace, r.Name}] = true
		}
	}
	label := plan.DeploymentID(o.ContextID, o.App)
	for i := range records {
		m := records[i]
		byID[m.ID()] = i
		if m.Made == nil || m.Made.Cluster != o.Cluster || Label(o.ContextID, m.Rule) != label {
			continue
		}
		at := place{m.Made.Kind, m.Made.Namespace, m.Made.Name}
		known[at] = true
		unclear := m.Mark == domain.MarkUndeleted // it could not be looked at, or changed
		if (m.Mark == domain.MarkApplied || unclear) && m.Due.IsZero() && !there[at] && watches(o, m.Made) {
			if unclear { // the cluster may refuse it again: not with every report
				m = Later(m, m.Reason, now)
				m.Mark = domain.MarkSent
			}
			m.Due = now
			due = append(due, m)
		}
	}
	for i := range o.Resources {
		r := &o.Resources[i]
		if known[place{r.Kind, r.Namespace, r.Name}] {
			continue
		}
		annotations := annotationsOf(r.JSON)
		m := domain.Match{Tenant: tenant, Rule: domain.Key(annotations[AnnotationRule]), Workload: annotations[AnnotationWorkload]}
		// Neither a copy that something else has made, nor an object that somebody has given the annotations of another rule.
		if m.Rule == "" || m.Workload == "" || Label(o.ContextID, m.Rule) != label {
			continue
		}
		if at, ok := byID[m.ID()]; ok {
			if m = records[at]; m.Made != nil || !m.Due.IsZero() {
				continue
			}
		}
		m.Made = &domain.Made{Cluster: o.Cluster, Group: r.Group, Version: r.Version, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, Label: label}
		m.Mark, m.Due, m.Next = domain.MarkDoomed, now, time.Time{}
		unrecorded = append(unrecorded, m)
	}
	return due, unrecorded
}

// watches says whether what is reported would have the object if it were there.
func watches(o *domain.Observation, made *domain.Made) bool {
	kind := made.Kind
	if made.Group != "" {
		kind += "." + made.Group
	}
	if slices.ContainsFunc(o.Unheard, func(u domain.UnheardKind) bool { return u.Kind == kind }) {
		return false
	}
	return len(o.Resources) == 0 || o.Kinds == nil || slices.Contains(o.Kinds, kind)
}
