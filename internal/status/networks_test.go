package status_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/view"
)

const networksContext = "1737313389201980306"

func init() {
	// EMCO's networks of a cluster.
	sources["networks"] = networks
	// Before they were applied.
	sources["networks-created"] = func(t *testing.T) status.Source {
		s := networks(t)
		s.ContextID, s.Status, s.History.Actions, s.History.StatusContextID = "", domain.ContextNone, s.History.Actions[:1], ""
		return s
	}
	// The cluster refuses one and does not answer any more.
	sources["networks-retrying"] = func(t *testing.T) status.Source {
		s := networks(t)
		s.Status = domain.ContextInstantiating
		c := &s.Apps[0].Clusters[0]
		c.Connectivity, c.InProgress, c.Marks = domain.ConnectivityRetrying, true, marks("AFs")
		c.Notes = []domain.Note{{Index: 1, Message: "ProviderNetwork is invalid"}}
		c.LastError = "dial tcp 192.0.2.7:6443: connect: connection refused"
		return s
	}
	// There were none to apply.
	sources["networks-none"] = func(t *testing.T) status.Source {
		s := networks(t)
		s.Apps[0].Resources, s.Apps[0].Clusters[0].Marks = nil, nil
		return s
	}
	// The cluster's agent says of two that they are there, and that it watches their kinds.
	sources["networks-reported"] = func(t *testing.T) status.Source {
		s := networks(t)
		o := observation("edge01", decoded(t, network("Network", "protected-private-net")), decoded(t, network("ProviderNetwork", "emco-private-net")))
		o.Kinds = []schema.GroupKind{{Group: "k8s.plugin.opnfv.org", Kind: "Network"}, {Group: "k8s.plugin.opnfv.org", Kind: "ProviderNetwork"}}
		s.Namespace, s.Observations = "default", reported{"network-intents": {o}}.observations
		return s
	}
}

func network(kind, name string) string {
	return fmt.Sprintf(`{"apiVersion":"k8s.plugin.opnfv.org/v1alpha1","kind":%q,"metadata":{"name":%q,"namespace":"default"},"spec":{"cniType":"ovn4nfv"}}`, kind, name)
}

func plugin(kind, name string) plan.ResourceID {
	return plan.ResourceID{Group: "k8s.plugin.opnfv.org", Version: "v1alpha1", Kind: kind, Name: name}
}

func networks(t *testing.T) status.Source {
	t.Helper()
	s := status.Source{
		Subject: status.SubjectNetworks, Name: "vfw-cluster-provider+edge01",
		History: history(t, []action{
			{domain.Created, "", "2021-03-22T21:04:59.436Z"},
			{domain.Applied, networksContext, "2021-03-22T21:05:03.575Z"},
		}),
		Source: view.Source{ContextID: networksContext, Status: domain.ContextInstantiated,
			Apps: []view.App{{
				Name: "network-intents",
				Resources: []plan.ResourceID{
					plugin("Network", "protected-private-net"),
					plugin("ProviderNetwork", "emco-private-net"), plugin("ProviderNetwork", "unprotected-private-net"),
				},
				Clusters: []view.Cluster{{
					ClusterName:  domain.ClusterName{Provider: "vfw-cluster-provider", Name: "edge01"},
					Connectivity: domain.ConnectivityAvailable, Marks: domain.NewMarks(3, domain.MarkApplied),
				}},
			}}},
	}
	s.History.StatusContextID = networksContext
	s.Manifest = func(_ string, _, index int) (json.RawMessage, error) {
		return manifest(s.Apps[0].Resources[index]), nil
	}
	return s
}

// A cluster has no lists: EMCO ignores their parameters.
func TestNetworksHaveNoLists(t *testing.T) {
	want := write(t, parseQuery(t, "?"), networks(t))
	for _, query := range []string{"?apps", "?clusters", "?resources", "?apps&clusters=yes"} {
		q := parseQuery(t, query).For(status.SubjectNetworks)
		require.Equal(t, want, write(t, q, networks(t)), query)
	}
	require.Equal(t, status.ListApps, parseQuery(t, "?apps").For(status.SubjectGroup).List)
}
