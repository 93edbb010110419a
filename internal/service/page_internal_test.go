package service

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
)

// TestAPlaceOfAnotherListIsRefused: to go on behind it would leave out, or show again, whatever comes before it by chance.
func TestAPlaceOfAnotherListIsRefused(t *testing.T) {
	of := func(place string) url.Values { return url.Values{"continue": {goOn(place)}} }
	_, _, err := pageAsked(of("tenant\x00workload"), ofParts(2))
	require.NoError(t, err)
	for _, other := range []string{"workload", "tenant\x00workload\x00rule"} {
		_, _, err = pageAsked(of(other), ofParts(2))
		require.True(t, fail.Is(err, fail.Invalid), "%v", err)
		require.Contains(t, fail.TextOf(err), "Invalid query continue:")
		require.Contains(t, fail.TextOf(err), "is of another list")
		require.Equal(t, "continue", fail.FieldsOf(err)[0].Path)
	}
}
