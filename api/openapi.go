package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3gen"
	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
)

// endpoint is one method of one path: what serves it, and what the OpenAPI document says of it.
type endpoint struct {
	method, path string
	verb         door.Verb    // what it does,
	noun         *domain.Noun // and to what; the path names the one, or what all are below
	handle       handler
	watch        handler // answers with server-sent events where they are asked for; nil where they are not to be had
	summary      string
	about        string      // what a user should know beside the summary
	in           any         // a value of the body's type; nil for none
	upload       bool        // the body is a form of metadata and file
	file         string      // what the file is, in words
	part         string      // of that form: what has the document, see resource
	keeps        bool        // the body may be the metadata alone
	out          map[int]any // success code to a value of the body's type, nil for none
	also         []string    // media types that the answer may have beside JSON, or that it has where out is nil
	begins       bool        // it begins an operation, which the answer names
	download     bool        // the answer may be the file, or a form of metadata and file
	secret       bool        // which is a credential
	query        []parameter
	renders      bool // door.Request's
}

// parameter is one of a query.
type parameter struct {
	name, about string
	enum        []string
	repeats     bool
	lastCounts  bool     // it may be given several times, as in an example of EMCO's documentation
	flag        bool     // that it is there counts, as in EMCO; it has no value, or true. Of several the first one of the endpoint counts
	ignores     []string // parameters that do nothing beside it
	filled      bool     // it has a value: one that is empty would be no filter, and the answer everything
}

// anyDocument stands for a body that has several forms.
type anyDocument map[string]any

// forms are values of the types that a body may have, that of a request without parameters first.
type forms []any

// listOf is an empty slice of what o points to.
func listOf(o any) any {
	return reflect.MakeSlice(reflect.SliceOf(reflect.TypeOf(o).Elem()), 0, 0).Interface()
}

// openAPI generates the document of the endpoints, from the same values that serve them.
func openAPI(endpoints []endpoint) ([]byte, error) {
	doc := &openapi3.T{
		OpenAPI: "3.0.3",
		Info: &openapi3.Info{
			Title: "Drover", Version: "2",
			Description: "Durable multi-cluster application orchestration. The API is EMCO's /v2.",
		},
		Servers: openapi3.Servers{{URL: base}},
		Paths:   openapi3.NewPaths(),
		Components: &openapi3.Components{
			Schemas: openapi3.Schemas{},
			SecuritySchemes: openapi3.SecuritySchemes{"bearer": {Value: openapi3.NewSecurityScheme().WithType("http").WithScheme("bearer").
				WithDescription("The token of a service account, or of an OpenID provider that is configured. A client certificate does as well.")}},
		},
		Security: openapi3.SecurityRequirements{{"bearer": []string{}}},
	}
	g := schemas{
		into: doc.Components.Schemas,
		generator: openapi3gen.NewGenerator(
			openapi3gen.SchemaCustomizer(constrain),
			openapi3gen.CreateTypeNameGenerator(typeName),
			openapi3gen.CreateComponentSchemas(openapi3gen.ExportComponentSchemasOptions{ExportComponentSchemas: true, ExportTopLevelSchema: true}),
		),
	}
	problem, err := g.of(fail.Problem{})
	if err != nil {
		return nil, err
	}
	wrong, err := exampleOf(fail.Problem{})
	if err != nil {
		return nil, err
	}
	refusal := openapi3.NewResponse().WithDescription("What is wrong: one message as text, or the details for clients that accept them").
		WithContent(openapi3.Content{
			"text/plain":     shown(openapi3.NewMediaType().WithSchema(openapi3.NewStringSchema()), "metadata.name is required\n"),
			fail.ProblemJSON: shown(openapi3.NewMediaType().WithSchemaRef(problem), wrong),
		})
	refusal.Headers = headers(headerRequestID, echo.HeaderRetryAfter, headerUndone)
	doc.Components.Responses = openapi3.ResponseBodies{"Refusal": {Value: refusal}}
	doc.Components.Headers = openapi3.Headers{}
	for name, about := range answerHeaders {
		h := &openapi3.Header{Parameter: openapi3.Parameter{Description: about, Schema: openapi3.NewStringSchema().NewRef()}}
		doc.Components.Headers[name] = &openapi3.HeaderRef{Value: h}
	}
	for _, p := range endpoints {
		path, names := braces(p.path)
		operation, err := g.operation(p, names)
		if err != nil {
			return nil, fmt.Errorf("describe %s %s: %w", p.method, p.path, err)
		}
		for _, code := range refusals(p) {
			operation.Responses.Set(fmt.Sprint(code), &openapi3.ResponseRef{Ref: "#/components/responses/Refusal", Value: refusal})
		}
		if doc.Paths.Value(path) == nil {
			doc.Paths.Set(path, &openapi3.PathItem{})
		}
		doc.Paths.Value(path).SetOperation(p.method, operation)
	}
	g.nameLonger()
	if err := g.exemplify(); err != nil {
		return nil, err
	}
	doc.Tags = tagsOf(endpoints)
	return json.Marshal(doc)
}

// schemas makes the schemas of Go types, each type once.
type schemas struct {
	into      openapi3.Schemas
	generator *openapi3gen.Generator
}

// nameLonger gives nouns whose names may be longer than those of others metadata of their own.
func (g schemas) nameLonger() {
	for _, n := range domain.Nouns {
		own := g.into[reflect.TypeOf(n.New()).Elem().Name()]
		if n.Longest == 0 || own == nil || own.Value.Properties["metadata"] == nil {
			continue
		}
		metadata := *g.behind(own.Value.Properties["metadata"])
		name := *metadata.Properties["name"].Value
		metadata.Properties = maps.Clone(metadata.Properties)
		metadata.Properties["name"] = name.WithMaxLength(int64(n.Longest)).NewRef()
		own.Value.Properties["metadata"] = metadata.NewRef()
	}
}

// behind is the schema that is meant by a reference of the generator, which has its name alone.
func (g schemas) behind(ref *openapi3.SchemaRef) *openapi3.Schema {
	if ref.Value != nil {
		return ref.Value
	}
	return g.into[ref.Ref[strings.LastIndexByte(ref.Ref, '/')+1:]].Value
}

func (g schemas) of(v any) (*openapi3.SchemaRef, error) {
	if each, ok := v.(forms); ok {
		any := openapi3.NewSchema()
		for _, v := range each {
			form, err := g.of(v)
			if err != nil {
				return nil, err
			}
			any.AnyOf = append(any.AnyOf, form)
		}
		return any.NewRef(), nil
	}
	return g.generator.NewSchemaRefForValue(v, g.into)
}

func (g schemas) operation(p endpoint, names []string) (*openapi3.Operation, error) {
	o := openapi3.NewOperation()
	o.Summary, o.Description, o.OperationID, o.Tags = p.summary, p.about, operationID(p), []string{tag(p.path)}
	o.Responses = openapi3.NewResponsesWithCapacity(len(p.out))
	for _, name := range names {
		o.AddParameter(openapi3.NewPathParameter(name).WithDescription(aboutName(name)).WithSchema(nameSchema(name)))
	}
	for _, q := range p.parameters() {
		o.AddParameter(openapi3.NewQueryParameter(q.name).WithDescription(q.about).WithSchema(q.schema()))
	}
	for _, name := range p.conditions() {
		o.AddParameter(openapi3.NewHeaderParameter(name).WithDescription(requestHeaders[name]).WithSchema(openapi3.NewStringSchema()))
	}
	if p.in != nil {
		body, err := g.of(p.in)
		if err != nil {
			return nil, err
		}
		example, err := exampleOf(p.in)
		if err != nil {
			return nil, err
		}
		content := openapi3.Content{}
		if p.upload {
			content[echo.MIMEMultipartForm] = formContent(p, "metadata", body, example)
		}
		if p.keeps || !p.upload {
			content[echo.MIMEApplicationJSON] = shown(openapi3.NewMediaType().WithSchemaRef(body), example)
			content[mimeYAML] = shown(openapi3.NewMediaType().WithSchemaRef(body), example) // bodyOf reads it
		}
		o.RequestBody = &openapi3.RequestBodyRef{Value: openapi3.NewRequestBody().WithRequired(true).WithContent(content)}
	}
	for code, v := range p.out {
		response := openapi3.NewResponse().WithDescription(http.StatusText(code))
		response.Headers = headers(p.answerHeaders()...)
		content := openapi3.Content{}
		if v != nil {
			body, err := g.of(v)
			if err != nil {
				return nil, err
			}
			example, err := exampleOf(v)
			if err != nil {
				return nil, err
			}
			content[echo.MIMEApplicationJSON] = shown(openapi3.NewMediaType().WithSchemaRef(body), example)
			if p.download {
				content[echo.MIMEOctetStream] = openapi3.NewMediaType().WithSchema(fileSchema(p.file))
				content[echo.MIMEMultipartForm] = formContent(p, cmp.Or(p.part, "metadata"), body, example)
			}
			if p.watch != nil {
				content[eventStream] = shown(openapi3.NewMediaType().WithSchema(openapi3.NewStringSchema()),
					"id: 7\nevent: change\ndata: {\"deployedStatus\":\"Instantiated\"}\n\n")
			}
		}
		for _, media := range p.also {
			content[media] = shown(openapi3.NewMediaType().WithSchema(openapi3.NewStringSchema()), textExamples[media])
		}
		if len(content) > 0 {
			response.WithContent(content)
		}
		o.Responses.Set(fmt.Sprint(code), &openapi3.ResponseRef{Value: response})
	}
	return o, nil
}

// refusals are the codes with which an endpoint may refuse.
func refusals(p endpoint) []int {
	codes := []int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	}
	if p.in != nil {
		codes = append(codes, http.StatusRequestTimeout)
	}
	if p.in != nil || p.plans() {
		codes = append(codes, http.StatusUnprocessableEntity)
	}
	if p.method != http.MethodGet {
		codes = append(codes, http.StatusPreconditionFailed, http.StatusUnsupportedMediaType)
	}
	if p.method != http.MethodGet || p.renders || p.verb == door.Download { // a state that does not allow it
		codes = append(codes, http.StatusConflict)
	}
	if p.chooses() {
		codes = append(codes, http.StatusNotAcceptable)
	}
	return codes
}

// plans says whether charts are rendered, or intents carried out: what they say may be nothing that can be done.
func (p endpoint) plans() bool {
	return p.renders || slices.Contains([]door.Verb{door.Verb(domain.OpApprove), door.Verb(domain.OpInstantiate), door.Verb(domain.OpUpdate)}, p.verb)
}

// chooses says whether the client says by Accept which form the answer has.
func (p endpoint) chooses() bool {
	for _, v := range p.out {
		if p.download || v != nil && len(p.also) > 0 {
			return true
		}
	}
	return false
}

// requestHeaders are what clients may say beside the query, and answerHeaders what answers say beside their bodies.
var (
	requestHeaders = map[string]string{
		lastEventID: "of a stream: the id of the event that was heard last; the stream goes on from there, or tells all anew",
		ifMatch:     "*: refuse it (412) where there is no such document; other values are refused, as what is stored has no entity tags",
		ifNoneMatch: "*: refuse it (412) where there is such a document already",
	}
	answerHeaders = map[string]string{
		headerRequestID:       "The id of the request, which the log of the API and the audit records have, too",
		headerWarning:         "What is odd about what was asked for, or was left out, once for each, as 299 - \"text\"",
		headerOperation:       "The operation that was begun, by the id of its run in the Web UI; missing where there is nothing to do",
		headerFile:            "unchanged: the kubeconfig that was sent is the one that was stored",
		headerLeftOut:         "How many documents cannot be read, and are left out of the list; missing where there are none",
		headerUndone:          "true: of 503, that it was refused before anything was done, so that also what changes something can be sent again; missing where it may have been done",
		echo.HeaderRetryAfter: "In how many seconds to come again, of 429 and 503; missing where nobody knows",
	}
	// textExamples are bodies of media types that have no schema.
	textExamples = map[string]string{
		echo.MIMETextPlain: "deployment intent group web: as wished\n",
		mimeNDJSON:         "{\"seq\":1,\"event\":\"asked\"}\n{\"seq\":2,\"event\":\"answered\"}\n",
		mimeYAML:           "apiVersion: v1\nkind: Config\ncurrent-context: user\n",
	}
)

const (
	headerRequestID = echo.HeaderXRequestID
	headerWarning   = "Warning"
	headerFile      = "Drover-File"
	headerLeftOut   = "Drover-Left-Out"
	headerUndone    = "Drover-Undone"
)

// conditions are the headers of a request that the endpoint reads.
func (p endpoint) conditions() (names []string) {
	if p.watch != nil {
		names = append(names, lastEventID)
	}
	if p.method == http.MethodPut {
		names = append(names, ifMatch, ifNoneMatch)
	}
	return names
}

// answerHeaders are the headers that an answer may have where it is done.
func (p endpoint) answerHeaders() []string {
	names := []string{headerRequestID, headerWarning}
	if p.begins {
		names = append(names, headerOperation)
	}
	if p.method == http.MethodPut && p.noun == domain.ClustersNoun {
		names = append(names, headerFile)
	}
	if p.method == http.MethodGet && p.path == manyPath(p.noun) && p.noun.New != nil {
		names = append(names, headerLeftOut)
	}
	return names
}

// headers are references to headers of answers.
func headers(names ...string) openapi3.Headers {
	all := openapi3.Headers{}
	for _, name := range names {
		all[name] = &openapi3.HeaderRef{Ref: "#/components/headers/" + name}
	}
	return all
}

// formContent is a form of a document, which is the part document, and its file or files.
func formContent(p endpoint, document string, metadata *openapi3.SchemaRef, example any) *openapi3.MediaType {
	form := openapi3.NewObjectSchema().WithPropertyRef(document, metadata)
	form.Required = []string{document}
	if p.noun.Files {
		form.WithProperty("files", openapi3.NewArraySchema().WithItems(fileSchema(p.file)))
		return shown(openapi3.NewMediaType().WithSchema(form), map[string]any{document: example, "files": []string{"(" + p.file + ")"}})
	}
	form.WithProperty("file", fileSchema(p.file))
	return shown(openapi3.NewMediaType().WithSchema(form), map[string]any{document: example, "file": "(" + p.file + ")"})
}

// shown is a body with an example.
func shown(body *openapi3.MediaType, example any) *openapi3.MediaType {
	body.Example = example
	return body
}

func fileSchema(about string) *openapi3.Schema {
	s := openapi3.NewStringSchema().WithFormat("binary")
	s.Description = about
	return s
}

func nameSchema(called string) *openapi3.Schema {
	return openapi3.NewStringSchema().WithPattern(domain.NamePattern).WithMaxLength(int64(domain.LongestCalled(called)))
}

func (p parameter) schema() *openapi3.Schema {
	s := openapi3.NewStringSchema()
	for _, v := range p.enum {
		s.Enum = append(s.Enum, v)
	}
	if p.repeats {
		return openapi3.NewArraySchema().WithItems(s)
	}
	return s
}

// constrain says of structs what their sources say.
func constrain(_ string, t reflect.Type, _ reflect.StructTag, schema *openapi3.Schema) error {
	if t == reflect.TypeFor[domain.Template]() { // bytes, which are an object
		*schema = *openapi3.NewObjectSchema().WithAnyAdditionalProperties()
		return nil
	}
	if t == reflect.TypeFor[domain.Amount]() {
		*schema = *openapi3.NewOneOfSchema(openapi3.NewInt64Schema().WithMin(1), openapi3.NewStringSchema())
		return nil
	}
	if len(schema.Properties) == 0 {
		return nil
	}
	return describe(t, schema)
}

// braces turns a template of echo's into one of OpenAPI's, with the names of its parameters.
func braces(template string) (path string, names []string) {
	segments := strings.Split(template, "/")
	for i, s := range segments {
		if name, ok := strings.CutPrefix(s, ":"); ok {
			names = append(names, name)
			segments[i] = "{" + name + "}"
		}
	}
	return strings.Join(segments, "/"), names
}

// firstTags are what a user needs first, in the order in which it is needed, and lastTags what is there for EMCO's set-up
// files. The others are between them, by name.
var (
	firstTags = []string{
		"cluster-providers", "clusters", "labels", "projects", "logical-clouds", "cluster-references", "composite-apps", "apps",
		"composite-profiles", "profiles", "deployment-intent-groups", "intents", "generic-placement-intents", "app-intents",
	}
	lastTags = []string{"controllers", "clm-controllers", "dtc-controllers"}
)

// tagsOf are the groups of endpoints in the order in which they are shown.
func tagsOf(endpoints []endpoint) openapi3.Tags {
	rank := func(name string) int {
		if i := slices.Index(firstTags, name); i >= 0 {
			return i
		}
		return len(firstTags) + 1 + slices.Index(lastTags, name)
	}
	var names []string
	for _, p := range endpoints {
		names = append(names, tag(p.path))
	}
	slices.SortFunc(names, func(x, y string) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), strings.Compare(x, y))
	})
	var tags openapi3.Tags
	for _, name := range slices.Compact(names) {
		tags = append(tags, &openapi3.Tag{Name: name, Description: aboutTag(name)})
	}
	return tags
}

// tag groups endpoints by the last fixed segment that names a collection.
func tag(template string) string {
	segments := strings.Split(template, "/")
	last := segments[1]
	for i, s := range segments {
		if i+1 < len(segments) && strings.HasPrefix(segments[i+1], ":") && !strings.HasPrefix(s, ":") {
			last = s
		}
	}
	switch end := segments[len(segments)-1]; {
	case slices.Contains([]string{"status", "combined-status", "objects", "keys"}, end): // of the one before
	case strings.HasSuffix(end, "s"):
		last = end
	}
	return last
}

// operationID is the method and the path in one word: postProjectsProjectCompositeApps.
func operationID(p endpoint) string {
	var b strings.Builder
	b.WriteString(strings.ToLower(p.method))
	upper := true
	for _, r := range p.path {
		switch {
		case !unicode.IsLetter(r):
			upper = true
		case upper:
			b.WriteRune(unicode.ToUpper(r))
			upper = false
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
