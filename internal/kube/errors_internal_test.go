package kube

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// TestMissingRightsAreKept: who lacks them may be in so many groups that nothing else would be left of the message.
func TestMissingRightsAreKept(t *testing.T) {
	const rule = `{APIGroups:[""], Resources:["events"], Verbs:["create"]}`
	for _, rules := range []string{rule, strings.Repeat(rule+", ", 40) + "the end"} {
		for _, groups := range []int{10, 100, 900, 2000} {
			m := clip(`roles.rbac.authorization.k8s.io "r1" is forbidden: user "ann" (groups=["` + strings.Repeat("g", groups) + `"]) is ` + domain.BeyondHeld + ": " + rules)
			require.LessOrEqual(t, len(m), maxMessage)
			require.True(t, strings.HasPrefix(m, `roles.rbac.authorization.k8s.io "r1" is forbidden: user "ann"`), m)
			require.Contains(t, m, domain.BeyondHeld+": "+rule)
			require.True(t, strings.HasSuffix(m, rules[len(rules)-len("the end"):]), m)
		}
	}
	m := clip(strings.Repeat("u", 3000) + " is " + domain.BeyondHeld + ": " + rule)
	require.Contains(t, m, domain.BeyondHeld+": "+rule)
}
