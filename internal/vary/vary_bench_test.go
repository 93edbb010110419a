package vary_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/vary"
)

// each is an intent for which every cluster is another one.
type each struct{ *vary.OVN }

func (each) Sort(_ string, c *vary.Cluster) string { return c.Name }

func (e each) Vary(w *vary.Work) error {
	return w.Edit(0, func(object map[string]any) error {
		object["cluster"] = w.Cluster.Name
		return nil
	})
}

// A thousand clusters, of an app of 100 resources: BenchmarkVary/three and BenchmarkVary/each say what it takes to vary them
// when they are of three kinds, and when each is one of its own.
func BenchmarkVary(b *testing.B) {
	app := &vary.App{Name: "web"}
	for i := range 100 {
		app.Resources = append(app.Resources, plan.Resource{
			ResourceID: plan.ResourceID{Group: "apps", Version: "v1", Kind: "Deployment", Name: fmt.Sprintf("d%d", i)},
			Manifest: json.RawMessage(fmt.Sprintf(
				`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d%d"},"spec":{"replicas":1,"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`, i)),
		})
	}
	for i := range 1000 {
		c := cluster(fmt.Sprintf("c%d", i))
		if i%3 > 0 {
			c = cluster(fmt.Sprintf("c%d", i), map[string]string{"CNI-Networking-Multi-CNI-Wrapper": []string{"multus", "none"}[i%3-1]})
		}
		app.Clusters = append(app.Clusters, c)
	}
	intent := intent("Deployment", "d0", an("eth1", "net-a", ""))
	for name, c := range map[string]struct {
		of       vary.Intent
		variants int
	}{"three": {intent, 1}, "each": {each{intent}, 999}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				varied, err := vary.Apply([]vary.Intent{c.of}, app)
				require.NoError(b, err)
				require.Len(b, varied.Variants, c.variants)
			}
		})
	}
}
