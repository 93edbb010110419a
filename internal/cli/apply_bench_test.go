package cli_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
)

// BenchmarkApply applies a folder of 1,000 documents beside the bare requests that make as many: apply_over_requests is how much
// longer it takes, and again_over_requests the same of a second apply, which changes nothing.
func BenchmarkApply(b *testing.B) {
	const documents = 1000
	w := newWorld(b)
	api := client.New(w.url + "/v2").API()
	var bare, first, again time.Duration
	for i := 0; b.Loop(); i++ {
		var text strings.Builder
		fmt.Fprintf(&text, "resourceContext: {anchor: cluster-providers}\nmetadata: {name: p%d}\n", i)
		for n := range documents - 1 {
			fmt.Fprintf(&text, "---\nresourceContext: {anchor: cluster-providers/p%d/cluster-sync-objects}\nmetadata: {name: n%d}\nspec: {kv: [{a: b}]}\n", i, n)
		}
		file := w.file("all.yaml", text.String())
		begun := time.Now()
		bareProvider := &domain.ClusterProvider{Metadata: domain.Metadata{Name: fmt.Sprintf("bare%d", i)}}
		_, err := api.Create(b.Context(), bareProvider, nil)
		require.NoError(b, err)
		for n := range documents - 1 {
			o := &domain.ClusterSyncObject{Identity: domain.Identity{Parent: domain.KeyOf(bareProvider)}}
			o.Name = fmt.Sprintf("n%d", n)
			o.Spec.KV = []map[string]string{{"a": "b"}}
			_, err := api.Create(b.Context(), o, nil)
			require.NoError(b, err)
		}
		bare += time.Since(begun)
		begun = time.Now()
		w.done("apply", "-f", file, "-q")
		first += time.Since(begun)
		begun = time.Now()
		w.done("apply", "-f", file, "-q")
		again += time.Since(begun)
	}
	b.ReportMetric(float64(first)/float64(bare), "apply_over_requests")
	b.ReportMetric(float64(again)/float64(bare), "again_over_requests")
}
