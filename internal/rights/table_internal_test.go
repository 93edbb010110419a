package rights

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// TestEveryNounHasAnArea: a noun without a row in areas would be hidden from everybody but an admin, whose rights are made of the
// same rows.
func TestEveryNounHasAnArea(t *testing.T) {
	for _, n := range Nouns() {
		require.NotEmpty(t, areas[n], "%s has no row in areas: what is it about, and which roles have rights of it?", n.Kind)
	}
	require.Len(t, areas, len(Nouns()), "a row is of no noun")
}

// TestBuiltInRoles: their names are known where bindings are checked.
func TestBuiltInRoles(t *testing.T) {
	require.ElementsMatch(t, domain.BuiltInRoles, slices.Collect(maps.Keys(builtIn)))
	require.LessOrEqual(t, len(verbs), 32, "a mask has no more bits")
}
