package match

import "github.com/drover-io/drover/internal/domain"

// Effect is what a record brings about in the infrastructure cluster.
type Effect string

// The effects.
const (
	EffectCreate  Effect = "Create"  // the object is made
	EffectChange  Effect = "Change"  // its annotations are changed in place
	EffectReplace Effect = "Replace" // it is deleted, and made anew when it is gone
	EffectDelete  Effect = "Delete"  // it is deleted; where nothing was made, the match alone goes
	EffectKeep    Effect = "Keep"    // it is as it is wanted
	EffectNothing Effect = "Nothing" // the rule matches, and nothing can be made, or not now
)

// Effects are all of them, in the order in which people want to know of them.
var Effects = []Effect{EffectCreate, EffectChange, EffectReplace, EffectDelete, EffectNothing, EffectKeep}

// EffectOf is what whoever acts on clusters would do of a record, by Next, until nothing more is to be done.
func EffectOf(m *domain.Match) Effect {
	step := Next(m)
	switch {
	case step == Forget:
		return EffectDelete
	case m.Due.IsZero() && m.Made != nil && !m.Mark.Failed():
		return EffectKeep
	case m.Due.IsZero(), step == Rest: // nothing can be made, or the cluster has refused it
		return EffectNothing
	case step == Create:
		return EffectCreate
	case step == Withdraw && m.IsWanted():
		return EffectReplace
	case step == Withdraw:
		return EffectDelete
	case m.Made.Annotations != m.Wanted.Annotations:
		return EffectChange
	default:
		return EffectKeep
	}
}
