package readiness_test

import (
	"encoding/json"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/readiness"
)

// BenchmarkOf judges a Deployment as an API server gives it: decoding its JSON, the rules of kstatus, and
// a rule of a user.
func BenchmarkOf(b *testing.B) {
	data, err := os.ReadFile("testdata/deployment.json")
	if err != nil {
		b.Fatal(err)
	}
	gvk := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	object, err := readiness.Decode(json.RawMessage(data))
	if err != nil {
		b.Fatal(err)
	}
	rules := readiness.Compile(readiness.Rule{
		Name: "available", Group: gvk.Group, Kind: gvk.Kind,
		Ready: `object.status.conditions.exists(c, c.type == "Available" && c.status == "True")`,
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if _, err := readiness.Decode(data); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, of := range map[string]func() readiness.State{
		"kstatus": func() readiness.State { return readiness.Of(gvk, object) },
		"rule":    func() readiness.State { return rules.Of(gvk, object) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if s := of(); s.Status != readiness.Ready {
					b.Fatal(s)
				}
			}
		})
	}
}
