package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestATokenThatTheClusterShortens is warned of where it ends long before its time; API servers take some seconds off, or add some, in any case.
func TestATokenThatTheClusterShortens(t *testing.T) {
	for given, warned := range map[time.Duration]bool{
		24 * time.Hour: true, 44 * 24 * time.Hour: true, 46 * 24 * time.Hour: false, defaultLife - time.Minute: false, 2 * defaultLife: false,
	} {
		require.Equal(t, warned, len(shortened(defaultLife, time.Now().Add(given))) > 0, given)
	}
	require.Regexp(t, `it is good until .* \(23h0m0s\), and not for 90 days; have 'cluster rotate' run before that`, shortened(defaultLife, time.Now().Add(23*time.Hour))[0])
}
