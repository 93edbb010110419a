package api_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/match"
	"github.com/drover-io/drover/internal/service"
)

func TestOpenAPI(t *testing.T) {
	w := newWorld(t)
	answer := do(t, w.router, call{method: "GET", url: "/openapi.json"})
	require.Equal(t, http.StatusOK, answer.Code)
	doc, err := openapi3.NewLoader().LoadFromData(answer.Body.Bytes())
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context()))

	t.Run("has every route", func(t *testing.T) {
		for _, r := range w.router.Routes() {
			path, ok := strings.CutPrefix(r.Path, "/v2")
			if !ok {
				continue
			}
			segments := strings.Split(path, "/")
			for i, s := range segments {
				if name, ok := strings.CutPrefix(s, ":"); ok {
					segments[i] = "{" + name + "}"
				}
			}
			item := doc.Paths.Value(strings.Join(segments, "/"))
			require.NotNil(t, item, r.Path)
			require.NotNil(t, item.GetOperation(r.Method), "%s %s", r.Method, r.Path)
		}
	})
	t.Run("opens with what is needed first", func(t *testing.T) {
		var tags []string
		for _, tag := range doc.Tags {
			tags = append(tags, tag.Name)
		}
		require.Equal(t, []string{"cluster-providers", "clusters"}, tags[:2])
		require.Equal(t, []string{"controllers", "clm-controllers", "dtc-controllers"}, tags[len(tags)-3:])
		for path, item := range doc.Paths.Map() {
			for method, o := range item.Operations() {
				require.NotEmpty(t, o.Summary, "%s %s", method, path)
				require.Subset(t, tags, o.Tags, "%s %s", method, path)
			}
		}
	})
	t.Run("describes everything", func(t *testing.T) {
		for path, item := range doc.Paths.Map() {
			for method, o := range item.Operations() {
				require.NotEmpty(t, o.Description, "%s %s", method, path)
				for _, p := range o.Parameters {
					require.NotEmpty(t, p.Value.Description, "%s %s: %s", method, path, p.Value.Name)
				}
			}
		}
		requireExamples(t, doc)
		for _, tag := range doc.Tags {
			require.NotEmpty(t, tag.Description, tag.Name)
		}
		for name, schema := range doc.Components.Schemas {
			require.NotEmpty(t, schema.Value.Description, name)
			for member, s := range schema.Value.Properties {
				require.NotEmpty(t, s.Value.Description, "%s.%s", name, member)
				if s.Ref == "" {
					require.NotNil(t, s.Value.Example, "%s.%s", name, member)
				}
			}
		}
	})
	t.Run("tells types of the same name apart", func(t *testing.T) {
		require.Contains(t, doc.Components.Schemas["Cluster"].Value.Properties, "spec")
		require.Contains(t, doc.Components.Schemas["explain.Cluster"].Value.Properties, "deployments")
	})
	t.Run("shows each form of an answer", func(t *testing.T) {
		for path, forms := range map[string][]string{
			"/cluster-providers/{clusterProvider}/clusters":                                                    {"", "service.ClusterList", "", ""},
			"/cluster-providers/{clusterProvider}/clusters/{cluster}/status":                                   {"", "explain.Cluster"},
			"/projects/{project}/composite-apps/{compositeApp}/{compositeAppVersion}/deployment-intent-groups": {"", "service.GroupList"},
		} {
			var got []string
			for _, s := range doc.Paths.Value(path).Get.Responses.Status(200).Value.Content.Get("application/json").Schema.Value.AnyOf {
				got = append(got, strings.TrimPrefix(s.Ref, "#/components/schemas/"))
			}
			require.Equal(t, forms, got, "%s; lists and EMCO's documents have no name", path)
			require.Equal(t, []any{"full"}, doc.Paths.Value(path).Get.Parameters.GetByInAndName("query", "view").Schema.Value.Enum)
		}
		// What is answered, with everything in it, is of the form that the document has.
		for name, v := range map[string]any{"service.ClusterList": &service.ClusterList{}, "service.GroupList": &service.GroupList{}, "explain.Cluster": &explain.Cluster{}} {
			fill(reflect.ValueOf(v).Elem())
			data, err := json.Marshal(v)
			require.NoError(t, err)
			var answer any
			require.NoError(t, json.Unmarshal(data, &answer))
			requireMembers(t, doc, doc.Components.Schemas[name], answer, name)
			data, err = json.Marshal(doc.Components.Schemas[name].Value.Example)
			require.NoError(t, err)
			strict := json.NewDecoder(bytes.NewReader(data))
			strict.DisallowUnknownFields()
			require.NoError(t, strict.Decode(v), name)
		}
	})
	t.Run("says what is taken as YAML", func(t *testing.T) {
		for path, item := range doc.Paths.Map() {
			for method, o := range item.Operations() {
				if o.RequestBody == nil {
					continue
				}
				content := o.RequestBody.Value.Content
				require.Equal(t, content["application/json"] != nil, content["application/yaml"] != nil, "%s %s", method, path)
				require.True(t, content["application/json"] != nil || content["multipart/form-data"] != nil, "%s %s", method, path)
			}
		}
		require.Contains(t, doc.Paths.Value("/status-collectors").Post.RequestBody.Value.Content, "application/yaml")
	})
	t.Run("says each form of an answer, each refusal and each header", func(t *testing.T) {
		const group = "/projects/{project}/composite-apps/{compositeApp}/{compositeAppVersion}/deployment-intent-groups/{deploymentIntentGroup}"
		const cluster = "/cluster-providers/{clusterProvider}/clusters/{cluster}"
		const kubeconfig = "/projects/{project}/logical-clouds/{logicalCloud}/cluster-references/{clusterReference}/kubeconfig"
		for path, item := range doc.Paths.Map() {
			for method, o := range item.Operations() {
				for _, code := range []int{401, 403, 429, 503} {
					require.NotNil(t, o.Responses.Status(code), "%s %s: %d", method, path, code)
				}
				for code, r := range o.Responses.Map() {
					require.Contains(t, r.Value.Headers, "X-Request-Id", "%s %s: %s", method, path, code)
				}
			}
		}
		require.Contains(t, doc.Components.Responses["Refusal"].Value.Headers, "Retry-After")
		for _, c := range []struct {
			method, path     string
			refused          []int
			answered         int
			forms            []string
			says, conditions []string
		}{
			{"POST", group + "/approve", []int{409, 422}, 202, nil, []string{"Warning"}, nil},
			{"POST", group + "/instantiate", []int{409, 422}, 202, nil, []string{"Warning", "Drover-Operation"}, nil},
			{"POST", group + "/update", []int{409, 422}, 202, []string{"application/json"}, []string{"Drover-Operation"}, nil},
			{"GET", group + "/preview", []int{422}, 200, []string{"application/json"}, nil, nil},
			{"GET", group + "/diff", []int{409, 422}, 200, []string{"application/json"}, nil, nil},
			{"GET", group + "/explain", []int{406}, 200, []string{"application/json", "text/plain"}, nil, nil},
			{"GET", "/tenants/{tenant}/explain", []int{406}, 200, []string{"application/json", "text/plain"}, nil, nil},
			{"GET", group + "/status", nil, 200, []string{"application/json", "text/event-stream"}, nil, []string{"Last-Event-ID"}},
			{"GET", "/audit", []int{406}, 200, []string{"application/json", "application/x-ndjson"}, nil, nil},
			{"GET", "/projects/{project}/audit", []int{406}, 200, []string{"application/json", "application/x-ndjson"}, nil, nil},
			{"GET", kubeconfig, []int{409}, 200, []string{"application/yaml"}, nil, nil},
			{"PUT", cluster, []int{412}, 200, nil, []string{"Warning", "Drover-File"}, []string{"If-Match", "If-None-Match"}},
			{"GET", "/projects", nil, 200, []string{"application/json"}, []string{"Drover-Left-Out"}, nil},
		} {
			require.NotNil(t, doc.Paths.Value(c.path), c.path)
			o := doc.Paths.Value(c.path).GetOperation(c.method)
			for _, code := range c.refused {
				require.NotNil(t, o.Responses.Status(code), "%s %s: %d", c.method, c.path, code)
			}
			answer := o.Responses.Status(c.answered).Value
			if c.forms != nil {
				require.ElementsMatch(t, c.forms, slices.Collect(maps.Keys(answer.Content)), "%s %s", c.method, c.path)
			}
			for _, name := range c.says {
				require.Contains(t, answer.Headers, name, "%s %s", c.method, c.path)
			}
			for _, name := range c.conditions {
				require.NotNil(t, o.Parameters.GetByInAndName("header", name), "%s %s: %s", c.method, c.path, name)
			}
		}
	})
	t.Run("shows bodies, forms, parameters and refusals", func(t *testing.T) {
		group := doc.Paths.Value("/projects/{project}/composite-apps/{compositeApp}/{compositeAppVersion}/deployment-intent-groups")
		schema := group.Post.RequestBody.Value.Content.Get("application/json").Schema.Value
		require.Contains(t, schema.Properties["spec"].Value.Properties, "logicalCloud")
		require.NotContains(t, schema.Properties, "history")
		require.Equal(t, []string{"metadata", "spec"}, schema.Required)

		app := doc.Paths.Value("/projects/{project}/composite-apps/{compositeApp}/{compositeAppVersion}/apps")
		form := app.Post.RequestBody.Value.Content.Get("multipart/form-data").Schema.Value
		require.Equal(t, "binary", form.Properties["file"].Value.Format)

		status := doc.Paths.Value("/projects/{project}/composite-apps/{compositeApp}/{compositeAppVersion}/deployment-intent-groups/{deploymentIntentGroup}/status")
		require.Equal(t, []any{"summary", "all", "detail", "counts"}, status.Get.Parameters.GetByInAndName("query", "output").Schema.Value.Enum)
		for _, code := range []int{400, 403, 404, 408, 409, 415, 422, 500, 503} {
			refusal := group.Post.Responses.Status(code)
			require.NotNil(t, refusal, code)
			require.Contains(t, refusal.Value.Content, "application/problem+json")
		}
	})
}

// requireMembers looks for the members of a body in its schema.
func requireMembers(t *testing.T, doc *openapi3.T, schema *openapi3.SchemaRef, body any, at string) {
	t.Helper()
	require.NotNil(t, schema, at)
	switch body := body.(type) {
	case map[string]any:
		for name, part := range body {
			if schema.Value.AdditionalProperties.Schema != nil {
				continue // of a map
			}
			require.Contains(t, schema.Value.Properties, name, at)
			requireMembers(t, doc, schema.Value.Properties[name], part, at+"."+name)
		}
	case []any:
		for _, part := range body {
			requireMembers(t, doc, schema.Value.Items, part, at)
		}
	}
}

// requireExamples looks for those of all bodies; whether they have the form of their schemas Validate has checked.
func requireExamples(t *testing.T, doc *openapi3.T) {
	t.Helper()
	for path, item := range doc.Paths.Map() {
		for method, o := range item.Operations() {
			contents := []openapi3.Content{}
			if o.RequestBody != nil {
				contents = append(contents, o.RequestBody.Value.Content)
			}
			for _, r := range o.Responses.Map() {
				contents = append(contents, r.Value.Content)
			}
			for _, c := range contents {
				for form, body := range c {
					if form != "application/octet-stream" {
						require.NotNil(t, body.Example, "%s %s: %s", method, path, form)
					}
				}
			}
		}
	}
}

// What is shown as an example can be sent.
func TestOpenAPIHasExamplesThatAreTaken(t *testing.T) {
	w := newWorld(t)
	doc, err := openapi3.NewLoader().LoadFromData(do(t, w.router, call{method: "GET", url: "/openapi.json"}).Body.Bytes())
	require.NoError(t, err)
	for _, noun := range domain.Nouns {
		o := noun.New()
		typeName := reflect.TypeOf(o).Elem().Name()
		data, err := json.Marshal(doc.Components.Schemas[typeName].Value.Example)
		require.NoError(t, err)
		strict := json.NewDecoder(bytes.NewReader(data))
		strict.DisallowUnknownFields()
		require.NoError(t, strict.Decode(o), typeName)
		var problems fail.Problems
		o.Validate(&problems)
		require.NoError(t, problems.Err(), typeName)
	}
}

// What is refused when it is missing is required in the document, and the values of an enum are those that are taken.
func TestOpenAPIHasWhatValidateDemands(t *testing.T) {
	w := newWorld(t)
	doc, err := openapi3.NewLoader().LoadFromData(do(t, w.router, call{method: "GET", url: "/openapi.json"}).Body.Bytes())
	require.NoError(t, err)
	for _, noun := range domain.Nouns {
		typeName := reflect.TypeOf(noun.New()).Elem().Name()
		schema := doc.Components.Schemas[typeName]
		require.NotNil(t, schema, typeName)
		for _, filled := range []bool{false, true} {
			o := noun.New()
			if filled {
				fill(reflect.ValueOf(o).Elem())
			}
			o.Base().Parent = "a/b/c/d/e/f/g" // whose is of no interest here
			if d, ok := o.(interface{ Default() }); ok {
				d.Default()
			}
			var problems fail.Problems
			o.Validate(&problems)
			for _, f := range fail.FieldsOf(problems.Err()) {
				requireDemanded(t, schema.Value, f)
			}
		}
	}
}

// requireDemanded follows the path of a problem of an object that has nothing in it: each member on it is required, or is
// an element of a list that may be missing, or is below one.
func requireDemanded(t *testing.T, schema *openapi3.Schema, f fail.Field) {
	t.Helper()
	segments := strings.Split(f.Path, ".")
	inList := slices.ContainsFunc(segments, func(s string) bool { return strings.Contains(s, "[") })
	for i, s := range segments {
		name, _, isElement := strings.Cut(s, "[")
		member := schema.Properties[name]
		require.NotNil(t, member, f.Path)
		last := i == len(segments)-1
		if last && strings.HasPrefix(member.Value.Description, "Must be left out") {
			return
		}
		if last && !isElement || !inList {
			require.Contains(t, schema.Required, name, "%s: %s", f.Path, f.Message)
		}
		if schema = member.Value; isElement {
			schema = schema.Items.Value
		}
	}
}

// Names are as long as they may be: those of rules and hosts longer than others.
func TestOpenAPIHasNamesAsLongAsTheyMayBe(t *testing.T) {
	w := newWorld(t)
	doc, err := openapi3.NewLoader().LoadFromData(do(t, w.router, call{method: "GET", url: "/openapi.json"}).Body.Bytes())
	require.NoError(t, err)
	for _, noun := range domain.Nouns {
		metadata := doc.Components.Schemas[reflect.TypeOf(noun.New()).Elem().Name()].Value.Properties["metadata"]
		if metadata == nil || metadata.Value.Properties["name"] == nil {
			continue
		}
		longest := domain.MaxName
		if noun.Longest > 0 {
			longest = noun.Longest
		}
		require.Equal(t, uint64(longest), *metadata.Value.Properties["name"].Value.MaxLength, noun.Kind)
	}
	require.Contains(t, doc.Components.Schemas["StatusCollector"].Value.Properties["metadata"].Value.Properties, "labels", "it has more metadata than others")
}

// formed are members that have a form, which their descriptions say.
var formed = []string{
	"subnet", "gateway", "excludeIps", "vlanID", "nodeLabelList", "limits.cpu", "limits.memory",
	"gitOpsType", "gitOpsReferenceObject", "gitOpsResourceObject", "operator", "cluster", "kinds", "deleteAfter",
	"expiresAfter", "expires", "lastUsed", "ipAddress", "macAddress",
	"appLabel", "serviceCertificate", "servicePrivateKey", "caCertificate", "cidrs", "url", "path", "from",
	"name", // of a subject of a role binding, such as a service account
}

// A member that takes certain words only has them as its enum, and takes all of them.
func TestOpenAPIHasTheWordsThatAreTaken(t *testing.T) {
	w := newWorld(t)
	doc, err := openapi3.NewLoader().LoadFromData(do(t, w.router, call{method: "GET", url: "/openapi.json"}).Body.Bytes())
	require.NoError(t, err)
	for _, noun := range domain.Nouns {
		typeName := reflect.TypeOf(noun.New()).Elem().Name()
		schema := doc.Components.Schemas[typeName].Value
		taken := func() bool {
			o := noun.New()
			data, err := json.Marshal(schema.Example)
			require.NoError(t, err)
			if json.Unmarshal(data, o) != nil { // a time, say
				return false
			}
			if rule := domain.RuleOf(o); rule != nil {
				return match.ValidateRule(nil, rule) == nil
			}
			var problems fail.Problems
			o.Validate(&problems)
			return problems.Err() == nil
		}
		eachWord(schema, schema.Example, "", func(name string, s *openapi3.Schema, set func(string)) {
			for _, word := range s.Enum {
				set(word.(string))
				require.True(t, taken(), "%s: %s %v", typeName, name, word)
			}
			set("zz9")
			if !slices.Contains(formed, name) {
				require.Equal(t, s.Enum == nil, taken(), "%s: %s", typeName, name)
			}
		})
	}
}

// eachWord visits the strings of an example; what a visit sets is undone after it.
func eachWord(schema *openapi3.Schema, example any, name string, visit func(name string, s *openapi3.Schema, set func(string))) {
	switch value := example.(type) {
	case map[string]any:
		for key, part := range value {
			member := schema.AdditionalProperties.Schema
			if schema.Properties[key] != nil {
				member = schema.Properties[key]
			}
			if member == nil { // an object of which nothing more is said
				continue
			}
			if text, ok := part.(string); ok {
				visit(key, member.Value, func(s string) { value[key] = s })
				value[key] = text
				continue
			}
			eachWord(member.Value, part, key, visit)
		}
	case []any:
		for i, part := range value {
			if text, ok := part.(string); ok {
				visit(name, schema.Items.Value, func(s string) { value[i] = s })
				value[i] = text
				continue
			}
			eachWord(schema.Items.Value, part, name, visit)
		}
	}
}

// fill gives every list one element that has nothing in it.
func fill(v reflect.Value) {
	if v.Kind() == reflect.Struct {
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Type().Field(i).Tag.Get("json") != "-" {
				fill(v.Field(i))
			}
		}
	}
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct {
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	}
}

func TestDocsNeedNothingFromElsewhere(t *testing.T) {
	w := newWorld(t)
	check(t, w.router, []call{
		{method: "GET", url: "/docs", status: 301, answers: map[string]string{"Location": "docs/"}},
		{
			method: "GET", url: "/docs/", status: 200, contains: []string{"swagger-initializer.js"}, lacks: []string{"https://", "<script>", "<style", " onload="},
			answers: map[string]string{
				"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
				"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; " +
					"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
			},
		},
		{method: "GET", url: "/docs/swagger-initializer.js", status: 200, contains: []string{"openapi.json"}, lacks: []string{"petstore"}},
		{method: "GET", url: "/docs/swagger-ui-bundle.js", status: 200},
		{method: "GET", url: "/docs/swagger-ui.css", status: 200},
	})
}
