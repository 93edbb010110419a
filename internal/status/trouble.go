package status

import (
	"errors"
	"iter"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

// Trouble is something that clusters report, or fail to, which keeps an app from being Ready: a resource that is
// NotReady or NotPresent, as nobody has confirmed lately what it is or because of what was reported, or, without a
// resource, a cluster whose report nobody has confirmed lately.
type Trouble struct {
	App string
	domain.ClusterName

	Resource plan.ResourceID // zero for the cluster as a whole
	State    ClusterState    // of the resource
	Message  string          // why
	Heard    bool            // the cluster was heard before
	LastSeen time.Time       // when it, or the resource's kind, was heard for the last time; zero for now and for never
}

// Troubles are those of an app context by the rules of TypeReady, in the order of apps and clusters. It holds one
// observation at a time. An error of Source.Observations ends the sequence.
func Troubles(s Source) iter.Seq2[Trouble, error] {
	return func(yield func(Trouble, error) bool) {
		s := s.visible()
		q := Query{Type: TypeReady, Output: OutputDetail} // in detail resources have messages
		f := &camelReport
		secs, err := sections(q, &s)
		for i := 0; i < len(secs) && err == nil; i++ {
			err = newReporter(q, &s, f, &secs[i]).reports(func(rep *report, o *Observation) error {
				return troubles(secs[i].app.Name, rep, f, o.LastSeen, yield)
			})
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(Trouble{}, err)
		}
	}
}

// errEnough ends a sequence whose reader has left.
var errEnough = errors.New("enough")

// troubles are those of one app on one cluster.
func troubles(app string, rep *report, f *reportForm, lastSeen time.Time, yield func(Trouble, error) bool) error {
	t := Trouble{App: app, ClusterName: rep.cluster.ClusterName}
	if !rep.from.confirmed() {
		t.Message, t.LastSeen, t.Heard = rep.from.reason(), lastSeen, rep.from.Seen || !lastSeen.IsZero()
		if !yield(t, nil) {
			return errEnough
		}
		return nil // what it last reported need not hold
	}
	var end error
	rep.entries(f, func(_ int, e *entry) {
		state := rep.shown(f, e)
		if end != nil || state != ClusterNotReady && state != ClusterNotPresent {
			return
		}
		t.Resource, t.State, t.Message, t.LastSeen = *e.id, state, e.message, time.Time{}
		if e.unheard != nil {
			t.Message, t.LastSeen = e.unheard.reason(), e.unheard.Since
		}
		if !yield(t, nil) {
			end = errEnough
		}
	})
	return end
}
