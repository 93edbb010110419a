package vary_test

import (
	"encoding/json"
	"testing"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/vary"
)

// Patches and files of customizations are a stranger's: whatever they say, an app is varied, or refused as Malformed with what is
// at fault, and varied the same again.
func FuzzCustomizations(f *testing.F) {
	f.Add(`[{"op":"replace","path":"/spec/replicas","value":1}]`, []byte("spec: {template: {spec: {containers: [{name: a, image: j}]}}}"))
	f.Add(`[{"op":"add","path":"/spec/list/-","value":1e400},{"op":"copy","from":"","path":"/spec/all"}]`, []byte("{$patch: delete}"))
	f.Add(`[{"op":"move","from":"/spec","path":"/spec/a"},{"op":"remove","path":"/metadata"}]`, []byte("spec: {$setElementOrder/containers: 1, containers: [1]}"))
	f.Add(`[{"op":"test","path":"/spec/list/99999999999","value":null}]`, []byte("a: &a [*a]\n---\nb: 1"))
	f.Add(`[{"op":"add","path":"/spec/list/-1","value":[]}]`, []byte("spec:\n  template:\n    spec:\n      $retainKeys: [x]\n      volumes: [{name: 1}]\n"))
	f.Fuzz(func(t *testing.T, patch string, file []byte) {
		var steps []domain.PatchStep
		if json.Unmarshal([]byte(patch), &steps) != nil {
			steps = []domain.PatchStep{{Op: "replace", Path: patch, Value: json.RawMessage("1")}}
		}
		by := func(kind domain.PatchType) vary.Customized {
			return vary.Customized{Name: "c", Spec: domain.CustomizationSpec{ClusterSpecific: domain.False, PatchType: kind, PatchJSON: steps}, Files: []domain.Upload{{Name: "f", Data: file}}}
		}
		for _, g := range []*vary.Generic{
			generic(domain.False, "apps/v1", "StatefulSet", "etcd", "", by(domain.PatchJSON)),
			generic(domain.False, "apps/v1", "StatefulSet", "etcd", "", by(domain.PatchMerge)),
			generic(domain.False, "x.io/v1", "Beam", "beam", "", by(domain.PatchMerge)),
			generic(domain.True, "v1", "ConfigMap", "cm", string(file), by(domain.PatchJSON)),
			generic(domain.True, "v1", "Secret", "s", "", by("")),
		} {
			app := &vary.App{Name: "web", Resources: []plan.Resource{resource(t, etcd), resource(t, beam)}}
			first, err := vary.Apply([]vary.Intent{g}, app)
			if err != nil {
				if !fail.Is(err, fail.Malformed) {
					t.Fatalf("%v", err)
				}
				continue
			}
			again, err := vary.Apply([]vary.Intent{g}, app)
			if err != nil {
				t.Fatalf("it was done before: %v", err)
			}
			for i, r := range first.Bundle.Resources {
				if string(r.Manifest) != string(again.Bundle.Resources[i].Manifest) {
					t.Fatalf("%s and then %s", r.Manifest, again.Bundle.Resources[i].Manifest)
				}
			}
		}
	})
}
