package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/vary"
)

// planned is a store of blobs, and of a logical cloud without a record.
type planned struct {
	Store
	blobs map[domain.Digest]any
	cloud *domain.LogicalCloud
}

func (p *planned) Blob(_ context.Context, digest domain.Digest) ([]byte, error) {
	return json.Marshal(p.blobs[digest])
}

func (p *planned) Get(context.Context, *domain.Noun, domain.Key) (domain.Object, error) {
	return p.cloud, nil
}

func (p *planned) Instance(context.Context, string) (*domain.Instance, error) {
	return nil, fail.New(fail.NotFound, "no record")
}

func (p *planned) Unreachable(context.Context) (map[domain.ClusterName]bool, error) { return nil, nil }

// ended are runs of which none goes on.
type ended struct{ Runs }

func (ended) Running(context.Context, domain.Scope) (bool, error) { return false, nil }

func configMap(name string, bytes int) plan.Resource {
	return plan.Resource{ResourceID: plan.ResourceID{Version: "v1", Kind: "ConfigMap", Name: name}, Manifest: manifest(bytes)}
}

// TestBundlesAreKeptWhereSomethingIsTakenOver, and by a rehearsal for who asks for them.
func TestBundlesAreKeptWhereSomethingIsTakenOver(t *testing.T) {
	l := &Control{dry: true}
	for _, keeps := range []bool{false, true} {
		d := &draft{keeps: keeps, bundles: map[string]*plan.Bundle{}, overlays: map[string][]*plan.Overlay{}}
		require.NoError(t, l.add(t.Context(), d, nil, &vary.Varied{
			Bundle: &plan.Bundle{App: "a", Resources: []plan.Resource{configMap("one", 100)}}, Variants: []vary.Variant{{Overlay: &plan.Overlay{}}},
		}))
		require.Equal(t, keeps, len(d.bundles) == 1)
		require.Equal(t, keeps, len(d.overlays) == 1)
	}

	stop, before := errors.New("planned"), planners[domain.LogicalClouds]
	t.Cleanup(func() { planners[domain.LogicalClouds] = before })
	var drafted *draft
	planners[domain.LogicalClouds] = func(_ *Control, _ context.Context, _ domain.Owner, d *draft) error {
		drafted = d
		return stop
	}
	cloud := domain.LogicalClouds.New().(*domain.LogicalCloud)
	cloud.Parent, cloud.Name = "projects/p", "lc"
	l = &Control{Store: &planned{cloud: cloud}, Runs: ended{}}
	s := domain.Scope{Owner: domain.KeyOf(cloud), ContextID: "2", Operation: domain.OpInstantiate}
	_, err := l.prepare(t.Context(), s)
	require.ErrorIs(t, err, stop)
	require.False(t, drafted.keeps)
}

// TestBundlesOfAGroupAreBounded: what an update has of them in memory.
func TestBundlesOfAGroupAreBounded(t *testing.T) {
	const parts = 32
	part, l := manifest(limits.Bundles/parts), &Control{dry: true}
	for _, d := range []*draft{
		{keeps: true, bundles: map[string]*plan.Bundle{}}, {rehearsal: true},
	} {
		d.plan.Owner = "projects/p/composite-apps/ca/v1/deployment-intent-groups/g"
		add := func(app string, resources int) error {
			b := &plan.Bundle{App: app}
			for range resources {
				b.Resources = append(b.Resources, plan.Resource{Manifest: part})
			}
			return l.add(t.Context(), d, nil, &vary.Varied{Bundle: b})
		}
		require.NoError(t, add("a", parts/2))
		require.NoError(t, add("b", parts/2))
		err := add("c", 1)
		require.True(t, fail.Is(err, fail.Malformed), "%v", err)
		require.EqualError(t, err, `app "c": the manifests of all apps of deployment intent group "g" have more than 1073741824 bytes together: make several groups of it`)
	}
}

// TestWhatBothSidesHaveIsInMemoryOnce: what an operation leaves as it is does not count, and all else is bounded.
func TestWhatBothSidesHaveIsInMemoryOnce(t *testing.T) {
	wanted := map[string]*plan.Bundle{
		"a": {App: "a", Resources: []plan.Resource{configMap("same", 1000), configMap("other", 1000)}},
		"b": {App: "b", Resources: []plan.Resource{configMap("same", 1000)}},
	}
	store := &planned{blobs: map[domain.Digest]any{
		"plan": plan.Plan{ContextID: "1", Apps: []plan.App{{Name: "a", Bundle: "a"}, {Name: "b", Bundle: "b"}, {Name: "gone", Bundle: "gone"}}},
		"a":    plan.Bundle{App: "a", Resources: []plan.Resource{configMap("gone", 500), configMap("other", 999), configMap("same", 1000)}},
		"b":    *wanted["b"],
		"gone": plan.Bundle{App: "gone", Resources: []plan.Resource{configMap("same", 1000)}},
	}}
	l, from := &Control{Store: store}, &domain.Instance{ContextID: "1", Plan: "plan"}
	s, err := l.sideWithin(t.Context(), from, wanted, 500+999+1000)
	require.NoError(t, err)
	same := func(a, b json.RawMessage) bool { return &a[0] == &b[0] }
	require.True(t, same(s.Bundles["a"].Resources[2].Manifest, wanted["a"].Resources[0].Manifest))
	require.True(t, same(s.Bundles["b"].Resources[0].Manifest, wanted["b"].Resources[0].Manifest))
	require.False(t, bytes.Equal(s.Bundles["a"].Resources[1].Manifest, wanted["a"].Resources[1].Manifest))

	_, err = l.sideWithin(t.Context(), from, wanted, 500+999+999)
	require.True(t, fail.Is(err, fail.Malformed), "%v", err)
	require.EqualError(t, err, `app "gone": the manifests of instance 1 that are not wanted as they are have more than 2498 bytes together: terminate it, and instantiate anew`)
	_, err = l.sideWithin(t.Context(), from, nil, 500+999+1000)
	require.ErrorContains(t, err, `app "b"`, "of a rollback, all")
}
