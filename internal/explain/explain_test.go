package explain_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/view"
)

var update = flag.Bool("update", false, "rewrite the results in testdata")

const (
	theKey     = domain.Key("projects/p/composite-apps/ca/v1/deployment-intent-groups/dig")
	theContext = "2621114006130701074"
	refused    = "the cluster cannot be reached: dial tcp 127.0.0.1:%d: connect: connection refused"
)

var now = time.Date(2026, 11, 21, 14, 3, 23, 0, time.UTC)

func before(d time.Duration) time.Time { return now.Add(-d) }

// a situation of the group, to be changed by a case.
func of(state domain.State, context domain.ContextStatus, may ...domain.Operation) *explain.Situation {
	s := &explain.Situation{
		Now: now, Key: theKey, Noun: domain.DeploymentIntentGroups, Status: context, May: may,
		UI:      explain.WebUI{URL: "http://127.0.0.1:8233", Namespace: "drover"},
		History: domain.History{Actions: []domain.Action{{State: domain.Created, Time: before(2 * time.Hour)}}},
	}
	if state != domain.Created {
		s.History.Append(state, theContext, 0, before(200*time.Second))
	}
	if context == domain.ContextNone {
		return s
	}
	s.View.ContextID = theContext
	s.Instance = &domain.Instance{ContextID: theContext, Owner: theKey, Operation: domain.OpInstantiate, Status: context, Accepted: before(201 * time.Second)}
	if context == domain.ContextTerminating || context == domain.ContextTerminated || context == domain.ContextTerminateFailed {
		s.Instance.Operation = domain.OpTerminate
	}
	s.Run = explain.Run{
		Operation: s.Instance.Operation, ID: string(theKey) + "/" + theContext + "/" + string(s.Instance.Operation),
		RunID: "run-1", Status: explain.Running, By: "alice", Started: before(202 * time.Second),
	}
	if !context.InProgress() {
		s.Run.Status = explain.Completed
		s.Instance.Ended = before(time.Minute)
	}
	return s
}

func cluster(n int) domain.ClusterName {
	return domain.ClusterName{Provider: "p1", Name: fmt.Sprintf("c%03d", n)}
}

// leaving has a Service that waits for a finalizer.
func leaving() view.Cluster {
	return view.Cluster{
		Connectivity: domain.ConnectivityAvailable, Marks: domain.DecodeMarks("1D1L1D"),
		Notes: []domain.Note{{Index: 1, Message: "being deleted since 2026-11-21T14:00:03Z, waits for finalizer example.com/held"}},
	}
}

// app has three resources on n clusters; each says where one of them stands.
func app(name string, n int, each func(i int) view.Cluster) view.App {
	a := view.App{Name: name, Resources: []plan.ResourceID{
		{Version: "v1", Kind: "ConfigMap", Name: "r1-" + name}, {Version: "v1", Kind: "Service", Name: "r1-" + name},
		{Group: "apps", Version: "v1", Kind: "Deployment", Name: "r1-" + name},
	}}
	for i := range n {
		c := each(i)
		c.ClusterName = cluster(i)
		a.Clusters = append(a.Clusters, c)
	}
	return a
}

func applied(int) view.Cluster {
	return view.Cluster{Connectivity: domain.ConnectivityAvailable, Marks: domain.DecodeMarks("3A")}
}

func marked(marks string) func(int) view.Cluster {
	return func(int) view.Cluster {
		return view.Cluster{Connectivity: domain.ConnectivityAvailable, Marks: domain.DecodeMarks(marks)}
	}
}

// rows are as they are given.
func rows(list ...*view.Row) iter.Seq2[*view.Row, error] {
	return func(yield func(*view.Row, error) bool) {
		for _, r := range list {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// row is a resource of app sink as its cluster reports it, and silence one of a cluster that nobody vouches for.
func row(n int, is view.Readiness, why string, id plan.ResourceID) *view.Row {
	return &view.Row{
		Place:    &view.Place{App: &view.App{Name: "sink"}, Cluster: &view.Cluster{ClusterName: cluster(n)}},
		Resource: &id, Readiness: is, Unready: why,
	}
}

func silence(n int, why view.Doubt) *view.Row {
	r := row(n, view.NotReady, "", plan.ResourceID{Version: "v1", Kind: "Service", Name: "r1-sink"})
	r.Place.Doubt = &why
	return r
}

// situations are the cases, by the name of their file in testdata.
var situations = map[string]func() *explain.Situation{
	"never-approved": func() *explain.Situation {
		return of(domain.Created, domain.ContextNone, domain.OpApprove)
	},
	"approved": func() *explain.Situation {
		return of(domain.Approved, domain.ContextNone, domain.OpInstantiate)
	},
	"intents-that-nothing-enforces": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiated, domain.OpTerminate)
		s.View.Apps = []view.App{app("web", 2, applied)}
		s.Reported = rows()
		for i := range 7 {
			s.Warnings = append(s.Warnings, fmt.Sprintf("deployment intent \"all\": intent \"t%d\" of controller \"dtc\" is not enforced: Drover does not act for this controller", i))
		}
		return s
	},
	"what-intents-have-made": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiated, domain.OpTerminate)
		s.View.Apps = []view.App{app("sink", 6, func(i int) view.Cluster {
			c := applied(i)
			c.Effects = []plan.Effect{{Resource: 2, What: "annotation k8s.plugin.opnfv.org/nfn-network", By: "ovnaction intent vfw"}}
			if i > 1 {
				c.Effects = append(c.Effects, plan.Effect{Resource: 0, What: "key info.json", By: "gac intent own, resource cm, customization few"})
			}
			if i == 5 {
				c.Effects = append(c.Effects, plan.Effect{Resource: 1, What: "object", By: "gac intent own, resource svc"})
			}
			return c
		}), app("web", 1, func(int) view.Cluster {
			c := applied(0)
			c.Passed = []string{"p1+c007: 2 nodes, none with 4 free cpu (hpa intent h)", "p1+c008: its nodes are not known: the cluster does not answer (hpa intent h)"}
			c.Effects = []plan.Effect{{Resource: 2, What: "requests cpu=4 of container web", By: "hpa intent h"}}
			return c
		})}
		s.Reported = rows()
		return s
	},
	"a-cluster-without-networks": func() *explain.Situation {
		s := of(domain.Created, domain.ContextNone, domain.OpInstantiate)
		s.Key, s.Noun = "cluster-providers/p1/clusters/c1", domain.ClustersNoun
		return s
	},
	"networks-being-applied": func() *explain.Situation {
		s := of(domain.Applied, domain.ContextInstantiating, domain.OpTerminate, domain.OpStop)
		s.Key, s.Noun = "cluster-providers/p1/clusters/c000", domain.ClustersNoun
		s.View.Apps = []view.App{app("network-intents", 1, func(int) view.Cluster {
			return view.Cluster{InProgress: true, Connectivity: domain.ConnectivityRetrying, Marks: domain.DecodeMarks("3s"), LastError: "the cluster does not answer in time"}
		})}
		return s
	},
	"preparing": func() *explain.Situation {
		s := of(domain.Approved, domain.ContextNone, domain.OpInstantiate)
		s.Starting = &explain.Run{
			Operation: domain.OpInstantiate, ID: string(theKey) + "/7/instantiate", RunID: "run-2", Status: explain.Running,
			By: "bob", Started: before(4 * time.Second),
		}
		return s
	},
	"preparing-fails": func() *explain.Situation {
		s := of(domain.Approved, domain.ContextNone, domain.OpInstantiate)
		s.Starting = &explain.Run{
			Operation: domain.OpInstantiate, ID: string(theKey) + "/7/instantiate", RunID: "run-2", Status: explain.Running,
			Started: before(40 * time.Second),
			Steps:   []explain.Attempt{{Step: "Prepare", Number: 9, Last: before(time.Second), Next: now.Add(4 * time.Second), Error: "the database does not answer"}},
		}
		return s
	},
	"no-worker": func() *explain.Situation {
		s := of(domain.Approved, domain.ContextNone, domain.OpInstantiate)
		s.Starting = &explain.Run{
			Operation: domain.OpInstantiate, ID: string(theKey) + "/7/instantiate", RunID: "run-2", Status: explain.Running,
			Started: before(40 * time.Second), Task: &explain.Task{Since: before(40 * time.Second), Attempt: 1},
		}
		return s
	},
	"no-worker-below": func() *explain.Situation { // the workflows of an app and of a leaf fail at each task
		s := of(domain.Instantiated, domain.ContextInstantiating, domain.OpTerminate, domain.OpStop)
		s.Run.Below = &explain.Task{Workflow: s.Run.ID + "/web", Since: before(200 * time.Second), Attempt: 14}
		s.View.Apps = []view.App{app("sink", 2, func(i int) view.Cluster {
			if i == 1 {
				return applied(i)
			}
			return view.Cluster{InProgress: true, Connectivity: domain.ConnectivityUnknown, Marks: domain.DecodeMarks("3p")}
		})}
		s.Attempts = map[explain.Place]explain.Attempt{{App: "sink", Cluster: cluster(0)}: {
			ID: s.Run.ID + "/sink/p1+c000", RunID: "run-3", Since: before(200 * time.Second),
			Task: &explain.Task{Workflow: s.Run.ID + "/sink/p1+c000", Since: before(190 * time.Second), Attempt: 12},
		}}
		return s
	},
	"as-wished": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiated, domain.OpTerminate)
		s.View.Apps = []view.App{app("sink", 2, applied), app("web", 1, applied)}
		s.Reported = rows()
		return s
	},
	"nothing-to-put-into-clusters": func() *explain.Situation {
		return of(domain.Instantiated, domain.ContextInstantiated, domain.OpTerminate)
	},
	"an-admin-cloud": func() *explain.Situation { // nothing of it is a workflow
		s := of(domain.Instantiated, domain.ContextInstantiated, domain.OpTerminate)
		s.Key, s.Noun = "projects/p/logical-clouds/lc", domain.LogicalClouds
		s.Instance, s.Run = &domain.Instance{ContextID: theContext, Owner: s.Key, Status: s.Status}, explain.Run{}
		return s
	},
	"applied-and-nobody-reports": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiated, domain.OpTerminate)
		s.View.Apps = []view.App{app("sink", 2, applied)}
		crd := view.Doubt{Reason: "the cluster has no ResourceBundleState CRD"}
		first := silence(0, crd)
		s.Reported = rows(first, first, silence(1, crd))
		return s
	},
	"not-ready": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiated, domain.OpTerminate)
		s.View.Apps = []view.App{app("sink", 9, applied)}
		list := []*view.Row{silence(0, view.Doubt{Reason: "the cluster cannot be heard", Reported: true, LastSeen: before(90 * time.Second)})}
		for i := 1; i < 9; i++ {
			list = append(list, row(i, view.Ready, "", plan.ResourceID{Version: "v1", Kind: "ConfigMap", Name: "r1-sink"}),
				row(i, view.NotReady, fmt.Sprintf("Available: %d/3", i%3), plan.ResourceID{Group: "apps", Version: "v1", Kind: "Deployment", Name: "r1-sink"}))
		}
		s.Reported = rows(append(list, row(8, view.NotThere, "", plan.ResourceID{Version: "v1", Kind: "Service", Name: "r1-sink"}))...)
		return s
	},
	"one-dead-cluster": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiating, domain.OpTerminate, domain.OpStop)
		s.View.Apps = []view.App{app("sink", 3, func(i int) view.Cluster {
			if i == 1 {
				return view.Cluster{InProgress: true, Connectivity: domain.ConnectivityRetrying, Marks: domain.DecodeMarks("1A2s"), LastError: fmt.Sprintf(refused, 41001)}
			}
			return applied(i)
		})}
		s.Attempts = map[explain.Place]explain.Attempt{{App: "sink", Cluster: cluster(1)}: {
			Step: "ApplyToCluster", ID: s.Run.ID + "/sink/p1+c001", RunID: "run-3", Since: before(200 * time.Second), Number: 17,
			Last: before(4 * time.Second), Next: now.Add(6 * time.Second), Error: fmt.Sprintf(refused, 41001),
		}}
		return s
	},
	"the-newest-failure": func() *explain.Situation { // what is recorded is what the cluster was lost with
		s := of(domain.Instantiated, domain.ContextInstantiating, domain.OpTerminate, domain.OpStop)
		s.View.Apps = []view.App{app("sink", 2, func(int) view.Cluster {
			return view.Cluster{InProgress: true, Connectivity: domain.ConnectivityRetrying, Marks: domain.DecodeMarks("1A2s"), LastError: "the cluster cannot be reached: http2: connection lost"}
		})}
		s.Attempts = map[explain.Place]explain.Attempt{
			{App: "sink", Cluster: cluster(0)}: {
				Step: "ApplyToCluster", Since: before(600 * time.Second), Number: 61, Last: before(8 * time.Second), Next: now.Add(2 * time.Second),
				Error: "the cluster does not answer in time",
			},
			{App: "sink", Cluster: cluster(1)}: {
				Step: "ApplyToCluster", Since: before(600 * time.Second), Number: 62, Last: before(4 * time.Second), Next: now.Add(6 * time.Second),
				Error: fmt.Sprintf(refused, 41001),
			},
		}
		return s
	},
	"work-that-fails": func() *explain.Situation { // before it came to its cluster
		s := of(domain.Instantiated, domain.ContextInstantiating, domain.OpTerminate, domain.OpStop)
		s.View.Apps = []view.App{app("sink", 1, func(int) view.Cluster {
			return view.Cluster{InProgress: true, Connectivity: domain.ConnectivityUnknown, Marks: domain.DecodeMarks("3p")}
		})}
		s.Attempts = map[explain.Place]explain.Attempt{{App: "sink", Cluster: cluster(0)}: {
			Step: "ApplyToCluster", Since: before(30 * time.Second), Number: 7, Last: before(4 * time.Second), Next: now.Add(6 * time.Second),
			Error: "credentials of cluster p1+c000: the secret key \"k1\" is not configured",
		}}
		return s
	},
	"fields-that-were-dropped": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiated, domain.OpTerminate)
		s.View.Apps = []view.App{app("sink", 3, func(i int) view.Cluster {
			c := applied(i)
			c.Warnings = []domain.Note{{Index: 2, Message: "the cluster does not know the field spec.replicsa: it was dropped"}}
			if i == 0 {
				c.Warnings = append(c.Warnings, domain.Note{Index: domain.WholeCluster, Message: "the user may not patch configmaps"})
			}
			return c
		})}
		s.Reported = rows()
		return s
	},
	"a-hundred-dead-clusters": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiating, domain.OpTerminate, domain.OpStop)
		s.View.Apps = []view.App{app("sink", 1000, func(i int) view.Cluster {
			switch {
			case i%10 == 0:
				return view.Cluster{InProgress: true, Connectivity: domain.ConnectivityRetrying, Marks: domain.DecodeMarks("3s"), LastError: fmt.Sprintf(refused, 40000+i)}
			case i > 900:
				return view.Cluster{InProgress: true}
			case i > 890:
				return view.Cluster{InProgress: true, Connectivity: domain.ConnectivityUnknown, Marks: domain.DecodeMarks("3p")}
			}
			return applied(i)
		})}
		s.Attempts = map[explain.Place]explain.Attempt{}
		for _, p := range explain.Places(s) {
			s.Attempts[p] = explain.Attempt{Step: "ApplyToCluster", Since: before(3 * time.Minute), Number: 2, Trying: true}
		}
		return s
	},
	"resource-refused": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiateFailed, domain.OpTerminate)
		s.View.Apps = []view.App{app("sink", 4, func(i int) view.Cluster {
			return view.Cluster{
				Connectivity: domain.ConnectivityAvailable, Marks: domain.DecodeMarks("2A1F"),
				Notes: []domain.Note{{Index: 2, Message: fmt.Sprintf("Deployment.apps \"r1-sink-%d\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0", i)}},
			}
		}), app("web", 1, func(int) view.Cluster {
			return view.Cluster{
				Connectivity: domain.ConnectivityAvailable, Marks: domain.DecodeMarks("1A1F1A"),
				Notes: []domain.Note{{Index: 1, Message: `services "r1-web" is forbidden: User "limited" cannot patch resource "services"`}},
			}
		})}
		return s
	},
	"a-rollback-that-is-refused": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiateFailed, domain.OpUpdate, domain.OpRollback, domain.OpTerminate)
		s.History.Note("rollback to 4", "alice")
		s.Run.Operation = domain.OpRollback
		s.View.Apps = []view.App{app("sink", 2, func(int) view.Cluster {
			return view.Cluster{
				Connectivity: domain.ConnectivityAvailable, Marks: domain.DecodeMarks("1F1d1A"),
				Notes: []domain.Note{{Index: 0, Message: `CustomResourceDefinition.apiextensions.k8s.io "sinks.example.com" is invalid: status.storedVersions[1]: Invalid value: "v2"`}},
			}
		})}
		return s
	},
	"roles-that-give-what-drover-has-not": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiateFailed, domain.OpUpdate, domain.OpTerminate)
		const beyond = `clusterroles.rbac.authorization.k8s.io %q is forbidden: user "drover" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held: {APIGroups:[%q], Resources:["events"], Verbs:["create"]}`
		const none = `%s.rbac.authorization.k8s.io %q not found`
		sink := app("sink", 1, func(int) view.Cluster {
			return view.Cluster{
				Connectivity: domain.ConnectivityAvailable, Marks: domain.DecodeMarks("8F"),
				Notes: []domain.Note{
					{Index: 0, Message: fmt.Sprintf(beyond, "r1", "")},
					{Index: 1, Message: fmt.Sprintf(beyond, "r1-view", "apps") + strings.Repeat(`, {APIGroups:[""], Resources:["nodes"], Verbs:["watch"]}`, 9)},
					{Index: 2, Message: fmt.Sprintf(none, "clusterrolebindings", "r1")},
					{Index: 3, Message: fmt.Sprintf(none, "rolebindings", "r1")},
					{Index: 4, Message: fmt.Sprintf(none, "rolebindings", "r1-view")},
					{Index: 5, Message: fmt.Sprintf(none, "rolebindings", "r1-view")},   // in another namespace
					{Index: 6, Message: fmt.Sprintf(none, "clusterrolebindings", "r2")}, // which the chart does not have
					{Index: 7, Message: fmt.Sprintf(none, "clusterroles", "r1")},        // which is no binding
				},
			}
		})
		of := func(kind, namespace, name string) plan.ResourceID {
			return plan.ResourceID{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: kind, Namespace: namespace, Name: name}
		}
		sink.Resources = []plan.ResourceID{
			of("ClusterRole", "", "r1"), of("Role", "a", "r1-view"), of("ClusterRoleBinding", "", "r1"), of("RoleBinding", "a", "r1"),
			of("RoleBinding", "a", "r1-view"), of("RoleBinding", "b", "r1-view"), of("ClusterRoleBinding", "", "r2"), of("ClusterRole", "", "r3"),
		}
		s.View.Apps = []view.App{sink}
		return s
	},
	"a-change-of-what-is-for-good": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiateFailed, domain.OpUpdate, domain.OpTerminate)
		s.Run.Operation = domain.OpUpdate
		const job = `Job.batch "r1-sink" is invalid: spec.template: Invalid value: {"containers":[%q]}: field is immutable`
		sink := app("sink", 1, func(int) view.Cluster {
			return view.Cluster{
				Connectivity: domain.ConnectivityAvailable, Marks: domain.DecodeMarks("3F"),
				Notes: []domain.Note{
					{Index: 0, Message: fmt.Sprintf(job, strings.Repeat("c", 300))},
					{Index: 1, Message: `Service "r1-sink" is invalid: spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set; it is not replaced: its deletion is refused: no`},
					{Index: 2, Message: `PersistentVolumeClaim "r1-sink" is invalid: spec: Forbidden: spec is immutable after creation`},
				},
			}
		})
		sink.Resources[0] = plan.ResourceID{Group: "batch", Version: "v1", Kind: "Job", Name: "r1-sink"}
		sink.Resources[2] = plan.ResourceID{Version: "v1", Kind: "PersistentVolumeClaim", Name: "r1-sink"}
		s.View.Apps = []view.App{sink}
		return s
	},
	"hook-failed": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiateFailed, domain.OpUpdate, domain.OpTerminate)
		sink := app("sink", 2, func(int) view.Cluster {
			return view.Cluster{
				Connectivity: domain.ConnectivityAvailable, Marks: domain.DecodeMarks("2p1X"),
				Notes: []domain.Note{{Index: 2, Message: "the Job has failed: BackoffLimitExceeded: Job has reached the specified backoff limit"}},
			}
		})
		sink.Resources[2] = plan.ResourceID{Group: "batch", Version: "v1", Kind: "Job", Name: "r1-migrate"}
		sink.Hook = func(i int) bool { return i == 2 }
		s.View.Apps = []view.App{sink}
		return s
	},
	"stopping": func() *explain.Situation {
		s := of(domain.InstantiateStopped, domain.ContextInstantiating, domain.OpTerminate)
		s.View.Apps = []view.App{app("sink", 2, applied)}
		return s
	},
	"stopped": func() *explain.Situation {
		s := of(domain.InstantiateStopped, domain.ContextInstantiateFailed, domain.OpUpdate, domain.OpTerminate)
		s.View.Apps = []view.App{app("sink", 3, func(i int) view.Cluster {
			if i == 2 {
				return view.Cluster{Connectivity: domain.ConnectivityRetrying, Marks: domain.DecodeMarks("1A1s1p"), LastError: fmt.Sprintf(refused, 41001)}
			}
			return applied(i)
		})}
		return s
	},
	"terminating": func() *explain.Situation {
		s := of(domain.Terminated, domain.ContextTerminating, domain.OpStop)
		s.View.Apps = []view.App{app("sink", 2, func(i int) view.Cluster {
			if i == 1 {
				return view.Cluster{InProgress: true, Connectivity: domain.ConnectivityAvailable, Marks: domain.DecodeMarks("2D1r")}
			}
			return marked("3D")(i)
		})}
		s.Attempts = map[explain.Place]explain.Attempt{{App: "sink", Cluster: cluster(1)}: {
			Step: "DeleteFromCluster", ID: s.Run.ID + "/sink/p1+c001", RunID: "run-3", Since: before(20 * time.Second), Number: 1, Trying: true,
		}}
		return s
	},
	"waiting-for-a-worker": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiating, domain.OpTerminate, domain.OpStop)
		s.View.Apps = []view.App{app("sink", 2, func(int) view.Cluster {
			return view.Cluster{InProgress: true, Connectivity: domain.ConnectivityUnknown, Marks: domain.DecodeMarks("3p")}
		})}
		s.Attempts = map[explain.Place]explain.Attempt{{App: "sink", Cluster: cluster(1)}: {Step: "ApplyToCluster", Since: before(20 * time.Second), Number: 1}}
		return s
	},
	"paused-by-hand": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiating, domain.OpTerminate, domain.OpStop)
		s.View.Apps = []view.App{app("sink", 2, func(int) view.Cluster {
			return view.Cluster{InProgress: true, Connectivity: domain.ConnectivityRetrying, Marks: domain.DecodeMarks("3s"), LastError: fmt.Sprintf(refused, 41001)}
		})}
		s.Attempts = map[explain.Place]explain.Attempt{{App: "sink", Cluster: cluster(1)}: {
			Step: "ApplyToCluster", ID: s.Run.ID + "/sink/p1+c001", RunID: "run-3", Since: before(200 * time.Second), Number: 17,
			Last: before(100 * time.Second), Error: fmt.Sprintf(refused, 41001),
			Paused: &explain.Pause{Activity: "5", By: "alice@desk", Why: "the site moves"},
		}}
		return s
	},
	"a-run-that-is-paused": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiating, domain.OpTerminate, domain.OpStop)
		s.Run.Status, s.Run.Paused = explain.RunPaused, &explain.Pause{By: "alice@desk", Why: "the site moves"}
		s.View.Apps = []view.App{app("sink", 2, func(int) view.Cluster { return view.Cluster{InProgress: true} })}
		return s
	},
	"a-step-that-is-paused": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiating, domain.OpTerminate, domain.OpStop)
		s.Run.Steps = []explain.Attempt{{Step: "AwaitReady", Number: 2, Error: "the database does not answer", Paused: &explain.Pause{Activity: "12"}}}
		s.View.Apps = []view.App{app("web", 2, func(int) view.Cluster {
			return view.Cluster{InProgress: true, Reason: "waits until app db is Ready"}
		})}
		return s
	},
	"waiting-for-an-app-and-a-hook": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiating, domain.OpTerminate, domain.OpStop)
		s.View.Apps = []view.App{app("db", 2, func(i int) view.Cluster {
			return view.Cluster{InProgress: true, Connectivity: domain.ConnectivityAvailable, Marks: domain.DecodeMarks("1A2p"), Reason: fmt.Sprintf("waits for the pre-install hook Job migrate-%d", i)}
		}), app("web", 2, func(int) view.Cluster {
			return view.Cluster{InProgress: true, Reason: "waits until app db is Ready"}
		})}
		return s
	},
	"an-update-that-has-not-come-to-all-yet": func() *explain.Situation { // what the instantiate heard of the clusters is no word of the update
		s := of(domain.Instantiated, domain.ContextInstantiating, domain.OpTerminate, domain.OpStop)
		earlier := func(c domain.Connectivity, reason string) view.Cluster {
			return view.Cluster{InProgress: true, Connectivity: c, Earlier: true, Marks: domain.DecodeMarks("1A2o"), Reason: reason}
		}
		s.View.Apps = []view.App{app("db", 2, func(i int) view.Cluster {
			return earlier([]domain.Connectivity{domain.ConnectivityAvailable, domain.ConnectivityRetrying}[i], "")
		}), app("web", 1, func(int) view.Cluster {
			return earlier(domain.ConnectivityAvailable, "waits until app db is Ready")
		})}
		return s
	},
	"never-started-for-an-app": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiateFailed, domain.OpTerminate)
		s.View.Apps = []view.App{app("db", 1, func(int) view.Cluster {
			return view.Cluster{Connectivity: domain.ConnectivityAvailable, Marks: domain.DecodeMarks("2A1F"), Notes: []domain.Note{{Index: 2, Message: "no"}}}
		}), app("web", 2, func(int) view.Cluster {
			return view.Cluster{Reason: "not started: app db, which it needs, is not Deployed"}
		})}
		return s
	},
	"finishing": func() *explain.Situation {
		s := of(domain.Terminated, domain.ContextTerminating, domain.OpStop)
		s.View.Apps = []view.App{app("sink", 2, marked("3D"))}
		return s
	},
	"terminated": func() *explain.Situation {
		s := of(domain.Terminated, domain.ContextTerminated, domain.OpApprove, domain.OpInstantiate)
		s.View.Apps = []view.App{app("sink", 2, marked("2D1K")), app("web", 1, marked("3K"))}
		return s
	},
	"terminate-failed": func() *explain.Situation {
		s := of(domain.Terminated, domain.ContextTerminateFailed, domain.OpTerminate)
		s.View.Apps = []view.App{app("sink", 2, func(i int) view.Cluster {
			if i == 1 {
				return view.Cluster{
					Connectivity: domain.ConnectivityAvailable, Marks: domain.DecodeMarks("1D1X1d"),
					Notes: []domain.Note{{Index: 1, Message: `services "r1-sink" is forbidden`}},
				}
			}
			return marked("3D")(i)
		})}
		return s
	},
	"a-step-that-failed-and-is-well-now": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiating, domain.OpTerminate, domain.OpStop)
		s.Run.Steps = []explain.Attempt{{
			Step: "AwaitReady", Number: 2, Trying: true, Begun: before(41 * time.Second), Last: before(42 * time.Second), Error: "the database does not answer",
		}}
		s.View.Apps = []view.App{app("web", 2, func(int) view.Cluster {
			return view.Cluster{InProgress: true, Reason: "waits until app db is Ready"}
		})}
		return s
	},
	"a-step-that-takes-too-long": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiating, domain.OpTerminate, domain.OpStop)
		s.Run.Steps = []explain.Attempt{{
			Step: "AwaitReady", Number: 2, Trying: true, Begun: before(50 * time.Second), Last: before(51 * time.Second), Error: "it took too long", Late: true,
		}}
		s.View.Apps = []view.App{app("web", 2, func(int) view.Cluster {
			return view.Cluster{InProgress: true, Reason: "waits until app db is Ready"}
		})}
		return s
	},
	"remnants-of-an-earlier-instance": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiated, domain.OpTerminate)
		s.Earlier = []*domain.Instance{{ContextID: "1621114006130701074", Status: domain.ContextTerminated, Remnants: "Pod once on p1+c001: its deletion is refused"}}
		s.View.Apps = []view.App{app("sink", 2, marked("3A"))}
		return s
	},
	"remnants": func() *explain.Situation {
		s := of(domain.Terminated, domain.ContextTerminated, domain.OpInstantiate)
		s.Instance.Remnants = "ConfigMap web on p1+c001: being deleted since 2026-11-21T14:00:03Z, waits for finalizer example.com/held"
		s.View.Apps = []view.App{app("sink", 2, marked("3D"))}
		return s
	},
	"terminate-waits-for-remnants": func() *explain.Situation {
		s := of(domain.Terminated, domain.ContextTerminating, domain.OpStop)
		s.Instance.Remnants = "Pod once on p1+c001: being deleted since 2026-11-21T14:00:03Z, with a grace period of 30s"
		s.Run.Steps = []explain.Attempt{{Step: "RemoveRemnants", Number: 3, Error: s.Instance.Remnants}}
		s.View.Apps = []view.App{app("sink", 2, marked("3D"))}
		return s
	},
	"terminate-waits": func() *explain.Situation {
		s := of(domain.Terminated, domain.ContextTerminating, domain.OpStop)
		s.View.Apps = []view.App{app("sink", 2, func(i int) view.Cluster {
			if i == 1 {
				c := leaving()
				c.InProgress, c.Reason = true, "waits until Service r1-sink is gone: "+c.Notes[0].Message
				return c
			}
			return marked("3D")(i)
		})}
		return s
	},
	"terminate-waited": func() *explain.Situation {
		s := of(domain.TerminateStopped, domain.ContextTerminateFailed, domain.OpTerminate)
		s.View.Apps = []view.App{app("sink", 2, func(i int) view.Cluster {
			if i == 1 {
				return leaving()
			}
			return marked("3D")(i)
		})}
		return s
	},
	"killed-by-hand": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiating, domain.OpUpdate, domain.OpTerminate)
		s.Status = domain.ContextInstantiateFailed
		s.Run.Status, s.Run.End = explain.Terminated, "by hand, by 17@laptop"
		s.View.Apps = []view.App{app("sink", 3, func(i int) view.Cluster {
			if i == 2 {
				return view.Cluster{}
			}
			return applied(i)
		})}
		return s
	},
	"history-gone": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiating, domain.OpTerminate)
		s.Status = domain.ContextInstantiateFailed
		s.Run = explain.Run{Operation: s.Run.Operation, ID: s.Run.ID}
		s.View.Apps = []view.App{app("sink", 1, func(int) view.Cluster { return view.Cluster{} })}
		return s
	},
	"just-applied": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiated, domain.OpTerminate)
		s.Instance.Ended = before(time.Second)
		s.View.Apps = []view.App{app("sink", 2, applied)}
		missing := func(i int) *view.Row {
			return row(i, view.NotThere, "", plan.ResourceID{Version: "v1", Kind: "Service", Name: "r1-sink"})
		}
		s.Reported = rows(missing(0), missing(1))
		return s
	},
	"long-ago": func() *explain.Situation { // nothing is known of the run any more, and nothing need be
		s := of(domain.Instantiated, domain.ContextInstantiated, domain.OpTerminate)
		s.Now = now.Add(300 * time.Hour)
		s.Run = explain.Run{Operation: s.Run.Operation, ID: s.Run.ID}
		s.View.Apps = []view.App{app("sink", 1, applied)}
		s.Reported = rows()
		return s
	},
	"engine-silent": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiating, domain.OpTerminate, domain.OpStop)
		s.Run = explain.Run{Operation: s.Run.Operation, ID: s.Run.ID}
		s.Silent = "the workflow engine is not available"
		s.View.Apps = []view.App{app("sink", 3, func(i int) view.Cluster {
			if i == 2 {
				return view.Cluster{}
			}
			return applied(i)
		})}
		return s
	},
	"engine-silent-and-nothing-to-do": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiated, domain.OpTerminate)
		s.Run = explain.Run{Operation: s.Run.Operation, ID: s.Run.ID}
		s.Silent = "the workflow engine is not available"
		s.View.Apps = []view.App{app("sink", 1, applied)}
		s.Reported = rows()
		return s
	},
	"migrated": func() *explain.Situation {
		s := of(domain.Updated, domain.ContextUpdated)
		s.View.Apps = []view.App{app("sink", 2, applied)}
		return s
	},
	"gave-up": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiateFailed, domain.OpTerminate)
		s.View.Apps = []view.App{app("sink", 1, func(int) view.Cluster {
			return view.Cluster{Connectivity: domain.ConnectivityUnknown, Marks: domain.DecodeMarks("3s"), LastError: "cluster \"c000\" not found"}
		})}
		return s
	},
	"failed-without-a-reason": func() *explain.Situation {
		return of(domain.Instantiated, domain.ContextInstantiateFailed, domain.OpTerminate)
	},
	"reports-cannot-be-read": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiated, domain.OpTerminate)
		s.View.Apps = []view.App{app("sink", 1, applied)}
		s.Reported = func(yield func(*view.Row, error) bool) { yield(nil, errors.New("secret")) }
		return s
	},
	"more-than-a-screen": func() *explain.Situation {
		s := of(domain.Instantiated, domain.ContextInstantiateFailed, domain.OpTerminate)
		s.View.Apps = []view.App{app("sink", 26, func(i int) view.Cluster {
			return view.Cluster{
				Connectivity: domain.ConnectivityAvailable, Marks: domain.DecodeMarks("2A1F"),
				Notes: []domain.Note{{Index: 2, Message: strings.Repeat(string(rune('a'+i)), 2000)}},
			}
		})}
		return s
	},
}

// onCluster are situations of a cluster.
var onCluster = map[string]func() *explain.ClusterSituation{
	"a-cluster-with-nothing": func() *explain.ClusterSituation {
		return &explain.ClusterSituation{Networks: networksOf(domain.Created, domain.ContextNone), Report: domain.ReportAuto, Tried: domain.Trial{At: before(time.Hour)}}
	},
	"a-cluster-that-nobody-reaches": func() *explain.ClusterSituation {
		return &explain.ClusterSituation{
			Networks: networksOf(domain.Created, domain.ContextNone), Report: domain.ReportAuto,
			Tried: domain.Trial{At: before(time.Hour), Error: fmt.Sprintf(refused, 6443)},
		}
	},
	"a-cluster-that-is-as-wished": func() *explain.ClusterSituation {
		s := &explain.ClusterSituation{
			Networks: networksOf(domain.Applied, domain.ContextInstantiated), Report: domain.ReportAgent, Intends: true, Tried: domain.Trial{At: before(time.Hour)},
			Contact: view.Contact{Heard: true, LastSeen: now},
		}
		s.Networks.View.Apps = []view.App{app("network-intents", 1, applied)}
		s.Deployments = []*explain.Situation{here(0, domain.Instantiated, domain.ContextInstantiated, applied)}
		return s
	},
	"a-cluster-whose-credentials-have-expired": func() *explain.ClusterSituation {
		return &explain.ClusterSituation{
			Networks: networksOf(domain.Created, domain.ContextNone), Report: domain.ReportAgent, Contact: view.Contact{Heard: true, LastSeen: now}, Expires: before(time.Hour),
			Expiring:    (&domain.Cluster{Metadata: domain.Metadata{Name: cluster(0).Name}, Expires: before(time.Hour)}).Expiring(now),
			Deployments: []*explain.Situation{here(0, domain.Instantiated, domain.ContextInstantiated, applied)},
		}
	},
	"a-cluster-on-which-much-hangs": func() *explain.ClusterSituation {
		s := &explain.ClusterSituation{
			Networks: networksOf(domain.Created, domain.ContextNone, domain.OpInstantiate), Intends: true, Report: domain.ReportAgentless,
			Contact: view.Contact{Reason: fmt.Sprintf(refused, 6443), LastSeen: before(5 * time.Minute)},
		}
		s.Deployments = append(s.Deployments, here(0, domain.Instantiated, domain.ContextInstantiated, applied))
		for i := 1; i < 8; i++ {
			d := here(i, domain.Instantiated, domain.ContextInstantiating, func(int) view.Cluster {
				return view.Cluster{InProgress: true, Connectivity: domain.ConnectivityRetrying, Marks: domain.DecodeMarks("1A2s"), LastError: fmt.Sprintf(refused, 6443)}
			})
			d.Attempts = map[explain.Place]explain.Attempt{{App: "sink", Cluster: cluster(0)}: {
				Step: "ApplyToCluster", ID: "leaf", RunID: "run", Since: before(4 * time.Minute), Number: 20 + i, Next: now.Add(4 * time.Second), Error: fmt.Sprintf(refused, 6443),
			}}
			s.Deployments = append(s.Deployments, d)
		}
		s.Deployments = append(s.Deployments,
			here(8, domain.Instantiated, domain.ContextInstantiating, applied), // it goes on elsewhere
			here(9, domain.Instantiated, domain.ContextInstantiateFailed, func(int) view.Cluster {
				return view.Cluster{Connectivity: domain.ConnectivityAvailable, Marks: domain.DecodeMarks("2A1F"), Notes: []domain.Note{{Index: 2, Message: "spec.replicas is not a number"}}}
			}))
		return s
	},
}

// networksOf is the situation of the cluster's own network intents.
func networksOf(state domain.State, context domain.ContextStatus, may ...domain.Operation) *explain.Situation {
	s := of(state, context, may...)
	s.Key, s.Noun = cluster(0).Key(), domain.ClustersNoun
	return s
}

// here is what a group has in one cluster.
func here(n int, state domain.State, context domain.ContextStatus, each func(int) view.Cluster) *explain.Situation {
	s := of(state, context, domain.OpTerminate, domain.OpStop)
	s.Key += domain.Key(fmt.Sprint(n))
	only := cluster(0)
	s.Only, s.View.Apps = &only, []view.App{app("sink", 1, each)}
	return s
}

func TestExplain(t *testing.T) {
	seen := map[string]bool{}
	explanations := map[string]func() *explain.Explanation{}
	for name, make := range situations {
		explanations[name] = func() *explain.Explanation { return explain.Of(make()) }
	}
	for name, make := range onCluster {
		explanations[name] = func() *explain.Explanation { return explain.OfCluster(make()) }
	}
	for name, make := range explanations {
		seen[name+".txtar"] = true
		t.Run(name, func(t *testing.T) {
			x := make()
			var text strings.Builder
			require.NoError(t, x.WriteText(&text))
			require.LessOrEqual(t, strings.Count(text.String(), "\n"), 45, "one screen")
			encoded, err := json.MarshalIndent(x, "", "  ")
			require.NoError(t, err)
			compact, err := json.Marshal(x)
			require.NoError(t, err)
			require.LessOrEqual(t, len(compact), 6<<10, "one screen")
			if len(x.Reasons) > 0 {
				require.Contains(t, x.Summary, x.Reasons[0].Text, "it names the gravest reason")
				require.Contains(t, strings.SplitN(text.String(), "\n", 2)[0], x.Reasons[0].Text, "so does the first line")
			}
			got := txtar.Format(&txtar.Archive{Files: []txtar.File{
				{Name: "text", Data: []byte(text.String())}, {Name: "json", Data: append(encoded, '\n')},
			}})
			file := filepath.Join("testdata", name+".txtar")
			if *update {
				require.NoError(t, os.WriteFile(file, got, 0o600))
				return
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(string(want), string(got)))
		})
	}
	files, err := os.ReadDir("testdata")
	require.NoError(t, err)
	for _, f := range files {
		require.True(t, seen[f.Name()], "no case is named as testdata/%s", f.Name())
	}
}

func TestOnlyWhatIsTriedIsAskedFor(t *testing.T) {
	places := explain.Places(situations["a-hundred-dead-clusters"]())
	require.Len(t, places, 6, "three examples of those that hold up the work, three of those at work: %v", places)
	require.Empty(t, explain.Places(situations["resource-refused"]()))
}

// The time of an explanation of very many leaves.
func BenchmarkOf(b *testing.B) {
	s := situations["a-hundred-dead-clusters"]()
	for len(s.View.Apps) < 10 {
		s.View.Apps = append(s.View.Apps, s.View.Apps[0])
	}
	for b.Loop() {
		explain.Of(s)
	}
}

// TestReplaceIsAdvisedWhereItHelps: kube makes anew only what is refused as invalid, and of its own that is there.
func TestReplaceIsAdvisedWhereItHelps(t *testing.T) {
	const job = `Job.batch "r1-sink" is invalid: spec.template: Invalid value: {}: field is immutable`
	for name, c := range map[string]struct {
		said    string
		op      domain.Operation
		noun    *domain.Noun
		advised bool
	}{
		"a change":               {job, domain.OpUpdate, domain.DeploymentIntentGroups, true},
		"a migrate":              {job, domain.OpMigrate, domain.DeploymentIntentGroups, true},
		"a first one":            {job, domain.OpInstantiate, domain.DeploymentIntentGroups, false},
		"a logical cloud":        {job, domain.OpUpdate, domain.LogicalClouds, false},
		"a webhook":              {`admission webhook "p" denied the request: root filesystem must be immutable`, domain.OpUpdate, domain.DeploymentIntentGroups, false},
		"a webhook's invalid":    {`admission webhook "p" denied the request: "x" is invalid: tag is immutable`, domain.OpUpdate, domain.DeploymentIntentGroups, false},
		"a policy":               {`jobs.batch "r1-sink" is forbidden: ValidatingAdmissionPolicy 'p' denied request: field is immutable`, domain.OpUpdate, domain.DeploymentIntentGroups, false},
		"the name":               {`jobs.batch "immutable-store" is forbidden: exceeded quota: q`, domain.OpUpdate, domain.DeploymentIntentGroups, false},
		"the name of an invalid": {`Job.batch "immutable-store" is invalid: spec.suspend: Invalid value: "immutable": must be a boolean`, domain.OpUpdate, domain.DeploymentIntentGroups, false},
		"a Pod":                  {"Pod \"r1-sink\" is invalid: spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`\n{}", domain.OpUpdate, domain.DeploymentIntentGroups, true},
		"a StorageClass": {`StorageClass.storage.k8s.io "r1-sink" is invalid: [parameters: Forbidden: updates to parameters are forbidden., ` +
			`provisioner: Forbidden: updates to provisioner are forbidden.]`, domain.OpUpdate, domain.DeploymentIntentGroups, true},
		"a StorageClass's policy": {`StorageClass.storage.k8s.io "r1-sink" is invalid: reclaimPolicy: Forbidden: updates to reclaimPolicy are forbidden.`, domain.OpUpdate, domain.DeploymentIntentGroups, true},
		"a PriorityClass":         {`PriorityClass.scheduling.k8s.io "r1-sink" is invalid: value: Forbidden: may not be changed in an update.`, domain.OpUpdate, domain.DeploymentIntentGroups, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := of(domain.Instantiated, domain.ContextInstantiateFailed, domain.OpUpdate, domain.OpTerminate)
			s.Run.Operation, s.Noun = c.op, c.noun
			s.View.Apps = []view.App{app("sink", 1, func(int) view.Cluster {
				return view.Cluster{
					Connectivity: domain.ConnectivityAvailable, Marks: domain.DecodeMarks("1F2A"), Notes: []domain.Note{{Index: 0, Message: c.said}},
				}
			})}
			do := explain.Of(s).Reasons[0].Do
			require.Contains(t, do, "mend the cause")
			require.Equal(t, c.advised, strings.Contains(do, plan.ReplaceAnnotation), do)
		})
	}
}

// TestWhatIsKeptIsNotReplaced: kube never deletes it, and an approve refuses both annotations of one resource. Whether it is to be kept is asked once for all
// clusters that get the same.
func TestWhatIsKeptIsNotReplaced(t *testing.T) {
	const kept = `{"metadata": {"annotations": {"helm.sh/resource-policy": "keep"}}}`
	for name, c := range map[string]struct {
		manifests [2]string // of the variants
		err       error
		advised   bool
	}{
		"nothing is said":          {[2]string{`{"metadata": {}}`, `{"metadata": {"annotations": {"a": "b"}}}`}, nil, true},
		"it is to be kept":         {[2]string{kept, kept}, nil, false},
		"it is on some clusters":   {[2]string{"{}", kept}, nil, false},
		"it cannot be read":        {[2]string{}, errors.New("the database does not answer in time"), false},
		"it is not known any more": {[2]string{}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := of(domain.Instantiated, domain.ContextInstantiateFailed, domain.OpUpdate, domain.OpTerminate)
			s.Run.Operation = domain.OpUpdate
			s.View.Apps = []view.App{app("sink", 4, func(i int) view.Cluster {
				return view.Cluster{
					Connectivity: domain.ConnectivityAvailable, Marks: domain.DecodeMarks("1F2A"), Variant: i % 2,
					Notes: []domain.Note{{Index: 0, Message: `Secret "r1-sink" is invalid: data: Forbidden: field is immutable when ` + "`immutable` is set"}},
				}
			})}
			asked := 0
			s.View.Manifest = func(app string, variant, index int) (json.RawMessage, error) {
				require.Equal(t, "sink", app)
				require.Zero(t, index)
				asked++
				return json.RawMessage(c.manifests[variant]), c.err
			}
			do := explain.Of(s).Reasons[0].Do
			require.Contains(t, do, "mend the cause")
			require.Equal(t, c.advised, strings.Contains(do, plan.ReplaceAnnotation), do)
			require.Equal(t, 2, asked)
		})
	}
}

// TestWhatStaysIsCounted as it is named: each resource once, however many clusters and apps have it.
func TestWhatStaysIsCounted(t *testing.T) {
	s := of(domain.Terminated, domain.ContextTerminated)
	shared := plan.ResourceID{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "widgets.example.com"}
	for _, name := range []string{"sink", "web"} {
		a := app(name, 100, marked("2D2K"))
		a.Resources = append(a.Resources, shared)
		s.View.Apps = append(s.View.Apps, a)
	}
	require.Equal(t, "everything is as wished: nothing is left in clusters but 3 resources on 100 clusters that are meant to stay: "+
		"Deployment/r1-sink, CustomResourceDefinition/widgets.example.com, Deployment/r1-web", explain.Of(s).Summary)
}

// TestWhatATerminateLeavesIsNamed: what is another's by now is no deployment's, and is there.
func TestWhatATerminateLeavesIsNamed(t *testing.T) {
	s := of(domain.Terminated, domain.ContextTerminated)
	s.Run.Operation = domain.OpTerminate
	s.View.Apps = []view.App{app("sink", 3, func(i int) view.Cluster {
		c := view.Cluster{Connectivity: domain.ConnectivityAvailable, Marks: domain.DecodeMarks("3D")}
		if i < 2 {
			c.Warnings = []domain.Note{{Index: 0, Message: "left in the cluster: it no longer carries the label emco/deployment-id"}}
		}
		return c
	})}
	e := explain.Of(s)
	require.True(t, e.AsWished)
	require.Equal(t, "everything is as wished: nothing is left in clusters; the warnings tell of 1 resource on 2 clusters: ConfigMap/r1-sink", e.Summary)
	require.Equal(t, []string{"sink ConfigMap/r1-sink on 2 clusters: left in the cluster: it no longer carries the label emco/deployment-id"}, e.Warnings)
}

// TestABindingIsHeldToItsRole: a Role is in the namespace of the logical cloud where it names none, and no ClusterRole.
func TestABindingIsHeldToItsRole(t *testing.T) {
	type resource struct{ kind, namespace string }
	for name, c := range map[string]struct {
		roles   []resource // named r1, all of them refused
		binding resource   // of r1
		of      int        // the one of the roles whose reason it has, -1 for one of its own
	}{
		"the role says it":                   {[]resource{{"Role", "demo"}}, resource{"RoleBinding", ""}, 0},
		"the binding says it":                {[]resource{{"Role", ""}}, resource{"RoleBinding", "demo"}, 0},
		"neither says it":                    {[]resource{{"Role", ""}}, resource{"RoleBinding", ""}, 0},
		"another namespace":                  {[]resource{{"Role", ""}}, resource{"RoleBinding", "b"}, -1},
		"of all namespaces":                  {[]resource{{"Role", ""}}, resource{"ClusterRoleBinding", ""}, -1},
		"a ClusterRole":                      {[]resource{{"ClusterRole", ""}}, resource{"RoleBinding", "b"}, 0},
		"a ClusterRole before a Role":        {[]resource{{"ClusterRole", ""}, {"Role", ""}}, resource{"ClusterRoleBinding", ""}, 0},
		"a Role rather than the ClusterRole": {[]resource{{"Role", ""}, {"ClusterRole", ""}}, resource{"RoleBinding", ""}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := of(domain.Instantiated, domain.ContextInstantiateFailed, domain.OpUpdate, domain.OpTerminate)
			s.View.Namespace = "demo"
			sink := app("sink", 1, func(int) view.Cluster {
				all := view.Cluster{Connectivity: domain.ConnectivityAvailable}
				for i := range c.roles {
					all.Marks = append(all.Marks, domain.MarkRefused)
					all.Notes = append(all.Notes, domain.Note{Index: i, Message: "refused, role " + string(rune('a'+i))})
				}
				all.Marks = append(all.Marks, domain.MarkRefused)
				all.Notes = append(all.Notes, domain.Note{
					Index: len(c.roles), Message: strings.ToLower(c.binding.kind) + `s.rbac.authorization.k8s.io "r1" not found`,
				})
				return all
			})
			sink.Resources = nil
			for _, r := range append(c.roles, c.binding) {
				sink.Resources = append(sink.Resources, plan.ResourceID{
					Group: "rbac.authorization.k8s.io", Version: "v1", Kind: r.kind, Namespace: r.namespace, Name: "r1",
				})
			}
			s.View.Apps = []view.App{sink}
			got := -1
			reasons := explain.Of(s).Reasons
			for _, r := range reasons {
				if r.Resources == 2 {
					got = int(r.Error[len(r.Error)-1] - 'a')
				}
			}
			require.Equal(t, c.of, got, "%+v", reasons)
		})
	}
}
