package kube

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRightsThatAreMissingAreNotAllKept: whoever may name namespaces may name ever new ones.
func TestRightsThatAreMissingAreNotAllKept(t *testing.T) {
	t.Parallel()
	var u unpatched
	of := func(i int) rights { return rights{resource: "configmaps", namespace: fmt.Sprint("n", i)} }
	require.True(t, u.patchable(of(0)))
	for i := range 2 * knownRights {
		u.unpatchable(of(i))
	}
	require.Equal(t, knownRights, u.lately().Len())
	require.True(t, u.patchable(of(0)), "it is found out again")
	require.False(t, u.patchable(of(2*knownRights-1)))
	u.forget(of(2*knownRights - 1))
	require.True(t, u.patchable(of(2*knownRights-1)))
}
