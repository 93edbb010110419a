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
		wait := nextWord(&word, age, 1)
		require.LessOrEqual(t, wait, max(policy.LongestLacking, age/8))
		if age += wait; age < time.Minute {
			soon++
		}
	}
	require.Less(t, told, 100)
	require.GreaterOrEqual(t, soon, 4)
}

// TestTheWordsOfManyAreBounded: an operation hears what lacks to all apps that others need, on each 250 of their clusters, and takes 10,000 signals with
// what its apps report.
func TestTheWordsOfManyAreBounded(t *testing.T) {
	for _, beside := range []int{0, 1, 3, 10, 25, 50, 100, 400, 1300} {
		word, told := words(0), 0
		for age := firstWord(beside); age < 24*time.Hour; told++ {
			age += nextWord(&word, age, beside)
		}
		require.LessOrEqual(t, told*beside, 3_000, "%d a day", beside)
		require.GreaterOrEqual(t, told, 2, "%d", beside)
		require.Less(t, firstWord(beside), time.Minute, "%d", beside)
	}
}

// TestMostWords: the reports of an operation's apps have what is left.
func TestMostWords(t *testing.T) {
	require.Zero(t, MostWords(0))
	for questions := 1; questions <= 1300; questions++ {
		word, told := words(0), 0
		for age := firstWord(questions); age < 30*24*time.Hour; told++ {
			age += nextWord(&word, age, questions)
		}
		require.LessOrEqual(t, told*questions, MostWords(questions), "%d", questions)
	}
}

// TestWordsOfALaterAttempt are as rare as they would be had there been no other: one does not tell at once what the one before has told.
func TestWordsOfALaterAttempt(t *testing.T) {
	for _, age := range []time.Duration{0, time.Second, time.Minute, time.Hour, 24 * time.Hour, -time.Minute} {
		word := words(age)
		want := max(min(max(age, policy.FirstLacking), policy.LongestLacking)*3/4, age/policy.LackingShare)
		require.GreaterOrEqual(t, nextWord(&word, age, 1), want, "%s", age)
		require.LessOrEqual(t, nextWord(&word, age, 1), max(policy.LongestLacking, age/policy.LackingShare), "%s", age)
	}
}
