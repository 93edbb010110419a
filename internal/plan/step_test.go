package plan_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

// bundleOf makes resources of words: "r" one of the release, "c" a CRD, and hooks as events joined by commas, with
// delete policies behind a colon.
func bundleOf(words ...string) []plan.Resource {
	var resources []plan.Resource
	for i, word := range words {
		r := plan.Resource{ResourceID: plan.ResourceID{Version: "v1", Kind: "ConfigMap", Name: fmt.Sprint(i)}}
		switch word {
		case "r":
		case "c":
			r.Kind = "CustomResourceDefinition"
		default:
			events, policies, _ := strings.Cut(word, ":")
			r.Hook = &plan.Hook{Events: strings.Split(events, ",")}
			if policies != "" {
				r.Hook.DeletePolicies = strings.Split(policies, ",")
			}
		}
		resources = append(resources, r)
	}
	return resources
}

// told writes steps down: "hook pre-install 2; apply 0 1".
func told(steps []plan.Step) string {
	var parts []string
	for _, s := range steps {
		words := []string{string(s.Work)}
		if s.Event != "" {
			words = append(words, s.Event)
		}
		for _, i := range s.Resources {
			words = append(words, fmt.Sprint(i))
		}
		parts = append(parts, strings.Join(words, " "))
	}
	return strings.Join(parts, "; ")
}

func TestSteps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bundle []string
		op     domain.Operation
		want   string
	}{
		"no hooks":                           {[]string{"c", "r"}, domain.OpInstantiate, "apply 1 0"},
		"nothing at all":                     {nil, domain.OpInstantiate, "apply"},
		"hooks of another operation":         {[]string{"r", "pre-delete"}, domain.OpInstantiate, "apply 0"},
		"before and after":                   {[]string{"r", "pre-install", "post-install", "pre-install"}, domain.OpInstantiate, "hook pre-install 1; hook pre-install 3; apply 0; hook post-install 2"},
		"CRDs come before the hooks":         {[]string{"c", "r", "pre-install"}, domain.OpInstantiate, "apply 0; hook pre-install 2; apply 1"},
		"policies":                           {[]string{"r", "pre-install:hook-succeeded", "pre-install", "post-install:hook-failed"}, domain.OpInstantiate, "hook pre-install 1; hook pre-install 2; tidy pre-install 1; apply 0; hook post-install 3; tidy post-install 3"},
		"an update":                          {[]string{"r", "pre-install", "pre-upgrade", "post-upgrade"}, domain.OpUpdate, "hook pre-upgrade 2; apply 0; hook post-upgrade 3"},
		"a rollback":                         {[]string{"r", "pre-rollback", "post-rollback"}, domain.OpRollback, "hook pre-rollback 1; apply 0; hook post-rollback 2"},
		"a terminate without hooks":          {[]string{"r", "c"}, domain.OpTerminate, "delete 0 1"},
		"a terminate deletes others' hooks":  {[]string{"r", "post-install"}, domain.OpTerminate, "delete 0 1"},
		"a terminate deletes hooks at last":  {[]string{"c", "r", "pre-delete", "post-delete", "pre-install"}, domain.OpTerminate, "hook pre-delete 2; delete 1 0; hook post-delete 3; delete 2 3 4"},
		"a terminate that tidies up between": {[]string{"r", "pre-delete:hook-succeeded"}, domain.OpTerminate, "hook pre-delete 1; tidy pre-delete 1; delete 0; delete 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, told(plan.Steps(bundleOf(c.bundle...), c.op)))
		})
	}
}

// TestNext goes through steps, with and without a failure at each.
func TestNext(t *testing.T) {
	t.Parallel()
	steps := plan.Steps(bundleOf("r", "pre-install:hook-succeeded,hook-failed", "pre-install", "post-install"), domain.OpInstantiate)
	require.Equal(t, "hook pre-install 1; hook pre-install 2; tidy pre-install 1; apply 0; hook post-install 3", told(steps))
	for at, want := range [][2]int{{1, 2}, {2, 2}, {3, 0}, {4, 0}, {0, 0}} {
		require.Equal(t, want[0], plan.Next(steps, at, false), "after %d", at)
		require.Equal(t, want[1], plan.Next(steps, at, true), "after a failure of %d", at)
	}
}

// TestRuns: a hook has an entry for each of its runs when one operation has two of them.
func TestRuns(t *testing.T) {
	t.Parallel()
	for events, want := range map[string]string{
		"pre-install":                                        "pre-install",
		"pre-install,pre-upgrade":                            "pre-install,pre-upgrade",
		"post-delete,pre-install":                            "post-delete,pre-install",
		"pre-install,post-upgrade":                           "pre-install,post-upgrade",
		"post-install,pre-install":                           "pre-install; post-install",
		"pre-install,post-install,pre-upgrade,post-rollback": "pre-install,pre-upgrade; post-install,post-rollback",
	} {
		h := plan.Hook{Events: strings.Split(events, ","), Weight: 7}
		var got []string
		for _, run := range h.Runs() {
			require.Equal(t, 7, run.Weight)
			got = append(got, strings.Join(run.Events, ","))
		}
		require.Equal(t, want, strings.Join(got, "; "), events)
		require.Equal(t, events, strings.Join(h.Events, ","), "the hook itself stays")
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	events := plan.EventsOf(bundleOf("r", "pre-install,post-install", "post-install,pre-delete"))
	require.Equal(t, []string{"post-install", "pre-delete", "pre-install"}, events)
	require.True(t, plan.HasHooks(events, domain.OpInstantiate))
	require.True(t, plan.HasHooks(events, domain.OpTerminate))
	require.False(t, plan.HasHooks(events, domain.OpUpdate))
	require.False(t, plan.HasHooks(events, domain.OpApprove))
}

func TestMarksOfHooks(t *testing.T) {
	t.Parallel()
	bundle := bundleOf("r", "pre-install", "pre-delete", "post-install,post-delete", "pre-upgrade")
	require.Equal(t, "2p1h1p1h", plan.Due(bundle, domain.OpInstantiate, domain.NewMarks(5, domain.MarkPending)).Encode())
	require.Equal(t, "2A1h1A1p", plan.Due(bundle, domain.OpUpdate, domain.DecodeMarks("2A1h1A1h")).Encode())
	require.Equal(t, "1A2h1d1s", plan.Due(bundle, domain.OpUpdate, domain.DecodeMarks("1A1D1p1d1X")).Encode())
	require.Equal(t, "4A1d", plan.Due(bundle, domain.OpUpdate, domain.DecodeMarks("4A1d")).Encode(), "it is pruned")
	require.Equal(t, "1A1h1H1A1s", plan.Due(bundle, domain.OpUpdate, domain.DecodeMarks("1A1h1H1A1H")).Encode())
	for name, c := range map[string]struct {
		was  string
		by   domain.Operation
		want string
	}{
		"after all": {"2A1h1A1h", domain.OpInstantiate, "2d1p1s1D"},
		"a hook was deleted when it had succeeded":          {"1A1D1h1A1h", domain.OpInstantiate, "1d1D1p1s1D"},
		"a hook of an earlier operation has left something": {"1A1H1h1A1h", domain.OpRollback, "1d1r1p1s1D"},
		"nothing was sent":             {"2p1h1p1h", domain.OpInstantiate, "5D"},
		"all was refused":              {"1F1p1h1p1h", domain.OpInstantiate, "5D"},
		"a hook failed":                {"1p1X1h1p1h", domain.OpInstantiate, "1D1r2p1D"},
		"again, after its hook failed": {"1d1d1X1s1D", domain.OpTerminate, "2d2s1D"},
		"again, after its first hook":  {"1d1d1A1s1D", domain.OpTerminate, "3d1s1D"},
		"again, before its last hook":  {"1D1D1D1p1D", domain.OpTerminate, "3D1p1D"},
		"again, at the very end":       {"1D1r1D1A1D", domain.OpTerminate, "1D1r1D1d1D"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, plan.Doom(bundle, nil, domain.DecodeMarks(c.was), c.by).Encode())
		})
	}
	kept := slices.Clone(bundle)
	for i := range kept {
		kept[i].Keep = true
	}
	require.Equal(t, "2K1p1s1D", plan.Doom(kept, nil, domain.DecodeMarks("2A1h1A1h"), domain.OpInstantiate).Encode())
	require.Equal(t, "2k1p1s1D", plan.Doom(kept, nil, domain.DecodeMarks("1s1X1h1s1h"), domain.OpInstantiate).Encode(), "what may be there is looked for")
	require.Equal(t, "4K1D", plan.Doom(kept, nil, domain.DecodeMarks("4K1D"), domain.OpTerminate).Encode(), "a hook that is kept has been run")
}

func TestHookManifest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ manifest, want string }{
		"adds annotations":          {`{"kind":"Job"}`, `{"kind":"Job","metadata":{"annotations":{"run":"7"}}}`},
		"keeps those there are":     {`{"metadata":{"annotations":{"a":"b","run":"6"}}}`, `{"metadata":{"annotations":{"a":"b","run":"7"}}}`},
		"leaves a Job time to look": {`{"kind":"Job","metadata":{},"spec":{"ttlSecondsAfterFinished":0,"n":9223372036854775807}}`, `{"kind":"Job","metadata":{"annotations":{"run":"7"}},"spec":{"ttlSecondsAfterFinished":86400,"n":9223372036854775807}}`},
		"but not less":              {`{"kind":"Job","metadata":{},"spec":{"ttlSecondsAfterFinished":100000}}`, `{"kind":"Job","metadata":{"annotations":{"run":"7"}},"spec":{"ttlSecondsAfterFinished":100000}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := plan.HookManifest(json.RawMessage(c.manifest), map[string]string{"run": "7"})
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(got))
		})
	}
	for _, manifest := range []string{`null`, `[]`, `{"metadata":7}`, `{"metadata":{"annotations":[]}}`} {
		_, err := plan.HookManifest(json.RawMessage(manifest), nil)
		require.Error(t, err, manifest)
	}
}

func TestDeletePolicies(t *testing.T) {
	t.Parallel()
	require.True(t, (&plan.Hook{}).Has(plan.BeforeCreation), "as Helm's")
	require.False(t, (&plan.Hook{}).Has(plan.WhenSucceeded))
	h := plan.Hook{DeletePolicies: []string{"hook-succeeded", "hook-failed"}}
	require.False(t, h.Has(plan.BeforeCreation))
	require.True(t, h.Has(plan.WhenFailed))
}
