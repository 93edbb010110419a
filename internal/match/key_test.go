package match_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/match"
)

func TestKeys(t *testing.T) {
	for key, want := range map[string]match.Key{
		"@": {}, "$": {},
		"metadata.id": {"metadata", "id"}, ".metadata.id": {"metadata", "id"}, "$.metadata.id": {"metadata", "id"}, "@.metadata.id": {"metadata", "id"},
		"['metadata'].id": {"metadata", "id"}, "$['metadata']['id']": {"metadata", "id"}, `@["metadata"].id`: {"metadata", "id"}, ".['metadata']": {"metadata"},
		"state.extra.labels.k8s-app":                   {"state", "extra", "labels", "k8s-app"},
		"state.extra.labels['app.kubernetes.io/name']": {"state", "extra", "labels", "app.kubernetes.io/name"},
		`state.extra.labels.app\.kubernetes\.io/name`:  {"state", "extra", "labels", "app.kubernetes.io/name"},
		`state.extra.labels['it\'s']`:                  {"state", "extra", "labels", "it's"},
		`a["it's"]`:                                    {"a", "it's"},
		`a\*b`:                                         {"a*b"},
		`a['*']`:                                       {"a", "*"},
		`a\\b`:                                         {`a\b`},
		"-a.0.b-":                                      {"-a", "0", "b-"},
		`ü.日本`:                                         {"ü", "日本"},
		"state.extra.annotations.k8s\\.v1\\.cni\\.cncf\\.io/networks": {"state", "extra", "annotations", "k8s.v1.cni.cncf.io/networks"},
	} {
		t.Run(key, func(t *testing.T) {
			got, err := match.ParseKey(key)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
	for key, why := range map[string]string{
		"": "nothing", ".": "an empty name", "$.": "an empty name", "@.": "an empty name", "a.": "an empty name", "a..b": "an empty name", "..a": "an empty name",
		"metadata.*": "a wildcard", "*": "a wildcard", "a[*]": "a wildcard", "a[0]": "an index", "a[-1:]": "a slice", "a[?(@.b)]": "a filter", "a['b','c']": "a union",
		"{.a}": "braces", "{a}": "braces", "a['']": "an empty name", "a['b": "not closed", "a['b'": "not closed", "a['b'c]": "not closed", "a['b']c": "no dot",
		"a[b]": "no quotes", "a]": "not opened", `a\`: "nothing behind \\", `a['b\`: "nothing behind \\", "$a": "no dot", "@a": "no dot", "$$": "twice", "a b": "a space", "a\tb": "a tab", "'a'": "quotes",
	} {
		t.Run(key+" "+why, func(t *testing.T) {
			_, err := match.ParseKey(key)
			require.Error(t, err)
		})
	}
}

// FuzzKeys: any text is a key or is refused, and what is a key is found when it is written out in brackets.
func FuzzKeys(f *testing.F) {
	for _, seed := range []string{"@", "metadata.id", `a['b\'c']`, "a..b", "a[0]", "$.x\\.y", "\xff.a", "a['\xff']"} {
		f.Add(seed)
	}
	w := workload()
	f.Fuzz(func(t *testing.T, text string) {
		key, err := match.ParseKey(text)
		if err != nil {
			require.Nil(t, key)
			return
		}
		again := "$"
		for _, name := range key {
			require.NotEmpty(t, name)
			again += "['"
			for i := range len(name) { // byte by byte, so that what is no text stays what it is
				if name[i] == '\'' || name[i] == '\\' {
					again += `\`
				}
				again += name[i : i+1]
			}
			again += "']"
		}
		same, err := match.ParseKey(again)
		require.NoError(t, err, again)
		require.Equal(t, key, same)
		match.ViewOf(w, true).At(key)
	})
}

// TestWhatKeysSee is the object of issue 13, with what is absent in it.
func TestWhatKeysSee(t *testing.T) {
	w := workload()
	w.ResourceNamespace, w.NodeName, w.Ready = "", "", false
	w.Extra["labels"]["empty"] = ""
	for key, want := range map[string]struct {
		value   string
		present bool
	}{
		"metadata.id": {"w", true}, "metadata.orchestrator": {"kubernetes", true}, "metadata.resourceType": {"v1/Pod", true}, "metadata.resourceName": {"web-0", true},
		"metadata.resourceNamespace": {"", false}, "state.nodeName": {"", false}, "state.ready": {"false", true},
		"state.extra.labels.empty": {"", true}, "state.extra.labels.none": {"", false}, "state.extra.labels.tier.x": {"", false}, "metadata.id.x": {"", false},
		"state.extra.annotations": {"{}", true}, "metadata.tenantId": {"", false}, "nowhere": {"", false},
		"state.extra": {`{"annotations":{},"labels":{"a.b/c":"dotted","empty":"","k8s-app":"web","tier":"5"}}`, true},
	} {
		t.Run(key, func(t *testing.T) {
			k, err := match.ParseKey(key)
			require.NoError(t, err)
			v := match.ViewOf(w, false).At(k)
			require.Equal(t, want.present, v.Present)
			require.Equal(t, want.value, v.String())
		})
	}
	k, err := match.ParseKey("metadata.tenantId")
	require.NoError(t, err)
	require.Equal(t, "tenant1", match.ViewOf(w, true).At(k).String(), "the operator's rules see the tenant")
}

// TestOperations is the table of issue 13: an operation by what is at its key.
func TestOperations(t *testing.T) {
	const text, number, object, absent = "state.extra.labels.k8s-app", "state.extra.labels.tier", "state.extra.labels", "state.extra.labels.none"
	for _, c := range []struct {
		key    string
		op     domain.MatchOperation
		values []string
		want   bool
	}{
		{text, domain.OperationIn, []string{"x", "web"}, true},
		{text, domain.OperationIn, []string{"Web", "web "}, false},
		{text, domain.OperationNotIn, []string{"x"}, true},
		{text, domain.OperationNotIn, []string{"x", "web"}, false},
		{text, domain.OperationExists, []string{""}, true},
		{text, domain.OperationDoesNotExist, []string{""}, false},
		{text, domain.OperationGt, []string{"1"}, false},
		{text, domain.OperationLt, []string{"1"}, false},
		{number, domain.OperationGt, []string{"4"}, true},
		{number, domain.OperationGt, []string{"5"}, false},
		{number, domain.OperationLt, []string{"10"}, true},
		{number, domain.OperationLt, []string{"5"}, false},
		{object, domain.OperationIn, []string{"{}", ""}, false},
		{object, domain.OperationNotIn, []string{"{}"}, true},
		{object, domain.OperationExists, []string{"x"}, true},
		{object, domain.OperationDoesNotExist, []string{"x"}, false},
		{object, domain.OperationGt, []string{"-1"}, false},
		{absent, domain.OperationIn, []string{""}, false},
		{absent, domain.OperationNotIn, []string{""}, true},
		{absent, domain.OperationExists, []string{""}, false},
		{absent, domain.OperationDoesNotExist, []string{""}, true},
		{absent, domain.OperationLt, []string{"1"}, false},
	} {
		r, err := match.Compile(tenant(), rule(func(s *domain.WorkloadRuleSpec) {
			s.WorkloadTerms[0].MatchExpressions[0] = domain.MatchExpression{Key: c.key, Operation: c.op, Values: c.values}
		}))
		require.NoError(t, err)
		require.Equal(t, c.want, r.Matches(workload()), "%s %s %v", c.key, c.op, c.values)
		x := r.Explain(workload())
		require.Equal(t, c.want, x.Matches)
		require.Equal(t, c.key == absent, x.Terms[0].Expressions[0].Absent)
	}
}
