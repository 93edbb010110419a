package render

import (
	"cmp"
	"strconv"
	"strings"

	"helm.sh/helm/v3/pkg/release"

	"github.com/drover-io/drover/internal/plan"
)

const hookAnnotation = release.HookAnnotation

// hookEvents are the events of Helm's hooks that have a place in a lifecycle. Tests, which a person starts,
// have none.
var hookEvents = map[string]bool{
	release.HookPreInstall.String():   true,
	release.HookPostInstall.String():  true,
	release.HookPreDelete.String():    true,
	release.HookPostDelete.String():   true,
	release.HookPreUpgrade.String():   true,
	release.HookPostUpgrade.String():  true,
	release.HookPreRollback.String():  true,
	release.HookPostRollback.String(): true,
	release.HookTest.String():         false,
	"test-success":                    false, // Helm 2's name for test
}

// hook makes a hook of an object annotated with events; false for one that is never run: a test, or as in
// Helm one with an event that nobody knows (crd-install of Helm 2 is the usual one).
func hook(o *object, events string) (plan.Hook, bool) {
	h := plan.Hook{ResourceID: o.ResourceID, Manifest: o.manifest}
	for _, event := range words(events) {
		runs, known := hookEvents[event]
		if !known {
			return h, false
		}
		if runs {
			h.Events = append(h.Events, event)
		}
	}
	if weight, err := strconv.Atoi(o.annotations[release.HookWeightAnnotation]); err == nil {
		h.Weight = weight // anything else is no weight to Helm
	}
	if policies, ok := o.annotations[release.HookDeleteAnnotation]; ok {
		h.DeletePolicies = words(policies)
	}
	return h, len(h.Events) > 0
}

// words splits a list of an annotation.
func words(list string) []string {
	all := strings.Split(list, ",")
	for i, word := range all {
		all[i] = strings.ToLower(strings.TrimSpace(word))
	}
	return all
}

func inHookOrder(a, b plan.Hook) int {
	return cmp.Or(
		cmp.Compare(a.Weight, b.Weight),
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(rank(a.Kind), rank(b.Kind)),
		cmp.Compare(a.Kind, b.Kind),
	)
}
