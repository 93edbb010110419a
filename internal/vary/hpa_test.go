package vary_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/vary"
)

// needs are those of documents that were made in any order.
func needs(consumer domain.HPAConsumerSpec, resources ...domain.HPAResourceSpec) map[string][]domain.HPANeed {
	i := &domain.HPAIntent{Identity: domain.Identity{Parent: "g"}, Metadata: domain.Metadata{Name: "i"}, Spec: domain.HPAIntentSpec{App: "web"}}
	c := &domain.HPAConsumer{Identity: domain.Identity{Parent: domain.KeyOf(i)}, Metadata: domain.Metadata{Name: "c"}, Spec: consumer}
	var all []*domain.HPAResource
	for n, r := range resources {
		all = append(all, &domain.HPAResource{Identity: domain.Identity{Parent: domain.KeyOf(c)}, Metadata: domain.Metadata{Name: string(rune('a' + n))}, Spec: r})
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return domain.HPANeeds([]*domain.HPAIntent{i}, []*domain.HPAConsumer{c}, all)
}

func some(name string, requests, limits domain.Amount) domain.HPAResourceSpec {
	return domain.HPAResourceSpec{Allocatable: new(true), Resource: domain.HPAResourceName{Name: name, Requests: requests, Limits: limits}}
}

func nodeLabel(key, value string) domain.HPAResourceSpec {
	return domain.HPAResourceSpec{Allocatable: new(false), Resource: domain.HPAResourceName{Key: key, Value: &value}}
}

const web = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"r1-web"},"spec":{"replicas":1,"template":{"spec":{
	"nodeSelector":{"zone":"a"},"x-unknown":1.0,"containers":[{"name":"side"},{"name":"web","resources":{"requests":{"cpu":"1","memory":"1Gi"},"limits":{"cpu":"8"}}}]}}}}`

func TestHPA(t *testing.T) {
	weak := some("memory", "9", "")
	weak.Mandatory = new(false)
	h := func() *vary.HPA {
		return &vary.HPA{Needs: needs(domain.HPAConsumerSpec{Name: "r1-web", Replicas: new(int64(2)), Container: "web"},
			some("cpu", "4", "4"), some("memory", "512", ""), some("intel.com/qat", "1", ""), nodeLabel("a/b", "true"), weak)}
	}
	app := &vary.App{Name: "web", Resources: []plan.Resource{resource(t, web)}, Clusters: []*vary.Cluster{cluster("c")}}
	want := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"r1-web"},"spec":{"replicas":2,"template":{"spec":{
		"nodeSelector":{"zone":"a","a/b":"true"},"x-unknown":1.0,"containers":[{"name":"side"},{"name":"web","resources":{
			"requests":{"cpu":"4","memory":"512000000","intel.com/qat":"1"},"limits":{"cpu":"4","intel.com/qat":"1"}}}]}}}}`
	var first json.RawMessage
	for range 10 {
		once, err := vary.Apply([]vary.Intent{h()}, app)
		require.NoError(t, err)
		require.JSONEq(t, want, string(once.Bundle.Resources[0].Manifest))
		if first == nil {
			first = once.Bundle.Resources[0].Manifest
		}
		require.Equal(t, string(first), string(once.Bundle.Resources[0].Manifest), "the order of documents does not matter")
		twice, err := vary.Apply([]vary.Intent{h(), h()}, app)
		require.NoError(t, err)
		require.Equal(t, once.Bundle, twice.Bundle)
		require.Equal(t, once.Effects, twice.Effects)
		var effects []string
		for _, e := range once.Effects {
			effects = append(effects, e.String())
		}
		require.Equal(t, []string{
			"replicas 2 by hpa intent i", "requests cpu=4 of container web by hpa intent i", "limits cpu=4 of container web by hpa intent i",
			"requests memory=512000000 of container web by hpa intent i", "requests intel.com/qat=1 of container web by hpa intent i",
			"limits intel.com/qat=1 of container web by hpa intent i", "nodeSelector a/b=true by hpa intent i",
		}, effects)
	}
	require.JSONEq(t, web, string(app.Resources[0].Manifest), "the app itself is not changed")
}

// How many pods there are is said where the manifest says it; elsewhere, as of a DaemonSet, it does nothing.
func TestReplicasOfWhatHasNone(t *testing.T) {
	const daemons = `{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"r1-web"},"spec":{"template":{"spec":{"containers":[{"name":"web"}]}}}}`
	of := needs(domain.HPAConsumerSpec{Name: "r1-web", Kind: "DaemonSet", Replicas: new(int64(2)), Container: "web"}, some("cpu", "4", ""), nodeLabel("a", "b"))
	v, err := vary.Apply([]vary.Intent{&vary.HPA{Needs: of}}, &vary.App{Name: "web", Resources: []plan.Resource{resource(t, daemons)}, Clusters: []*vary.Cluster{cluster("c")}})
	require.NoError(t, err)
	require.Equal(t, []string{`hpa intent i, consumer "c": app "web": DaemonSet "r1-web" has no spec.replicas, so that replicas 2 does nothing`}, v.Warnings)
	require.NotContains(t, string(v.Bundle.Resources[0].Manifest), "replicas")
}

func TestHPAThatCannotBe(t *testing.T) {
	container := domain.HPAConsumerSpec{Name: "r1-web", Container: "web"}
	for says, n := range map[string]map[string][]domain.HPANeed{
		`hpa intent i, consumer "c": app "web": there is no Deployment "web" (it has: Deployment r1-web)`:                             needs(domain.HPAConsumerSpec{Name: "web"}, nodeLabel("a", "b")),
		`there is no StatefulSet "r1-web" (it has: Deployment r1-web)`:                                                                needs(domain.HPAConsumerSpec{Name: "r1-web", Kind: "StatefulSet"}, nodeLabel("a", "b")),
		`there is no container "db" in it (it has: side, web)`:                                                                        needs(domain.HPAConsumerSpec{Name: "r1-web", Container: "db"}, some("cpu", "1", "")),
		`container "web": its limit of cpu is less than what is requested`:                                                            needs(container, some("cpu", "9", "")),
		`container "web": of intel.com/qat as much has to be requested as is the limit`:                                               needs(container, some("intel.com/qat", "1", "2")),
		`nodeSelector a is b by hpa intent i, consumer "c", requirement "a", and c by hpa intent i, consumer "c", requirement "b"`:    needs(container, nodeLabel("a", "b"), nodeLabel("a", "c")),
		`container web requests cpu is 2 by hpa intent i, consumer "c", requirement "a", and 3 by hpa intent i, consumer "c", requir`: needs(container, some("cpu", "2", ""), some("cpu", "3", "")),
	} {
		app := &vary.App{Name: "web", Resources: []plan.Resource{resource(t, web)}, Clusters: []*vary.Cluster{cluster("c")}}
		_, err := vary.Apply([]vary.Intent{&vary.HPA{Needs: n}}, app)
		require.Equal(t, fail.Malformed, fail.KindOf(err), says)
		require.Contains(t, fail.TextOf(err), says)
		require.Contains(t, fail.TextOf(err), "(cluster p+c)")
	}
}

// A workload need not be on all clusters: where it is not, that is said of all of them, and it is an error where none has it.
func TestWorkloadsOfSomeClusters(t *testing.T) {
	c1 := domain.ClusterInfo{Scope: domain.ScopeName, ClusterProvider: "p", Cluster: "c01", Mode: domain.ModeAllow}
	added := generic(domain.True, "apps/v1", "Deployment", "r1-web", web, only(c1, everywhere("")))
	ovn := &vary.OVN{Name: "nets", Workloads: []vary.Workload{{
		Name: "w", Spec: domain.WorkloadIntentSpec{App: "web", WorkloadResource: "r1-web", Type: "Deployment"},
		Interfaces: []domain.InterfaceIntent{{Metadata: domain.Metadata{Name: "if"}, Spec: domain.InterfaceIntentSpec{Interface: "eth1", Name: "net"}}},
	}}}
	hpa := &vary.HPA{Needs: needs(domain.HPAConsumerSpec{Name: "r1-web", Container: "web"}, some("cpu", "4", ""), nodeLabel("a/b", "true"))}
	app := &vary.App{Name: "web", Resources: []plan.Resource{resource(t, etcd)}}
	for i := range 25 {
		c := cluster(fmt.Sprintf("c%02d", i))
		c.Networks = map[string]bool{"net": true}
		if i > 12 { // another sort
			c.Pairs = []domain.KVSpec{{KV: []map[string]string{{"CNI-Networking-Multi-CNI-Wrapper": "none"}}}}
		}
		app.Clusters = append(app.Clusters, c)
	}
	v, err := vary.Apply([]vary.Intent{added, ovn, hpa}, app)
	require.NoError(t, err)
	for i, want := range []string{
		`ovnaction intent nets, workload intent "w": app "web": there is no Deployment "r1-web" (it has: StatefulSet etcd) (clusters p+c00, p+c02, p+c03, p+c04`,
		`hpa intent i, consumer "c": app "web": there is no Deployment "r1-web" (it has: StatefulSet etcd) (clusters p+c00, p+c02, p+c03, p+c04`,
	} {
		require.Contains(t, v.Warnings[i], want)
		require.Contains(t, v.Warnings[i], ", p+c20, 4 more)")
	}
	require.Len(t, v.Warnings, 2)
	app.Clusters = app.Clusters[2:4]
	for _, intent := range []vary.Intent{ovn, hpa} {
		_, err = vary.Apply([]vary.Intent{added, intent}, app)
		require.True(t, fail.Is(err, fail.Malformed), "%v", err)
		require.Contains(t, fail.TextOf(err), `there is no Deployment "r1-web" (it has: StatefulSet etcd) (clusters p+c02, p+c03)`)
	}
}

func TestTolerations(t *testing.T) {
	tolerant := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"r1-web"},"spec":{"template":{"spec":{"tolerations":[{"key":"gpu","operator":"Exists","tolerationSeconds":5}]}}}}`
	require.Equal(t, []domain.Toleration{{Key: "gpu", Operator: "Exists"}}, vary.Tolerations([]plan.Resource{resource(t, etcd), resource(t, tolerant)}, "Deployment", "r1-web"))
	require.Empty(t, vary.Tolerations([]plan.Resource{resource(t, web), resource(t, etcd)}, "Deployment", "r1-web"))
	require.Empty(t, vary.Tolerations([]plan.Resource{resource(t, tolerant)}, "StatefulSet", "r1-web"))
}
