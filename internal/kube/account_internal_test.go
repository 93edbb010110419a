package kube

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// TestAnAccountOfV010IsFinished: when the least ClusterRole grows, an account that v0.1.0 has made is not one that somebody else has made, whose tokens
// would end. Then finished has to know what it was.
func TestAnAccountOfV010IsFinished(t *testing.T) {
	data, err := os.ReadFile("testdata/least-v0.1.0.yaml")
	require.NoError(t, err)
	role := &rbacv1.ClusterRole{}
	require.NoError(t, yaml.Unmarshal(data, role))
	finished, err := (&found{role: role}).finished()
	require.NoError(t, err)
	require.True(t, finished)
	for i := range role.Rules {
		less := role.DeepCopy()
		less.Rules[i].Verbs = less.Rules[i].Verbs[1:]
		finished, err = (&found{role: less}).finished()
		require.NoError(t, err)
		require.False(t, finished, "without %s of %v", role.Rules[i].Verbs[0], role.Rules[i].Resources)
	}
}

// TestWaysToATokenOfANamespace: who has one of these rights there comes by a token of its ServiceAccounts.
func TestWaysToATokenOfANamespace(t *testing.T) {
	rule := func(verb, group, resource string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names}
	}
	for way, rules := range map[string][]rbacv1.PolicyRule{
		"create serviceaccounts/token": {rule("get", "", "configmaps"), rule("*", "*", "*")},
		"create */token":               {rule("create", "", "*/token")},
		"impersonate serviceaccounts":  {rule("impersonate", "", "serviceaccounts", "one")},
		"patch apps/daemonsets":        {rule("patch", "apps", "*", "one")},
		"create batch/jobs":            {rule("create", "*", "jobs")},
		"get secrets":                  {rule("get", "", "secrets", "one")},
		"":                             {rule("get", "", "pods"), rule("create", "", "configmaps"), rule("create", "other.example.com", "pods"), rule("delete", "", "secrets")},
	} {
		require.Equal(t, way, tokenWay(rules))
	}
}
