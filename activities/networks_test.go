package activities_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/stored"
	"github.com/drover-io/drover/internal/storetest"
)

const edge = domain.Key("cluster-providers/p/clusters/edge01")

// networked is a cluster in a real store, and the activities on it.
type networked struct {
	*activities.Control
	store *store.Store
	env   *testsuite.TestActivityEnvironment
}

func newNetworked(t *testing.T) *networked {
	t.Helper()
	db := storetest.Open(t, store.Config{})
	n := &networked{store: db, Control: &activities.Control{Store: db, Now: func() time.Time { return begun }}}
	var suite testsuite.WorkflowTestSuite
	n.env = suite.NewTestActivityEnvironment()
	n.env.SetTestTimeout(time.Minute)
	n.env.RegisterActivity(n.Control)
	n.create(t, &domain.ClusterProvider{Metadata: domain.Metadata{Name: "p"}})
	n.create(t, &domain.Cluster{Identity: domain.Identity{Parent: "cluster-providers/p"}, Metadata: domain.Metadata{Name: "edge01"}, History: domain.NewHistory(begun)})
	return n
}

func (n *networked) create(t *testing.T, objects ...domain.Object) {
	t.Helper()
	for _, o := range objects {
		require.NoError(t, n.store.Create(t.Context(), o))
	}
}

func (n *networked) prepare(t *testing.T, contextID string) activities.Prepared {
	t.Helper()
	value, err := n.env.ExecuteActivity(n.Prepare, n.scope(contextID))
	require.NoError(t, err)
	var prepared activities.Prepared
	require.NoError(t, value.Get(&prepared))
	return prepared
}

func (n *networked) scope(contextID string) domain.Scope {
	return domain.Scope{Owner: edge, ContextID: contextID, Operation: domain.OpInstantiate}
}

func blob[T any](t *testing.T, db stored.Blobs, digest domain.Digest) T {
	t.Helper()
	data, err := db.Blob(t.Context(), digest)
	require.NoError(t, err)
	var v T
	require.NoError(t, json.Unmarshal(data, &v))
	return v
}

func subnets() domain.NetworkSpec {
	return domain.NetworkSpec{CNIType: "ovn4nfv", IPv4Subnets: []domain.Subnet{{Name: "s", Subnet: "10.1.0.0/24"}}}
}

// left has context 1 of the cluster's networks terminated, but for the leaf's marks.
func (n *networked) left(t *testing.T, marks string) {
	t.Helper()
	first := n.prepare(t, "1")
	require.NoError(t, n.Record(t.Context(), activities.RecordInput{Scope: n.scope("1"), Prepared: &first}))
	o, err := n.store.Get(t.Context(), domain.ClustersNoun, edge)
	require.NoError(t, err)
	cluster := o.(*domain.Cluster)
	cluster.History.Append(domain.Terminated, "1", 0, begun)
	cluster.History.Append(domain.TerminateStopped, "1", 0, begun)
	require.NoError(t, n.store.Replace(t.Context(), cluster))
	require.NoError(t, n.store.UpdateInstance(t.Context(), "1", func(i *domain.Instance) error {
		i.Operation, i.Status = domain.OpTerminate, domain.ContextTerminateFailed
		return nil
	}))
	require.NoError(t, n.store.PutLeaf(t.Context(), domain.Leaf{
		ContextID: "1", Operation: domain.OpTerminate, App: "network-intents", Cluster: domain.ClusterName{Provider: "p", Name: "edge01"}, Marks: marks,
	}))
}

func (n *networked) network(t *testing.T, name string) {
	t.Helper()
	n.create(t, &domain.Network{Identity: domain.Identity{Parent: edge}, Metadata: domain.Metadata{Name: name}, Spec: subnets()})
}

// TestNetworksAfterATerminateThatWasStopped: the next apply takes over what is left, and prunes what it has not.
func TestNetworksAfterATerminateThatWasStopped(t *testing.T) {
	n := newNetworked(t)
	n.Runs = closed{}
	n.network(t, "gone")
	n.network(t, "net")
	n.left(t, "1X1D")
	require.NoError(t, n.store.Delete(t.Context(), domain.Networks, edge+"/networks/gone", 0))
	prepared := n.prepare(t, "2")
	require.Equal(t, &activities.From{ContextID: "1", Owner: edge}, prepared.From)
	require.Equal(t, "1", prepared.Label, "by which the cluster knows what is left")
	require.Equal(t, &activities.Work{Apply: 1, Prune: 1}, prepared.Apps[0].Work)
	require.Equal(t, activities.MarkTexts{"1p1r"}, prepared.Apps[0].Targets.Marks)
	require.Equal(t, []string{"instance 1 was not terminated to its end: what it has left in clusters goes over to this one, which prunes what it does not want"}, prepared.Warnings)
	for range 2 { // an activity may run twice
		require.NoError(t, n.Record(t.Context(), activities.RecordInput{Scope: n.scope("2"), Prepared: &prepared, Seen: domain.Seen{Status: domain.ContextTerminateFailed}}))
	}
	o, err := n.store.Get(t.Context(), domain.ClustersNoun, edge)
	require.NoError(t, err)
	h := o.(*domain.Cluster).History
	require.Equal(t, domain.Action{State: domain.Applied, ContextID: "2", Time: begun}, h.Last())
	require.Equal(t, "1", h.StatusContextID)
	for id, want := range map[string]domain.ContextStatus{"1": domain.ContextUpdated, "2": domain.ContextInstantiating} {
		i, err := n.store.Instance(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, want, i.Status)
	}
}

// TestNetworksAfterATerminateThatHasLeftNothing begin anew; the context before is over all the same.
func TestNetworksAfterATerminateThatHasLeftNothing(t *testing.T) {
	n := newNetworked(t)
	n.Runs = closed{}
	n.network(t, "net")
	n.left(t, "1D")
	prepared := n.prepare(t, "2")
	require.Empty(t, prepared.Warnings)
	require.Nil(t, prepared.Apps[0].Work)
	require.NoError(t, n.Record(t.Context(), activities.RecordInput{Scope: n.scope("2"), Prepared: &prepared, Seen: domain.Seen{Status: domain.ContextTerminateFailed}}))
	o, err := n.store.Get(t.Context(), domain.ClustersNoun, edge)
	require.NoError(t, err)
	require.Equal(t, "2", o.(*domain.Cluster).History.StatusContextID)
	i, err := n.store.Instance(t.Context(), "1")
	require.NoError(t, err)
	require.Equal(t, domain.ContextTerminated, i.Status, "its label is looked for as that of an ended context")
	require.Equal(t, &activities.From{ContextID: "1", Owner: edge, Ended: "1", Plan: i.Plan}, prepared.From)
}

// going are operations that go on.
type going struct{ closed }

func (going) Running(context.Context, domain.Scope) (bool, error) { return true, nil }

// TestNetworksWhileATerminateIsRepeated: of a terminate and an apply that both were accepted to begin, one is refused.
func TestNetworksWhileATerminateIsRepeated(t *testing.T) {
	n := newNetworked(t)
	n.network(t, "net")
	n.left(t, "1X")
	n.Runs = going{}
	_, err := n.env.ExecuteActivity(n.Prepare, n.scope("2"))
	require.ErrorContains(t, err, "instance 1 is being terminated")

	n.Runs = closed{}
	prepared := n.prepare(t, "2")
	again := n.scope("1")
	again.Operation = domain.OpTerminate
	for range 2 { // with the state that it has already
		require.NoError(t, n.Record(t.Context(), activities.RecordInput{Scope: again, Seen: domain.Seen{Status: domain.ContextTerminateFailed}}))
	}
	err = n.Record(t.Context(), activities.RecordInput{Scope: n.scope("2"), Prepared: &prepared, Seen: domain.Seen{Status: domain.ContextTerminateFailed}})
	require.True(t, fail.Is(err, fail.Conflict), "%v", err)
	_, err = n.store.Instance(t.Context(), "2")
	require.True(t, fail.Is(err, fail.NotFound), "%v", err)
}

func TestPlanOfNetworks(t *testing.T) {
	n := newNetworked(t)
	n.create(t,
		&domain.Network{Identity: domain.Identity{Parent: edge}, Metadata: domain.Metadata{Name: "net"}, Spec: subnets()},
		&domain.ProviderNetwork{Identity: domain.Identity{Parent: edge}, Metadata: domain.Metadata{Name: "pnet"}, Spec: domain.ProviderNetworkSpec{
			NetworkSpec: subnets(), ProviderNetType: "VLAN", VLAN: domain.VLAN{ID: "1", NodeSelector: "any", NodeLabelList: []string{"a=b"}},
		}},
		&domain.ClusterKV{Identity: domain.Identity{Parent: edge}, Metadata: domain.Metadata{Name: "kv"}, Spec: domain.KVSpec{KV: []map[string]string{
			{"CNI-Networking-Multi-VM-CNI-Wrapper": "multus"},
		}}},
		// Of another cluster, whose name begins alike.
		&domain.Network{Identity: domain.Identity{Parent: edge + "0"}, Metadata: domain.Metadata{Name: "other"}, Spec: subnets()},
	)
	prepared := n.prepare(t, "1")
	require.Equal(t, "default", prepared.Namespace)
	require.Len(t, prepared.Apps, 1)
	require.Equal(t, 1, prepared.Apps[0].Clusters)
	p := blob[plan.Plan](t, n.store, prepared.Plan)
	require.Equal(t, edge, p.Owner)
	require.Equal(t, []plan.Target{{ClusterName: domain.ClusterName{Provider: "p", Name: "edge01"}}}, p.Apps[0].Targets)
	var names []string
	for _, r := range p.Apps[0].Resources {
		names = append(names, r.Name+"+"+r.Kind)
	}
	require.Equal(t, []string{"net+Network", "net+NetworkAttachmentDefinition", "pnet+ProviderNetwork", "pnet+NetworkAttachmentDefinition"}, names)
	bundle := blob[plan.Bundle](t, n.store, p.Apps[0].Bundle)
	require.JSONEq(t, `{"apiVersion":"k8s.plugin.opnfv.org/v1alpha1","kind":"ProviderNetwork","metadata":{"name":"pnet"},"spec":{"cniType":"ovn4nfv",
		"ipv4Subnets":[{"name":"s","subnet":"10.1.0.0/24"}],"providerNetType":"VLAN",
		"vlan":{"vlanId":"1","providerInterfaceName":"","vlanNodeSelector":"any","nodeLabelList":["a=b"]}}}`, string(bundle.Resources[2].Manifest))
}

func TestPlanOfNoNetworks(t *testing.T) {
	n := newNetworked(t)
	prepared := n.prepare(t, "1")
	require.Len(t, prepared.Apps, 1)
	require.Zero(t, prepared.Apps[0].Resources)
	require.NoError(t, n.Record(t.Context(), activities.RecordInput{Scope: n.scope("1"), Prepared: &prepared}))
	out, err := n.finish(t, prepared.Plan)
	require.NoError(t, err)
	require.Equal(t, domain.ContextInstantiated, out.Status)
}

func (n *networked) finish(t *testing.T, digest domain.Digest) (*activities.Outcome, error) {
	t.Helper()
	value, err := n.env.ExecuteActivity(n.Finish, activities.FinishInput{Scope: n.scope("1"), Plan: digest})
	if err != nil {
		return nil, err
	}
	var out activities.Outcome
	return &out, value.Get(&out)
}

// Of two applies one is recorded; what it recorded is Applied, with the context whose status is shown.
func TestRecordOfNetworks(t *testing.T) {
	n := newNetworked(t)
	first, second := n.prepare(t, "1"), n.prepare(t, "2")
	for range 2 { // an activity may run twice
		require.NoError(t, n.Record(t.Context(), activities.RecordInput{Scope: n.scope("1"), Prepared: &first}))
	}
	err := n.Record(t.Context(), activities.RecordInput{Scope: n.scope("2"), Prepared: &second})
	require.True(t, fail.Is(err, fail.Conflict), "%v", err)
	o, err := n.store.Get(t.Context(), domain.ClustersNoun, edge)
	require.NoError(t, err)
	h := o.(*domain.Cluster).History
	require.Equal(t, "1", h.StatusContextID)
	require.Equal(t, []domain.Action{
		{State: domain.Created, Time: begun}, {State: domain.Applied, ContextID: "1", Time: begun},
	}, h.Actions)

	require.NoError(t, n.RecordStop(t.Context(), activities.StopInput{Scope: n.scope("1")}))
	o, err = n.store.Get(t.Context(), domain.ClustersNoun, edge)
	require.NoError(t, err)
	require.Equal(t, domain.InstantiateStopped, o.(*domain.Cluster).History.State())
}

// A group's chart that has one of the cluster's networks would take it over.
func TestNetworksCollide(t *testing.T) {
	theirs := plan.Plan{ContextID: "7", Owner: "projects/p/composite-apps/ca/v1/deployment-intent-groups/group", Namespace: "default", Apps: []plan.App{{
		Name:      "web",
		Resources: []plan.ResourceID{{Group: "k8s.plugin.opnfv.org", Version: "v1alpha1", Kind: "Network", Name: "net"}},
		Targets:   []plan.Target{{ClusterName: domain.ClusterName{Provider: "p", Name: "edge01"}}},
	}}}
	for name, c := range map[string]struct {
		runs     activities.Runs
		history  func(h *domain.History)
		collides bool
	}{
		"with what is instantiated":      {closed{}, func(h *domain.History) { h.Append(domain.Instantiated, "7", 1, begun) }, true},
		"with what is being recorded":    {going{}, func(*domain.History) {}, true},
		"not with what never came about": {closed{}, func(*domain.History) {}, false},
		"not with what another context has taken over": {closed{}, func(h *domain.History) {
			h.Append(domain.Instantiated, "7", 1, begun)
			h.Leave("7", "8", 1, begun)
			h.Append(domain.Instantiated, "8", 2, begun)
		}, false},
		"with what another context was to take over": {closed{}, func(h *domain.History) {
			h.Append(domain.Instantiated, "7", 1, begun)
			h.Leave("7", "9", 1, begun)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetworked(t)
			n.Runs = c.runs
			n.network(t, "net")
			group := &domain.DeploymentIntentGroup{
				Identity: domain.Identity{Parent: "projects/p/composite-apps/ca/v1"}, Metadata: domain.Metadata{Name: "group"}, History: domain.NewHistory(begun),
			}
			c.history(&group.History)
			n.create(t, group)
			data, err := json.Marshal(theirs)
			require.NoError(t, err)
			digest, err := n.store.PutBlob(t.Context(), data)
			require.NoError(t, err)
			require.NoError(t, n.store.PutInstance(t.Context(), &domain.Instance{ContextID: "7", Owner: theirs.Owner, Status: domain.ContextInstantiated, Plan: digest}))
			require.NoError(t, n.store.PutInstance(t.Context(), &domain.Instance{ContextID: "8", Owner: theirs.Owner, Status: domain.ContextTerminated, Plan: digest}))
			_, err = n.env.ExecuteActivity(n.Prepare, n.scope("1"))
			if c.collides {
				require.ErrorContains(t, err, `Network "net" on cluster p+edge01 belongs to a deployment outside of cluster-providers/p already`)
				require.NotContains(t, err.Error(), string(theirs.Owner))
				return
			}
			require.NoError(t, err)
		})
	}
}

// TestUpdateOfWhatLacksAnIntent says what is missing, which whoever asked has not named, and that the instance is as it was.
func TestUpdateOfWhatLacksAnIntent(t *testing.T) {
	n := newNetworked(t)
	n.Runs = closed{}
	under := func(parent domain.Key) domain.Identity { return domain.Identity{Parent: parent} }
	named := func(name string) domain.Metadata { return domain.Metadata{Name: name} }
	composite := domain.Key("projects/p/composite-apps/ca/v1")
	cloud := &domain.LogicalCloud{Identity: under("projects/p"), Metadata: named("lc"), Spec: domain.LogicalCloudSpec{Level: domain.LevelAdmin, Namespace: "default"}}
	cloud.History.Append(domain.Instantiated, "9", 1, begun)
	group := &domain.DeploymentIntentGroup{
		Identity: under(composite), Metadata: named("group"), Spec: domain.DeploymentIntentGroupSpec{CompositeProfile: "cp", Version: "r1", LogicalCloud: "lc"},
	}
	group.History.Append(domain.Instantiated, "1", 1, begun)
	n.create(t,
		cloud, group, &domain.App{Identity: under(composite), Metadata: named("sink")}, &domain.CompositeProfile{Identity: under(composite), Metadata: named("cp")},
		&domain.Profile{Identity: under(composite.Child(domain.CompositeProfiles.Collection, "cp")), Metadata: named("p"), Spec: domain.ProfileSpec{App: "sink"}},
		&domain.DeploymentIntent{Identity: under(domain.KeyOf(group)), Metadata: named("intent"), Spec: domain.DeploymentIntentSpec{
			Intent: map[string]string{domain.PlacementIntentKey: "placement"},
		}},
	)
	before := &domain.Instance{
		ContextID: "1", Owner: domain.KeyOf(group), Origin: domain.OpInstantiate, Operation: domain.OpInstantiate, Status: domain.ContextInstantiated,
	}
	require.NoError(t, n.store.PutInstance(t.Context(), before))
	in := activities.ChangeInput{Scope: domain.Scope{Owner: domain.KeyOf(group), ContextID: "2", Operation: domain.OpUpdate}}
	_, err := n.PrepareChange(t.Context(), in)
	require.True(t, fail.Is(err, fail.Conflict), "%v", err)
	for _, text := range []string{`deployment intent group "group" cannot update`, `has no generic placement intent "placement"`, "instance 1 stays as it is"} {
		require.Contains(t, fail.TextOf(err), text)
	}
	after, err := n.store.Instance(t.Context(), "1")
	require.NoError(t, err)
	require.Equal(t, before.Status, after.Status)
}
