package status_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/view"
)

// reported gives observations as a store would: one after the other, only of the clusters asked for.
type reported map[string][]*view.Observation // by app, in the order of clusters

func (r reported) observations(app string, clusters []domain.ClusterName) iter.Seq2[*view.Observation, error] {
	return func(yield func(*view.Observation, error) bool) {
		for _, o := range r[app] {
			if (clusters == nil || asked(clusters, o.ClusterName)) && !yield(o, nil) {
				return
			}
		}
	}
}

func asked(clusters []domain.ClusterName, c domain.ClusterName) bool {
	for _, name := range clusters {
		if name == c {
			return true
		}
	}
	return false
}

// object is a resource of an observation with the JSON that arrived.
type object struct {
	view.ObservedResource
	json string
}

func observation(cluster string, objects ...object) *view.Observation {
	o := &view.Observation{
		ClusterName: domain.ClusterName{Provider: "vfw-cluster-provider", Name: cluster}, Seen: true, Connected: true,
	}
	for _, obj := range objects {
		o.Resources = append(o.Resources, obj.ObservedResource)
	}
	o.Object = func(i int) (json.RawMessage, error) { return json.RawMessage(objects[i].json), nil }
	return o
}

// was cuts an observation's cluster off.
func was(o *view.Observation, lastSeen time.Time, reason string) *view.Observation {
	o.Connected, o.LastSeen, o.Reason = false, lastSeen, reason
	return o
}

// decoded is a resource as its JSON says.
func decoded(t *testing.T, data string) object {
	t.Helper()
	var o struct {
		APIVersion string
		Kind       string
		Metadata   struct{ Name, Namespace string }
	}
	require.NoError(t, json.Unmarshal([]byte(data), &o))
	gv, err := schema.ParseGroupVersion(o.APIVersion)
	require.NoError(t, err)
	return object{json: data, ObservedResource: view.ObservedResource{ResourceID: plan.ResourceID{
		Group: gv.Group, Version: gv.Version, Kind: o.Kind, Namespace: o.Metadata.Namespace, Name: o.Metadata.Name,
	}}}
}

// judged is a resource that was judged when it arrived.
func judged(t *testing.T, data string, s readiness.State) object {
	t.Helper()
	o := decoded(t, data)
	o.State = s
	return o
}

// sinkConfigMap is the object of EMCO's example, which its documentation prints with a line break in a name.
func sinkConfigMap(uid string, version int, created string) string {
	return fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"sink-configmap","namespace":"default",`+
		`"selfLink":"/api/v1/namespaces/default/configmaps/sink-configmap","uid":%q,"resourceVersion":"%d",`+
		`"creationTimestamp":%q,"labels":{"emco/deployment-id":"2755581958183303505-sink"},"annotations":{`+
		`"kubectl.kubernetes.io/last-applied-configuration":"{\"apiVersion\":\"v1\",\"data\":{\"protected_net_gw\":`+
		`\"192.168.20.100\",\"protected_private_net_cidr\":\"192.168.10.0/24\"},\"kind\":\"ConfigMap\",\"metadata\":`+
		`{\"annotations\":{},\"labels\":{\"emco/deployment-id\":\"2755581958183303505-sink\"},\"name\":`+
		`\"sink-configmap\",\"namespace\":\"default\"}}\n"}}}`, uid, version, created)
}

func deployment(name string, ready int) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q,"namespace":"default","generation":1},`+
		`"spec":{"replicas":1},"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"readyReplicas":%d,`+
		`"availableReplicas":%d,"conditions":[{"type":"Available","status":"True"}]}}`, name, ready, ready)
}

func pod(name string, ready bool) string {
	condition := map[bool]string{true: "True", false: "False"}[ready]
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"default"},`+
		`"status":{"phase":"Running","conditions":[{"type":"Ready","status":%q}]}}`, name, condition)
}

func service(name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":%q,"namespace":"default"},`+
		`"spec":{"type":"ClusterIP","clusterIP":"10.96.0.7"},"status":{"loadBalancer":{}}}`, name)
}

// vfwReported is what the clusters of EMCO's virtual firewall report when all is well.
func vfwReported(t *testing.T) reported {
	d := func(data string) object { return decoded(t, data) }
	return reported{
		"packetgen": {
			observation("edge01", d(deployment("fw0-packetgen", 1)), d(service("packetgen-service")), d(pod("fw0-packetgen-5fd8b6db69-x55vx", true))),
			observation("edge02", d(pod("fw0-packetgen-5fd8b6db69-mz8fd", true)), d(service("packetgen-service")), d(deployment("fw0-packetgen", 1))),
		},
		"firewall": {
			observation("edge01", d(deployment("fw0-firewall", 1)), d(pod("fw0-firewall-76bb4d9cd4-9q2cx", true))),
			observation("edge02", d(deployment("fw0-firewall", 1)), d(pod("fw0-firewall-76bb4d9cd4-kr7wd", true))),
		},
		"sink": {
			observation("edge01", d(sinkConfigMap("07f9b01f-c26d-462a-8eee-8e4f4553dda5", 152135, "2020-08-21T05:39:34Z")),
				d(deployment("fw0-sink", 1)), d(pod("fw0-sink-8b7557f65-w2x7b", true)), d(service("sink-service"))),
			observation("edge02", d(sinkConfigMap("fb9d25ed-5e51-4450-b0d4-7ceb1ec5daae", 120014, "2020-08-21T05:39:35Z")),
				d(deployment("fw0-sink", 1)), d(pod("fw0-sink-8b7557f65-ppkfp", true)), d(service("sink-service"))),
		},
	}
}

// cutOff is when edge02 was last heard of, in another zone and with more digits than documents show.
var cutOff = time.Date(2020, 8, 21, 8, 12, 30, 250_999_999, time.FixedZone("", 2*60*60))

func init() {
	withReports := func(t *testing.T, r reported) status.Source {
		s := vfw(t, secondContext, domain.ContextInstantiated, vfwTwice, domain.MarkApplied)
		s.Namespace, s.Observations = "default", r.observations
		return s
	}
	// Everything is there and ready.
	sources["vfw-reported"] = func(t *testing.T) status.Source { return withReports(t, vfwReported(t)) }
	// One Service is missing and one Deployment has no Pod that is ready; both judged on arrival.
	sources["vfw-reported-short"] = func(t *testing.T) status.Source {
		r := vfwReported(t)
		r["sink"][0] = observation("edge01",
			decoded(t, sinkConfigMap("07f9b01f-c26d-462a-8eee-8e4f4553dda5", 152135, "2020-08-21T05:39:34Z")),
			judged(t, deployment("fw0-sink", 0), readiness.State{Status: readiness.NotReady, Message: "Available: 0/1"}),
			judged(t, pod("fw0-sink-8b7557f65-w2x7b", false), readiness.State{Status: readiness.NotReady, Message: "Containers in CrashLoop state: sink"}),
			decoded(t, pod("fw0-sink-8b7557f65-b8lvm", true)))
		return withReports(t, r)
	}
	// The Service of edge01 is a hook that is not run, and that of edge02 one that has done its work.
	sources["vfw-hooks"] = func(t *testing.T) status.Source {
		r := vfwReported(t)
		for i, cluster := range []string{"edge01", "edge02"} {
			r["sink"][i] = observation(cluster, decoded(t, sinkConfigMap("07f9b01f-c26d-462a-8eee-8e4f4553dda5", 152135, "2020-08-21T05:39:34Z")),
				judged(t, deployment("fw0-sink", 1), readiness.State{Status: readiness.Ready}))
		}
		s := withReports(t, r)
		s.Apps[2].Clusters[0].Marks, s.Apps[2].Clusters[1].Marks = marks("AhA"), marks("ADA")
		return s
	}
	// edge02 cannot be heard any more, and of one app there never was a report from it.
	sources["vfw-cut-off"] = func(t *testing.T) status.Source {
		r := vfwReported(t)
		was(r["packetgen"][1], cutOff, "")
		r["firewall"][1] = &view.Observation{
			ClusterName: r["firewall"][1].ClusterName, LastSeen: cutOff, Reason: "dial tcp 192.0.2.7:6443: i/o timeout",
		}
		r["sink"][1] = was(observation("edge02", decoded(t, pod("fw0-sink-8b7557f65-ppkfp", false)), decoded(t, deployment("fw0-sink", 1))),
			cutOff, "dial tcp 192.0.2.7:6443: i/o timeout")
		return withReports(t, r)
	}
	// All is heard but Deployments in edge01 of the sink, and of its Services, of which nothing was ever heard.
	sources["vfw-unheard"] = func(t *testing.T) status.Source {
		r := vfwReported(t)
		o := r["sink"][0]
		o.Kinds = []schema.GroupKind{{Kind: "ConfigMap"}, {Kind: "Pod"}, {Group: "apps", Kind: "Deployment"}}
		o.Unheard = []view.UnheardKind{
			{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Since: cutOff, Reason: "deployments.apps is forbidden"},
			{GroupKind: schema.GroupKind{Kind: "Service"}, Reason: "services is forbidden"},
		}
		o.Resources = o.Resources[:3] // without the Service
		return withReports(t, r)
	}
	// No report has arrived: edge01 is heard but has no agent, edge02 was never tried.
	sources["vfw-no-report"] = func(t *testing.T) status.Source {
		r := reported{}
		for _, app := range []string{"firewall", "packetgen", "sink"} {
			o := observation("edge01")
			o.Seen, o.Reason = false, "no ResourceBundleState has arrived; is the agent installed?"
			r[app] = append(r[app], o)
		}
		return withReports(t, r)
	}
	sources["vfw-reported-approved"] = func(t *testing.T) status.Source {
		s := sources["vfw-approved"](t)
		s.Observations = vfwReported(t).observations
		return s
	}
	sources["web-reported"] = webReported
	sources["web-emco"] = webEMCO
}

// webEMCO is what an EMCO 22.x was seen to answer for: its agent does not report Secrets.
func webEMCO(t *testing.T) status.Source {
	s := web(t)
	core := func(kind, name string) plan.ResourceID { return plan.ResourceID{Version: "v1", Kind: kind, Name: name} }
	o := observation("k1",
		decoded(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"r1-cm","namespace":"default"}}`),
		decoded(t, deployment("r1-web", 0)), decoded(t, service("r1-svc")))
	o.Provider = "kprov"
	s.Namespace, s.Status = "default", domain.ContextInstantiated
	s.Apps = []view.App{{
		Name: "web",
		Resources: []plan.ResourceID{
			core("Secret", "r1-sec"), core("ConfigMap", "r1-cm"), core("Service", "r1-svc"),
			{Group: "apps", Version: "v1", Kind: "Deployment", Name: "r1-web"},
		},
		Clusters: []view.Cluster{{ClusterName: o.ClusterName, Connectivity: domain.ConnectivityAvailable, Marks: marks("AAAA")}},
	}}
	s.Observations = reported{"web": {o}}.observations
	return s
}

// webReported has, by the agents of EMCO 22.x, of Drover and of the seeds: kinds that are not watched, the
// same names in several namespaces, another version than the manifest's, and a kind with a user's rule.
func webReported(t *testing.T) status.Source {
	s := web(t)
	s.Namespace, s.Rules = "ns1", readiness.Compile(readiness.Rule{
		Name: "knative", Group: "serving.knative.dev", Kind: "Service", Ready: `object.status.url != ""`,
	})
	knative := func(version, state string) object {
		return judged(t, fmt.Sprintf(`{"apiVersion":"serving.knative.dev/%s","kind":"Service","metadata":{"name":"r1","namespace":"ns1"},"status":%s}`, version, state),
			readiness.State{Status: readiness.Ready})
	}
	inNamespace := func(ns string) object {
		o := decoded(t, service("r1"))
		o.Namespace = ns
		return o
	}
	emco := observation("k1", inNamespace("a"), knative("v1", `{}`), decoded(t, pod("r1-0", true)))
	emco.Provider = "kprov"
	drover := observation("k1",
		inNamespace("d"), inNamespace("b"), inNamespace("c"), knative("v1beta1", `{"url":"http://r1"}`),
		decoded(t, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"system:r1<view>"}}`),
		decoded(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"r1","namespace":"ns1"}}`))
	drover.Provider = "lprov"
	drover.Kinds = []schema.GroupKind{
		{Kind: "Secret"}, {Kind: "Service"}, {Group: "serving.knative.dev", Kind: "Service"},
		{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"},
	}
	s.Observations = reported{"web": {emco, drover}}.observations
	return s
}

// TestARuleAndASummary: what a rule does not find may be what an agent has left out.
func TestARuleAndASummary(t *testing.T) {
	s := webReported(t)
	short := decoded(t, `{"apiVersion":"serving.knative.dev/v1","kind":"Service","metadata":{"name":"r1","namespace":"ns1",`+
		`"annotations":{"k8splugin.io/summarised":"true"}},"status":{}}`)
	o := observation("k1", short)
	o.Provider = "kprov"
	s.Observations = reported{"web": {o}}.observations
	var b bytes.Buffer
	require.NoError(t, status.Write(&b, status.Query{Type: status.TypeReady, Output: status.OutputDetail}, s))
	require.Contains(t, b.String(), `"message":"rule knative: no such key: url (by a summary of the object)"`)
}
