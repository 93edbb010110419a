package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/test/harness"
)

// The network intents of clusters: real clusters that have the definitions of the network plugin.

// networks are the intents of one cluster.
type networks struct {
	t     *testing.T
	stack *harness.Stack
	in    *harness.Cluster
	name  string // provider+cluster
	path  string
	mark  string // in the names of networks: clusters are shared
}

func newNetworks(ctx context.Context, t *testing.T, s *harness.Stack, c *harness.Cluster, report string) *networks {
	t.Helper()
	c.DefineNetworks(t)
	registered := register(ctx, t, s, c, report)
	return &networks{
		t: t, stack: s, in: c, name: registered.Provider + "+" + registered.Name,
		path: "/cluster-providers/" + registered.Provider + "/clusters/" + registered.Name,
		mark: registered.Provider,
	}
}

// virtual and provider are the bodies of networks.
func (n *networks) virtual(name string) client.M {
	return client.Named(n.mark+"-"+name, client.M{"cniType": "ovn4nfv", "ipv4Subnets": []client.M{
		{"name": "s1", "subnet": "10.1.0.0/24", "gateway": "10.1.0.1/24", "excludeIps": "10.1.0.2 10.1.0.5..10.1.0.9"},
	}})
}

func (n *networks) provider(name string) client.M {
	return client.Named(n.mark+"-"+name, client.M{
		"cniType": "ovn4nfv", "ipv4Subnets": []client.M{{"name": "s1", "subnet": "10.2.0.0/24"}}, "providerNetType": "VLAN",
		"vlan": client.M{"vlanID": "102", "providerInterfaceName": "eth1", "logicalInterfaceName": "eth1.102", "vlanNodeSelector": "any"},
	})
}

// create makes n virtual networks named net-0 and so on.
func (n *networks) create(ctx context.Context, count int) {
	n.t.Helper()
	for i := range count {
		require.NoError(n.t, n.post(ctx, "/networks", n.virtual(fmt.Sprintf("net-%d", i))))
	}
}

func (n *networks) post(ctx context.Context, path string, body any) error {
	_, err := n.stack.Client.Post(ctx, n.path+path, body)
	return err
}

func (n *networks) delete(ctx context.Context, paths ...string) {
	n.t.Helper()
	for _, path := range paths {
		_, err := n.stack.Client.Delete(ctx, n.path+path)
		require.NoError(n.t, err, path)
	}
}

// do asks for operations; each is answered with 204.
func (n *networks) do(ctx context.Context, operations ...string) {
	n.t.Helper()
	for _, op := range operations {
		answer, err := n.stack.Client.Post(ctx, n.path+"/"+op, nil)
		require.NoError(n.t, err, op)
		require.Equal(n.t, 204, answer.Code, op)
		require.Empty(n.t, answer.Body, op)
	}
}

// networkStatus is a status document of networks in the seeds' form.
type networkStatus struct {
	Name   string `json:"name"`
	States struct {
		Actions []struct {
			State, Instance string
			Time            time.Time
		}
	} `json:"states"`
	Status   string         `json:"status"`
	Rsync    map[string]int `json:"rsync-status"`
	Reported map[string]int `json:"cluster-status"`
	Cluster  struct {
		Provider     string `json:"cluster-provider"`
		Name         string `json:"cluster"`
		Connectivity string `json:"connectivity"`
		LastError    string `json:"last-error"`
		Resources    []struct {
			GVK    struct{ Group, Version, Kind string }
			Name   string `json:"name"`
			Rsync  string `json:"rsync-status"`
			Detail json.RawMessage
		}
	} `json:"cluster"`
}

func (s *networkStatus) states() (states []string) {
	for _, a := range s.States.Actions {
		states = append(states, a.State)
	}
	return states
}

func (s *networkStatus) last() string { return s.states()[len(s.States.Actions)-1] }

// contextID is that of the last action.
func (s *networkStatus) contextID() string {
	return s.States.Actions[len(s.States.Actions)-1].Instance
}

func (n *networks) status(ctx context.Context, query string) (*networkStatus, error) {
	s := &networkStatus{}
	_, err := n.stack.Client.Get(ctx, n.path+"/status?"+query, s)
	return s, err
}

// await waits until the status is as it should be.
func (n *networks) await(ctx context.Context, query string, is func(*networkStatus) bool) *networkStatus {
	n.t.Helper()
	for {
		got, err := n.status(ctx, query)
		if err == nil && is(got) {
			return got
		}
		select {
		case <-ctx.Done():
			n.t.Fatalf("%v (last status %+v, error %v)", context.Cause(ctx), got, err)
		case <-time.After(harness.Poll):
		}
	}
}

func (n *networks) awaitStatus(ctx context.Context, status string) *networkStatus {
	n.t.Helper()
	return n.await(ctx, "output=summary", func(s *networkStatus) bool { return s.Status == status })
}

// clean terminates and checks that nothing is left.
func (n *networks) clean(ctx context.Context) {
	n.t.Helper()
	n.do(ctx, "terminate")
	got := n.awaitStatus(ctx, "Terminated")
	require.Empty(n.t, n.in.Networks(n.t, got.contextID()))
}

func TestNetworks(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	n := newNetworks(ctx, t, s, harness.NewCluster(t, harness.ClusterNames[0]), "none")
	const terminateFirst = "Existing cluster network intents must be terminated before creating"

	require.Equal(t, 409, code(t, n.post(ctx, "/terminate", nil)), "never applied")
	require.Equal(t, 409, code(t, n.post(ctx, "/stop", nil)), "never applied")
	got, err := n.status(ctx, "")
	require.NoError(t, err)
	require.Equal(t, []string{"Created"}, got.states())
	require.Equal(t, n.name, got.Name)
	require.NoError(t, n.post(ctx, "/networks", n.virtual("protected")))
	require.NoError(t, n.post(ctx, "/provider-networks", n.provider("private")))
	require.NoError(t, n.post(ctx, "/provider-networks", n.provider("unprotected")))
	require.Equal(t, 400, code(t, n.post(ctx, "/networks", n.virtual("No_Name"))))

	n.do(ctx, "apply")
	first := n.awaitStatus(ctx, "Instantiated")
	require.Equal(t, map[string]int{"Applied": 3}, first.Rsync)
	require.Equal(t, []string{"Created", "Applied"}, first.states())
	require.Equal(t, []string{
		"networks/" + n.mark + "-protected", "providernetworks/" + n.mark + "-private", "providernetworks/" + n.mark + "-unprotected",
	}, n.in.Networks(t, first.contextID()))
	got, err = n.status(ctx, "output=detail")
	require.NoError(t, err)
	require.Equal(t, n.name, got.Cluster.Provider+"+"+got.Cluster.Name)
	var kinds []string
	for _, r := range got.Cluster.Resources {
		require.Equal(t, "k8s.plugin.opnfv.org/v1alpha1", r.GVK.Group+"/"+r.GVK.Version)
		require.Equal(t, "Applied", r.Rsync)
		kinds = append(kinds, strings.TrimPrefix(r.Name, n.mark+"-")+" "+r.GVK.Kind)
	}
	require.Equal(t, []string{"private ProviderNetwork", "protected Network", "unprotected ProviderNetwork"}, kinds)

	n.do(ctx, "apply") // nothing happens
	require.Equal(t, first.contextID(), n.awaitStatus(ctx, "Instantiated").contextID())
	require.Equal(t, 409, code(t, n.post(ctx, "/stop", nil)), "nothing is going on")
	err = n.post(ctx, "/networks", n.virtual("another"))
	require.Equal(t, 400, code(t, err))
	require.ErrorContains(t, err, terminateFirst)
	_, err = s.Client.Put(ctx, n.path+"/networks/"+n.mark+"-protected", n.virtual("protected"))
	require.Equal(t, 400, code(t, err))
	_, err = s.Client.Delete(ctx, n.path+"/provider-networks/"+n.mark+"-private")
	require.Equal(t, 409, code(t, err))
	_, err = s.Client.Delete(ctx, n.path)
	require.Equal(t, 409, code(t, err))

	n.clean(ctx)
	n.do(ctx, "terminate") // nothing happens
	require.NoError(t, n.post(ctx, "/networks", n.virtual("another")), "it is as if never applied")
	n.delete(ctx, "/provider-networks/"+n.mark+"-private")
	n.do(ctx, "apply")
	second := n.awaitStatus(ctx, "Instantiated")
	require.Equal(t, []string{"Created", "Applied", "Terminated", "Applied"}, second.states())
	require.NotEqual(t, first.contextID(), second.contextID())
	require.Len(t, n.in.Networks(t, second.contextID()), 3)
	earlier, err := n.status(ctx, "instance="+first.contextID())
	require.NoError(t, err)
	require.Equal(t, map[string]int{"Deleted": 3}, earlier.Rsync)
	_, err = n.status(ctx, "instance=1234567890123456789")
	require.Equal(t, 404, code(t, err))
	_, err = n.status(ctx, "app=web")
	require.Equal(t, 400, code(t, err))
	_, err = s.Client.Post(ctx, "/cluster-providers/none/clusters/none/apply", nil)
	require.Equal(t, 404, code(t, err))
	n.clean(ctx)

	n.delete(ctx, "/networks/"+n.mark+"-protected", "/networks/"+n.mark+"-another", "/provider-networks/"+n.mark+"-unprotected", "/labels/edge", "")
	_, err = n.status(ctx, "")
	require.Equal(t, 404, code(t, err))
}

func TestNetworksWithMultusAndWithout(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	n := newNetworks(ctx, t, s, harness.NewCluster(t, harness.ClusterNames[0]), "none")
	n.do(ctx, "apply") // there are none
	got := n.awaitStatus(ctx, "Instantiated")
	require.Equal(t, "Applied", got.last())
	require.Empty(t, got.Rsync)
	n.clean(ctx)

	require.NoError(t, n.post(ctx, "/kv-pairs", client.Named("networking", client.M{"kv": []client.M{{"CNI-Networking-Multi-VM-CNI-Wrapper": "multus"}}})))
	n.create(ctx, 1)
	n.do(ctx, "apply")
	got = n.awaitStatus(ctx, "Instantiated")
	require.Equal(t, []string{"network-attachment-definitions/" + n.mark + "-net-0", "networks/" + n.mark + "-net-0"}, n.in.Networks(t, got.contextID()))
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
	got := n.await(ctx, "type=cluster&output=detail", func(s *networkStatus) bool { return s.Reported["Present"] == 2 })
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
		n.await(ctx, "output=summary", func(s *networkStatus) bool { return s.Rsync["Retrying"] == 3 })
		got, err := n.status(ctx, "output=detail")
		require.NoError(t, err)
		require.Equal(t, "Instantiating", got.Status)
		require.Equal(t, "Retrying", got.Cluster.Connectivity)
		require.Contains(t, got.Cluster.LastError, "refused")
		return n
	}
	stop := func(ctx context.Context, t *testing.T, n *networks, status string) *networkStatus {
		var got *networkStatus
		stopsSoon(ctx, t, func() error { return n.post(ctx, "/stop", nil) }, func() bool {
			var err error
			got, err = n.status(ctx, "output=summary")
			return err == nil && got.Status == status
		})
		return got
	}

	t.Run("and comes back", func(t *testing.T) {
		ctx := within(t)
		n := begin(ctx, t)
		c.Up(t)
		got := n.awaitStatus(ctx, "Instantiated")
		require.Len(t, c.Networks(t, got.contextID()), 3)
		n.clean(ctx)
	})
	t.Run("and is stopped", func(t *testing.T) {
		ctx := within(t)
		n := begin(ctx, t)
		got := stop(ctx, t, n, "InstantiateFailed")
		require.Equal(t, "InstantiateStopped", got.last())
		require.Equal(t, 409, code(t, n.post(ctx, "/stop", nil)), "again")
		require.Equal(t, 409, code(t, n.post(ctx, "/networks", n.virtual("another"))), "it may be in the cluster")
		n.do(ctx, "apply") // nothing happens
		got, err := n.status(ctx, "output=summary")
		require.NoError(t, err)
		require.Equal(t, "InstantiateStopped", got.last())
		_, err = s.Client.Delete(ctx, n.path)
		require.Equal(t, 409, code(t, err))
		c.Up(t)
		n.clean(ctx)
	})
	t.Run("and is terminated until it returns", func(t *testing.T) {
		ctx := within(t)
		n := begin(ctx, t)
		n.do(ctx, "terminate")
		// What was never sent is deleted without asking.
		got := n.await(ctx, "output=summary", func(s *networkStatus) bool { return strings.HasPrefix(s.Status, "Terminat") })
		require.Equal(t, []string{"Created", "Applied", "Terminated"}, got.states())
		c.Up(t)
		got = n.awaitStatus(ctx, "Terminated")
		require.Empty(t, c.Networks(t, got.contextID()))
	})
	t.Run("while it is terminated, which is stopped", func(t *testing.T) {
		ctx := within(t)
		n := newNetworks(ctx, t, s, c, "none")
		n.create(ctx, 3)
		n.do(ctx, "apply")
		n.awaitStatus(ctx, "Instantiated")
		c.Down()
		n.do(ctx, "terminate")
		n.await(ctx, "output=summary", func(s *networkStatus) bool { return s.Status == "Terminating" && s.Rsync["Retrying"] == 3 })
		require.Equal(t, 409, code(t, n.post(ctx, "/apply", nil)), "while it is terminating")
		_, err := s.Client.Delete(ctx, n.path)
		require.Equal(t, 409, code(t, err))
		n.do(ctx, "terminate") // nothing happens
		got := stop(ctx, t, n, "TerminateFailed")
		require.Equal(t, "TerminateStopped", got.last())
		require.Equal(t, 409, code(t, n.post(ctx, "/stop", nil)), "again")
		c.Up(t)
		n.clean(ctx)
	})
	t.Run("for ever, and is deleted all the same", func(t *testing.T) {
		ctx := within(t)
		n := newNetworks(ctx, t, s, c, "none")
		n.create(ctx, 1)
		n.do(ctx, "apply")
		applied := n.awaitStatus(ctx, "Instantiated").contextID()
		c.Down()
		n.do(ctx, "terminate")
		n.await(ctx, "output=summary", func(s *networkStatus) bool { return s.Rsync["Retrying"] == 1 })
		stop(ctx, t, n, "TerminateFailed")
		n.delete(ctx, "/networks/"+n.mark+"-net-0", "/labels/edge", "")
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
	applying, err := n.status(ctx, "output=summary")
	require.NoError(t, err)
	id := applying.contextID()
	harness.Until(ctx, t, "midway", func() bool { return len(c.Networks(t, id)) > 2 })
	s.Worker.Kill()
	gate.Open()
	s.StartWorker()
	got := n.awaitStatus(ctx, "Instantiated")
	require.Equal(t, map[string]int{"Applied": 60}, got.Rsync)
	require.Len(t, c.Networks(t, got.contextID()), 60)

	gate = c.Gate("", 10)
	n.do(ctx, "terminate")
	harness.Until(ctx, t, "midway", func() bool { return len(c.Networks(t, id)) < 58 })
	s.Worker.Kill()
	gate.Open()
	s.StartWorker()
	got = n.awaitStatus(ctx, "Terminated")
	require.Equal(t, map[string]int{"Deleted": 60}, got.Rsync)
	require.Empty(t, c.Networks(t, got.contextID()))
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
		wg.Go(func() { created[i] = n.post(ctx, "/networks", n.virtual(fmt.Sprintf("net-%d", i))) })
	}
	for i := range appliers {
		wg.Go(func() { applied[i] = n.post(ctx, "/apply", nil) })
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
	require.Equal(t, []string{"Created", "Applied"}, got.states())
	var accepted []string
	for i, err := range created {
		if err != nil {
			require.Contains(t, []int{400, 409}, code(t, err), "%v", err)
			continue
		}
		accepted = append(accepted, fmt.Sprintf("networks/%s-net-%d", n.mark, i))
	}
	slices.Sort(accepted)
	require.Equal(t, accepted, n.in.Networks(t, got.contextID()))
	n.clean(ctx)
}
