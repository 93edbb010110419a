package plan

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/lru/lrutest"
)

// TestWeights: what is kept of plans is counted with between half and twice of what it takes.
func TestWeights(t *testing.T) {
	check := func(name string, held, counted int64) {
		t.Helper()
		t.Logf("%s: holds %d, counts %d: %.2f", name, held, counted, float64(counted)/float64(held))
		require.Greater(t, 2*counted, held)
		require.Less(t, counted, 2*held)
	}
	p := &Plan{Apps: []App{{}}}
	for n := range 10_000 {
		p.Apps[0].Resources = append(p.Apps[0].Resources, ResourceID{Kind: "ConfigMap", Version: "v1", Name: fmt.Sprint("c", n)})
	}
	footprint, held := lrutest.HeapOf(func() Footprint { return FootprintOf(p) })
	check("a footprint", held, footprint.Weight())
	runtime.KeepAlive(p) // which was there before
	definitions, held := lrutest.HeapOf(func() *Definitions {
		d := &Definitions{deleted: map[int]bool{}, kinds: map[groupKind]bool{}}
		for n := range 10_000 {
			d.deleted[n] = true
			d.kinds[groupKind{fmt.Sprint("group", n, ".example.com"), fmt.Sprint("Kind", n)}] = true
		}
		return d
	})
	check("definitions", held, definitions.Weight())
}
