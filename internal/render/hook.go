package render

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	release "helm.sh/helm/v4/pkg/release/v1"

	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
)

const hookAnnotation = release.HookAnnotation

// timeoutAnnotation bounds how long a hook is waited for, as Helm's --timeout does, which is no part of a chart.
const timeoutAnnotation = "drover.io/hook-timeout"

// crdInstall is the event of Helm 2 with which charts had CRDs applied before all else. Such a CRD is treated
// as one of the crds directory, which came in its place.
const crdInstall = "crd-install"

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

// run gives the events of an annotation at which a hook is run; none for a test, or as in Helm where there is one that nobody
// knows.
func run(events string) (at []string) {
	for _, event := range words(events) {
		runs, known := hookEvents[event]
		if !known {
			return nil
		}
		if runs {
			at = append(at, event)
		}
	}
	return at
}

// strange is the first event of an annotation that nobody knows, if there is one. It may be empty: so is what follows a last comma.
func strange(events string) (event string, found bool) {
	for _, event := range words(events) {
		if _, known := hookEvents[event]; !known {
			return event, true
		}
	}
	return "", false
}

// neverRuns says whether annotations make a hook that is run at no event. A definition that is to be installed is none.
func neverRuns(annotations map[string]string) bool {
	events, hooked := annotations[hookAnnotation]
	return hooked && len(run(events)) == 0 && !slices.Contains(words(events), crdInstall)
}

// hook makes a hook of an object annotated with events; nil for one that is never run.
func hook(o *object, events string) (*plan.Hook, error) {
	h := &plan.Hook{Events: run(events)}
	if len(h.Events) == 0 {
		return nil, nil
	}
	if weight, err := strconv.Atoi(o.annotations[release.HookWeightAnnotation]); err == nil {
		h.Weight = weight // anything else is no weight to Helm
	}
	switch policies, ok := o.annotations[release.HookDeleteAnnotation]; {
	case o.IsDefinition(): // all resources of its kind would go with it
		h.DeletePolicies = []string{string(plan.Never)}
	case ok:
		h.DeletePolicies = words(policies)
	}
	if text, ok := o.annotations[timeoutAnnotation]; ok {
		timeout, err := time.ParseDuration(text)
		if err != nil || timeout <= 0 {
			return nil, fmt.Errorf("%s: %s: annotation %s: %q is not a duration such as 10m", o.file, o, timeoutAnnotation, text)
		}
		if timeout > policy.LongestHook {
			return nil, fmt.Errorf("%s: %s: annotation %s: %q is longer than %.0fh", o.file, o, timeoutAnnotation, text, policy.LongestHook.Hours())
		}
		h.Timeout = timeout
	}
	return h, nil
}

// words splits a list of an annotation.
func words(list string) []string {
	all := strings.Split(list, ",")
	for i, word := range all {
		all[i] = strings.ToLower(strings.TrimSpace(word))
	}
	return all
}

// inHookOrder is the order that Helm documents: by weight, kind and name.
func inHookOrder(a, b plan.Resource) int {
	return cmp.Or(
		cmp.Compare(a.Hook.Weight, b.Hook.Weight),
		cmp.Compare(rank(a.Kind), rank(b.Kind)),
		cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Name, b.Name),
	)
}
