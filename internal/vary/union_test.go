package vary_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/vary"
)

// does is an intent that does something for each cluster, of which all are sorts of their own unless sort says otherwise.
type does struct {
	sort func(*vary.Cluster) string
	vary func(*vary.Work) error
}

func (does) Concerns(string) bool                         { return true }
func (does) Check(*vary.App) (warnings []string, _ error) { return nil, nil }
func (d does) Vary(w *vary.Work) error                    { return d.vary(w) }
func (d does) Sort(_ string, c *vary.Cluster) string {
	if d.sort == nil {
		return c.Name
	}
	return d.sort(c)
}

// on are the resources that a cluster gets, in their order, as Kind/name=what it says.
func on(v *vary.Varied, cluster int) (resources []string) {
	bundle, lacks := v.Bundle, v.Lacks
	if of := v.Of[cluster]; of > 0 {
		bundle, lacks = v.Variants[of-1].Overlay.On(bundle), v.Variants[of-1].Lacks
	}
	marks := domain.DecodeMarks(lacks)
	for i, r := range bundle.Resources {
		if i < len(marks) && marks[i] == domain.MarkGone {
			continue
		}
		var o struct{ Says string }
		_ = json.Unmarshal(r.Manifest, &o)
		resources = append(resources, r.Kind+"/"+r.Name+"="+o.Says)
	}
	return resources
}

func says(kind, version, name, what string) map[string]any {
	return map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name}, "says": what}
}

// Some clusters get what others do not. All of it has a place in the bundle, in the order in which it is applied, and clusters
// begin without what they do not get.
func TestResourcesOfSomeClusters(t *testing.T) {
	app := &vary.App{Name: "web", Namespace: "ns", Resources: []plan.Resource{
		resource(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cm"},"says":"0"}`),
		resource(t, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"dep"},"says":"0"}`),
		resource(t, `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"hook"},"says":"0"}`),
	}}
	app.Resources[0].Stage, app.Resources[1].Stage = plan.StageOf("", "ConfigMap"), plan.StageOf("apps", "Deployment")
	app.Resources[2].Hook = &plan.Hook{}
	for i := range 5 {
		app.Clusters = append(app.Clusters, cluster(fmt.Sprintf("c%d", i)))
	}
	step := does{vary: func(w *vary.Work) error {
		add := func(o map[string]any) {
			index, err := w.Add(o)
			require.NoError(t, err)
			w.Effect(index, "object", "test of "+w.Cluster.Name[:1])
		}
		switch w.Cluster.Name {
		case "c1":
			add(says("Deployment", "apps/v1", "more", "1"))
			add(says("Secret", "v1", "own", "1"))
		case "c2":
			add(says("Secret", "v1", "own", "2"))
		case "c3":
			add(says("ConfigMap", "v1", "cm", "3")) // in place of what is there
		}
		return nil
	}}
	v, err := vary.Apply([]vary.Intent{step}, app)
	require.NoError(t, err)
	for i, want := range []string{
		"ConfigMap/cm=0 Deployment/dep=0 Job/hook=0",
		"ConfigMap/cm=0 Secret/own=1 Deployment/dep=0 Deployment/more=1 Job/hook=0",
		"ConfigMap/cm=0 Secret/own=2 Deployment/dep=0 Job/hook=0",
		"ConfigMap/cm=3 Deployment/dep=0 Job/hook=0",
		"ConfigMap/cm=0 Deployment/dep=0 Job/hook=0",
	} {
		require.Equal(t, want, strings.Join(on(v, i), " "), app.Clusters[i].Name)
	}
	var all []string
	for _, r := range v.Bundle.Resources {
		all = append(all, r.Name)
	}
	require.Equal(t, []string{"cm", "own", "dep", "more", "hook"}, all)
	require.Equal(t, []int{0, 1, 2, 3, 0}, v.Of)
	require.Equal(t, []plan.Effect{{Resource: 3, What: "object", By: "test of c"}, {Resource: 1, What: "object", By: "test of c"}}, v.Variants[0].Effects)
	require.Equal(t, "1p1G1p1G1p", v.Lacks)
}

// Sorts that come to the same are one; what sorts have in common is kept once, whatever of it is taken.
func TestSortsShareWhatTheyComeTo(t *testing.T) {
	app := &vary.App{Name: "web"}
	for i := range 40 {
		app.Clusters = append(app.Clusters, cluster(fmt.Sprintf("c%02d", i)))
	}
	big := strings.Repeat("x", 10_000)
	step := does{vary: func(w *vary.Work) error {
		if _, err := w.Add(says("ConfigMap", "v1", "big", big)); err != nil {
			return err
		}
		_, err := w.Add(says("ConfigMap", "v1", "own", w.Cluster.Name[:2]))
		return err
	}}
	v, err := vary.Apply([]vary.Intent{step}, app)
	require.NoError(t, err)
	require.Len(t, v.Variants, 3)
	require.Less(t, v.Bytes, 2*len(big))
	for _, variant := range v.Variants {
		require.Len(t, variant.Overlay.Resources, 1)
	}
	app.Used = limits.Varied - 2*len(big)
	_, err = vary.Apply([]vary.Intent{step}, app)
	require.NoError(t, err)
	app.Used = limits.Varied - len(big)
	_, err = vary.Apply([]vary.Intent{step}, app)
	require.True(t, fail.Is(err, fail.Malformed), "%v", err)
	require.Contains(t, fail.TextOf(err), `app "web": what intents make of it for 1 sorts of clusters, with what they make of the apps before it, has more than 67108864 bytes`)
}

// What is wrong on one sort of clusters is found, and names one of them; what is odd on several is said once.
func TestEachSortIsLookedAt(t *testing.T) {
	app := &vary.App{Name: "web", Clusters: []*vary.Cluster{cluster("c1"), cluster("c2"), cluster("c3")}}
	step := does{vary: func(w *vary.Work) error {
		w.Warn("odd")
		if w.Cluster.Name == "c2" {
			return fail.New(fail.Malformed, "not here")
		}
		return nil
	}}
	_, err := vary.Apply([]vary.Intent{step}, app)
	require.True(t, fail.Is(err, fail.Malformed))
	require.Equal(t, "not here (cluster p+c2)", fail.TextOf(err))
	app.Clusters = slices.Delete(app.Clusters, 1, 2)
	v, err := vary.Apply([]vary.Intent{step}, app)
	require.NoError(t, err)
	require.Equal(t, []string{"odd"}, v.Warnings)
}

func TestResourcesStayWhatTheyAre(t *testing.T) {
	app := &vary.App{Name: "web", Resources: []plan.Resource{resource(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cm"}}`)}}
	for name, c := range map[string]struct {
		vary func(*vary.Work) error
		want string
	}{
		"another name": {
			func(w *vary.Work) error {
				return w.Edit(0, func(o map[string]any) error { o["metadata"].(map[string]any)["name"] = "other"; return nil })
			},
			`ConfigMap "cm" would become another resource (v1 ConfigMap "other"): its apiVersion, kind, name and namespace cannot be changed`,
		},
		"no name": {
			func(w *vary.Work) error {
				return w.Edit(0, func(o map[string]any) error { delete(o, "metadata"); return nil })
			},
			`ConfigMap "cm" would be no resource any more: the object has no metadata.name`,
		},
		"another version": {
			func(w *vary.Work) error { _, err := w.Add(says("ConfigMap", "v2", "cm", "")); return err },
			`v2 ConfigMap "cm" is there already as v1 ConfigMap "cm": give it the same apiVersion`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := vary.Apply([]vary.Intent{does{vary: c.vary}}, app)
			require.True(t, fail.Is(err, fail.Malformed), "%v", err)
			require.Equal(t, c.want, fail.TextOf(err))
		})
	}
}

// Registrations say who comes first; where they do not, the order is the actors'. Who is not registered comes with the last of
// those that are.
func TestIntentsHaveAnOrder(t *testing.T) {
	for name, c := range map[string]struct {
		bound []vary.Bound
		want  []string
	}{
		"all are registered": {
			[]vary.Bound{{Registered: true, Priority: 2, Actor: domain.ActorOVN}, {Registered: true, Actor: domain.ActorGAC}, {Registered: true, Priority: 1, Actor: domain.ActorHPA}},
			[]string{"gac 1", "hpaac 2", "ovnaction 0"},
		},
		"none is": {
			[]vary.Bound{{Actor: domain.ActorGAC}, {Actor: domain.ActorOVN}, {Actor: domain.ActorOVN}, {Actor: domain.ActorHPA}},
			[]string{"ovnaction 1", "ovnaction 2", "hpaac 3", "gac 0"},
		},
		"all but gac, which patches what the others make": {
			[]vary.Bound{{Actor: domain.ActorGAC}, {Registered: true, Priority: 1, Actor: domain.ActorHPA}, {Registered: true, Priority: 3, Actor: domain.ActorOVN}},
			[]string{"hpaac 1", "ovnaction 2", "gac 0"},
		},
		"gac alone": {
			[]vary.Bound{{Registered: true, Priority: 5, Actor: domain.ActorGAC}, {Actor: domain.ActorOVN}},
			[]string{"ovnaction 1", "gac 0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var did []string
			for i := range c.bound {
				says := fmt.Sprintf("%s %d", c.bound[i].Actor, i)
				c.bound[i].Intents = []vary.Intent{does{vary: func(*vary.Work) error { did = append(did, says); return nil }}}
			}
			_, err := vary.Apply(vary.InOrder(c.bound), &vary.App{Name: "web", Resources: []plan.Resource{{}}})
			require.NoError(t, err)
			require.Equal(t, c.want, did)
		})
	}
}
