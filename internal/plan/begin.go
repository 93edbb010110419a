package plan

import (
	"slices"

	"github.com/drover-io/drover/internal/domain"
)

// First are the marks of n resources before anything of the work on a leaf is done, as far as they are known without its
// record: inherited is what earlier contexts left, "" for nothing. Of a terminate they are all that may have to be deleted;
// pruning begins when all is applied.
func First(op domain.Operation, prune bool, inherited string, n int) domain.Marks {
	marks := domain.NewMarks(n, domain.MarkPending)
	if inherited != "" {
		marks = domain.DecodeMarks(inherited)
	}
	for i, m := range marks {
		switch {
		case op == domain.OpTerminate && m != domain.MarkGone:
			marks[i] = domain.MarkDoomed
		case prune && m.ToApply():
			marks[i] = domain.MarkApplied
		}
	}
	return marks
}

// Start is what is known of a leaf before an operation does its first step on it.
type Start struct {
	Operation domain.Operation
	Prune     bool // what is not wanted any more is to be deleted
	Installs  bool // Target's
	Inherited string
	Report    string // Inherited's
	// TookOver says that the context has taken over from another one.
	TookOver bool
	// Incomplete says that the record may know less than was sent to the cluster.
	Incomplete bool
	// Record is what the context's last work on the leaf has left, nil where none was done.
	Record *domain.Leaf
}

// Deletes says whether the work is to delete. Only then the record counts.
func (s Start) Deletes() bool { return s.Operation == domain.OpTerminate || s.Prune }

// Beginning is how the work on a leaf begins.
type Beginning struct {
	Marks domain.Marks
	// Reported says, of work that deletes, that there may be a ResourceBundleState, which is to go with the rest.
	Reported bool
	Report   string // domain.Leaf's
}

// Begin decides with what the work on a leaf begins.
func Begin(resources []Resource, s Start) Beginning {
	inherited := First("", false, s.Inherited, len(resources))
	switch {
	case s.Installs && !s.Deletes(): // the plan says which hooks have been run
		return Beginning{Marks: inherited}
	case !s.Deletes():
		return Beginning{Marks: Due(resources, s.Operation, inherited)}
	case s.Prune:
		return beginPruning(inherited, s)
	case s.Incomplete && (s.Record == nil || s.Record.Operation != domain.OpTerminate): // what a terminate has recorded since is known
		return Beginning{Marks: Doom(resources, inherited, inherited.Unsure(), domain.OpUpdate), Reported: true}
	default:
		left := s.left(inherited)
		return Beginning{Marks: Doom(resources, inherited, domain.DecodeMarks(left.Marks), left.Operation), Reported: reported(left, s.TookOver)}
	}
}

// left is the record of the leaf; without one nothing was done on what earlier contexts left.
func (s Start) left(inherited domain.Marks) *domain.Leaf {
	if s.Record != nil {
		return s.Record
	}
	return &domain.Leaf{Operation: domain.OpUpdate, Marks: inherited.Encode(), Report: s.Report}
}

// beginPruning begins work that prunes. When nothing of the leaf stays, its ResourceBundleState is to go, too; else it stays
// as it is.
func beginPruning(inherited domain.Marks, s Start) Beginning {
	left := s.left(inherited)
	b := Beginning{Marks: domain.DecodeMarks(left.Marks)}
	stays := b.Marks.Has(func(m domain.Mark) bool { return !m.ToDelete() && m != domain.MarkGone })
	if b.Reported = !stays; stays {
		b.Report = left.Report
	}
	return b
}

// reported says whether there may be a ResourceBundleState of a leaf that was worked on before: it is applied when something
// of the leaf is applied. In a context that has taken over from another one, that one may have applied it.
func reported(leaf *domain.Leaf, tookOver bool) bool {
	marks := domain.DecodeMarks(leaf.Marks)
	switch {
	case leaf.Operation == domain.OpTerminate:
		return leaf.Report != "" || marks.Has(domain.Mark.Ours)
	case tookOver:
		return marks.Has(domain.Mark.MayBeThere) // an earlier context may have been reported on
	default:
		return marks.Applied()
	}
}

// Doomed are the marks with which a step of a terminate that deletes begins: hooks among its resources that were run in the
// steps before are to be deleted too, but those to be kept.
func (s Step) Doomed(resources []Resource, marks domain.Marks) domain.Marks {
	out := slices.Clone(marks)
	for _, i := range s.Resources {
		if m := out[i]; resources[i].Hook != nil && m.Ours() && !m.ToDelete() {
			out[i] = keep(resources[i], m.Doom())
		}
	}
	return out
}

// keep is the mark of a resource that a terminate comes to: what is to be kept is not deleted. No request to delete it was ever
// sent; a record that says so is Silence's, which does not know what is to be kept.
func keep(r Resource, m domain.Mark) domain.Mark {
	if r.Keep {
		return m.Keep()
	}
	return m
}

// Silence is work on a leaf of which nobody knows how far it came: it has ended without a word, or it may have sent more than
// it said. An example is an activity whose worker died.
type Silence struct {
	Operation domain.Operation
	Prune     bool
	Hooked    bool // the operation runs hooks
	// Whole says that nothing was ever heard of it: its marks are First's, which do not tell hooks from other resources.
	Whole bool
}

// Believed are the marks that must be assumed after such work, so that nothing that may be in the cluster is forgotten: what
// the work was to send counts as sent. The marks that are given are those that were known last.
func (s Silence) Believed(marks domain.Marks) domain.Marks {
	out := slices.Clone(marks)
	for i, m := range marks {
		out[i] = s.believed(m)
	}
	return out
}

func (s Silence) believed(m domain.Mark) domain.Mark {
	terminates := s.Operation == domain.OpTerminate
	switch {
	case !terminates && m.ToDelete() != s.Prune: // the other round's is as it was
		return m
	case terminates && s.Hooked && s.Whole: // it may be a hook that was not run: one that is being deleted was
		return m.Unsure()
	case m.Idle() && s.Hooked: // which of them the operation runs is not known
		return domain.MarkLeft
	default:
		return m.Send()
	}
}
