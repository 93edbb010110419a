package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/plan"
)

// Bounds of what is noted of lookups: loops may have many, of names of any length.
const (
	maxSought     = 100
	maxSoughtText = 300
)

// lookup finds nothing, as there is no cluster, and notes what was looked for, by kind and name alone. What notes for people say counts for nothing.
func (e *engine) lookup(_, kind, namespace, name string) map[string]any {
	what := kind
	switch {
	case name != "" && namespace != "":
		what += " " + name + " in " + namespace
	case name != "":
		what += " " + name
	case namespace != "":
		what += " of " + namespace
	}
	if len(what) > maxSoughtText {
		what = strings.ToValidUTF8(what[:maxSoughtText], "")
	}
	found := sought{what, kind + " " + name}
	if !e.inNotes && len(e.sought) < maxSought && !slices.Contains(e.sought, found) {
		e.sought = append(e.sought, found)
	}
	return map[string]any{}
}

// sought is something that was looked for, in words, and its kind and name as unsteady has them.
type sought struct{ what, id string }

// unfound warns of what templates have looked for in the cluster: none of what a warning says already that updates change it, nor of what the chart
// makes itself where it makes the same each time.
func (e *engine) unfound(b *plan.Bundle, unsteady []string) []string {
	var names []string
	for _, s := range e.sought {
		own := slices.ContainsFunc(b.Resources, func(r plan.Resource) bool { return r.Kind+" "+r.Name == s.id })
		if !slices.Contains(unsteady, s.id) && (e.varies || !own) {
			names = append(names, s.what)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return []string{fmt.Sprintf("the chart looks in clusters for %s, and is told that there is none, whatever they have: give what it looks for as a value", firstOf(names))}
}
