package kube

import (
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/access"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// TestReadRules: whatever would be ignored, or refused by the cluster when half is made, is refused at once.
func TestReadRules(t *testing.T) {
	const role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: mine, labels: {a: b}}\n"
	good := Rules{
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}},
	}
	const list = `
- {apiGroups: [""], resources: [events], verbs: [create, patch]}
- {nonResourceURLs: [/metrics], verbs: [get]}
`
	for name, text := range map[string]string{
		"a list":                     list,
		"behind a comment and a ---": "# mine\n---" + list + "---\n# no more\n",
		"a ClusterRole":              role + "rules:" + list,
		"JSON":                       `[{"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]}, {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]`,
	} {
		rules, err := ReadRules([]byte(text))
		require.NoError(t, err, name)
		require.Equal(t, good, rules, name)
	}
	for text, want := range map[string]string{
		"":         "it is a list of rules",
		"rules":    "it is a list of rules",
		"- {a: [":  "it is a list of rules",
		"[]":       "it has no rules",
		role:       "it has no rules",
		"- {}":     "rule 1: verbs: ",
		"- [verb]": "it is a list of rules",
		"- {apiGroups: [\"\"], resource: [events], verbs: [create]}":                         `unknown field "resource"`,
		"- {apiGroups: [\"\"], verbs: [create]}":                                             "rule 1: resources: ",
		list + "- {resources: [events], verbs: [create]}":                                    "rule 3: apiGroups: ",
		"- {nonResourceURLs: [/x], apiGroups: [\"\"], resources: [events], verbs: [create]}": "rule 1: nonResourceURLs: ",
		list + "---" + list: "it has several documents",
		role + "aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}": "aggregationRule: ",
		role + "rule: []": `unknown field "rule"`,
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: mine}\nrules:" + list:      `it says kind "Role" of "rbac.authorization.k8s.io/v1"`,
		"apiVersion: rbac.authorization.k8s.io/v1beta1\nkind: ClusterRole\nmetadata: {name: m}\nrules: []": `"rbac.authorization.k8s.io/v1beta1"`,
	} {
		_, err := ReadRules([]byte(text))
		require.True(t, fail.Is(err, fail.Invalid), "%s: %v", text, err)
		require.Contains(t, fail.TextOf(err), want, text)
	}

	least, err := access.ClusterRole("mine", domain.ReportAuto, true)
	require.NoError(t, err)
	more, err := good.On(least)
	require.NoError(t, err)
	var before, after rbacv1.ClusterRole
	require.NoError(t, yaml.UnmarshalStrict(least, &before))
	require.NoError(t, yaml.UnmarshalStrict(more, &after))
	before.Rules = append(before.Rules, good...)
	require.Equal(t, before, after)
	same, err := Rules(nil).On(least)
	require.NoError(t, err)
	require.Equal(t, least, same)
}
