package domain

import (
	"slices"
	"strconv"
	"strings"
)

// Mark is what is known of one resource on one cluster. It knows more than a ResourceState: whether the
// cluster may hold the resource although nobody got an answer, which decides what a terminate must do.
// The letters are stored in records and histories: they never change their meaning.
//
// What a mark means is asked of its methods, here and nowhere else; TestTheTruthOfMarks says of each mark what each of
// them answers, and why.
type Mark byte

// The marks.
const (
	MarkPending   Mark = 'p' // never sent
	MarkOutdated  Mark = 'o' // in the cluster as an earlier context applied it, to be applied anew, not sent
	MarkSent      Mark = 's' // apply sent, no answer known: may be in the cluster
	MarkApplied   Mark = 'A' // apply answered: in the cluster
	MarkRefused   Mark = 'F' // apply answered with a refusal
	MarkDoomed    Mark = 'd' // in the cluster, to be deleted, delete not sent
	MarkDeleting  Mark = 'r' // to be deleted, and may be in the cluster: delete sent without an answer, or nobody knew before
	MarkEnding    Mark = 'L' // delete answered, and still in the cluster: it waits for a finalizer, say
	MarkUndeleted Mark = 'X' // refused, and may be in the cluster
	MarkDeleted   Mark = 'D' // not in the cluster
	MarkKept      Mark = 'K' // left in the cluster on purpose (CRDs, helm.sh/resource-policy: keep), or as it was there before
	MarkKeeping   Mark = 'k' // to be left in the cluster on purpose, and nobody knows whether it is there: it is looked for
	MarkIdle      Mark = 'h' // a hook of other operations: never sent, and not to be
	MarkLeft      Mark = 'H' // a hook of other operations, of which a run that has not succeeded may have left something
	MarkGone      Mark = 'G' // not the context's: it was pruned, or is an earlier context's that this cluster never had
)

// MayBeThere says whether the cluster may hold the resource by the context's doing, or with its leave.
func (m Mark) MayBeThere() bool {
	switch m {
	case MarkPending, MarkIdle, MarkRefused, MarkDeleted, MarkGone:
		return false
	default:
		return true
	}
}

// There says whether the cluster is known to have the resource, as this context or an earlier one has it: nobody says so of what may be there.
func (m Mark) There() bool {
	switch m {
	case MarkApplied, MarkOutdated, MarkDoomed, MarkEnding, MarkKept:
		return true
	default:
		return false
	}
}

// Ours says whether the cluster may hold the resource, and it is for us to delete it.
func (m Mark) Ours() bool { return m.MayBeThere() && m != MarkKept && m != MarkKeeping }

// Absent says whether the resource is known not to be in the cluster, of those that are the context's. A MarkGone is nobody's.
func (m Mark) Absent() bool { return !m.MayBeThere() && m != MarkGone }

// ToApply says whether the resource is to be applied.
func (m Mark) ToApply() bool { return m == MarkPending || m == MarkOutdated || m == MarkSent }

// ToDelete says whether the resource is to be deleted.
func (m Mark) ToDelete() bool { return m == MarkDoomed || m == MarkDeleting || m == MarkEnding }

// ToLookFor says whether the cluster is to be asked for the resource, and nothing else is to be done on it. A worker that does
// not know such a mark leaves the resource alone, as with every letter that is new to it.
func (m Mark) ToLookFor() bool { return m == MarkKeeping }

// Expected says, of a context that is to be there, whether its cluster is to have the resource with the context's label.
// What is to be pruned is not, nor a hook that is not run or was deleted when it had done its work, nor what was there before
// and is left as it is, without a label.
func (m Mark) Expected() bool { return m.ToApply() || m == MarkApplied || m.Failed() }

// Unsent says whether the request that it is to have was not sent yet.
func (m Mark) Unsent() bool { return m == MarkPending || m == MarkOutdated || m == MarkDoomed }

// Stays says whether the resource is in the cluster as it is to be.
func (m Mark) Stays() bool { return m == MarkApplied || m == MarkKept }

// Settled says whether nothing is left to be done on the resource by the work that is going on, be it that the cluster
// has refused it. What was refused, or could not be deleted, is settled: it is not tried again until somebody asks for it.
func (m Mark) Settled() bool { return !m.ToApply() && !m.ToDelete() && !m.ToLookFor() }

// Lack is what is still to come of a resource.
type Lack int

// The lacks.
const (
	LacksNothing Lack = iota // it is settled
	LacksRequest             // nobody has sent what applies it
	LacksDelete              // nobody has sent what deletes it
	LacksAnswer              // something was sent, and nobody knows what came of it
	LacksEnd                 // its deletion was accepted, and it is still there
)

// Lacks says what is still to come of the resource.
func (m Mark) Lacks() Lack {
	switch {
	case m.Settled():
		return LacksNothing
	case m == MarkEnding:
		return LacksEnd
	case !m.Unsent():
		return LacksAnswer
	case m.ToDelete():
		return LacksDelete
	default:
		return LacksRequest
	}
}

// Residue is what a resource state does not say of a resource on which nothing is done any more.
type Residue int

// The residues.
const (
	ResidueNone    Residue = iota
	ResidueKept            // left in the cluster on purpose; its state is Applied
	ResidueIdle            // a hook of other operations; its state is Pending
	ResidueUndealt         // it was to be deleted, and nobody came to it; its state is Applied
)

// Residue is that of the resource.
func (m Mark) Residue() Residue {
	switch {
	case m == MarkKept:
		return ResidueKept
	case m.Idle():
		return ResidueIdle
	case m == MarkDoomed:
		return ResidueUndealt
	default:
		return ResidueNone
	}
}

// Tidied is the mark of a hook that has ended when its object is deleted: it is as good as Deleted, or it has failed and left nothing. Any
// other mark stays.
func (m Mark) Tidied() Mark {
	switch m {
	case MarkApplied:
		return MarkDeleted
	case MarkUndeleted:
		return MarkRefused
	default:
		return m
	}
}

// Failed says whether the cluster has refused it, or what is to be done on it has failed there.
func (m Mark) Failed() bool { return m == MarkRefused || m == MarkUndeleted }

// Answered says whether it is the cluster's word on a request.
func (m Mark) Answered() bool {
	return m == MarkApplied || m == MarkDeleted || m == MarkEnding || m.Failed()
}

// Idle says whether it is a hook that the operation does not run.
func (m Mark) Idle() bool { return m == MarkIdle || m == MarkLeft }

// Succeeded says of a hook whether its last run has done its work. A hook may be Deleted then: its policy says so. One whose object was
// there before, and is left as it is, has none to do.
func (m Mark) Succeeded() bool { return m == MarkApplied || m == MarkDeleted || m == MarkKept }

// Missed says of a hook whether it was to be run, and has not succeeded: nobody came to it, nobody knows, or it failed.
func (m Mark) Missed() bool { return m == MarkPending || m == MarkSent || m.Failed() }

// Completed says, of the mark that a terminate has left a hook of its own with, whether the hook has succeeded. A hook that
// is to be deleted, or to be kept, has: the objects of hooks are deleted in the last step, which comes after all hooks.
func (m Mark) Completed() bool {
	return m.Succeeded() || m.ToDelete() || m == MarkKeeping
}

// Send is the mark once a request for the resource may be on its way. What is to be applied may be there from then on; what
// is to be deleted may have gone.
func (m Mark) Send() Mark {
	switch {
	case !m.Unsent():
		return m
	case m.ToDelete():
		return MarkDeleting
	default:
		return MarkSent
	}
}

// Refuse is the mark when the cluster refuses to apply the resource. If it may be there all the same, because an earlier
// request was sent, a terminate has to ask for it (MarkUndeleted).
func (m Mark) Refuse() Mark {
	if m.MayBeThere() {
		return MarkUndeleted
	}
	return MarkRefused
}

// Await is the mark of a hook that is waited for, when the cluster has said m of its object: one that was taken has not completed.
func (m Mark) Await() Mark {
	if m == MarkApplied {
		return MarkSent
	}
	return m
}

// Prune is the mark of what an update prunes, when the cluster has said m of it: what is deleted is not the context's any more.
func (m Mark) Prune() Mark {
	if m == MarkDeleted {
		return MarkGone
	}
	return m
}

// Renew is the mark when a later context applies anew what this one has, or may have, in the cluster. Nobody says of what may be there that it is.
func (m Mark) Renew() Mark {
	if m.There() {
		return MarkOutdated
	}
	return MarkSent
}

// Unsure is the mark when nobody knows what was sent.
func (m Mark) Unsure() Mark {
	if m == MarkGone {
		return m
	}
	return MarkSent
}

// Keep is the mark of what is to be kept when a terminate comes to it, and would delete it otherwise. Of what was there it says
// that it stays; what may be there is looked for.
func (m Mark) Keep() Mark {
	switch m {
	case MarkDoomed, MarkEnding:
		return MarkKept
	case MarkDeleting:
		return MarkKeeping
	default:
		return m
	}
}

// Doom is the mark with which a terminate begins: what was never sent or was refused is Deleted without asking the
// cluster; what is there, or may be there, is to be deleted. Nobody says of what may be there that it is. What is to be kept
// stays so.
func (m Mark) Doom() Mark {
	switch {
	case m.Absent():
		return MarkDeleted
	case m == MarkApplied, m == MarkOutdated:
		return MarkDoomed
	case m == MarkSent, m == MarkUndeleted, m == MarkLeft:
		return MarkDeleting
	default:
		return m
	}
}

// State is how a mark is shown, "" when it is not. While work goes on, what is not settled is Pending, or Retrying when the
// cluster does not answer or when it outlives its deletion. After it has ended nothing more is tried: what was sent without
// an answer is Failed, and what a terminate never came to is still Applied,
// unless nobody knew whether it was there.
func (m Mark) State(inProgress bool, c Connectivity) ResourceState {
	switch {
	case m.Stays():
		return ResourceApplied
	case m.Failed():
		return ResourceFailed
	case m == MarkDeleted:
		return ResourceDeleted
	case m == MarkGone:
		return ""
	case m.Idle():
		return ResourcePending
	case inProgress && (c == ConnectivityRetrying || m == MarkEnding):
		return ResourceRetrying
	case inProgress:
		return ResourcePending
	case m == MarkSent, m == MarkDeleting, m == MarkEnding, m == MarkKeeping:
		return ResourceFailed
	case m == MarkDoomed:
		return ResourceApplied
	default:
		return ResourcePending
	}
}

// Marks holds one Mark per resource, in the order of the app's bundle. It is stored and sent run-length
// encoded ("500A2F"), so that a leaf of uniform resources costs a few bytes.
type Marks []Mark

// NewMarks makes n equal marks.
func NewMarks(n int, m Mark) Marks {
	marks := make(Marks, n)
	for i := range marks {
		marks[i] = m
	}
	return marks
}

// Encode gives the run-length form.
func (m Marks) Encode() string {
	var b strings.Builder
	for i := 0; i < len(m); {
		j := i
		for j < len(m) && m[j] == m[i] {
			j++
		}
		b.WriteString(strconv.Itoa(j - i))
		b.WriteByte(byte(m[i]))
		i = j
	}
	return b.String()
}

// maxMarks bounds what DecodeMarks makes of a text.
const maxMarks = 10_000_000

// DecodeMarks reads the run-length form; malformed text ends the marks where it begins.
func DecodeMarks(s string) Marks {
	var marks Marks
	for i, n := 0, 0; i < len(s); i++ {
		if c := s[i]; c >= '0' && c <= '9' {
			if n = n*10 + int(c-'0'); n > maxMarks {
				return marks
			}
			continue
		}
		if n == 0 || len(marks)+n > maxMarks {
			return marks
		}
		marks = append(marks, NewMarks(n, Mark(s[i]))...)
		n = 0
	}
	return marks
}

// Count adds up the states of the marks.
func (m Marks) Count(inProgress bool, c Connectivity) map[ResourceState]int {
	counts := map[ResourceState]int{}
	for _, x := range m {
		if s := x.State(inProgress, c); s != "" {
			counts[s]++
		}
	}
	return counts
}

// Failed says whether the cluster has refused something.
func (m Marks) Failed() bool { return m.Has(Mark.Failed) }

// Settled says whether nothing is left to be done on any of the resources, see Mark.Settled.
func (m Marks) Settled() bool {
	return !m.Has(func(x Mark) bool { return !x.Settled() })
}

// Pruned says whether nothing is left to be done on any of the resources by an update's second round, which only deletes: what it
// has not come to in its first round is not its business.
func (m Marks) Pruned() bool { return !m.Has(Mark.ToDelete) }

// Applied says whether the cluster has taken one of the resources as it is to be.
func (m Marks) Applied() bool { return slices.Contains(m, MarkApplied) }

// Has says whether a mark is as is says.
func (m Marks) Has(is func(Mark) bool) bool { return slices.ContainsFunc(m, is) }

// Unsure are the marks when nobody knows what was sent.
func (m Marks) Unsure() Marks { return m.each(Mark.Unsure) }

// Doom turns the marks that an operation left into those with which a terminate begins.
func (m Marks) Doom() Marks { return m.each(Mark.Doom) }

func (m Marks) each(become func(Mark) Mark) Marks {
	out := make(Marks, len(m))
	for i, x := range m {
		out[i] = become(x)
	}
	return out
}
