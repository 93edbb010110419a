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
