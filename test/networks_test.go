package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/test/harness"
)

// The network intents of clusters: real clusters that have the definitions of the network plugin.

// networks are the intents of one cluster.
type networks struct {
	t     *testing.T
	stack *harness.Stack
	in    *harness.Cluster
	api   *client.API
	name  string // provider+cluster
	key   domain.Key
	mark  string // in the names of networks: clusters are shared
}

func newNetworks(ctx context.Context, t *testing.T, s *harness.Stack, c *harness.Cluster, report domain.Report) *networks {
	t.Helper()
	c.DefineNetworks(t)
	registered := register(ctx, t, s, c, report)
	return &networks{
		t: t, stack: s, in: c, api: s.Client.API(), name: registered.String(), key: registered.Key(), mark: registered.Provider,
	}
}

// virtual and provider are networks.
func (n *networks) virtual(name string) *domain.Network {
	return &domain.Network{
		Identity: domain.Identity{Parent: n.key}, Metadata: domain.Metadata{Name: n.mark + "-" + name},
		Spec: domain.NetworkSpec{CNIType: "ovn4nfv", IPv4Subnets: []domain.Subnet{
			{Name: "s1", Subnet: "10.1.0.0/24", Gateway: "10.1.0.1/24", ExcludeIPs: "10.1.0.2 10.1.0.5..10.1.0.9"},
		}},
	}
}

func (n *networks) provider(name string) *domain.ProviderNetwork {
	return &domain.ProviderNetwork{
		Identity: domain.Identity{Parent: n.key}, Metadata: domain.Metadata{Name: n.mark + "-" + name},
		Spec: domain.ProviderNetworkSpec{
			NetworkSpec:     domain.NetworkSpec{CNIType: "ovn4nfv", IPv4Subnets: []domain.Subnet{{Name: "s1", Subnet: "10.2.0.0/24"}}},
			ProviderNetType: domain.ProviderNetVLAN,
			VLAN:            domain.VLAN{ID: "102", ProviderInterfaceName: "eth1", LogicalInterfaceName: "eth1.102", NodeSelector: "any"},
		},
	}
}

// create makes n virtual networks named net-0 and so on.
func (n *networks) create(ctx context.Context, count int) {
	n.t.Helper()
	for i := range count {
		require.NoError(n.t, n.add(ctx, n.virtual(fmt.Sprintf("net-%d", i))))
	}
}

func (n *networks) add(ctx context.Context, o domain.Object) error {
	_, err := n.api.Create(ctx, o, nil)
	return err
}

// delete deletes networks, by their nouns and names.
func (n *networks) delete(ctx context.Context, objects ...domain.Object) {
	n.t.Helper()
	for _, o := range objects {
		require.NoError(n.t, n.api.Delete(ctx, domain.KeyOf(o)), string(domain.KeyOf(o)))
	}
}

// unregister deletes the cluster.
func (n *networks) unregister(ctx context.Context) {
	n.t.Helper()
	n.delete(ctx, &domain.ClusterLabel{Identity: domain.Identity{Parent: n.key}, Label: "edge"})
	require.NoError(n.t, n.api.Delete(ctx, n.key))
}

func (n *networks) ask(ctx context.Context, op domain.Operation) error {
	_, err := n.api.Operate(ctx, n.key, op)
	return err
}

// do asks for operations in EMCO's words; each is answered with 204.
func (n *networks) do(ctx context.Context, operations ...string) {
	n.t.Helper()
	for _, op := range operations {
		answer := n.stack.Send(ctx, http.MethodPost, n.stack.At(n.key)+"/"+op, nil, "")
		require.Equal(n.t, 204, answer.Code, "%s: %s", op, answer.Body)
		require.Empty(n.t, answer.Body, op)
	}
}

func (n *networks) status(ctx context.Context, query url.Values) (*status.Document, error) {
	return n.api.Status(ctx, n.key, query)
}

// await waits until the status is as it should be.
func (n *networks) await(ctx context.Context, is func(*status.Document) bool) *status.Document {
	n.t.Helper()
	var got *status.Document
	var wrong error
	err := harness.Look(ctx, func() bool {
		got, wrong = n.status(ctx, nil)
		return wrong == nil && is(got)
	})
	require.NoError(n.t, err, "last status %+v, error %v", got, wrong)
	return got
}

func (n *networks) awaitStatus(ctx context.Context, where domain.ContextStatus) *status.Document {
	n.t.Helper()
	return n.await(ctx, func(s *status.Document) bool { return s.Status == where })
}

// clean terminates and checks that nothing is left.
func (n *networks) clean(ctx context.Context) {
	n.t.Helper()
	n.do(ctx, "terminate")
	got := n.awaitStatus(ctx, "Terminated")
	require.Empty(n.t, n.in.Networks(n.t, got.States.ContextID()))
}

func TestNetworks(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	n := newNetworks(ctx, t, s, harness.NewCluster(t, harness.ClusterNames[0]), "none")
	const terminateFirst = "Existing cluster network intents must be terminated before creating"

	require.Equal(t, 409, code(t, n.ask(ctx, domain.OpTerminate)), "never applied")
	require.Equal(t, 409, code(t, n.ask(ctx, domain.OpStop)), "never applied")
	got, err := n.status(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"Created"}, states(got))
	require.Equal(t, n.name, got.Name)
	require.NoError(t, n.add(ctx, n.virtual("protected")))
	require.NoError(t, n.add(ctx, n.provider("private")))
	require.NoError(t, n.add(ctx, n.provider("unprotected")))
	require.Equal(t, 400, code(t, n.add(ctx, n.virtual("No_Name"))))

	n.do(ctx, "apply")
	first := n.awaitStatus(ctx, "Instantiated")
	require.Equal(t, map[domain.ResourceState]int{"Applied": 3}, first.Deployed)
	require.Equal(t, []string{"Created", "Applied"}, states(first))
	require.Equal(t, []string{
		"networks/" + n.mark + "-protected", "providernetworks/" + n.mark + "-private", "providernetworks/" + n.mark + "-unprotected",
	}, n.in.Networks(t, first.States.ContextID()))
	got, err = n.status(ctx, url.Values{"output": {"detail"}})
	require.NoError(t, err)
	require.Equal(t, n.name, got.Cluster.Provider+"+"+got.Cluster.Name)
	var kinds []string
	for _, r := range got.Cluster.Resources {
		require.Equal(t, "k8s.plugin.opnfv.org/v1alpha1", r.GVK.Group+"/"+r.GVK.Version)
		require.Equal(t, domain.ResourceApplied, r.Status)
		kinds = append(kinds, strings.TrimPrefix(r.Name, n.mark+"-")+" "+r.GVK.Kind)
	}
	require.Equal(t, []string{"private ProviderNetwork", "protected Network", "unprotected ProviderNetwork"}, kinds)

	n.do(ctx, "apply") // nothing happens
	require.Equal(t, first.States.ContextID(), n.awaitStatus(ctx, "Instantiated").States.ContextID())
	require.Equal(t, 409, code(t, n.ask(ctx, domain.OpStop)), "nothing is going on")
	err = n.add(ctx, n.virtual("another"))
	require.Equal(t, 400, code(t, err))
	require.ErrorContains(t, err, terminateFirst)
	_, err = n.api.Put(ctx, n.virtual("protected"), nil)
	require.Equal(t, 400, code(t, err))
	require.Equal(t, 409, code(t, n.api.Delete(ctx, domain.KeyOf(n.provider("private")))))
	require.Equal(t, 409, code(t, n.api.Delete(ctx, n.key)))

	n.clean(ctx)
	n.do(ctx, "terminate") // nothing happens
	require.NoError(t, n.add(ctx, n.virtual("another")), "it is as if never applied")
	n.delete(ctx, n.provider("private"))
	n.do(ctx, "apply")
	second := n.awaitStatus(ctx, "Instantiated")
	require.Equal(t, []string{"Created", "Applied", "Terminated", "Applied"}, states(second))
	require.NotEqual(t, first.States.ContextID(), second.States.ContextID())
	require.Len(t, n.in.Networks(t, second.States.ContextID()), 3)
	earlier, err := n.status(ctx, url.Values{"instance": {first.States.ContextID()}})
	require.NoError(t, err)
	require.Equal(t, map[domain.ResourceState]int{"Deleted": 3}, earlier.Deployed)
	_, err = n.status(ctx, url.Values{"instance": {"1234567890123456789"}})
	require.Equal(t, 400, code(t, err))
	_, err = n.status(ctx, url.Values{"app": {"web"}})
	require.Equal(t, 400, code(t, err))
	_, err = n.api.Operate(ctx, domain.ClusterName{Provider: "none", Name: "none"}.Key(), domain.OpInstantiate)
	require.Equal(t, 404, code(t, err))
	n.clean(ctx)

	n.delete(ctx, n.virtual("protected"), n.virtual("another"), n.provider("unprotected"))
	n.unregister(ctx)
	_, err = n.status(ctx, nil)
	require.Equal(t, 404, code(t, err))
}

func TestNetworksWithMultusAndWithout(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	n := newNetworks(ctx, t, s, harness.NewCluster(t, harness.ClusterNames[0]), "none")
	n.do(ctx, "apply") // there are none
	got := n.awaitStatus(ctx, "Instantiated")
	require.Equal(t, domain.Applied, got.States.State())
	require.Empty(t, got.Deployed)
	n.clean(ctx)

	require.NoError(t, n.add(ctx, &domain.ClusterKV{
		Identity: domain.Identity{Parent: n.key}, Metadata: domain.Metadata{Name: "networking"},
		Spec: domain.KVSpec{KV: []map[string]string{{"CNI-Networking-Multi-VM-CNI-Wrapper": "multus"}}},
	}))
	n.create(ctx, 1)
	n.do(ctx, "apply")
	got = n.awaitStatus(ctx, "Instantiated")
	require.Equal(t, []string{"network-attachment-definitions/" + n.mark + "-net-0", "networks/" + n.mark + "-net-0"}, n.in.Networks(t, got.States.ContextID()))
	n.clean(ctx)
}

// TestNetworksAreReported looks at the networks as they are in the cluster.
func TestNetworksAreReported(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	n := newNetworks(ctx, t, s, harness.NewCluster(t, harness.ClusterNames[0]), "agentless")
	n.create(ctx, 2)
	n.do(ctx, "apply")
	n.awaitStatus(ctx, "Instantiated")
	var got struct { // in EMCO's older form
		Reported map[string]int `json:"cluster-status"`
		Cluster  struct {
			Resources []struct {
				Detail json.RawMessage `json:"detail"`
			} `json:"resources"`
		} `json:"cluster"`
	}
	harness.Until(ctx, t, "reported", func() bool {
		_, err := s.Read(ctx, client.At(n.key)+"/status?type=cluster&output=detail", &got)
		return err == nil && got.Reported["Present"] == 2
	})
	require.Contains(t, string(got.Cluster.Resources[0].Detail), "ipv4Subnets")
	n.clean(ctx)
}

func TestNetworksOfAClusterThatIsDown(t *testing.T) {
	t.Parallel()
	s, c := harness.SharedStack(t), harness.NewCluster(t, harness.ClusterNames[0])
	// begin applies with the cluster down, and waits until that is seen.
	begin := func(ctx context.Context, t *testing.T) *networks {
		n := newNetworks(ctx, t, s, c, "none")
		n.create(ctx, 3)
		c.Down()
		n.do(ctx, "apply")
		n.await(ctx, func(s *status.Document) bool { return retrying(s) == 3 })
		got, err := n.status(ctx, url.Values{"output": {"detail"}})
		require.NoError(t, err)
		require.Equal(t, domain.ContextInstantiating, got.Status)
		require.Equal(t, domain.ConnectivityRetrying, got.Cluster.Connectivity)
		require.Contains(t, got.Cluster.LastError, "refused")
		return n
	}
	stop := func(ctx context.Context, t *testing.T, n *networks, where domain.ContextStatus) *status.Document {
		var got *status.Document
		stopsSoon(ctx, t, func() error { return n.ask(ctx, domain.OpStop) }, func() bool {
			var err error
			got, err = n.status(ctx, summary)
			return err == nil && got.Status == where
		})
		return got
	}

	t.Run("and comes back", func(t *testing.T) {
		ctx := within(t)
		n := begin(ctx, t)
		c.Up(t)
		got := n.awaitStatus(ctx, "Instantiated")
		require.Len(t, c.Networks(t, got.States.ContextID()), 3)
		n.clean(ctx)
	})
	t.Run("and is stopped", func(t *testing.T) {
		ctx := within(t)
		n := begin(ctx, t)
		got := stop(ctx, t, n, "InstantiateFailed")
		require.Equal(t, domain.InstantiateStopped, got.States.State())
		require.Equal(t, 409, code(t, n.ask(ctx, domain.OpStop)), "again")
		require.Equal(t, 409, code(t, n.add(ctx, n.virtual("another"))), "it may be in the cluster")
		n.do(ctx, "apply") // nothing happens
		got, err := n.status(ctx, summary)
		require.NoError(t, err)
		require.Equal(t, domain.InstantiateStopped, got.States.State())
		require.Equal(t, 409, code(t, n.api.Delete(ctx, n.key)))
		c.Up(t)
		n.clean(ctx)
	})
	t.Run("and is terminated until it returns", func(t *testing.T) {
		ctx := within(t)
		n := begin(ctx, t)
		n.do(ctx, "terminate")
		// What was never sent is deleted without asking.
		got := n.await(ctx, func(s *status.Document) bool { return s.Status.Deleting() })
		require.Equal(t, []string{"Created", "Applied", "Terminated"}, states(got))
		c.Up(t)
		got = n.awaitStatus(ctx, "Terminated")
		require.Empty(t, c.Networks(t, got.States.ContextID()))
	})
	t.Run("while it is terminated, which is stopped", func(t *testing.T) {
		ctx := within(t)
		n := newNetworks(ctx, t, s, c, "none")
		n.create(ctx, 3)
		n.do(ctx, "apply")
		n.awaitStatus(ctx, "Instantiated")
		c.Down()
		n.do(ctx, "terminate")
		n.await(ctx, func(s *status.Document) bool { return s.Status == "Terminating" && retrying(s) == 3 })
		require.Equal(t, 409, code(t, n.ask(ctx, domain.OpInstantiate)), "while it is terminating")
		require.Equal(t, 409, code(t, n.api.Delete(ctx, n.key)))
		n.do(ctx, "terminate") // nothing happens
		got := stop(ctx, t, n, "TerminateFailed")
		require.Equal(t, domain.TerminateStopped, got.States.State())
		require.Equal(t, 409, code(t, n.ask(ctx, domain.OpStop)), "again")
		c.Up(t)
		n.clean(ctx)
	})
	t.Run("for ever, and is deleted all the same", func(t *testing.T) {
		ctx := within(t)
		n := newNetworks(ctx, t, s, c, "none")
		n.create(ctx, 1)
		n.do(ctx, "apply")
		applied := n.awaitStatus(ctx, "Instantiated").States.ContextID()
		c.Down()
		n.do(ctx, "terminate")
		n.await(ctx, func(s *status.Document) bool { return retrying(s) == 1 })
		stop(ctx, t, n, "TerminateFailed")
		n.delete(ctx, n.virtual("net-0"))
		n.unregister(ctx)
		c.Up(t)
		require.Len(t, c.Networks(t, applied), 1, "nobody could delete it")
	})
}

func TestWorkerKilledWhileNetworksAreApplied(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.NewStack(t)
	c := harness.NewCluster(t, harness.ClusterNames[0])
	n := newNetworks(ctx, t, s, c, "none")
	n.create(ctx, 60)
	gate := c.Gate("", 10)
	n.do(ctx, "apply")
	applying, err := n.status(ctx, summary)
	require.NoError(t, err)
	id := applying.States.ContextID()
	harness.Until(ctx, t, "midway", func() bool { return len(c.Networks(t, id)) > 2 })
	s.Worker.Kill()
	gate.Open()
	s.StartWorker()
	got := n.awaitStatus(ctx, "Instantiated")
	require.Equal(t, map[domain.ResourceState]int{"Applied": 60}, got.Deployed)
	require.Len(t, c.Networks(t, got.States.ContextID()), 60)

	gate = c.Gate("", 10)
	n.do(ctx, "terminate")
	harness.Until(ctx, t, "midway", func() bool { return len(c.Networks(t, id)) < 58 })
	s.Worker.Kill()
	gate.Open()
	s.StartWorker()
	got = n.awaitStatus(ctx, "Terminated")
	require.Equal(t, map[domain.ResourceState]int{"Deleted": 60}, got.Deployed)
	require.Empty(t, c.Networks(t, got.States.ContextID()))
}

// TestNetworksAppliedAtOnce lets several callers apply while others create networks: every network that was accepted
// before the apply is in the plan, and every other is refused.
func TestNetworksAppliedAtOnce(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	n := newNetworks(ctx, t, s, harness.NewCluster(t, harness.ClusterNames[0]), "none")
	const writers, appliers = 12, 4
	created, applied := make([]error, writers), make([]error, appliers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() { created[i] = n.add(ctx, n.virtual(fmt.Sprintf("net-%d", i))) })
	}
	for i := range appliers {
		wg.Go(func() { applied[i] = n.ask(ctx, domain.OpInstantiate) })
	}
	wg.Wait()
	for _, err := range applied {
		var refused *client.Error
		if err != nil {
			require.True(t, errors.As(err, &refused), "%v", err)
			require.Equal(t, 409, refused.Code, "%v", err)
		}
	}
	n.do(ctx, "apply") // where all were refused
	got := n.awaitStatus(ctx, "Instantiated")
	require.Equal(t, []string{"Created", "Applied"}, states(got))
	var accepted []string
	for i, err := range created {
		if err != nil {
			require.Contains(t, []int{400, 409}, code(t, err), "%v", err)
			continue
		}
		accepted = append(accepted, fmt.Sprintf("networks/%s-net-%d", n.mark, i))
	}
	slices.Sort(accepted)
	require.Equal(t, accepted, n.in.Networks(t, got.States.ContextID()))
	n.clean(ctx)
}
