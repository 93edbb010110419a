package plan

import (
	"fmt"

	"github.com/drover-io/drover/internal/domain"
)

// Bounds of Inherited.Warnings. A leaf may have 64 KiB of them and a plan 200,000 targets, whereas a plan of more than 1 GiB cannot be stored.
const (
	carriedWarnings, carriedBytes = 8, 2 << 10 // of a target
	carriedByAll                  = 64 << 20   // bytes of all targets together
)

// CarryFew cuts the warnings that targets inherit to a few each. The last one that is kept says of how many nothing else is known any more.
func (p *Plan) CarryFew() {
	targets := 0
	for i := range p.Apps {
		targets += len(p.Apps[i].Targets)
	}
	room := min(carriedBytes, carriedByAll/max(targets, 1))
	for i := range p.Apps {
		for j := range p.Apps[i].Targets {
			if in := p.Apps[i].Targets[j].Inherited; in != nil {
				in.Warnings = few(in.Warnings, room)
			}
		}
	}
}

// notKept is the warning that stands for some that are not kept.
const notKept = "%d more warnings, of what earlier operations have applied and has stayed as it is, are not kept"

// few are warnings of at most room bytes, not counting the one for those that are left out: it is about the resource of the first of these, and goes
// with that.
func few(warnings []domain.Note, room int) []domain.Note {
	bytes, fit := 0, 0
	for _, w := range warnings {
		if bytes += len(w.Message); bytes > room || fit == carriedWarnings {
			break
		}
		fit++
	}
	if fit == len(warnings) {
		return warnings
	}
	fit = min(fit, carriedWarnings-1)
	left := 0
	for _, w := range warnings[fit:] {
		left += standsFor(w)
	}
	return append(warnings[:fit:fit], domain.Note{Index: warnings[fit].Index, Message: fmt.Sprintf(notKept, left)})
}

// standsFor is how many warnings one stands for: what was cut before is counted as what it was.
func standsFor(w domain.Note) int {
	var n int
	if _, err := fmt.Sscanf(w.Message, notKept, &n); err == nil {
		return n
	}
	return 1
}
