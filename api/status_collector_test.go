package api_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// kubeStellars is a manifest of KubeStellar's, as its documentation has it.
const kubeStellars = `# how many are available
---
apiVersion: control.kubestellar.io/v1alpha1
kind: StatusCollector
metadata:
  name: available
  labels: {team: edge}
spec:
  groupBy:
  - name: numAvailable
    def: returned.status.availableReplicas
  combinedFields:
  - name: count
    type: COUNT
  limit: 20
`

// TestKubeStellarsManifestsAreTaken unchanged, as YAML and as JSON, whatever curl says that they are.
func TestKubeStellarsManifestsAreTaken(t *testing.T) {
	w := newWorld(t)
	const all, one = "/v2/status-collectors", "/v2/status-collectors/available"
	want := `{"apiVersion":"control.kubestellar.io/v1alpha1","kind":"StatusCollector",
		"metadata":{"name":"available","labels":{"team":"edge"}},
		"spec":{"groupBy":[{"name":"numAvailable","def":"returned.status.availableReplicas"}],"combinedFields":[{"name":"count","type":"COUNT"}],"limit":20},
		"status":{"observedGeneration":1}}`
	typed := func(media string) map[string]string { return map[string]string{"Content-Type": media} }
	check(t, w.router, []call{
		{name: "YAML", method: "POST", url: all, body: kubeStellars, header: typed("application/yaml"), status: 201, is: want},
		{name: "without an end", method: "PUT", url: one, body: kubeStellars, header: typed("text/yaml; charset=utf-8"), status: 200, is: want},
		{name: "by curl --data-binary", method: "PUT", url: one, body: kubeStellars, header: typed("application/x-www-form-urlencoded"), status: 200, is: want},
		{name: "what is shown may be sent again", method: "PUT", url: one, body: want, status: 200, is: want, answers: map[string]string{"Warning": ""}},
		{name: "what a cluster adds is named", method: "PUT", url: one, body: kubeStellars + "status: {observedGeneration: 7}\nmetadata2: 1\n", header: typed("application/yaml"), status: 200, is: want,
			answers: map[string]string{"Warning": `299 - "unknown field \"metadata2\", did you mean \"metadata\"?"`}},
		{name: "several documents", method: "POST", url: all, body: kubeStellars + kubeStellars, header: typed("application/yaml"), status: 422, contains: []string{"there are several documents"}},
		{name: "a member twice", method: "POST", url: all, body: "metadata: {name: a}\nmetadata: {name: b}\n", header: typed("application/yaml"), status: 422, contains: []string{"Invalid YAML", "already"}},
		{name: "more behind it", method: "POST", url: all, body: "{metadata: {name: a}} {}", header: typed("application/yaml"), status: 422, contains: []string{"Invalid YAML"}},
		{name: "no YAML", method: "POST", url: all, body: "a: [", header: typed("application/yaml"), status: 422, contains: []string{"Invalid YAML"}},
		{name: "no object", method: "POST", url: all, body: "a", header: typed("application/yaml"), status: 422, contains: []string{"body: cannot be string"}},
		{name: "comments alone", method: "POST", url: all, body: "# nothing\n---\n", header: typed("application/yaml"), status: 400, contains: []string{"Empty body"}},
		{name: "text by curl", method: "POST", url: all, body: "a=b", header: typed("application/x-www-form-urlencoded"), status: 415},
		{name: "any document may be YAML", method: "POST", url: "/v2/projects", body: "metadata: {name: yaml}\n", header: typed("application/yaml"), status: 201},
	})
}

// TestNamesOfCollectorsMayBeAsLongAsInKubernetes, also where a status intent names them.
func TestNamesOfCollectorsMayBeAsLongAsInKubernetes(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("a", domain.MaxSubdomain)
	manifest := func(name string) string { return strings.Replace(kubeStellars, "name: available", "name: "+name, 1) }
	yaml := map[string]string{"Content-Type": "application/yaml"}
	check(t, w.router, []call{
		{method: "POST", url: "/v2/status-collectors", body: manifest(long), header: yaml, status: 201},
		{method: "GET", url: "/v2/status-collectors/" + long, status: 200, contains: []string{long}},
		{method: "POST", url: "/v2/status-collectors", body: manifest(long + "a"), header: yaml, status: 400, contains: []string{"metadata.name", "253"}},
	})
	intent := domain.StatusIntent{Metadata: domain.Metadata{Name: "i"}, Spec: domain.StatusIntentSpec{StatusCollectors: []string{domain.FleetCollector + long}}}
	var p fail.Problems
	intent.Validate(&p)
	require.NoError(t, p.Err())
	intent.Spec.StatusCollectors[0] += "a"
	intent.Validate(&p)
	require.Error(t, p.Err())
}

// shownByKubectl is a manifest as `kubectl get -o yaml` shows it.
const shownByKubectl = `apiVersion: control.kubestellar.io/v1alpha1
kind: StatusCollector
metadata:
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: |
      {"apiVersion":"control.kubestellar.io/v1alpha1","kind":"StatusCollector","metadata":{"name":"shown"}}
  creationTimestamp: "2024-11-07T20:15:27Z"
  finalizers: [status.kubestellar.io/collector]
  generation: 3
  managedFields:
  - {apiVersion: control.kubestellar.io/v1alpha1, fieldsType: FieldsV1, fieldsV1: {"f:spec": {}}, manager: kubectl, operation: Update}
  name: shown
  resourceVersion: "1017"
  uid: 4f1c1a6e-8f0c-4b43-9c3c-6d6f2b8a4b1e
spec:
  combinedFields:
  - name: count
    type: COUNT
  limit: 10
status:
  conditions: []
  observedGeneration: 3
`

// TestWhatAClusterAddsIsTakenQuietly, by all that takes a manifest, as strict as it may be; what a user has mistyped is not.
func TestWhatAClusterAddsIsTakenQuietly(t *testing.T) {
	w, _ := newReportingWorld(t)
	inhabit(t, w)
	group := deployment{name: "dig", manifests: []string{deployment3}, on: []reporting{on("a", available(3))}}.deploy(t, w)
	quiet, yaml := map[string]string{"Warning": ""}, map[string]string{"Content-Type": "application/yaml"}
	for i, strict := range []string{"", "?fieldValidation=Strict"} {
		check(t, w.router, []call{
			{name: "the fleet's", method: "PUT", url: "/v2/status-collectors/shown" + strict, body: shownByKubectl, header: yaml, status: []int{201, 200}[i], answers: quiet},
			{name: "a query", method: "POST", url: "/v2/" + string(group) + "/combined-status/query" + strict, body: shownByKubectl, header: yaml, status: 200, answers: quiet,
				contains: []string{`"name":"shown","columnNames":["count"],"rows":[{"columns":[{"type":"Number","float":"1"}]}]`}},
		})
	}
	check(t, w.router, []call{
		{name: "a project's", method: "POST", url: "/v2/projects/proj/status-collectors", body: shownByKubectl, header: yaml, status: 201, answers: quiet},
		{name: "a typing error", method: "POST", url: "/v2/" + string(group) + "/combined-status/query?fieldValidation=Strict", body: shownByKubectl + "tets: {}\n", header: yaml, status: 400,
			contains: []string{`tets: unknown field, did you mean "tests"?`}},
		{name: "a label in the wrong place", method: "PUT", url: "/v2/status-collectors/shown?fieldValidation=Strict", header: yaml, status: 400,
			body: strings.Replace(shownByKubectl, "  generation: 3", "  label: {a: b}", 1), contains: []string{`metadata.label: unknown field, did you mean "metadata.labels"?`}},
	})
}

// TestAnEditCounts: observedGeneration counts the specs, not the writes.
func TestAnEditCounts(t *testing.T) {
	w := newWorld(t)
	put := func(spec, more string) call {
		return call{method: "PUT", url: "/v2/status-collectors/c", body: `{"metadata":{"name":"c"` + more + `},"spec":` + spec + `}`}
	}
	one, other := `{"select":[{"name":"a","def":"1"}]}`, `{"select":[{"name":"a","def":"2"}]}`
	for _, step := range []struct {
		call
		generation int
		status     int
	}{
		{put(one, ""), 1, 201}, {put(one, ""), 1, 200}, {put(one, `,"description":"d"`), 1, 200}, {put(other, ""), 2, 200}, {put(one, ""), 3, 200},
	} {
		step.call.status = step.status
		check(t, w.router, []call{step.call})
		o, err := w.service.Get(t.Context(), domain.StatusCollectors, "status-collectors/c")
		require.NoError(t, err)
		require.EqualValues(t, step.generation, o.(*domain.StatusCollector).Status.ObservedGeneration)
	}
}

// TestCollectorsInUse: an unknown one is 404 with the field, and one that an intent names cannot be deleted.
func TestCollectorsInUse(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	intents := theGroup + "/status-intents"
	body := func(name, collector string) string {
		return `{"metadata":{"name":"` + name + `"},"spec":{"statusCollectors":["fleet/phases","` + collector + `"]}}`
	}
	collector := `{"metadata":{"name":"own"},"spec":{"select":[{"name":"a","def":"1"}]}}`
	check(t, w.router, []call{
		{name: "one of the project's that is not there", method: "POST", url: intents, body: body("i", "own"), status: 404, contains: []string{`spec.statusCollectors[1]: project status collector "own" not found`}},
		{name: "several", method: "POST", url: intents, status: 404, contains: []string{`spec.statusCollectors[0]: status collector "a" not found`, `spec.statusCollectors[2]: project status collector "own" not found`},
			body: `{"metadata":{"name":"i"},"spec":{"statusCollectors":["fleet/a","fleet/phases","own"]}}`},
		{name: "several, for programs", method: "POST", url: intents, status: 404, header: map[string]string{"Accept": "application/problem+json"}, body: `{"metadata":{"name":"i"},"spec":{"statusCollectors":["fleet/a","own"]}}`,
			contains: []string{`"errors":[{"field":"spec.statusCollectors[0]","message":"status collector \"a\" not found"},{"field":"spec.statusCollectors[1]","message":"project status collector \"own\" not found"}]`}},
		{name: "and nothing is stored", method: "GET", url: intents, status: 200, is: "[]"},
		{name: "one of the fleet's that is not there", method: "POST", url: intents, body: body("i", "fleet/own"), status: 404, contains: []string{`spec.statusCollectors[1]: status collector "own" not found`}},
		{method: "POST", url: theProject + "/status-collectors", body: collector, status: 201},
		{method: "POST", url: intents, body: body("i", "own"), status: 201},
		{name: "the project's, in use", method: "DELETE", url: theProject + "/status-collectors/own", status: 409, contains: []string{inUse, `project status collector "own" is used by status intent "i" (` + string(theGroupKey) + `/status-intents/i)`}},
		{name: "the fleet's, in use", method: "DELETE", url: "/v2/status-collectors/phases", status: 409, contains: []string{inUse, `status collector "phases" is used by status intent "i"`}},
		{name: "one of the same name elsewhere is free", method: "POST", url: "/v2/status-collectors", body: collector, status: 201},
		{method: "DELETE", url: "/v2/status-collectors/own", status: 204},
		{method: "DELETE", url: intents + "/i", status: 204},
		{method: "DELETE", url: theProject + "/status-collectors/own", status: 204},
		{name: "an app that is not there", method: "POST", url: intents, body: `{"metadata":{"name":"j"},"spec":{"apps":["sink","later"],"wantSingletonReportedState":true}}`, status: 201,
			answers: map[string]string{"Warning": `299 - "spec.apps[1]: composite app \"ca/v1\" has no app \"later\" now"`}},
		{name: "a group with intents", method: "DELETE", url: theGroup, status: 409, contains: []string{hasChildren}},
		{name: "intents of no group", method: "GET", url: theComposite + "/deployment-intent-groups/none/status-intents", status: 404, contains: []string{`deployment intent group "none"`, "not found"}},
		{name: "collectors of no project", method: "GET", url: "/v2/projects/none/status-collectors", status: 404, contains: []string{`project "none" not found`}},
	})
}

// TestStatusIntentsCostNoApproval: they may be written at any time, and what was approved stays approved.
func TestStatusIntentsCostNoApproval(t *testing.T) {
	w := newRealWorld(t)
	furnish(t, w)
	one := theGroup + "/status-intents/i"
	for _, s := range stands {
		put(t, w, theGroupKey, s)
		before, err := w.store.Get(t.Context(), domain.DeploymentIntentGroups, theGroupKey)
		require.NoError(t, err)
		check(t, w.router, []call{
			{name: "create when " + s.name, method: "PUT", url: one, body: `{"metadata":{"name":"i"},"spec":{"wantSingletonReportedState":true}}`, status: 201},
			{name: "change when " + s.name, method: "PUT", url: one, body: `{"metadata":{"name":"i"},"spec":{"statusCollectors":["fleet/phases"]}}`, status: 200},
			{name: "delete when " + s.name, method: "DELETE", url: one, status: 204},
		})
		after, err := w.store.Get(t.Context(), domain.DeploymentIntentGroups, theGroupKey)
		require.NoError(t, err)
		require.Equal(t, before, after)
	}
}
