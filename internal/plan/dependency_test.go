package plan_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/plan"
)

func TestCycle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		needs map[string][]string
		want  []string
	}{
		"nothing":                      {},
		"a chain":                      {map[string][]string{"a": {"b"}, "b": {"c"}}, nil},
		"a diamond":                    {map[string][]string{"a": {"b", "c"}, "b": {"d"}, "c": {"d"}}, nil},
		"twice the same app":           {map[string][]string{"a": {"b", "b"}}, nil},
		"an app that waits for itself": {map[string][]string{"a": {"a"}}, []string{"a", "a"}},
		"two that wait for each other": {map[string][]string{"b": {"a"}, "a": {"b"}}, []string{"a", "b", "a"}},
		"behind a chain":               {map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": {"b"}}, []string{"b", "c", "d", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, plan.Cycle(c.needs))
		})
	}
}

// TestCycleOfMany must not go over a way twice: there are 2^100 through these apps.
func TestCycleOfMany(t *testing.T) {
	t.Parallel()
	needs := map[string][]string{}
	for i := range 100 {
		for _, side := range []string{"l", "r"} {
			needs[fmt.Sprint(side, i)] = []string{fmt.Sprint("l", i+1), fmt.Sprint("r", i+1)}
		}
	}
	require.Nil(t, plan.Cycle(needs))
	needs["r100"] = []string{"l0"}
	require.Len(t, plan.Cycle(needs), 102)
}
