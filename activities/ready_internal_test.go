package activities

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/policy"
)

// TestWordsBecomeRare: what an app lacks is told soon after it began to be waited for, and within a month a hundred times at the most.
func TestWordsBecomeRare(t *testing.T) {
	word := words(0)
	told, soon := 0, 0
	for age := time.Duration(0); age < 30*24*time.Hour; told++ {
		wait := nextWord(&word, age)
		require.LessOrEqual(t, wait, max(policy.LongestLacking, age/8))
		if age += wait; age < time.Minute {
			soon++
		}
	}
	require.Less(t, told, 100)
	require.GreaterOrEqual(t, soon, 4)
}

// TestWordsOfALaterAttempt are as rare as they would be had there been no other: one does not tell at once what the one before has told.
func TestWordsOfALaterAttempt(t *testing.T) {
	for _, age := range []time.Duration{0, time.Second, time.Minute, time.Hour, 24 * time.Hour, -time.Minute} {
		word := words(age)
		want := max(min(max(age, policy.FirstLacking), policy.LongestLacking)*3/4, age/policy.LackingShare)
		require.GreaterOrEqual(t, nextWord(&word, age), want, "%s", age)
		require.LessOrEqual(t, nextWord(&word, age), max(policy.LongestLacking, age/policy.LackingShare), "%s", age)
	}
}
