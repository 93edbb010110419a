package crd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/deploy/crd"
	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/combined"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/view"
)

func TestMain(m *testing.M) { os.Exit(kubetest.Main(m)) }

// server is an API server, as kubectl speaks to it.
type server struct {
	*testing.T
	http *http.Client
	base string
}

func (s server) call(method, path, accept string, body []byte, want int) []byte {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.base+path, bytes.NewReader(body))
	require.NoError(s, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", accept)
	answer, err := s.http.Do(r)
	require.NoError(s, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	require.NoError(s, err)
	require.Equal(s, want, answer.StatusCode, "%s %s: %s", method, path, data)
	return data
}

// TestWhatIsAnsweredCanBePutIntoAnAPIServer: it takes collectors and what is combined by them to the last member, and kubectl's
// five columns show of what that is.
func TestWhatIsAnsweredCanBePutIntoAnAPIServer(t *testing.T) {
	kubeconfig := kubetest.Kubeconfig(t)
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	require.NoError(t, err)
	transport, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	s := server{t, transport, strings.TrimSuffix(config.Host, "/")}
	for _, d := range crd.KubeStellar() {
		defined := kubetest.Define(t, client, d.Manifest)
		require.Equal(t, d.Name, defined.Resource+"."+defined.Group)
	}
	const group = "/apis/control.kubestellar.io/v1alpha1"
	const strict = "?fieldValidation=Strict&fieldManager=test"

	collector := domain.StatusCollectors.New().(*domain.StatusCollector)
	collector.APIVersion, collector.Kind, collector.Metadata.Name = domain.CollectorAPIVersion, domain.CollectorKind, kubetest.Name("collector")
	limit := 5
	collector.Spec = domain.StatusCollectorSpec{
		Filter: "true", Limit: &limit,
		Select: []domain.NamedExpression{
			{Name: "wec", Def: "inventory.name"}, {Name: "obj", Def: "obj"}, {Name: "list", Def: "[1, 'a', [true]]"}, {Name: "n", Def: "1.5"},
			{Name: "b", Def: "true"}, {Name: "bad", Def: "1 / (size(inventory.name) - 1)"}, {Name: "typo", Def: "returned.status.x"},
		},
		OrderBy: []domain.ColumnOrder{{Column: "wec", Descending: true}},
	}
	sums := domain.StatusCollectorSpec{CombinedFields: []domain.NamedAggregator{{Name: "sum", Type: domain.AggregatorSum, Subject: "inventory.name"}}}
	data, err := json.Marshal(collector)
	require.NoError(t, err)
	s.call(http.MethodPost, group+"/statuscollectors"+strict, "application/json", data, http.StatusCreated)

	namespace := kubetest.Name("tables")
	for _, name := range []string{namespace, combined.NoNamespace} {
		kubetest.MakeNamespace(t, client, name)
	}
	items := documents(t, namespace, collector.Metadata.Name, &collector.Spec, &sums)
	require.Len(t, items, 3)
	want := map[string]string{}
	for _, item := range items {
		data, err := json.Marshal(item)
		require.NoError(t, err)
		for _, member := range []string{"rowErrors", "aggregationErrors", "unconfirmed", `"object":`, `"array":`, `"float":`, `"bool":`} {
			require.Contains(t, string(data), member)
		}
		path := fmt.Sprintf("%s/namespaces/%s/combinedstatuses", group, item.Metadata.Namespace)
		s.call(http.MethodPost, path+strict, "application/json", data, http.StatusCreated)
		stored := s.call(http.MethodGet, path+"/"+item.Metadata.Name, "application/json", nil, http.StatusOK)
		var sent, got map[string]any
		require.NoError(t, json.Unmarshal(data, &sent))
		require.NoError(t, json.Unmarshal(stored, &got))
		require.Equal(t, sent["results"], got["results"])
		require.Equal(t, sent["inputs"], got["inputs"])
		l := item.Metadata.Labels
		want[item.Metadata.Name] = fmt.Sprint([]any{
			l["status.kubestellar.io/api-group"], l["status.kubestellar.io/resource"], l["status.kubestellar.io/namespace"], l["status.kubestellar.io/name"],
			l["status.kubestellar.io/binding-policy"],
		})
	}
	require.Contains(t, want[items[0].Metadata.Name], "[apps deployments "+namespace+" web dig]")

	var table struct {
		ColumnDefinitions []struct{ Name string }
		Rows              []struct{ Cells []any }
	}
	for _, in := range []string{namespace, combined.NoNamespace} {
		answer := s.call(http.MethodGet, group+"/namespaces/"+in+"/combinedstatuses", "application/json;as=Table;v=v1;g=meta.k8s.io", nil, http.StatusOK)
		require.NoError(t, json.Unmarshal(answer, &table))
		var columns []string
		for _, c := range table.ColumnDefinitions {
			columns = append(columns, c.Name)
		}
		require.Equal(t, []string{"Name", "SUBJECT_GROUP", "SUBJECT_RSC", "SUBJECT_NS", "SUBJECT_NAME", "BINDINGPOLICY"}, columns)
		for _, r := range table.Rows {
			require.Equal(t, want[r.Cells[0].(string)], fmt.Sprint(r.Cells[1:]))
			delete(want, r.Cells[0].(string))
		}
	}
	require.Empty(t, want)
}

// documents are those of a Deployment, of a ClusterRole and of their app together, on a cluster that has not reported.
func documents(t *testing.T, namespace, name string, specs ...*domain.StatusCollectorSpec) []*combined.CombinedStatus {
	t.Helper()
	b := &plan.Bundle{App: "web", Resources: []plan.Resource{
		kubetest.Resource(t, 0, []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":3}}`)),
		kubetest.Resource(t, 0, []byte(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"system:web"},"rules":[]}`)),
	}}
	a := plan.App{Name: "web", Targets: []plan.Target{{ClusterName: domain.ClusterName{Provider: "cp", Name: "a"}}}}
	for _, r := range b.Resources {
		a.Resources = append(a.Resources, r.ResourceID)
	}
	g := &combined.Group{
		Key: "projects/p/composite-apps/c/v1/deployment-intent-groups/dig", Status: domain.ContextInstantiated,
		Plan: &plan.Plan{ContextID: "1", Namespace: namespace, Apps: []plan.App{a}}, Bundles: map[string]*plan.Bundle{"web": b},
		Mask: func(m json.RawMessage) json.RawMessage { return m },
	}
	collectors := map[string]combined.Collector{}
	var names []string
	for i, spec := range specs {
		c := combined.Collector{Name: fmt.Sprint(name, i)}
		var err error
		c.Program, err = combine.Compile(c.Name, spec)
		require.NoError(t, err)
		collectors[c.Name], names = c, append(names, c.Name)
	}
	g.Intents = []*domain.StatusIntent{{Spec: domain.StatusIntentSpec{StatusCollectors: names, Together: true}}}
	set, err := combined.NewSet(t.Context(), g, combined.Filter{}, collectors)
	require.NoError(t, err)
	source := &view.Source{ContextID: "1", Status: g.Status, Apps: []view.App{{
		Name: "web", Resources: a.Resources, Clusters: []view.Cluster{{ClusterName: a.Targets[0].ClusterName, Marks: domain.DecodeMarks("2A")}},
	}}, Observations: func(string, []domain.ClusterName) iter.Seq2[*view.Observation, error] {
		return func(func(*view.Observation, error) bool) {}
	}}
	require.NoError(t, set.Evaluate(t.Context(), source))
	return set.CombinedStatuses().Items
}
