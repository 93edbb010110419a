package app

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/stored"
)

// varying is a group whose generic k8s intent gives each of four clusters a value of its own, and those with the label gpu a Secret,
// and a Deployment that is paused.
type varying struct {
	*testing.T
	p      *Parts
	worker *activities.Control
	group  *domain.DeploymentIntentGroup
	stands string // the context that it has
}

const ownIntent = "own"

// gpuOf are the documents of that intent of a group: what is paused on clusters with the label, and how.
func gpuOf(group domain.Key, paused string) []domain.Object {
	under := func(parent domain.Key) domain.Identity { return domain.Identity{Parent: parent} }
	named := func(name string) domain.Metadata { return domain.Metadata{Name: name} }
	gpu := domain.ClusterInfo{Scope: domain.ScopeLabel, ClusterProvider: "cp", ClusterLabel: "gpu", Mode: domain.ModeAllow}
	intent := &domain.GenericK8sIntent{Identity: under(group), Metadata: named(ownIntent)}
	web := &domain.GenericResource{Identity: under(domain.KeyOf(intent)), Metadata: named("web"), Spec: domain.GenericResourceSpec{
		App: "web", NewObject: domain.False, ResourceGVK: domain.ResourceGVK{APIVersion: "apps/v1", Kind: "Deployment", Name: "r1-web"},
	}}
	token := &domain.GenericResource{Identity: under(domain.KeyOf(intent)), Metadata: named("token"), Spec: domain.GenericResourceSpec{
		App: "web", NewObject: domain.True, ResourceGVK: domain.ResourceGVK{APIVersion: "v1", Kind: "Secret", Name: "token"},
	}}
	return []domain.Object{
		intent, web, token,
		&domain.Customization{Identity: under(domain.KeyOf(web)), Metadata: named("site"), Spec: domain.CustomizationSpec{
			ClusterSpecific: domain.False, PatchType: domain.PatchJSON, PatchJSON: []domain.PatchStep{{
				Op: "add", Path: "/spec/template/spec/hostname",
				Value: json.RawMessage(`"$(http://drover:30461/v2/cluster-providers/{clusterProvider}/clusters/{cluster}/kv-pairs/own?key=site)$"`),
			}},
		}},
		&domain.Customization{Identity: under(domain.KeyOf(web)), Metadata: named("gpu"), Spec: domain.CustomizationSpec{
			ClusterSpecific: domain.True, ClusterInfo: gpu, PatchType: domain.PatchJSON,
			PatchJSON: []domain.PatchStep{{Op: "add", Path: "/spec/paused", Value: json.RawMessage(paused)}},
		}},
		&domain.Customization{Identity: under(domain.KeyOf(token)), Metadata: named("gpu"), Spec: domain.CustomizationSpec{
			ClusterSpecific: domain.True, ClusterInfo: gpu,
		}},
	}
}

func newVarying(t *testing.T, p *Parts) *varying {
	t.Helper()
	v := &varying{T: t, p: with(t, p)}
	v.worker = &activities.Control{Store: v.p.store, Runs: v.p.engine, Now: time.Now, Charts: v.p.charts}
	d := varied(4)
	d.withoutNetworks()
	d.more = slices.DeleteFunc(d.more, func(o domain.Object) bool { return o.Noun() == domain.ClusterKVs })
	d.intent.Spec.Intent["gac"] = ownIntent
	v.group = d.group
	d.more = append(d.more, &domain.ClusterProvider{Metadata: domain.Metadata{Name: "cp"}})
	for _, cluster := range []string{"c", "c1", "c2", "c3"} {
		d.more = append(d.more, pairOf(cluster, cluster))
	}
	d.more = append(d.more, gpuLabel("c1"), gpuLabel("c2"))
	d.more = append(d.more, gpuOf(domain.KeyOf(d.group), "true")...)
	d.group.History.Append(domain.Approved, "", 0, time.Now())
	d.store(t, v.p.store)
	prepared, err := v.worker.Prepare(t.Context(), domain.Scope{Owner: domain.KeyOf(v.group), ContextID: "2", Operation: domain.OpInstantiate})
	require.NoError(t, err)
	require.Empty(t, prepared.Warnings)
	v.done("2", domain.OpInstantiate, prepared)
	return v
}

func gpuLabel(cluster string) domain.Object {
	return &domain.ClusterLabel{Identity: domain.Identity{Parent: domain.ClusterName{Provider: "cp", Name: cluster}.Key()}, Label: "gpu"}
}

func pairOf(cluster, site string) domain.Object {
	return &domain.ClusterKV{
		Identity: domain.Identity{Parent: domain.ClusterName{Provider: "cp", Name: cluster}.Key()}, Metadata: domain.Metadata{Name: "own"},
		Spec: domain.KVSpec{KV: []map[string]string{{"site": site}}},
	}
}

func (v *varying) remove(o domain.Object) {
	v.Helper()
	require.NoError(v, v.p.store.Delete(v.Context(), o.Noun(), domain.KeyOf(o), 0))
}

func (v *varying) create(all ...domain.Object) {
	v.Helper()
	for _, o := range all {
		require.NoError(v, v.p.store.Create(v.Context(), o))
	}
}

// change plans an operation that takes over from what stands.
func (v *varying) change(contextID string, op domain.Operation, goal domain.Goal) (*activities.Prepared, error) {
	return v.worker.PrepareChange(v.Context(), activities.ChangeInput{
		Scope: domain.Scope{Owner: domain.KeyOf(v.group), ContextID: contextID, Operation: op}, Goal: goal,
	})
}

// done records that all that was planned has been done.
func (v *varying) done(contextID string, op domain.Operation, prepared *activities.Prepared) {
	v.Helper()
	if v.stands != "" {
		i, err := v.p.store.Instance(v.Context(), v.stands)
		require.NoError(v, err)
		i.Status = domain.ContextUpdated
		require.NoError(v, v.p.store.PutInstance(v.Context(), i))
	}
	require.NoError(v, v.p.store.PutInstance(v.Context(), &domain.Instance{
		ContextID: contextID, Owner: domain.KeyOf(v.group), Origin: op, Operation: op, Status: domain.ContextInstantiated,
		Plan: prepared.Plan, Namespace: prepared.Namespace, LogicalCloud: prepared.LogicalCloud, Profile: prepared.Profile, Label: prepared.Label,
	}))
	web := planned(v.T, v.p, prepared).App("web")
	for _, target := range web.Targets {
		marks := target.Begin(len(web.Resources))
		if target.Inherited == nil && target.Variant != 0 && web.Variants[target.Variant-1].Lacks != "" {
			marks = domain.DecodeMarks(web.Variants[target.Variant-1].Lacks)
		} else if target.Inherited == nil && target.Variant == 0 && web.Lacks != "" {
			marks = domain.DecodeMarks(web.Lacks)
		}
		for i, m := range marks {
			switch {
			case m.ToApply():
				marks[i] = domain.MarkApplied
			case m.ToDelete():
				marks[i] = domain.MarkDeleted
			}
		}
		require.NoError(v, v.p.store.PutLeaf(v.Context(), domain.Leaf{
			ID: domain.LeafID(contextID, "web", target.ClusterName), ContextID: contextID, App: "web", Cluster: target.ClusterName,
			Operation: op, Marks: marks.Encode(),
		}))
	}
	revision := 1
	if prepared.Revision > 0 {
		revision = prepared.Revision
	}
	v.group.History.Append(domain.Instantiated, contextID, revision, time.Now())
	require.NoError(v, v.p.store.Replace(v.Context(), v.group))
	v.stands = contextID
}

// plans says what a plan does with the Deployment and the Secret of each cluster: "c1: Deployment c1 paused apply, Secret stay".
func (v *varying) plans(prepared *activities.Prepared) (all []string) {
	v.Helper()
	app := planned(v.T, v.p, prepared).App("web")
	bundle, err := stored.JSON[plan.Bundle](v.Context(), v.p.store, app.Bundle)
	require.NoError(v, err)
	for _, target := range app.Targets {
		gets := bundle
		if at := app.OverlayOf(&target); at != "" {
			overlay, err := stored.Part[plan.Overlay](v.Context(), v.p.store, at)
			require.NoError(v, err)
			gets = overlay.On(bundle)
		}
		marks, said := target.Begin(len(app.Resources)), []string{}
		for i, r := range app.Resources {
			does := "stay"
			switch m := marks[i]; {
			case m.ToApply():
				does = "apply"
			case m.ToDelete():
				does = "delete"
			case !m.Stays():
				does = "none"
			}
			switch {
			case r.Kind == "Secret":
				said = append(said, "Secret "+does)
			case r.Kind == "Deployment" && does == "delete":
				said = append(said, "Deployment delete")
			case r.Kind == "Deployment":
				var o struct {
					Spec struct {
						Paused   *bool
						Template struct{ Spec struct{ Hostname string } }
					}
				}
				require.NoError(v, json.Unmarshal(gets.Resources[i].Manifest, &o))
				how := ""
				if o.Spec.Paused != nil {
					how = fmt.Sprintf("paused=%t ", *o.Spec.Paused)
				}
				said = append(said, fmt.Sprintf("Deployment %s %s%s", o.Spec.Template.Spec.Hostname, how, does))
			}
		}
		slices.Sort(said)
		all = append(all, target.Name+": "+strings.Join(said, ", "))
	}
	slices.Sort(all)
	return all
}

// TestOperationsMeetIntentsThatHaveChanged: an update does what differs and no more, a migrate takes what the target says, and a
// rollback brings back what there was, whatever the intents are by now.
func TestOperationsMeetIntentsThatHaveChanged(t *testing.T) {
	p := partial(t)
	for name, c := range map[string]struct {
		change func(v *varying)
		plans  []string // nil: nothing is to be done
	}{
		"nothing has changed": {func(*varying) {}, nil},
		"a cluster has left the label": {func(v *varying) { v.remove(gpuLabel("c1")) }, []string{
			"c1: Deployment c1 apply, Secret delete", "c2: Deployment c2 paused=true stay, Secret stay",
			"c3: Deployment c3 stay, Secret none", "c: Deployment c stay, Secret none",
		}},
		"all clusters have left it": {func(v *varying) { v.remove(gpuLabel("c1")); v.remove(gpuLabel("c2")) }, []string{
			"c1: Deployment c1 apply, Secret delete", "c2: Deployment c2 apply, Secret delete",
			"c3: Deployment c3 stay, Secret none", "c: Deployment c stay, Secret none",
		}},
		"a cluster has got the label": {func(v *varying) { v.create(gpuLabel("c3")) }, []string{
			"c1: Deployment c1 paused=true stay, Secret stay", "c2: Deployment c2 paused=true stay, Secret stay",
			"c3: Deployment c3 paused=true apply, Secret apply", "c: Deployment c stay, Secret none",
		}},
		"a cluster has another value": {func(v *varying) { v.remove(pairOf("c2", "c2")); v.create(pairOf("c2", "moved")) }, []string{
			"c1: Deployment c1 paused=true stay, Secret stay", "c2: Deployment moved paused=true apply, Secret stay",
			"c3: Deployment c3 stay, Secret none", "c: Deployment c stay, Secret none",
		}},
		"the intent is bound no more": {func(v *varying) {
			key := domain.KeyOf(v.group).Child(domain.DeploymentIntents.Collection, "all")
			o, err := v.p.store.Get(v.Context(), domain.DeploymentIntents, key)
			require.NoError(v, err)
			delete(o.(*domain.DeploymentIntent).Spec.Intent, "gac")
			require.NoError(v, v.p.store.Replace(v.Context(), o))
		}, []string{
			"c1: Deployment  apply, Secret delete", "c2: Deployment  apply, Secret delete",
			"c3: Deployment  apply, Secret none", "c: Deployment  apply, Secret none",
		}},
	} {
		t.Run("update, when "+name, func(t *testing.T) {
			v := newVarying(t, p)
			c.change(v)
			out, err := v.change("3", domain.OpUpdate, domain.Goal{})
			require.NoError(t, err)
			require.Equal(t, c.plans == nil, out.Unchanged)
			if c.plans != nil {
				require.Equal(t, c.plans, v.plans(out))
			}
		})
	}

	t.Run("rollback, when the intents cannot be carried out any more", func(t *testing.T) {
		v := newVarying(t, p)
		v.remove(gpuLabel("c1"))
		out, err := v.change("3", domain.OpUpdate, domain.Goal{})
		require.NoError(t, err)
		v.done("3", domain.OpUpdate, out)
		v.remove(pairOf("c3", "c3"))
		_, err = v.change("4", domain.OpUpdate, domain.Goal{})
		require.Equal(t, fail.Malformed, fail.KindOf(err), "%v", err)
		for _, said := range []string{"gac intent own", `"web"`, "site", "c3"} {
			require.Contains(t, fail.TextOf(err), said)
		}
		out, err = v.change("4", domain.OpRollback, domain.Goal{Revert: "2"})
		require.NoError(t, err)
		require.Equal(t, []string{
			"c1: Deployment c1 paused=true apply, Secret apply", "c2: Deployment c2 paused=true stay, Secret stay",
			"c3: Deployment c3 stay, Secret none", "c: Deployment c stay, Secret none",
		}, v.plans(out))
	})

	t.Run("migrate, to a group with other intents", func(t *testing.T) {
		v := newVarying(t, p)
		source := domain.KeyOf(v.group)
		next := described()
		next.group.Name = "next"
		next.group.History.Append(domain.Approved, "", 0, time.Now())
		key := domain.KeyOf(next.group)
		next.intent.Parent, next.placement.Parent, next.apps.Parent = key, key, key.Child("generic-placement-intents", "gpi")
		next.intent.Spec.Intent["gac"] = ownIntent
		v.create(next.group, next.intent, next.placement, next.apps)
		v.create(gpuOf(key, "false")...)
		v.remove(gpuLabel("c2"))
		v.group = next.group
		out, err := v.change("3", domain.OpMigrate, domain.Goal{Source: source})
		require.NoError(t, err)
		require.Equal(t, []string{
			"c1: Deployment c1 paused=false apply, Secret stay", "c2: Deployment c2 apply, Secret delete",
			"c3: Deployment c3 stay, Secret none", "c: Deployment c stay, Secret none",
		}, v.plans(out))
	})
}
