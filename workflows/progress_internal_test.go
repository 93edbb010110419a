package workflows

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
)

func TestTheTableOfAWatch(t *testing.T) {
	named := func(i int) domain.ClusterName {
		return domain.ClusterName{Provider: "p", Name: fmt.Sprintf("c%03d", i)}
	}
	watched := []Watched{
		{named(1), []Claim{{ContextID: "1"}, {ContextID: "2"}}}, {named(2), []Claim{{ContextID: "2"}}}, {named(3), []Claim{{ContextID: "3"}}},
	}
	heard := activities.Heard{Clusters: 1, Lost: 1, Reasons: []activities.Unheard{{Cluster: named(3), Reason: "a|b\nc"}}}
	require.Equal(t, `| clusters | heard | not heard | just begun |
|---|---|---|---|
| 3 | 1 | 1 | 1 |

| cluster | app contexts | not heard because |
|---|---|---|
| p+c003 | 1 | a\|b c |
| p+c001 | 2 |  |
| p+c002 | 1 |  |
`, watchTable(watched, heard))

	watched = nil
	for i := range 103 {
		watched = append(watched, Watched{named(i), []Claim{{ContextID: "1"}}})
	}
	many := watchTable(watched, activities.Heard{Clusters: 104})
	require.Contains(t, many, "| 103 | 104 | 0 | 0 |")
	require.True(t, strings.HasSuffix(many, "| p+c099 | 1 |  |\n\nand 3 more\n"), "%s", many)
}

// TestWhatARoundIsJudgedBy: the first round of an update has done what it was to though nobody knows yet whether something is there that the second
// one prunes: apps that need this one are started. The second round is judged by that, and so is everything that prunes nothing.
func TestWhatARoundIsJudgedBy(t *testing.T) {
	update := AppInput{Scope: domain.Scope{Operation: domain.OpUpdate}, Label: "1"}
	prune, instantiate := update, AppInput{Scope: domain.Scope{Operation: domain.OpInstantiate}}
	prune.Prune = true
	for _, c := range []struct {
		in     AppInput
		marks  string
		failed int
	}{
		{update, "ArdL", 0}, {update, "AG", 0}, {update, "r", 0}, {update, "AFr", 1}, {update, "ApL", 1}, {update, "X", 1},
		{prune, "AG", 0}, {prune, "Ar", 1}, {prune, "AL", 1}, {instantiate, "A", 0}, {instantiate, "Ar", 1},
	} {
		var p AppProgress
		p.addLeaf(c.in, &leafState{ClusterProgress: ClusterProgress{Marks: domain.Marks(c.marks).Encode()}, done: true})
		require.Equal(t, 1, p.Done)
		require.Equal(t, c.failed, p.Failed, "%s of %+v", c.marks, c.in)
	}
}

// TestWhatWasStoppedHasNotFailed: work that was halted comes to its end by itself, as work does that has failed.
func TestWhatWasStoppedHasNotFailed(t *testing.T) {
	apply := domain.Scope{Operation: domain.OpInstantiate}
	for name, c := range map[string]struct {
		in      activities.LeafInput
		end     ClusterProgress
		stopped bool
	}{
		"all was applied":              {activities.LeafInput{Scope: apply}, ClusterProgress{Marks: "2A"}, false},
		"something was never sent":     {activities.LeafInput{Scope: apply}, ClusterProgress{Marks: "1A1p"}, true},
		"something got no answer":      {activities.LeafInput{Scope: apply}, ClusterProgress{Marks: "1A1s", Error: "away"}, true},
		"its activity gave up":         {activities.LeafInput{Scope: apply}, ClusterProgress{Marks: "1A1s", GaveUp: true}, false},
		"something was refused before": {activities.LeafInput{Scope: apply}, ClusterProgress{Marks: "1F1p"}, false},
		"what an update prunes comes later": {
			activities.LeafInput{Scope: domain.Scope{Operation: domain.OpUpdate}, Label: "1"}, ClusterProgress{Marks: "1A1d"}, false,
		},
		"a round that prunes": {
			activities.LeafInput{Scope: domain.Scope{Operation: domain.OpUpdate}, Label: "1", Prune: true}, ClusterProgress{Marks: "1p1d"}, true,
		},
		"a round that has pruned": {
			activities.LeafInput{Scope: domain.Scope{Operation: domain.OpUpdate}, Label: "1", Prune: true}, ClusterProgress{Marks: "1p1G"}, false,
		},
	} {
		require.Equal(t, c.stopped, c.end.Stopped(c.in), name)
	}
}
