package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

// described are the operations of the API as its document describes them.
func described(t *testing.T, w *world) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(do(t, w.router, call{method: "GET", url: "/openapi.json"}).Body.Bytes())
	require.NoError(t, err)
	return doc
}

// TestParametersThatNobodyKnowsAreRefused on every route, with the names of those that it has.
func TestParametersThatNobodyKnowsAreRefused(t *testing.T) {
	w := newWorld(t)
	doc := described(t, w)
	for path, item := range doc.Paths.Map() {
		for method, o := range item.Operations() {
			target := "/v2" + strings.NewReplacer("{", "", "}", "").Replace(path)
			ask := func(query string) string {
				answer := do(t, w.router, call{method: method, url: target + query, body: "{}"})
				require.Equal(t, http.StatusBadRequest, answer.Code, "%s %s%s: %s", method, target, query, answer.Body)
				return answer.Body.String()
			}
			text := ask("?none-such=1")
			require.Contains(t, text, "none-such: is no parameter of this request")
			for _, ref := range o.Parameters {
				p := ref.Value
				if p.In != openapi3.ParameterInQuery {
					continue
				}
				require.Contains(t, text, p.Name)
				words := p.Schema.Value
				if words.Items != nil {
					words = words.Items.Value
				}
				if len(words.Enum) > 0 {
					for _, value := range []string{"none-such", ""} {
						said := ask("?" + p.Name + "=" + value)
						require.Contains(t, said, fmt.Sprintf("Invalid query %s: %q; use %s", p.Name, value, words.Enum[0]))
					}
				}
				if !p.Schema.Value.Type.Is(openapi3.TypeArray) && !strings.Contains(p.Description, "the last one counts") {
					require.Contains(t, ask("?"+p.Name+"=a&"+p.Name+"=b"), p.Name+": is given several times")
				}
			}
		}
	}
	check(t, w.router, []call{
		{name: "nothing is taken", method: "GET", url: "/v2/projects?limit=1", status: 400, contains: []string{"limit: is no parameter of this request, which has none"}},
		{name: "all at once, and what was meant", method: "GET", url: theGroup + "/combined-status?kinds=Pod&app=a&App=b&watch=true&watch=1", status: 400, contains: []string{
			"App: is no parameter of this request, did you mean app?", "kinds: is no parameter of this request, did you mean kind?",
			"those that it has: app, collector, kind, resource, watch", "watch: is given several times",
		}},
		{name: "what Go leaves out", method: "GET", url: theGroup + "/combined-status?kind=Pod;app=a", status: 400, contains: []string{"semicolon"}},
		{name: "a bad escape", method: "GET", url: theGroup + "/combined-status?kind=%zz", status: 400, contains: []string{`"%zz"`}},
		{name: "no text", method: "GET", url: theGroup + "/combined-status?kind=Pod&kind=a%FF", status: 400, contains: []string{`kind: "a\xff" is no text in UTF-8`}},
		{name: "very many", method: "GET", url: "/v2/projects?" + strings.Repeat("&a", 10) + manyParameters(1000), status: 400, contains: []string{"query: there are more"}, lacks: []string{"p10999"}},
		{name: "a command", method: "POST", url: theGroup + "/approve?force=true", status: 400, contains: []string{"force: is no parameter of this request"}},
	})
}

// TestEmptyFilters: a variable that somebody has forgotten to set asks for one thing, and would be answered with everything.
func TestEmptyFilters(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	for url, names := range map[string]string{
		theProvider + "/clusters": "label withLabels", theProfile + "/profiles": "app", theGroup + "/intents": "intent", theGroup + "/hpa-intents": "intent",
		theHPAIntent + "/hpa-resource-consumers": "consumer", theHPAConsumer + "/resource-requirements": "resource", theCluster + "/kv-pairs/kv": "key",
		theProvider + "/cluster-sync-objects/none": "key", thePlacement + "/app-intents": "app app-name", "/v2/audit": "who outcome resource operation from to project",
		theTenant + "/workload-rules/none/explain": "workload", theTenant + "/workloads/none/explain": "rule",
		theTenant + "/workloads": "namespace name node", theTenant + "/matches": "rule workload", theTenant + "/workload-rules/none/matches": "workload",
		"/v2/workload-rules/none/matches": "workload",
	} {
		for name := range strings.FieldsSeq(names) {
			for _, query := range []string{name, name + "="} {
				check(t, w.router, []call{{method: "GET", url: url + "?" + query, status: 400, contains: []string{"Invalid query " + name + `: ""; say what is meant, or leave it out`}}})
			}
		}
	}
	check(t, w.router, []call{
		{name: "both", method: "GET", url: thePlacement + "/app-intents?app=&app-name=", status: 400, contains: []string{"Invalid query app"}},
		{name: "a word of another case", method: "GET", url: theGroup + "/status?output=Summary", status: 400, contains: []string{`Invalid query output: "Summary"; use summary, all, detail or counts`}},
		{name: "one of several", method: "GET", url: theGroup + "/status?output=all&output=", status: 400, contains: []string{`Invalid query output: ""`}},
	})
}

// manyParameters are so many, from p10000 on.
func manyParameters(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "&p%d", 10_000+i)
	}
	return b.String()
}

// TestParametersOfEMCO: what its OpenAPI document, and its code, have as parameters of paths that there are here is known here.
func TestParametersOfEMCO(t *testing.T) {
	const (
		composite = "/projects/{project}/composite-apps/{compositeApp}/{compositeAppVersion}"
		group     = composite + "/deployment-intent-groups/{deploymentIntentGroup}"
		cluster   = "/cluster-providers/{clusterProvider}/clusters"
		statuses  = "status output instance cluster resource "
	)
	doc := described(t, newWorld(t))
	for path, names := range map[string]string{
		composite + "/composite-profiles/{compositeProfile}/profiles": "app",
		group + "/intents": "intent",
		group + "/generic-placement-intents/{genericPlacementIntent}/app-intents": "app app-name",
		group + "/hpa-intents": "intent",
		group + "/hpa-intents/{hpaIntent}/hpa-resource-consumers":                                     "consumer",
		group + "/hpa-intents/{hpaIntent}/hpa-resource-consumers/{hpaConsumer}/resource-requirements": "resource",
		group + "/status":                        statuses + "type app apps clusters resources",
		cluster:                                  "label withLabels",
		cluster + "/{cluster}/kv-pairs/{kvPair}": "key",
		"/cluster-providers/{clusterProvider}/cluster-sync-objects/{clusterSyncObject}": "key",
		cluster + "/{cluster}/status":                              statuses + "type app",
		"/projects/{project}/logical-clouds/{logicalCloud}/status": statuses + "clusters resources",
	} {
		item := doc.Paths.Value(path)
		require.NotNil(t, item, path)
		for name := range strings.FieldsSeq(names) {
			require.NotNil(t, item.Get.Parameters.GetByInAndName(openapi3.ParameterInQuery, name), "%s?%s", path, name)
		}
	}
}
