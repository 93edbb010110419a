package service

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/combined"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/lru/lrutest"
)

// TestProgramsWeighWhatTheyHold, those of many short parts too: what they are counted with is no less than half of what they take.
func TestProgramsWeighWhatTheyHold(t *testing.T) {
	const columns, programs = 5, 4
	for name, def := range map[string]string{
		"a path":       "returned.status.readyReplicas",
		"a filter":     "returned.status.conditions.filter(c, c.type == 'Ready').map(c, c.status)[0]",
		"many numbers": strings.TrimSuffix(strings.Repeat("1+", 200), "+"),
		"many lists":   "[" + strings.TrimSuffix(strings.Repeat("[[]],", 200), ",") + "]",
	} {
		t.Run(name, func(t *testing.T) {
			spec := &domain.StatusCollectorSpec{}
			for i := range columns {
				spec.Select = append(spec.Select, domain.NamedExpression{Name: fmt.Sprint("n", i), Def: def})
			}
			text, err := json.Marshal(spec)
			require.NoError(t, err)
			require.Nil(t, compile("c", spec, "").Broken)
			all, held := lrutest.HeapOf(func() (all []combined.Collector) {
				for range programs {
					all = append(all, compile("c", spec, ""))
				}
				return all
			})
			counted := int64(len(all)*len(text)) * heldOfProgram
			t.Logf("holds %d, counts %d: %.2f", held, counted, float64(counted)/float64(held))
			require.Greater(t, 2*counted, held)
		})
	}
}

// TestLargeProgramsAreFew: collectors are not kept by their number alone.
func TestLargeProgramsAreFew(t *testing.T) {
	tables := NewTables(&Lifecycle{})
	const large = programBytes / heldOfProgram / 4
	for i := range 10 {
		tables.program(fmt.Sprint(i), &domain.StatusCollectorSpec{Filter: strings.Repeat("x", large)})
	}
	require.Equal(t, 3, tables.programs.Len())
	for i := range 10 {
		tables.program(fmt.Sprint(i), &domain.StatusCollectorSpec{Filter: "true"})
	}
	require.GreaterOrEqual(t, tables.programs.Len(), 10)
}
