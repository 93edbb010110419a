package vary_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/vary"
)

const (
	nfn      = "k8s.plugin.opnfv.org/nfn-network"
	networks = "k8s.v1.cni.cncf.io/networks"

	attached = `[{"name":"ovn-networkobj","namespace":"default","cni-args":null}]`
	one      = `{"type":"ovn4nfv","interface":[{"interface":"eth1","name":"net-a","defaultGateway":"false","ipAddress":"192.168.10.3"}]}`
)

// resource is one of a manifest.
func resource(t *testing.T, manifest string) plan.Resource {
	t.Helper()
	var o struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
	}
	require.NoError(t, json.Unmarshal([]byte(manifest), &o), manifest)
	group, version, found := strings.Cut(o.APIVersion, "/")
	if !found {
		group, version = "", o.APIVersion
	}
	return plan.Resource{ResourceID: plan.ResourceID{Group: group, Version: version, Kind: o.Kind, Name: o.Metadata.Name}, Manifest: json.RawMessage(manifest)}
}

func an(name, network, address string) domain.InterfaceIntent {
	return domain.InterfaceIntent{
		Metadata: domain.Metadata{Name: "intent-" + name},
		Spec:     domain.InterfaceIntentSpec{Interface: name, Name: network, DefaultGateway: domain.False, IPAddress: address},
	}
}

func intent(kind, name string, interfaces ...domain.InterfaceIntent) *vary.OVN {
	return &vary.OVN{Name: "vfw", Workloads: []vary.Workload{{
		Name: "w", Spec: domain.WorkloadIntentSpec{App: "web", WorkloadResource: name, Type: kind}, Interfaces: interfaces,
	}}}
}

func cluster(name string, pairs ...map[string]string) *vary.Cluster {
	c := &vary.Cluster{ClusterName: domain.ClusterName{Provider: "p", Name: name}, Networks: map[string]bool{"net-a": true}, Applied: true}
	if pairs != nil {
		c.Pairs = []domain.KVSpec{{KV: []map[string]string{{"other": "x"}}}, {KV: pairs}}
	}
	return c
}

func TestInterfacesAreAnnotated(t *testing.T) {
	pods := func(annotations string) string {
		return `{"metadata":{` + annotations + `"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","big":12345678901234567890.0}]}}`
	}
	for name, c := range map[string]struct {
		kind, manifest string
		is             string // the manifest that comes of it; %s where the annotations are
		was            string // annotations of the pods before
		nfn, networks  string
	}{
		"a Deployment": {
			kind:     "Deployment",
			manifest: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"spec":{"replicas":1,"odd":{"<":"&"},"template":%s}}`,
		},
		"a Pod":                    {kind: "Pod", manifest: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x",%s},"spec":{}}`},
		"a CronJob":                {kind: "CronJob", manifest: `{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"x"},"spec":{"jobTemplate":{"spec":{"template":%s}}}}`},
		"an old CronJob":           {kind: "CronJob", manifest: `{"apiVersion":"batch/v1beta1","kind":"CronJob","metadata":{"name":"x"},"spec":{"jobTemplate":{"spec":{"template":%s}}}}`},
		"a kind that nobody knows": {kind: "VirtualMachine", manifest: `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"x"},"spec":{"running":true,"template":%s}}`},
		"a CronJob of somebody else's": {
			kind: "CronJob", manifest: `{"apiVersion":"example.com/v1","kind":"CronJob","metadata":{"name":"x"},"spec":{"template":%s}}`,
		},
		"networks in JSON stay": {
			kind: "Job", manifest: `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"x"},"spec":{"template":%s}}`,
			was:      networks + `=[{"name": "mine","ips":["10.0.0.1"]}]`,
			networks: `[{"name":"mine","ips":["10.0.0.1"]},{"name":"ovn-networkobj","namespace":"default","cni-args":null}]`,
		},
		"networks in words become JSON": {
			kind: "Job", manifest: `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"x"},"spec":{"template":%s}}`,
			was:      networks + `=ns/mine@eth5, theirs`,
			networks: `[{"name":"mine","namespace":"ns","interface":"eth5","cni-args":null},{"name":"theirs","cni-args":null},{"name":"ovn-networkobj","namespace":"default","cni-args":null}]`,
		},
		"what is attached is not attached again": {
			kind: "Job", manifest: `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"x"},"spec":{"template":%s}}`,
			was: networks + `=kube-system/ovn-networkobj`, networks: `[{"name":"ovn-networkobj","namespace":"kube-system","cni-args":null}]`,
		},
		"an interface of that name and network is replaced, others stay": {
			kind: "Job", manifest: `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"x"},"spec":{"template":%s}}`,
			was: nfn + `={"type":"x","interface":[{"interface":"eth1","name":"net-b"},{"interface":"eth1","name":"net-a","macAddress":7}]}`,
			nfn: `{"type":"ovn4nfv","interface":[{"interface":"eth1","name":"net-b"},{"interface":"eth1","name":"net-a","defaultGateway":"false","ipAddress":"192.168.10.3"}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			annotated := func(values map[string]string) string {
				text, err := json.Marshal(values)
				require.NoError(t, err)
				inner := `"annotations":` + string(text)
				if c.kind == "Pod" {
					return fmt.Sprintf(c.manifest, inner)
				}
				return fmt.Sprintf(c.manifest, pods(inner+","))
			}
			was := map[string]string{"mine": "stays"}
			if key, value, found := strings.Cut(c.was, "="); found {
				was[key] = value
			}
			want := map[string]string{"mine": "stays", nfn: one, networks: attached}
			if c.nfn != "" {
				want[nfn] = c.nfn
			}
			if c.networks != "" {
				want[networks] = c.networks
			}
			app := &vary.App{Name: "web", Resources: []plan.Resource{
				resource(t, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"x"}}`), resource(t, annotated(was)),
			}, Clusters: []*vary.Cluster{cluster("c1")}}
			intents := []vary.Intent{intent(c.kind, "x", an("eth1", "net-a", "192.168.10.3"))}
			got, err := vary.Apply(intents, app)
			require.NoError(t, err)
			require.Empty(t, got.Warnings)
			require.Empty(t, got.Variants)
			require.Equal(t, app.Resources[0], got.Bundle.Resources[0])
			require.JSONEq(t, annotated(want), string(got.Bundle.Resources[1].Manifest))
			require.NotContains(t, string(got.Bundle.Resources[1].Manifest), `\u003c`)
			if strings.Contains(c.manifest, "template") {
				require.Contains(t, string(got.Bundle.Resources[1].Manifest), "12345678901234567890.0", "to the digit")
			}
			require.Equal(t, []plan.Effect{
				{Resource: 1, What: "annotation " + nfn, By: "ovnaction intent vfw"},
				{Resource: 1, What: "annotation " + networks, By: "ovnaction intent vfw"},
			}, got.Effects)
			again, err := vary.Apply(intents, &vary.App{Name: "web", Resources: got.Bundle.Resources, Clusters: app.Clusters})
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(got.Bundle, again.Bundle), "twice is once")
		})
	}
}

func TestPairsOfAClusterDecideWhetherNetworksAreAttached(t *testing.T) {
	app := &vary.App{Name: "web", Resources: []plan.Resource{
		resource(t, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"spec":{"template":{}}}`),
	}}
	kv := func(key, value string) map[string]string { return map[string]string{key: value} }
	cases := []struct {
		name     string
		cluster  *vary.Cluster
		attached bool
	}{
		{"nothing said", cluster("c0"), true},
		{"multus", cluster("c1", kv("CNI-Networking-Multi-CNI-Wrapper", "Multus")), true},
		{"another wrapper", cluster("c2", kv("CNI-Networking-Multi-CNI-Wrapper", "genie")), false},
		{"Nodus for all", cluster("c3", kv("CNI-Networking-Nodus-CNI-For-all-interfaces", "t")), false},
		{"Nodus not for all", cluster("c4", kv("CNI-Networking-Nodus-CNI-For-all-interfaces", "0"), kv("CNI-Networking-Multi-CNI-Wrapper", "multus")), true},
		{"a key that nobody reads", cluster("c5", kv("CNI-Networking-Multi-VM-CNI-Wrapper", "genie")), true},
	}
	for _, c := range cases {
		app.Clusters = append(app.Clusters, c.cluster)
	}
	got, err := vary.Apply([]vary.Intent{intent("Deployment", "x", an("eth1", "net-a", ""))}, app)
	require.NoError(t, err)
	require.Len(t, got.Variants, 1, "clusters that get the same share it")
	for i, c := range cases {
		b := got.Bundle
		if got.Of[i] > 0 {
			b = got.Variants[got.Of[i]-1].Overlay.On(b)
		}
		require.Equal(t, c.attached, strings.Contains(string(b.Resources[0].Manifest), networks), c.name)
		require.Contains(t, string(b.Resources[0].Manifest), nfn, c.name)
	}
	require.Len(t, got.Effects, 2)
	require.Len(t, got.Variants[0].Effects, 1)
}

func TestWhatCannotBeDoneIsRefused(t *testing.T) {
	resources := []plan.Resource{
		resource(t, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"r1-web"},"spec":{"replicas":3,"template":{"metadata":{"annotations":{"`+networks+`":"[{"}}}}}`),
		resource(t, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"r1-web"}}`),
		resource(t, `{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"odd"},"spec":{"template":{"metadata":7}}}`),
		resource(t, `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"job"},"spec":{"template":{"metadata":{"annotations":{"`+networks+`":[{"name":"mine"}]}}}}}`),
	}
	for name, c := range map[string]struct {
		step *vary.OVN
		want string
	}{
		"a workload that is not there": {
			intent("Deployment", "web", an("eth1", "net-a", "")),
			`ovnaction intent vfw, workload intent "w": app "web": there is no Deployment "web" (it has: Deployment r1-web, DaemonSet odd, Job job)`,
		},
		"a kind in other letters": {intent("deployment", "r1-web", an("eth1", "net-a", "")), `there is no deployment "r1-web"`},
		"a kind without pods":     {intent("Service", "r1-web", an("eth1", "net-a", "")), `Service "r1-web" has no pods`},
		"an annotation that is no list": {
			intent("Deployment", "r1-web", an("eth1", "net-a", "")),
			`Deployment "r1-web": the annotation ` + networks + ` of its pods is not one that can be added to: unexpected end of JSON input (cluster p+c1)`,
		},
		"an annotation that is a list in YAML": {
			intent("Job", "job", an("eth1", "net-a", "")), `Job "job": the annotation ` + networks + ` of its pods is no string`,
		},
		"pods without metadata": {intent("DaemonSet", "odd", an("eth1", "net-a", "")), `DaemonSet "odd": metadata of its pods is not an object`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := vary.Apply([]vary.Intent{c.step}, &vary.App{Name: "web", Resources: resources, Clusters: []*vary.Cluster{cluster("c1")}})
			require.True(t, fail.Is(err, fail.Malformed), "%v", err)
			require.Contains(t, fail.TextOf(err), c.want)
		})
	}
	_, err := intent("Deployment", "x", an("eth1", "net-a", "")).Apps([]string{"sink", "firewall"})
	require.True(t, fail.Is(err, fail.Malformed), "%v", err)
	require.Contains(t, fail.TextOf(err), `app "web": the composite app has no such app (it has: sink, firewall)`)
}

func TestWhatIsOddIsAWarning(t *testing.T) {
	resources := []plan.Resource{
		resource(t, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"spec":{"replicas":3,"template":{}}}`),
	}
	step := intent("Deployment", "x", an("eth1", "net-a", "10.0.0.1"), an("eth2", "net-z", ""))
	got, err := vary.Apply([]vary.Intent{step}, &vary.App{Name: "web", Resources: resources, Clusters: []*vary.Cluster{cluster("c1"), cluster("c2")}})
	require.NoError(t, err)
	require.Equal(t, []string{
		`ovnaction intent vfw, workload intent "w", interface "intent-eth2": no cluster of app "web" has a network "net-z"`,
		`ovnaction intent vfw, workload intent "w", interface "intent-eth1": Deployment "x" has 3 replicas, which all get the address 10.0.0.1`,
	}, got.Warnings)
	lacks, waits := cluster("c2"), cluster("c3")
	lacks.Networks, waits.Applied = nil, false
	got, err = vary.Apply([]vary.Intent{intent("Deployment", "x", an("eth1", "net-a", ""))},
		&vary.App{Name: "web", Resources: resources, Clusters: []*vary.Cluster{cluster("c1"), lacks, waits}})
	require.NoError(t, err)
	require.Equal(t, []string{
		`ovnaction intent vfw, workload intent "w", interface "intent-eth1": 1 of 3 clusters of app "web" have no network "net-a": p+c2`,
		`ovnaction intent vfw, workload intent "w", interface "intent-eth1": network "net-a" is not applied on 1 of 3 clusters of app "web": p+c3`,
	}, got.Warnings)
	for kind, manifest := range map[string]string{
		"Job":     `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"x"},"spec":{"parallelism":2,"template":{}}}`,
		"CronJob": `{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"x"},"spec":{"jobTemplate":{"spec":{"parallelism":2,"template":{}}}}}`,
	} {
		jobs := &vary.App{Name: "web", Resources: []plan.Resource{resource(t, manifest)}, Clusters: []*vary.Cluster{cluster("c1")}}
		got, err := vary.Apply([]vary.Intent{intent(kind, "x", an("eth1", "net-a", "10.0.0.1"))}, jobs)
		require.NoError(t, err)
		require.Equal(t, []string{fmt.Sprintf(
			`ovnaction intent vfw, workload intent "w", interface "intent-eth1": %s "x" has 2 pods at a time, which all get the address 10.0.0.1`, kind,
		)}, got.Warnings)
	}
	warnings, err := intent("Deployment", "x").Apps(nil)
	require.NoError(t, err)
	require.Equal(t, []string{`ovnaction intent vfw, workload intent "w" has no interfaces: nothing is done with Deployment "x"`}, warnings)
}
