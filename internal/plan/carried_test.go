package plan_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

// inheriting is a plan of one app whose targets have the warnings.
func inheriting(targets int, warnings ...domain.Note) *plan.Plan {
	app := plan.App{Name: "app"}
	for i := range targets {
		app.Targets = append(app.Targets, plan.Target{
			ClusterName: domain.ClusterName{Provider: "p", Name: fmt.Sprint("c", i)},
			Inherited:   &plan.Inherited{Marks: "100A", Warnings: warnings},
		})
	}
	return &plan.Plan{Apps: []plan.App{app}}
}

func warningsOf(n, bytes int) (warnings []domain.Note) {
	for i := range n {
		warnings = append(warnings, domain.Note{Index: i, Message: fmt.Sprint(i, strings.Repeat("x", bytes))})
	}
	return warnings
}

// TestFewWarningsAreCarried: a plan has them anew for each cluster, and one that is too large cannot be stored.
func TestFewWarningsAreCarried(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		targets  int
		warnings []domain.Note
		kept     int // as they are
		more     string
	}{
		"none":                     {targets: 3},
		"a few":                    {3, warningsOf(8, 200), 8, ""},
		"one more":                 {3, warningsOf(9, 200), 7, "2 more warnings, "},
		"long ones":                {3, warningsOf(100, 600), 3, "97 more warnings, "},
		"many targets":             {200_000, warningsOf(100, 160), 2, "98 more warnings, "},
		"one that is longer":       {200_000, warningsOf(1, 1000), 0, "1 more warnings, "},
		"what was cut, and others": {3, append(warningsOf(8, 10), domain.Note{Message: "90 more warnings, of what earlier operations have applied and has stayed as it is, are not kept"}), 7, "91 more warnings, "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := inheriting(c.targets, c.warnings...)
			for range 2 { // what was cut stays as it is
				p.CarryFew()
				for _, target := range p.Apps[0].Targets[:3] {
					got := target.Inherited.Warnings
					require.Equal(t, c.warnings[:c.kept], got[:c.kept:c.kept])
					if c.more == "" {
						require.Len(t, got, c.kept)
						continue
					}
					require.Len(t, got, c.kept+1)
					require.Equal(t, c.warnings[c.kept].Index, got[c.kept].Index)
					require.True(t, strings.HasPrefix(got[c.kept].Message, c.more), got[c.kept].Message)
				}
			}
		})
	}
	p := inheriting(1000, warningsOf(100, 600)...)
	p.CarryFew()
	data, err := json.Marshal(p)
	require.NoError(t, err)
	require.Less(t, len(data), 4<<20)
}
