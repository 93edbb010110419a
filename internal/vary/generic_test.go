package vary_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/vary"
)

// generic is a resource of the app web, which is a new one if it has a template or needs none.
func generic(isNew domain.Truth, version, kind, name, template string, customizations ...vary.Customized) *vary.Generic {
	return &vary.Generic{
		Of: "g", Name: "r", Template: []byte(template), Customizations: customizations,
		Spec: domain.GenericResourceSpec{App: "web", NewObject: isNew, ResourceGVK: domain.ResourceGVK{APIVersion: version, Kind: kind, Name: name}},
	}
}

// everywhere is a customization for all clusters, with files in pairs of name and content.
func everywhere(patch string, files ...string) vary.Customized {
	c := vary.Customized{Name: "c", Spec: domain.CustomizationSpec{ClusterSpecific: domain.False}}
	switch {
	case patch == "merge":
		c.Spec.PatchType = domain.PatchMerge
	case patch != "":
		c.Spec.PatchType = domain.PatchJSON
		if err := json.Unmarshal([]byte(patch), &c.Spec.PatchJSON); err != nil {
			panic(err)
		}
	}
	for i := 0; i < len(files); i += 2 {
		c.Files = append(c.Files, domain.Upload{Name: files[i], Data: []byte(files[i+1])})
	}
	return c
}

func only(info domain.ClusterInfo, c vary.Customized) vary.Customized {
	c.Spec.ClusterSpecific, c.Spec.ClusterInfo = domain.True, info
	return c
}

func options(c vary.Customized, of string, options ...domain.DataKeyOption) vary.Customized {
	if of == domain.KindSecret {
		c.Spec.SecretOptions.DataKeyOptions = options
	} else {
		c.Spec.ConfigMapOptions.DataKeyOptions = options
	}
	return c
}

const (
	etcd = `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"etcd"},"spec":{"replicas":3,"big":12345678901234567890,"template":{"spec":{"containers":[{"name":"a","image":"i"}]}}}}`
	beam = `{"apiVersion":"x.io/v1","kind":"Beam","metadata":{"name":"beam"},"spec":{"list":[1,2],"of":{"a":"<&>","b":1.50}}}`
)

// What a customization makes of an object that is there, or of a new one.
func TestCustomizations(t *testing.T) {
	for name, c := range map[string]struct {
		of      *vary.Generic
		kind    string
		want    string
		effects []string
		warning string
	}{
		"a JSON patch": {
			of:      generic(domain.False, "apps/v1", "StatefulSet", "etcd", "", everywhere(`[{"op":"replace","path":"/spec/replicas","value":1}]`)),
			kind:    "StatefulSet",
			want:    strings.Replace(etcd, `"replicas":3`, `"replicas":1`, 1),
			effects: []string{"replace /spec/replicas by gac intent g, resource r, customization c"},
		},
		"a strategic merge patch": {
			of:      generic(domain.False, "apps/v1", "StatefulSet", "etcd", "", everywhere("merge", "p.yaml", "spec:\n  replicas: null\n  template: {spec: {containers: [{name: b, image: j}], nodeSelector: {disk: ssd}}}\n")),
			kind:    "StatefulSet",
			want:    `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"etcd"},"spec":{"big":12345678901234567890,"template":{"spec":{"containers":[{"name":"b","image":"j"},{"name":"a","image":"i"}],"nodeSelector":{"disk":"ssd"}}}}}`,
			effects: []string{"merge of p.yaml by gac intent g, resource r, customization c"},
		},
		"a merge patch of a custom resource": {
			of:      generic(domain.False, "x.io/v1", "Beam", "beam", "", everywhere("merge", "p", "spec: {list: [3], of: {b: null, c: {d: null, e: 1}}}")),
			kind:    "Beam",
			want:    `{"apiVersion":"x.io/v1","kind":"Beam","metadata":{"name":"beam"},"spec":{"list":[3],"of":{"a":"<&>","c":{"e":1}}}}`,
			effects: []string{"merge of p by gac intent g, resource r, customization c"},
		},
		"two merge patches of one name, in order": {
			of:      generic(domain.False, "x.io/v1", "Beam", "beam", "", everywhere("merge", "p", "spec: {of: null}", "p", "spec: {list: [3]}")),
			kind:    "Beam",
			want:    `{"apiVersion":"x.io/v1","kind":"Beam","metadata":{"name":"beam"},"spec":{"list":[3]}}`,
			effects: []string{"merge of p by gac intent g, resource r, customization c"},
		},
		"two customizations, in order": {
			of: generic(domain.False, "x.io/v1", "Beam", "beam", "",
				everywhere(`[{"op":"remove","path":"/spec/list"},{"op":"test","path":"/spec/of/b","value":1.50}]`), everywhere(`[{"op":"add","path":"/spec/list","value":["<"]}]`)),
			kind: "Beam",
			want: `{"apiVersion":"x.io/v1","kind":"Beam","metadata":{"name":"beam"},"spec":{"list":["<"],"of":{"a":"<&>","b":1.50}}}`,
			effects: []string{
				"remove /spec/list by gac intent g, resource r, customization c", "test /spec/of/b by gac intent g, resource r, customization c",
				"add /spec/list by gac intent g, resource r, customization c",
			},
		},
		"a new object": {
			of:      generic(domain.True, "networking.k8s.io/v1", "networkpolicy", "web", "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: web}\nspec: {podSelector: {}}\n", everywhere("", "dummy.yaml", "x")),
			kind:    "NetworkPolicy",
			want:    `{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"web"},"spec":{"podSelector":{}}}`,
			effects: []string{"object by gac intent g, resource r"},
		},
		"a ConfigMap of files": {
			of: generic(domain.True, "v1", "configmap", "cm", "", options(everywhere(`[{"op":"add","path":"/data/x","value":"1"}]`, "a.txt", "text\n", "b", "\xff"), "ConfigMap",
				domain.DataKeyOption{FileName: "b", KeyName: "raw"})),
			kind: "ConfigMap",
			want: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cm"},"data":{"a.txt":"text\n","x":"1"},"binaryData":{"raw":"/w=="}}`,
			effects: []string{
				"object by gac intent g, resource r", "key a.txt by gac intent g, resource r, customization c", "key raw by gac intent g, resource r, customization c",
				"add /data/x by gac intent g, resource r, customization c",
			},
		},
		"a Secret keeps what its template has": {
			of: generic(domain.True, "v1", "Secret", "s", "{apiVersion: v1, kind: Secret, type: t, immutable: true, metadata: {name: s, labels: {a: b}}, stringData: {u: v}}",
				options(everywhere("merge", "f", "twice", "p.yaml", "metadata: {labels: {c: d}}"), domain.KindSecret, domain.DataKeyOption{FileName: "p.yaml", KeyName: "p", MergePatch: domain.True})),
			kind: "Secret",
			want: `{"apiVersion":"v1","kind":"Secret","type":"t","immutable":true,"metadata":{"name":"s","labels":{"a":"b","c":"d"}},"stringData":{"u":"v"},"data":{"f":"dHdpY2U="}}`,
			effects: []string{
				"object by gac intent g, resource r", "key f by gac intent g, resource r, customization c", "merge of p.yaml by gac intent g, resource r, customization c",
			},
		},
		"a later file in place of an earlier one": {
			of:   generic(domain.True, "v1", "ConfigMap", "cm", "", everywhere("", "a", "\xff"), everywhere("", "a", "2")),
			kind: "ConfigMap",
			want: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cm"},"data":{"a":"2"},"binaryData":{}}`,
			effects: []string{
				"object by gac intent g, resource r", "key a by gac intent g, resource r, customization c",
			},
		},
		"in place of an object that is there": {
			of:      generic(domain.True, "x.io/v1", "Beam", "beam", "{apiVersion: x.io/v1, kind: Beam, metadata: {name: beam}, spec: 1}", everywhere("")),
			kind:    "Beam",
			want:    `{"apiVersion":"x.io/v1","kind":"Beam","metadata":{"name":"beam"},"spec":1}`,
			effects: []string{"object by gac intent g, resource r"},
			warning: `gac intent g, resource "r": app "web": Beam "beam": it is to be a new object, and takes the place of the one that the app renders`,
		},
		"in place of an equal object": {
			of:      generic(domain.True, "x.io/v1", "Beam", "beam", strings.ReplaceAll(beam, "1.50", "15"), everywhere(`[{"op":"replace","path":"/spec/of/b","value":1.50}]`)),
			kind:    "Beam",
			want:    beam,
			effects: []string{"object by gac intent g, resource r", "replace /spec/of/b by gac intent g, resource r, customization c"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			app := &vary.App{Name: "web", Resources: []plan.Resource{resource(t, etcd), resource(t, beam)}, Clusters: []*vary.Cluster{cluster("c1"), cluster("c2")}}
			for _, intents := range [][]vary.Intent{{c.of}, {c.of, c.of}} {
				if len(intents) == 2 && name == "two customizations, in order" { // whose test and remove are of what was there
					continue
				}
				v, err := vary.Apply(intents, app)
				require.NoError(t, err)
				require.Empty(t, v.Variants)
				if c.warning == "" {
					require.Empty(t, v.Warnings)
				} else {
					require.Equal(t, []string{c.warning}, v.Warnings)
				}
				found := false
				for _, r := range v.Bundle.Resources {
					if r.Kind == c.kind {
						require.JSONEq(t, c.want, string(r.Manifest))
						require.Equal(t, strings.Contains(c.want, "1.50"), strings.Contains(string(r.Manifest), "1.50"), "numbers keep their digits")
						require.NotContains(t, string(r.Manifest), `\u003c`)
						found = true
					}
				}
				require.True(t, found)
				var effects []string
				for _, e := range v.Effects {
					effects = append(effects, e.String())
				}
				require.Equal(t, c.effects, effects, "twice is as once")
			}
		})
	}
}

// Of two intents that make one object it is said which one the other's is in the place of.
func TestTwoMakeOneObject(t *testing.T) {
	first, second := generic(domain.True, "v1", "ConfigMap", "cm", "", everywhere("", "a", "1")), generic(domain.True, "v1", "ConfigMap", "cm", "", everywhere("", "a", "2"))
	second.Name = "s"
	v, err := vary.Apply([]vary.Intent{first, second}, &vary.App{Name: "web", Clusters: []*vary.Cluster{cluster("c1"), cluster("c2")}})
	require.NoError(t, err)
	require.Equal(t, []string{
		`gac intent g, resource "s": app "web": ConfigMap "cm": it is to be a new object, and takes the place of the one of gac intent g, resource r`,
	}, v.Warnings)
}

// A customization is for the clusters that it selects: by provider and name, or by provider and label; deny is all others.
func TestCustomizationsForSomeClusters(t *testing.T) {
	clusters := []*vary.Cluster{cluster("c1"), cluster("c2"), cluster("c3")}
	clusters[1].Labels = map[string]bool{"edge": true}
	clusters[2].Provider, clusters[2].Name, clusters[2].Labels = "other", "c1", map[string]bool{"edge": true}
	for name, c := range map[string]struct {
		info domain.ClusterInfo
		want string
	}{
		"by name":  {domain.ClusterInfo{Scope: domain.ScopeName, ClusterProvider: "p", Cluster: "c1", Mode: domain.ModeAllow}, "100"},
		"by label": {domain.ClusterInfo{Scope: domain.ScopeLabel, ClusterProvider: "p", ClusterLabel: "edge", Mode: domain.ModeAllow}, "010"},
		"deny":     {domain.ClusterInfo{Scope: domain.ScopeName, ClusterProvider: "p", Cluster: "c1", Mode: domain.ModeDeny}, "011"},
		"deny by label": {
			domain.ClusterInfo{Scope: domain.ScopeLabel, ClusterProvider: "other", ClusterLabel: "edge", Mode: domain.ModeDeny}, "110",
		},
		"none":                 {domain.ClusterInfo{Scope: domain.ScopeName, ClusterProvider: "p", Cluster: "x", Mode: domain.ModeAllow}, "000"},
		"deny none":            {domain.ClusterInfo{Scope: domain.ScopeName, ClusterProvider: "p", Cluster: "x", Mode: domain.ModeDeny}, "111"},
		"deny a label of none": {domain.ClusterInfo{Scope: domain.ScopeLabel, ClusterProvider: "p", ClusterLabel: "egde", Mode: domain.ModeDeny}, "111"},
	} {
		t.Run(name, func(t *testing.T) {
			patched := generic(domain.False, "x.io/v1", "Beam", "beam", "", only(c.info, everywhere(`[{"op":"add","path":"/says","value":"1"}]`)))
			added := generic(domain.True, "v1", "ConfigMap", "cm", "", only(c.info, everywhere("", "a", "b")))
			added.Name = "added"
			v, err := vary.Apply([]vary.Intent{patched, added}, &vary.App{Name: "web", Resources: []plan.Resource{resource(t, beam)}, Clusters: clusters})
			require.NoError(t, err)
			for i := range clusters {
				want := "Beam/beam="
				if c.want[i] == '1' {
					want = "Beam/beam=1 ConfigMap/cm="
				}
				require.ElementsMatch(t, strings.Fields(want), on(v, i), clusters[i])
			}
			says := map[string]string{"000": "it is for no cluster of app", "111": "it denies no cluster of app"}[c.want]
			require.Equal(t, says != "", len(v.Warnings) == 2, v.Warnings)
			for _, w := range v.Warnings {
				require.Contains(t, w, says)
			}
		})
	}
}

func TestCustomizationsThatCannotBeDone(t *testing.T) {
	c1 := domain.ClusterInfo{Scope: domain.ScopeName, ClusterProvider: "p", Cluster: "c1", Mode: domain.ModeAllow}
	patch := func(patch string) *vary.Generic {
		return generic(domain.False, "x.io/v1", "Beam", "beam", "", everywhere(patch))
	}
	data := func(template string, files ...string) *vary.Generic {
		return generic(domain.True, "v1", "ConfigMap", "cm", template, everywhere("", files...))
	}
	for name, c := range map[string]struct {
		of   *vary.Generic
		want string
	}{
		"an object that is not there": {
			generic(domain.False, "apps/v1", "StatefulSet", "etc", "", everywhere(`[{"op":"remove","path":"/a"}]`)),
			`gac intent g, resource "r": app "web": StatefulSet "etc": there is none of apps/v1 (the app has: StatefulSet etcd, Beam beam) (cluster p+c1)`,
		},
		"a kind in other letters": {generic(domain.False, "apps/v1", "statefulset", "etcd", "", everywhere("merge", "a", "a: 1")), `there is none of apps/v1`},
		"another version": {
			generic(domain.False, "apps/v1beta1", "StatefulSet", "etcd", "", everywhere("merge", "a", "a: 1")),
			`gac intent g, resource "r": app "web": StatefulSet "etcd": spec.resourceGVK.apiVersion is "apps/v1beta1", and it is rendered as apps/v1 (cluster p+c1)`,
		},
		"no patch":               {patch(""), `customization "c": app "web": Beam "beam": it has no patchType`},
		"no steps":               {patch("[]"), `patchJson has no steps`},
		"a test without a value": {patch(`[{"op":"test","path":""}]`), `patchJson does not fit the object`},
		"a test for null":        {patch(`[{"op":"test","path":"","value":null}]`), `patchJson cannot be carried out: testing value  failed`},
		"no file":                {patch("merge"), `it has no file that is a patch`},
		"a path that is not there": {
			patch(`[{"op":"replace","path":"/spec/no/where","value":1}]`), `customization "c": app "web": Beam "beam": patchJson cannot be carried out: replace operation does not apply`,
		},
		"a test that fails":    {patch(`[{"op":"test","path":"/spec/of/b","value":2}]`), "testing value /spec/of/b failed"},
		"another name":         {patch(`[{"op":"replace","path":"/metadata/name","value":"x"}]`), `would become another resource`},
		"no object":            {patch(`[{"op":"replace","path":"","value":1}]`), `app "web": Beam "beam": patchJson`},
		"a patch of nothing":   {generic(domain.False, "x.io/v1", "Beam", "beam", "", everywhere("merge", "p.yaml", "- 1")), "file p.yaml: it is not an object"},
		"no template":          {generic(domain.True, "apps/v1", "Deployment", "d", "", everywhere("")), "it is to be a new object, and has no template"},
		"a template of others": {generic(domain.True, "v1", "Pod", "p", "{apiVersion: v1, kind: Pod, metadata: {name: q}}", everywhere("")), `it would become another object (v1 Pod "q")`},
		"a key that is there":  {data("{apiVersion: v1, kind: ConfigMap, metadata: {name: cm}, data: {a: b}}", "a", "c"), "a key with the name a already exists in Data for ConfigMap cm"},
		"a key that is none":   {data("", "a b", "c"), "a b is not a valid key name for a ConfigMap or Secret"},
		"data that is no map":  {data("{apiVersion: v1, kind: ConfigMap, metadata: {name: cm}, data: [1]}", "a", "c"), "its data is not an object"},
		"labels that are none": {
			patch(`[{"op":"add","path":"/metadata/labels","value":"x"}]`), `Beam "beam": metadata.labels is not an object`,
		},
		"a template whose labels are none": {
			generic(domain.False, "apps/v1", "StatefulSet", "etcd", "", everywhere(`[{"op":"add","path":"/spec/template/metadata","value":{"labels":[]}}]`)),
			`spec.template.metadata.labels is not an object`,
		},
		"another namespace": {patch(`[{"op":"add","path":"/metadata/namespace","value":"other"}]`), `would become another resource (x.io/v1 Beam "beam" in namespace other)`},
		"a list": {
			generic(domain.True, "v1", "List", "l", "{apiVersion: v1, kind: List, metadata: {name: l}, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]}", everywhere("")),
			`List "l" is a list of objects: each of them is a resource of its own`,
		},
		"a list item without its key": {
			generic(domain.False, "apps/v1", "StatefulSet", "etcd", "", everywhere("merge", "p", "spec: {template: {spec: {containers: [{image: hidden}]}}}")),
			"an item of a list does not contain declared merge key: name",
		},
		"a directive that is none": {
			generic(domain.False, "apps/v1", "StatefulSet", "etcd", "", everywhere("merge", "p", "spec: {$patch: hidden, template: {}}")),
			"the patch cannot be carried out",
		},
		"only where it is not": {
			generic(domain.False, "v1", "ConfigMap", "own", "", only(c1, everywhere(`[{"op":"remove","path":"/a"}]`))), `there is none of v1`,
		},
		"a patch that was stored before there was a limit": {
			patch("[" + strings.TrimSuffix(strings.Repeat(`{"op":"add","path":"/a","value":1},`, limits.PatchSteps+1), ",") + "]"),
			"patchJson has 1001 steps, of 1000 at most",
		},
		"a value that nobody may ask for": {
			patch(`[{"op":"add","path":"/a","value":"$(http://x/{clusterProvider}/{cluster})$"}]`), `patchJson[0]: the value of http://x/p/c1: not here`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.of.Values = map[string]vary.Value{"http://x/p/c1": {Err: fail.New(fail.Malformed, "not here")}}
			_, err := vary.Apply([]vary.Intent{c.of}, &vary.App{Name: "web", Resources: []plan.Resource{resource(t, etcd), resource(t, beam)}, Clusters: []*vary.Cluster{cluster("c1")}})
			require.True(t, fail.Is(err, fail.Malformed), "%v", err)
			require.Contains(t, fail.TextOf(err), c.want)
			require.NotContains(t, fail.TextOf(err), "image", "what is in objects and files may be secret")
		})
	}
	err := patch("merge").Apps([]string{"sink"})
	require.True(t, fail.Is(err, fail.Malformed), "%v", err)
	require.Contains(t, fail.TextOf(err), `gac intent g, resource "r": app "web": Beam "beam": the composite app has no such app (it has: sink)`)
}

// A namespace that is named is the same as that of the app, which need not be.
func TestNamespacesThatAreNamed(t *testing.T) {
	app := &vary.App{Name: "web", Namespace: "ns", Resources: []plan.Resource{resource(t, beam)}, Clusters: []*vary.Cluster{cluster("c1")}}
	patched := generic(domain.False, "x.io/v1", "Beam", "beam", "", everywhere(`[{"op":"add","path":"/metadata/namespace","value":"ns"}]`))
	added := generic(domain.True, "x.io/v1", "Beam", "beam", "{apiVersion: x.io/v1, kind: Beam, metadata: {name: beam}}", everywhere(`[{"op":"add","path":"/metadata/namespace","value":"ns"}]`))
	for name, of := range map[string]*vary.Generic{"patched": patched, "added": added} {
		v, err := vary.Apply([]vary.Intent{of}, app)
		require.NoError(t, err, name)
		require.Len(t, v.Bundle.Resources, 1, name)
		require.Contains(t, string(v.Bundle.Resources[0].Manifest), `"namespace":"ns"`, name)
	}
}

// What a customization says, and does nothing, is a warning.
func TestWhatDoesNothingIsSaid(t *testing.T) {
	sts := func(c vary.Customized) *vary.Generic {
		return generic(domain.False, "apps/v1", "StatefulSet", "etcd", "", c)
	}
	cm := func(c vary.Customized) *vary.Generic { return generic(domain.True, "v1", "ConfigMap", "cm", "", c) }
	const patch = `[{"op":"replace","path":"/spec/replicas","value":1}]`
	both := everywhere("merge", "p.yaml", "spec: {replicas: 2}")
	both.Spec.PatchJSON = everywhere(patch).Spec.PatchJSON
	for name, c := range map[string]struct {
		of   *vary.Generic
		want []string
	}{
		"all of it does something":    {sts(everywhere("merge", "p.yaml", "spec: {replicas: 2}")), nil},
		"what emcoctl needs":          {sts(everywhere(patch, "dummy.yaml", "# not used\n", "text", "not used")), nil},
		"a patch without its type":    {sts(everywhere(patch, "p.yaml", "spec: {replicas: 2}")), []string{"its file p.yaml does nothing: a merge patch needs the patchType merge"}},
		"steps of another type":       {sts(both), []string{`its patchJson does nothing, since patchType is "merge"`}},
		"options of another kind":     {cm(options(everywhere("", "a", "b"), domain.KindSecret, domain.DataKeyOption{FileName: "a", KeyName: "b"})), []string{"its secretOptions do nothing, since the object is no Secret"}},
		"options of a file not there": {cm(options(everywhere("", "a", "b"), domain.KindConfigMap, domain.DataKeyOption{FileName: "c", KeyName: "b"})), []string{"its configMapOptions name the file c, which it does not have"}},
		"an option of an object that is there": {
			generic(domain.False, "v1", "ConfigMap", "own", "", options(everywhere(`[{"op":"add","path":"/data","value":{}}]`, "app.conf", "x"), domain.KindConfigMap, domain.DataKeyOption{FileName: "app.conf", KeyName: "k"})),
			[]string{"its configMapOptions for the file app.conf do nothing: files are data of new objects alone (newObject)"},
		},
		"an option of a patch of an object that is there": {
			generic(domain.False, "v1", "ConfigMap", "own", "", options(everywhere("merge", "p", "data: {a: b}"), domain.KindConfigMap, domain.DataKeyOption{FileName: "p", KeyName: "k", MergePatch: domain.True})), nil,
		},
		"a patch that is data": {
			cm(options(everywhere("", "a", "b: c"), domain.KindConfigMap, domain.DataKeyOption{FileName: "a", KeyName: "b", MergePatch: domain.True})),
			[]string{"its file a does nothing: a merge patch needs the patchType merge, and of a ConfigMap or a Secret the option mergePatch"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := vary.Apply([]vary.Intent{c.of}, &vary.App{
				Name: "web", Resources: []plan.Resource{resource(t, etcd), resource(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"own"}}`)}, Clusters: []*vary.Cluster{cluster("c1")},
			})
			require.NoError(t, err)
			var want []string
			for _, w := range c.want {
				want = append(want, "gac intent g, resource r, customization c: "+w)
			}
			require.Equal(t, want, v.Warnings)
		})
	}
}

// What is patched need not be on all clusters: where it is not, that is said. It may have been added by a resource before.
func TestPatchesOfWhatSomeClustersHave(t *testing.T) {
	c1 := domain.ClusterInfo{Scope: domain.ScopeName, ClusterProvider: "p", Cluster: "c1", Mode: domain.ModeAllow}
	added := generic(domain.True, "v1", "ConfigMap", "own", "", only(c1, everywhere("", "a", "b")))
	patched := generic(domain.False, "v1", "ConfigMap", "own", "", everywhere(`[{"op":"add","path":"/says","value":"1"}]`))
	patched.Name = "patched"
	v, err := vary.Apply([]vary.Intent{added, patched}, &vary.App{Name: "web", Clusters: []*vary.Cluster{cluster("c1"), cluster("c2")}})
	require.NoError(t, err)
	require.Equal(t, []string{"ConfigMap/own=1"}, on(v, 0))
	require.Empty(t, on(v, 1))
	require.Equal(t, []string{`gac intent g, resource "patched": app "web": ConfigMap "own": there is none of v1 (the app has: nothing) (cluster p+c2)`}, v.Warnings)
	nothing, err := vary.Apply([]vary.Intent{generic(domain.True, "v1", "ConfigMap", "own", "")}, &vary.App{Name: "web"})
	require.NoError(t, err)
	require.Equal(t, []string{`gac intent g, resource r has no customizations: nothing is done with ConfigMap "own"`}, nothing.Warnings)
}

// Values from elsewhere are each cluster's own, or those of the cluster that the customization names.
func TestValuesFromElsewhere(t *testing.T) {
	step := `[{"op":"add","path":"/says","value":"$(http://x/{clusterProvider}/{cluster}?key=k)$"},{"op":"add","path":"/literal","value":"http://x"}]`
	g := generic(domain.False, "x.io/v1", "Beam", "beam", "", everywhere(step))
	app := &vary.App{Name: "web", Resources: []plan.Resource{resource(t, beam)}}
	g.Values = map[string]vary.Value{}
	for i := range 6 {
		app.Clusters = append(app.Clusters, cluster(fmt.Sprintf("c%d", i)))
		g.Values[fmt.Sprintf("http://x/p/c%d?key=k", i)] = vary.Value{JSON: json.RawMessage(fmt.Sprintf(`"%d"`, i%2))}
	}
	require.Len(t, g.Needs(app.Clusters), 6)
	v, err := vary.Apply([]vary.Intent{g}, app)
	require.NoError(t, err)
	require.Len(t, v.Variants, 1, "clusters with equal values get the same")
	for i := range app.Clusters {
		require.Equal(t, []string{fmt.Sprintf("Beam/beam=%d", i%2)}, on(v, i))
	}
	g.Customizations[0].Spec.ClusterInfo = domain.ClusterInfo{ClusterProvider: "p", Cluster: "c1"}
	require.Equal(t, []string{"http://x/p/c1?key=k"}, g.Needs(app.Clusters))
	require.Empty(t, g.Needs([]*vary.Cluster{{}}), "as long as nobody knows where it goes")
}

// Who denies a cluster names it, and yet gets no value of it: each of the others has its own, also of other providers.
func TestValuesWhereSomeAreDenied(t *testing.T) {
	for name, info := range map[string]domain.ClusterInfo{
		"by name":  {Scope: domain.ScopeName, ClusterProvider: "p", Cluster: "c1", Mode: domain.ModeDeny},
		"by label": {Scope: domain.ScopeLabel, ClusterProvider: "p", ClusterLabel: "edge", Mode: domain.ModeDeny},
	} {
		t.Run(name, func(t *testing.T) {
			c := only(info, everywhere(`[{"op":"add","path":"/says","value":"$(http://x/{clusterProvider}/{cluster})$"}]`))
			g := generic(domain.False, "x.io/v1", "Beam", "beam", "", c)
			app := &vary.App{Name: "web", Resources: []plan.Resource{resource(t, beam)}, Clusters: []*vary.Cluster{cluster("c1"), cluster("c2"), cluster("c3")}}
			app.Clusters[0].Labels, app.Clusters[2].Provider = map[string]bool{"edge": true}, "q"
			require.Equal(t, []string{"http://x/p/c2", "http://x/q/c3"}, g.Needs(app.Clusters))
			g.Values = map[string]vary.Value{}
			for _, at := range []string{"p/c1", "p/c2", "p/c3", "q/c3"} {
				g.Values["http://x/"+at] = vary.Value{JSON: json.RawMessage(`"` + at + `"`)}
			}
			v, err := vary.Apply([]vary.Intent{g}, app)
			require.NoError(t, err)
			for i, says := range []string{"", "p/c2", "q/c3"} {
				require.Equal(t, []string{"Beam/beam=" + says}, on(v, i))
			}
		})
	}
}

// TestVaryPatchesEachClusterByItself: a patch is read once for all clusters, and what it makes on one is what it makes there alone,
// whatever the values are and however later steps change what earlier ones have put there.
func TestVaryPatchesEachClusterByItself(t *testing.T) {
	const patch = `[
		{"op":"add","path":"/spec/own","value":{"list":[],"of":{"a":1.50}}},
		{"op":"add","path":"/spec/own/value","value":"$(http://h/{clusterProvider}/{cluster})$"},
		{"op":"add","path":"/spec/own/list/-","value":"$(http://h/{cluster})$"},
		{"op":"copy","from":"/spec/own/value","path":"/spec/own/list/-"},
		{"op":"replace","path":"/spec/own/of/a","value":"$(http://h/{cluster})$"},
		{"op":"move","from":"/spec/own/list/0","path":"/spec/own/of/b"},
		{"op":"add","path":"/spec/none","value":null}
	]`
	values := []string{`"a"`, `{"a":{"b":[1.50]}}`, `{ "a" : "<&>" }`, `[1,2]`, `null`, `true`, `12345678901234567890`, `""`, `{}`, `[]`}
	fresh := func() *vary.Generic {
		g := generic(domain.False, "apps/v1", "StatefulSet", "etcd", "", everywhere(patch))
		g.Values = map[string]vary.Value{}
		for i, v := range values {
			g.Values[fmt.Sprintf("http://h/c%d", i)] = vary.Value{JSON: json.RawMessage(v)}
			g.Values[fmt.Sprintf("http://h/p/c%d", i)] = vary.Value{JSON: json.RawMessage(values[len(values)-1-i])}
		}
		return g
	}
	apply := func(g *vary.Generic, clusters ...*vary.Cluster) (manifests []string) {
		varied, err := vary.Apply([]vary.Intent{g}, &vary.App{Name: "web", Resources: []plan.Resource{resource(t, etcd)}, Clusters: clusters})
		require.NoError(t, err)
		for _, of := range varied.Of {
			gets := varied.Bundle
			if of > 0 {
				gets = varied.Variants[of-1].Overlay.On(varied.Bundle)
			}
			manifests = append(manifests, string(gets.Resources[0].Manifest))
		}
		return manifests
	}
	var clusters []*vary.Cluster
	var alone []string
	for i, v := range values {
		c := &vary.Cluster{ClusterName: domain.ClusterName{Provider: "p", Name: fmt.Sprintf("c%d", i)}}
		clusters = append(clusters, c)
		alone = append(alone, apply(fresh(), c)...)
		var is struct{ Spec map[string]json.RawMessage }
		require.NoError(t, json.Unmarshal([]byte(alone[i]), &is))
		var own struct {
			Value json.RawMessage
			Of    map[string]json.RawMessage
			List  []json.RawMessage
		}
		require.NoError(t, json.Unmarshal(is.Spec["own"], &own))
		require.JSONEq(t, v, string(own.Of["a"]))
		require.JSONEq(t, v, string(own.Of["b"]))
		require.Len(t, own.List, 1)
		require.JSONEq(t, values[len(values)-1-i], string(own.List[0]))
		require.Equal(t, "null", string(is.Spec["none"]))
	}
	require.Equal(t, alone, apply(fresh(), clusters...))
	g := fresh()
	apply(g, clusters...)
	require.Equal(t, alone, apply(g, clusters...), "of what was read before")
}

func TestRedacted(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]string{
		"https://values.example.com/x":                                                    "https://values.example.com/x",
		"https://values.example.com/x?token=sesame":                                       "https://values.example.com/x?…",
		"https://values.example.com/x?key=sesame#sesame":                                  "https://values.example.com/x?…",
		"https://u:sesame@values.example.com/x":                                           "https://u:xxxxx@values.example.com/x",
		"http://orchestrator:9015/v2/cluster-providers/p/clusters/c/kv-pairs/k?key=a%26b": "http://orchestrator:9015/v2/cluster-providers/p/clusters/c/kv-pairs/k?key=a%26b",
		"http://h/v2/cluster-providers/p/cluster-sync-objects/o?key=a&token=sesame":       "http://h/v2/cluster-providers/p/cluster-sync-objects/o?key=a",
		"http://%zz": "a URL that cannot be read",
	} {
		require.Equal(t, want, vary.Redacted(at))
	}
}
