package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fields"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/vary"
)

// A warning is what a user should know although nothing failed. It is in the leaf's record, for the detail of the status
// and for explain.

const (
	// maxWarnings bounds the warnings of a leaf, maxDropped those about fields of one resource, and maxShared those about what others have, too,
	// but for the one that says so.
	maxWarnings, maxDropped, maxShared = 200, 16, 20
	// maxWarning bounds a warning in bytes, and maxWarned all those of a leaf.
	maxWarning, maxWarned = 1 << 10, 64 << 10
)

// dropped takes what a resource's kind does not know.
func (a *attempt) dropped(i int, fields []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, field := range fields[:min(len(fields), maxDropped)] {
		a.state.warn(i, fmt.Sprintf("the cluster does not know the field %s: it was dropped", short(field, maxWarning/2)))
	}
	if more := len(fields) - maxDropped; more > 0 {
		a.state.warn(i, fmt.Sprintf("%d more fields that the cluster does not know were dropped", more))
	}
}

// shared takes who has fields of a resource as well. An apply takes over what it changes, and leaves what is others': what both have stays when one
// has it no more. Of an app that Helm had installed it is so of all resources: a few say it, and leave room for what has been lost.
func (a *attempt) shared(i int, managers []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	told := 0
	for _, w := range a.state.Warnings {
		if strings.Contains(w.Message, sharedText) {
			told++
		}
	}
	text := "fields of it are " + strings.Join(managers, "'s and ") + "'s" + sharedText
	switch {
	case told > maxShared:
		return
	case told == maxShared:
		text += "; so it may be of more resources, which are not named"
	}
	a.state.warn(i, text)
}

// sharedText is what the warnings about shared fields have in common, by which they are counted: each is about managers of its own.
const sharedText = ", too, by an earlier apply: they stay in the cluster when the chart has them no more"

// replaces takes that a resource's object is about to be deleted, and made anew. It is handed on, as an attempt after this one may find nothing there.
func (a *attempt) replaces(ctx context.Context, i int, refused string) error {
	a.lose(i, "it was deleted and made anew, as the cluster refused to change it: "+refused)
	return a.handOn(ctx)
}

// unpatchable takes a kind of which the user may not patch.
func (a *attempt) unpatchable(resource string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i, found := slices.BinarySearch(a.state.Unpatchable, resource); !found {
		a.state.Unpatchable = slices.Insert(a.state.Unpatchable, i, resource)
	}
}

// warn notes a warning once, whatever number of attempts come to it.
func (p *progress) warn(index int, text string) {
	w := domain.Note{Index: index, Message: noted(text)}
	if !slices.Contains(p.Warnings, w) && room(p.Warnings, w) {
		p.Warnings = append(p.Warnings, w)
	}
}

// noted is a text as it is recorded. The names of fields are the chart's: one may be as long as an object.
func noted(text string) string {
	const more = "…"
	if len(text) <= maxWarning {
		return text
	}
	return short(text, maxWarning-len(more)) + more
}

// room says whether there is room for one more of a leaf's warnings, or losses: all that a heartbeat carries has to fit one payload.
func room(are []domain.Note, more domain.Note) bool {
	bytes := len(more.Message)
	for _, n := range are {
		bytes += len(n.Message)
	}
	return len(are) < maxWarnings && bytes <= maxWarned
}

// maxUnknown bounds the warnings about fields in the answer to an instantiate, which has them in its headers.
const maxUnknown = 8

// maxLooked is in how many variants of an app fields are looked for: of more, the status says it once they are applied.
const maxLooked = 100

// unknownFields are warnings of the members of an app's resources that their kinds do not have, as far as that is known before a
// cluster is asked. Clusters drop them. What is in several variants is said once.
func unknownFields(v *vary.Varied) (warnings []string) {
	known := fields.KnownTo(v.Bundle.Resources)
	said := map[string]bool{}
	look := func(r *plan.Resource) {
		for _, field := range known.Unknown(r) {
			text := fmt.Sprintf("app %q: %s %q has the field %s, which its kind does not know: clusters drop it", v.Bundle.App, r.Kind, r.Name, field)
			if !said[text] {
				said[text] = true
				warnings = append(warnings, text)
			}
		}
	}
	for i := range v.Bundle.Resources {
		look(&v.Bundle.Resources[i])
	}
	for _, variant := range v.Variants[:min(len(v.Variants), maxLooked)] {
		for i := range variant.Overlay.Resources {
			look(&variant.Overlay.Resources[i].Resource)
		}
	}
	return warnings
}

// few are the first of the warnings about fields, and how many there are beside.
func few(warnings []string) []string {
	more := len(warnings) - maxUnknown
	if more <= 0 {
		return warnings
	}
	return append(warnings[:maxUnknown:maxUnknown], fmt.Sprintf("%d more fields that their kinds do not know: the status with output=detail has them once they are applied", more))
}
