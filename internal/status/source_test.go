package status_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/view"
)

// The app contexts of EMCO's examples.
const (
	firstContext  = "2621114006130701074"
	secondContext = "2755581958183303505"
	onceContext   = "3983785381246146818"
)

// sources are what the documents of testdata are made of, by the name that the files use.
var sources = map[string]func(*testing.T) status.Source{
	// EMCO's virtual firewall, instantiated for the second time.
	"vfw": func(t *testing.T) status.Source {
		return vfw(t, secondContext, domain.ContextInstantiated, vfwTwice, domain.MarkApplied)
	},
	// The first of its two instances.
	"vfw-terminated": func(t *testing.T) status.Source {
		return vfw(t, firstContext, domain.ContextTerminated, vfwTwice, domain.MarkDeleted)
	},
	// The same on another day, instantiated for the first time.
	"vfw-once": func(t *testing.T) status.Source {
		return vfw(t, onceContext, domain.ContextInstantiated, []action{
			{domain.Created, "", "2020-08-21T18:17:03.503Z"},
			{domain.Approved, "", "2020-08-21T18:17:18.037Z"},
			{domain.Instantiated, onceContext, "2020-08-21T18:17:18.275Z"},
		}, domain.MarkApplied)
	},
	// Approved, but never instantiated.
	"vfw-approved": func(t *testing.T) status.Source {
		s := vfw(t, "", domain.ContextNone, vfwTwice[:2], domain.MarkPending)
		s.Apps = nil
		return s
	},
	// One cluster refuses a resource, another does not answer.
	"vfw-retrying": func(t *testing.T) status.Source {
		s := vfw(t, secondContext, domain.ContextInstantiating, vfwTwice, domain.MarkApplied)
		sink := &s.Apps[2]
		require.Equal(t, "sink", sink.Name)
		sink.Clusters[0].Marks = marks("AFA")
		sink.Clusters[0].Notes = []domain.Note{
			{Index: 0, Message: "of an earlier attempt"},
			{Index: 1, Message: "Service \"sink-service\" is invalid: spec.ports: Required value\n<none>"},
		}
		sink.Clusters[1].Connectivity = domain.ConnectivityRetrying
		sink.Clusters[1].InProgress = true
		sink.Clusters[1].Marks = marks("Asp")
		sink.Clusters[1].LastError = "dial tcp 192.0.2.7:6443: connect: connection refused"
		firewall := &s.Apps[1]
		firewall.Clusters[1].Connectivity = "" // not tried
		firewall.Clusters[1].InProgress = true
		firewall.Clusters[1].Marks = nil
		return s
	},
	// The same after a stop: nothing is tried any more.
	"vfw-stopped": func(t *testing.T) status.Source {
		s := vfw(t, secondContext, domain.ContextInstantiateFailed, vfwTwice, domain.MarkApplied)
		c := &s.Apps[2].Clusters[1]
		c.Connectivity = domain.ConnectivityRetrying
		c.Marks = marks("Asp")
		c.Notes = []domain.Note{{Index: 1, Message: "stopped before the cluster answered"}}
		c.LastError = "dial tcp 192.0.2.7:6443: i/o timeout"
		return s
	},
	// A terminate that was refused one resource and kept another on purpose.
	"vfw-terminate-failed": func(t *testing.T) status.Source {
		s := vfw(t, firstContext, domain.ContextTerminateFailed, vfwTwice, domain.MarkDeleted)
		c := &s.Apps[2].Clusters[0]
		c.Marks = marks("KXD")
		c.Notes = []domain.Note{{Index: 1, Message: "services \"sink-service\" is forbidden"}}
		return s
	},
	// One app waits for a hook, another for the first.
	"vfw-waiting": func(t *testing.T) status.Source {
		s := vfw(t, secondContext, domain.ContextInstantiating, vfwTwice, domain.MarkApplied)
		sink := &s.Apps[2]
		sink.Clusters[0].InProgress, sink.Clusters[0].Marks = true, marks("Ash")
		sink.Clusters[0].Reason = "waits for the pre-install hook Service sink-service"
		firewall := &s.Apps[1]
		for i := range firewall.Clusters {
			c := &firewall.Clusters[i]
			c.Connectivity, c.InProgress, c.Marks, c.Reason = "", true, nil, "waits until app sink is Deployed"
		}
		return s
	},
	// A chart with a CRD, the same names in several kinds and namespaces, and characters that JSON escapes.
	"web": web,
}

func newSource(t *testing.T, name string) status.Source {
	t.Helper()
	build := sources[name]
	require.NotNil(t, build, "unknown source %q", name)
	return build(t)
}

type action struct {
	state     domain.State
	contextID string
	time      string
}

var vfwTwice = []action{
	{domain.Created, "", "2020-08-21T05:36:54.186Z"},
	{domain.Approved, "", "2020-08-21T05:37:28.748Z"},
	{domain.Instantiated, firstContext, "2020-08-21T05:37:28.947Z"},
	{domain.Terminated, firstContext, "2020-08-21T05:38:51.061Z"},
	{domain.Approved, "", "2020-08-21T05:39:34.436Z"},
	{domain.Instantiated, secondContext, "2020-08-21T05:39:34.64Z"},
}

// history has the times in another zone and with more digits than documents show.
func history(t *testing.T, actions []action) domain.History {
	t.Helper()
	var h domain.History
	for _, a := range actions {
		at, err := time.Parse(time.RFC3339Nano, a.time)
		require.NoError(t, err)
		revision := 0
		if a.state == domain.Instantiated {
			revision = 1
			h.StatusContextID = a.contextID
		}
		h.Actions = append(h.Actions, domain.Action{
			State: a.state, ContextID: a.contextID, Revision: revision,
			Time: at.Add(789 * time.Microsecond).In(time.FixedZone("", 2*60*60)),
		})
	}
	return h
}

func vfw(t *testing.T, contextID string, st domain.ContextStatus, actions []action, m domain.Mark) status.Source {
	t.Helper()
	const release = "fw0-"
	app := func(name string, resources ...plan.ResourceID) view.App {
		a := view.App{Name: name, Resources: resources}
		for _, cluster := range []string{"edge01", "edge02"} {
			a.Clusters = append(a.Clusters, view.Cluster{
				ClusterName:  domain.ClusterName{Provider: "vfw-cluster-provider", Name: cluster},
				Connectivity: domain.ConnectivityAvailable,
				Marks:        domain.NewMarks(len(resources), m),
			})
		}
		return a
	}
	core := func(kind, name string) plan.ResourceID { return plan.ResourceID{Version: "v1", Kind: kind, Name: name} }
	deployment := func(name string) plan.ResourceID {
		return plan.ResourceID{Group: "apps", Version: "v1", Kind: "Deployment", Name: release + name}
	}
	s := status.Source{
		Project: "testvfw", CompositeApp: "compositevfw", Version: "v1",
		CompositeProfile: "vfw_composite-profile", Name: "vfw_deployment_intent_group",
		History: history(t, actions),
	}
	s.ContextID, s.Status = contextID, st
	s.Apps = []view.App{
		app("packetgen", core("Service", "packetgen-service"), deployment("packetgen")),
		app("firewall", deployment("firewall")),
		app("sink", core("ConfigMap", "sink-configmap"), core("Service", "sink-service"), deployment("sink")),
	}
	s.Manifest = func(app string, _, index int) (json.RawMessage, error) {
		for _, a := range s.Apps {
			if a.Name == app {
				return manifest(a.Resources[index]), nil
			}
		}
		return nil, nil
	}
	return s
}

func web(t *testing.T) status.Source {
	const contextID = "2363540656016613096"
	resources := []plan.ResourceID{
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "backups.example.com"},
		{Version: "v1", Kind: "Secret", Name: "r1"},
		{Version: "v1", Kind: "Service", Namespace: "b", Name: "r1"},
		{Version: "v1", Kind: "Service", Namespace: "a", Name: "r1"},
		{Group: "serving.knative.dev", Version: "v1", Kind: "Service", Name: "r1"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole", Name: "system:r1<view>"},
	}
	cluster := func(provider, name string, marks domain.Marks) view.Cluster {
		return view.Cluster{
			ClusterName:  domain.ClusterName{Provider: provider, Name: name},
			Connectivity: domain.ConnectivityAvailable, Marks: marks,
		}
	}
	return status.Source{
		Project: "p", CompositeApp: "ca", Version: "v2", CompositeProfile: "cp", Name: "dig",
		History: history(t, []action{
			{domain.Created, "", "2026-11-21T05:29:07.03Z"},
			{domain.Approved, "", "2026-11-21T05:29:08Z"},
			{domain.Instantiated, contextID, "2026-11-21T05:29:09.5Z"},
		}),
		Source: view.Source{ContextID: contextID, Status: domain.ContextInstantiating, Apps: []view.App{
			{Name: "web", Resources: resources, Clusters: []view.Cluster{
				cluster("kprov", "k1", domain.NewMarks(len(resources), domain.MarkApplied)),
				cluster("lprov", "k1", marks("AAFAAF")),
			}},
			{Name: "empty", Clusters: []view.Cluster{cluster("kprov", "k1", nil)}},
			{Name: "nowhere", Resources: resources},
		}},
	}
}

func marks(s string) domain.Marks { return domain.Marks(s) }

func manifest(id plan.ResourceID) json.RawMessage {
	version := id.Version
	if id.Group != "" {
		version = id.Group + "/" + id.Version
	}
	return fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q}}`, version, id.Kind, id.Name)
}
