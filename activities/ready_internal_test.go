package activities

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/policy"
)

// TestWordsBecomeRare: what an app lacks is told soon after it began to be waited for, and within a month a hundred times at the most.
func TestWordsBecomeRare(t *testing.T) {
	word := pause.Backoff{First: policy.FirstLacking, Most: policy.LongestLacking}
	words, soon := 0, 0
	for age := time.Duration(0); age < 30*24*time.Hour; words++ {
		wait := nextWord(&word, age)
		require.LessOrEqual(t, wait, max(policy.LongestLacking, age/8))
		if age += wait; age < time.Minute {
			soon++
		}
	}
	require.Less(t, words, 100)
	require.GreaterOrEqual(t, soon, 4)
}
