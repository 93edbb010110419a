package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
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
	t.Run("shows bodies, forms, parameters and refusals", func(t *testing.T) {
		group := doc.Paths.Value("/projects/{project}/composite-apps/{compositeApp}/{compositeAppVersion}/deployment-intent-groups")
		schema := group.Post.RequestBody.Value.Content.Get("application/json").Schema.Value
		require.Contains(t, schema.Properties["spec"].Value.Properties, "logicalCloud")
		require.NotContains(t, schema.Properties, "history")
		require.Equal(t, []string{"metadata"}, schema.Required)

		app := doc.Paths.Value("/projects/{project}/composite-apps/{compositeApp}/{compositeAppVersion}/apps")
		form := app.Post.RequestBody.Value.Content.Get("multipart/form-data").Schema.Value
		require.Equal(t, "binary", form.Properties["file"].Value.Format)

		status := doc.Paths.Value("/projects/{project}/composite-apps/{compositeApp}/{compositeAppVersion}/deployment-intent-groups/{deploymentIntentGroup}/status")
		require.Equal(t, []any{"summary", "all", "detail"}, status.Get.Parameters.GetByInAndName("query", "output").Schema.Value.Enum)
		for _, code := range []int{400, 404, 409, 422, 500} {
			refusal := group.Post.Responses.Status(code)
			require.NotNil(t, refusal, code)
			require.Contains(t, refusal.Value.Content, "application/problem+json")
		}
	})
}

func TestDocsNeedNothingFromElsewhere(t *testing.T) {
	w := newWorld(t)
	check(t, w.router, []call{
		{method: "GET", url: "/docs", status: 301, answers: map[string]string{"Location": "docs/"}},
		{method: "GET", url: "/docs/", status: 200, contains: []string{"swagger-initializer.js"}, lacks: []string{"https://"}},
		{method: "GET", url: "/docs/swagger-initializer.js", status: 200, contains: []string{"openapi.json"}, lacks: []string{"petstore"}},
		{method: "GET", url: "/docs/swagger-ui-bundle.js", status: 200},
		{method: "GET", url: "/docs/swagger-ui.css", status: 200},
	})
}
