package kube

import (
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
)

// TestWidened: a rule that is there stays where it allows what no rule that is wanted does.
func TestWidened(t *testing.T) {
	rule := func(groups, resources, verbs []string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: groups, Resources: resources, Verbs: verbs, ResourceNames: names}
	}
	list := func(s ...string) []string { return s }
	wanted := []rbacv1.PolicyRule{
		rule(list(""), list("pods", "secrets"), list("get", "list")),
		rule(list("apps"), list("*"), list("*")),
		rule(list("certificates.k8s.io"), list("signers"), list("approve"), "a", "b"),
		{NonResourceURLs: list("/healthz"), Verbs: list("get")},
	}
	for name, x := range map[string]struct {
		there rbacv1.PolicyRule
		kept  []string
	}{
		"the same":                     {wanted[0], nil},
		"less":                         {rule(list(""), list("pods"), list("get")), nil},
		"of what is any":               {rule(list("apps"), list("deployments"), list("patch", "get")), nil},
		"one of the names":             {rule(list("certificates.k8s.io"), list("signers"), list("approve"), "b"), nil},
		"some names of all":            {rule(list(""), list("pods"), list("get"), "one"), nil},
		"another verb":                 {rule(list(""), list("pods"), list("get", "watch")), list("watch pods")},
		"another resource":             {rule(list(""), list("nodes", "pods"), list("list", "get")), list("get nodes", "list nodes")},
		"another group":                {rule(list("apps", "example.com"), list("*"), list("patch")), list("patch example.com/*")},
		"any where some are wanted":    {rule(list(""), list("*"), list("get")), list("get *")},
		"all names where some are":     {rule(list("certificates.k8s.io"), list("signers"), list("approve")), list("approve certificates.k8s.io/signers")},
		"another name":                 {rule(list("certificates.k8s.io"), list("signers"), list("approve"), "a", "c"), list("approve certificates.k8s.io/signers [a c]")},
		"a path that is wanted":        {rbacv1.PolicyRule{NonResourceURLs: list("/healthz"), Verbs: list("get")}, nil},
		"a path that is not":           {rbacv1.PolicyRule{NonResourceURLs: list("/metrics"), Verbs: list("get")}, list("get /metrics")},
		"one of what nothing is given": {rbacv1.PolicyRule{}, nil},
	} {
		rules, kept := widened(wanted, []rbacv1.PolicyRule{x.there})
		require.Equal(t, x.kept, kept, name)
		if kept == nil {
			require.Equal(t, wanted, rules, name)
		} else {
			require.Equal(t, append(wanted[:len(wanted):len(wanted)], x.there), rules, name)
		}
	}
	rules, kept := widened(wanted, nil)
	require.Equal(t, wanted, rules)
	require.Empty(t, kept)
}
