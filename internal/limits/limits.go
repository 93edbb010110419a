// Package limits says how large things may be. Packages on different sides of an upload must agree on it: what one of them
// takes may not be too large for the next. A test says which sizes must be in which order: a body can be stored as a blob, for
// example. docs/limits.md has the sizes as users meet them.
//
// Limits of time are in package policy, and what an operator may set is in internal/config. Nothing here decides or acts.
package limits

import "fmt"

// The sizes of requests, in bytes.
const (
	// Headers bounds the header of a request, which has nothing large; more is 431.
	Headers = 64 << 10
	// JSON bounds a document, alone or as the part metadata of a form: 100,000 kv-pairs have some 5 MiB. More is 422.
	JSON = 8 << 20
	// JSONMarks bounds the parts of such a document, its objects, lists and what commas separate there: 8 MiB of {}, became a gigabyte. More is 422.
	JSONMarks = 1_000_000
	// JSONMark is how much memory such a part takes about, in bytes, which is counted to that of the body (Bodies).
	JSONMark = 256
	// YAMLMarks bounds what separates the parts of a document that comes as YAML, of each of which parsers make some hundred bytes: 8 MiB
	// of "-" took 1 GB. More is 422; JSON may have ten times as many.
	YAMLMarks = 100_000
	// YAMLKeys bounds the members of an object there: parsers compare each with each. More is 422.
	YAMLKeys = 2_000
	// Payloads bounds those of histories that are opened in one request: a server of Temporal takes none of more than 2 MiB. More is 422.
	Payloads = 4 << 20
	// Body bounds a whole request, which is a form with a chart, a profile or a kubeconfig, where --max-body does not say
	// otherwise. It is in the API's memory until it is stored. More is 422.
	Body = 256 << 20
	// Bodies is for how many of the largest bodies an API has memory. A caller has half of it; more is 503.
	Bodies = 4
	// FormParts is what a form has around its document and its file: boundaries and headers, with room.
	FormParts = 64 << 10
	// GRPC bounds a message to the gRPC server, which has names and filters; more is RESOURCE_EXHAUSTED.
	GRPC = 1 << 20
)

// The connections of a listener for health, metrics or profiles, of all and of an address: a few collectors, and who looks whether the process is
// well. More are closed at once.
const (
	SideConnections        = 256
	SideAddressConnections = 64
)

// Gathers are the requests for metrics that a process answers at a time, of which each asks for all figures that there are: a few
// collectors, each now and then. More are 503. By the API a caller has half of them.
const Gathers = 8

// The connections of a gRPC server, of all and of an address, and what a connection may have at a time.
const (
	GRPCConnections        = 4_000
	GRPCAddressConnections = 1_000
	// GRPCStreams are calls, those that are streams included. More wait.
	GRPCStreams = 1_000
	// TenantStreams are those of a connection to the workload API: an agent has one, and a few calls about rules.
	TenantStreams = 100
)

// Calls to the gRPC server of the workload API at a time; more are UNAVAILABLE.
const (
	// NamelessCalls are those that need no credentials, such as health: of all, and of an address. Of those that bring a token see TokenCalls.
	NamelessCalls        = 4_096
	NamelessAddressCalls = 32
	// TenantCalls are those of a tenant, its streams apart.
	TenantCalls = 64
)

// TenantReads bounds the requests at a time that need all workloads or matches of a tenant in memory, such as a page of them or a preview, of which one has its
// turn; and those that need those of all tenants. One caller has half of them at the most.
const TenantReads = 16

// Calls at a time whose bearer token is still looked for in the database, of which a few are at a time and the others wait; more are 503, by gRPC
// UNAVAILABLE. Of an address there may be many: all tenants that come by a proxy begin again at once.
const (
	TokenCalls        = 4_096
	TokenAddressCalls = 512
)

// What a tenant of the workload API may have; more is RESOURCE_EXHAUSTED, by REST 429.
const (
	// Tenants bounds a message of a tenant's stream, of which a sync is the largest: it has all workloads of a tenant.
	Tenants = 64 << 20
	// TenantCall bounds a message of any other call there: a rule has a template. Nameless bounds one of a call that needs no
	// credentials.
	TenantCall = 2 << 20
	Nameless   = 64 << 10
	// TenantSaid bounds the workloads that a sync names, and TenantMembers all parts of a message: workloads, labels,
	// annotations. Each takes some hundred bytes of memory, however few it has in the message.
	TenantSaid    = 50_000
	TenantMembers = 1_000_000
	// TenantRules bounds the workload rules of a tenant, and those of the operator. TenantRuleBytes bounds all of them together: they
	// are one answer of List, and a process knows them by heart. TenantRuleExpressions bounds the expressions of them all, each of which is asked of
	// each workload: of 200 rules as large as may be that took minutes.
	TenantRules           = 200
	TenantRuleBytes       = 16 << 20
	TenantRuleExpressions = 10_000
	// Tokens bounds the bearer tokens of a tenant, and those of a service account, those that have expired included.
	Tokens = 100
	// Template bounds the template of a workload rule, in bytes.
	Template = 1 << 20
	// RuleExpressions bounds the expressions of all terms of a workload rule, RuleValues the values of all of them, and RuleInjections what it
	// injects: all are looked at for each workload. RuleNodeTerms bounds the nodeSelectorTerms of its template, each of which gets the names of all
	// nodes on which the object may be.
	RuleExpressions = 1_000
	RuleValues      = 10_000
	RuleInjections  = 100
	RuleNodeTerms   = 100
	// Kubeconfig bounds that of a cluster, in bytes: parsers make a hundred times as much of it.
	Kubeconfig = 1 << 20
	// Annotations bounds the names and values of the annotations of what a match makes, in bytes. It is Kubernetes'.
	Annotations = 256 << 10
)

// What a tenant's cluster may say; more is left out, and shown in the tenant's status.
const (
	// TenantWorkloads bounds the workloads of a tenant. Together they have Tenants bytes at the most, since a sync has all.
	TenantWorkloads = 10_000
	// Workload bounds a workload, in bytes. Kubernetes lets a Pod have 256 KiB of annotations.
	Workload = 512 << 10
	// WorkloadID bounds the id of a workload, in bytes.
	WorkloadID = 253
	// RuleMatches bounds the matches of a rule with a tenant's workloads.
	RuleMatches = 1_000
	// LeftOut is how many of those that are left out are named.
	LeftOut = 100
	// LeftOutCounted is how many of them are counted: their ids are in the API's memory as long as the tenant's stream goes on.
	LeftOutCounted = 50_000
)

// What a quantity of Kubernetes may be (internal/quantity): about what a double holds. More is 400, with the member.
const (
	// Quantity bounds it, in bytes, and QuantityExponent its decimal exponent.
	Quantity         = 400
	QuantityExponent = 400
)

// What the objectSelectors of a status intent or a table query may have together, all of which are asked of each object of a group; more is 400.
const (
	// TestExpressions bounds their matchLabels and matchExpressions, and TestValues the values of these.
	TestExpressions = 1_000
	TestValues      = 10_000
)

// PatchSteps bounds the steps of a JSON patch of a customization, of which each may copy a list of the object. More is 400; one that was stored before
// is 422 where it is to be carried out.
const PatchSteps = 1_000

// What archives hold. They are opened when they are uploaded, and when they are rendered; more is 422.
const (
	// Files bounds the entries of an archive, folders included.
	Files = 20_000
	// Expanded bounds the bytes of all files of an archive together, and of a chart with all dependencies that are packed in
	// it. The largest public charts have some megabytes.
	Expanded = 512 << 20
	// Ratio bounds expanded bytes to compressed bytes, from RatioFrom expanded bytes: small files may compress well.
	Ratio     = 200
	RatioFrom = 1 << 20
)

// Actions are those that are kept in the history of a group, a logical cloud or the networks of a cluster, besides the first one and the last instance; as
// many more may be there before older ones are cut. An update is two: one can go back a hundred revisions.
const Actions = 200

// Runs are the operations that the record of an app context keeps: the one that made it, and the last terminates.
const Runs = 100

// Apps bounds the apps of a group. An operation has a child workflow for each, and an update for those that leave, too: Temporal lets a
// workflow have 2,000 at a time.
const Apps = 500

// AppClusters bounds the clusters that an app of a group goes to, those that it leaves included, where --group-targets lets it go to so many: its workflow has a child for each 250 of
// them, and hears what they tell. Temporal ends one of 51,200 events.
const AppClusters = 250_000

// Dependencies bounds the app dependencies of a group, of which an operation knows all: with the longest names they have half a megabyte, and Temporal
// takes payloads of 2 MiB.
const Dependencies = 2_500

// What rendering takes, in bytes. More is 400, and names the app, the file and the limit.
const (
	// Parsed bounds a template or a schema, of which parsers make many times as much; the largest files are CRDs, of less than
	// a megabyte.
	Parsed = 8 << 20
	// Written bounds the text that all templates of a chart write.
	Written = 64 << 20
	// Bundle bounds what a chart is rendered to, as JSON: what templates write, and the objects of crds directories.
	Bundle = 256 << 20
	// Placements bounds the clusters that the app intents of a group name, in bytes as they are in memory: a cluster takes some 100. More is 422,
	// and names the app intent.
	Placements = 64 << 20
	// Bundles bounds the manifests of all apps of a group together, each as its chart is rendered: what takes over from another context has all of them
	// in memory. More is 422, and names the app.
	Bundles = 1 << 30
	// Manifests bounds those that status documents (output=detail) have in memory at a time, of an app each, in bytes as they are stored; documents
	// of a project have half of it. What does not fit is 429, or 503.
	Manifests = 256 << 20
	// Varied bounds what intents make of the apps of a group for some or all of its clusters (internal/vary), each manifest once;
	// more is 422, and names the app. The templates, patches and files of its generic k8s intents may have as much together, and so may the values that
	// patches have from elsewhere; ExternalValues bounds how many of them a group has from other hosts. All three are 422, with the intent.
	Varied         = 64 << 20
	ExternalValues = 5_000
	// RenderMemory bounds the process that renders or checks a chart where --render-memory does not say otherwise, and
	// RenderMemoryLeast is the least that it may be set to. RenderStack bounds the stack of a goroutine there.
	RenderMemory      = 1 << 30
	RenderMemoryLeast = 128 << 20
	RenderStack       = 64 << 20
)

// What expressions of users may make, in bytes: those of readiness rules and of status collectors.
const (
	// ExpressionText bounds the text that one function of an expression makes. What a call costs is known only when it was made.
	ExpressionText = 1 << 20
	// ExpressionSearch bounds the product of the lengths of two texts of which one is looked for in the other, and ExpressionMatch that
	// of a text and of the steps of a regular expression.
	ExpressionSearch = 64 << 20
	ExpressionMatch  = 2 << 20
	// ExpressionParts bounds the parts of values that are compared, and ExpressionMade those that an expression makes of a list or a map,
	// of each object or part of one that it has only itself.
	ExpressionParts = 1_000_000
	ExpressionMade  = 10_000
	// Cell bounds a cell of a table: a string, or the JSON of an object.
	Cell = 64 << 10
	// TableResult bounds a table as it is shown, as JSON: rows that do not fit are left out, and it is truncated.
	TableResult = 1 << 20
	// Table bounds the text that the cells and errors of a table keep, those too that are not shown.
	Table = 64 << 20
	// Tables bounds what all tables of an answer take in memory together, with the objects that they are of, or its objects with their statuses: as they are
	// held, with what names their rows. A group has a table for each object and collector.
	Tables = 256 << 20
	// TablesJSON bounds such an answer as JSON, beside what it is made of: it is kept for those who ask next, and as long as it is sent.
	TablesJSON = 64 << 20
	// Answers bounds what all such answers take together that an API makes for requests at a time, and AnswersAtOnce those of which nothing is kept
	// yet. Each of these has AnswerFirst of it without asking; what takes more takes it of what is left, as long as there is any. One caller has
	// half of both at the most.
	Answers       = 1 << 30
	AnswersAtOnce = 32
	AnswerFirst   = 8 << 20
	// ExternalValue bounds the answer of a host of which a patch has a value.
	ExternalValue = 64 << 10
)

// What is shown of the difference that an operation would make. What is larger is cut, and says so.
const (
	// DiffFields bounds the fields of a resource, and DiffValue, in bytes, a value, an object and a path.
	DiffFields = 100
	DiffValue  = 32 << 10
	// DiffManifest bounds a manifest that is compared, in bytes; clusters take hardly more.
	DiffManifest = 2 << 20
	// DiffItem bounds what an item shows, without the names of its resources and clusters, and DiffPage a page, which ends with the
	// item that goes beyond. Both are in bytes, about.
	DiffItem = 4 << 20
	DiffPage = 4 << 20
)

// Page bounds the documents of a page of groups or clusters, in bytes as they are stored: it ends with the one that goes beyond. A thousand that are as
// people write them have less, and a hundred groups may have 8 MiB of values each.
const Page = 8 << 20

// What the database takes, in bytes.
const (
	// Blob bounds a chart, an archive, a bundle or a plan as it is stored; more is 400. It is EMCO's limit of an upload, and
	// that of --max-body.
	Blob = 1 << 30
	// Chunk is the part of a blob, compressed, that one document has.
	Chunk = 8 << 20
	// Document is MongoDB's limit of a document; more is 422.
	Document = 16 << 20
)

// What clusters send and keep, in bytes.
const (
	// ClusterAnswer bounds what is read of a cluster's answer to one request. Discovery of a large group has some hundred
	// thousand bytes; an object has 1.5 MiB at the most (Etcd).
	ClusterAnswer = 16 << 20
	// ClusterGroups bounds the list of the groups that a cluster serves, where somebody asks what it is like: 200 bytes each.
	ClusterGroups = 1 << 20
	// ClusterWord bounds an answer that says one thing: its version, or what a credential may do.
	ClusterWord = 256 << 10
	// ClusterList bounds a list that is read in pages and kept, such as what an agent reports of an app, and ClusterObjects the objects
	// of one that are known by heart. What is more is an error of that cluster alone.
	ClusterList    = 64 << 20
	ClusterObjects = 200_000
	// ClusterHeld bounds the bytes of those that a worker knows by heart where it watches the resources of a cluster itself: 1.3 KiB
	// each of ClusterObjects, and every kind has less on average but for Pods. Of more the apps that have most are left out, and say so.
	ClusterHeld = 256 << 20
	// Watched bounds them of all clusters that a worker watches so, where --watch-memory does not say otherwise, and WatchedLeast is the least that it may
	// be set to. Of more the apps are left out that have most, of the clusters that have most.
	Watched      = 1 << 30
	WatchedLeast = 64 << 20
	// ClusterLeases bounds the namespaces of a cluster whose Leases may be an agent's, as anybody may make one of its name; there is
	// one agent.
	ClusterLeases = 100
	// ServedGroups, which counts each version of a group, and ServedKinds are those that a cluster may serve: large ones have some hundred, and two
	// thousand. ServedVersions are those of a group, of which there is a handful.
	ServedGroups   = 2_000
	ServedKinds    = 5_000
	ServedVersions = 100
	// ObjectName bounds the name of an object, a group or a kind, and LabelValue a label's, as API servers do.
	ObjectName = 253
	LabelValue = 63
	// Status bounds the status of one ResourceBundleState where --max-status does not say otherwise; what does not fit goes to
	// further ones. StatusLeast is the least that it may be set to.
	Status      = 1 << 20
	StatusLeast = 64 << 10
	// Etcd is what etcd takes in a request unless it is told otherwise.
	Etcd = 3 << 19
)

// Fair is what one caller, and what one project, may have, so that none has what others need; 0 is no limit. The API asks nobody
// who they are with --auth=off: what is of callers does not hold then.
type Fair struct {
	CallerRate, ProjectRate         int // requests a second; at once as many as in RateBurst
	CallerRequests, ProjectRequests int // requests at a time
	CallerStreams, ProjectStreams   int // open streams
	ProjectOperations               int // operations that go on
	ProjectDocuments                int
	ProjectBytes                    int64 // of documents and their files
	GroupTargets                    int   // apps x clusters of a group
	// Connections are those of the REST API, and AddressConnections those of one address: of who calls nothing else is known then.
	Connections, AddressConnections int
}

// Streams bounds what an API keeps in memory for status streams, in bytes: the documents and tables that are streamed, each once for all who asked
// for it, and their last changes. What nobody reads any more goes first, then what the scope that has the most got last, for scopes that have less; a stream
// for which there is no room is refused, or ends.
const Streams = 512 << 20

// StreamQueries are the different queries that an API streams at a time, shared in the same way.
const StreamQueries = 1_000

// RateBurst is how many seconds of a rate may come at once: a script that describes a composite app comes with hundreds of requests.
const RateBurst = 4

// Fairly are the limits where flags do not say otherwise. Two cores answer some 500 statuses a second, and have 256 slots for requests.
func Fairly() Fair {
	return Fair{
		CallerRate: 100, ProjectRate: 200, CallerRequests: 64, ProjectRequests: 128, CallerStreams: 200, ProjectStreams: 1_000,
		ProjectOperations: 500, ProjectDocuments: 200_000, ProjectBytes: 16 << 30, GroupTargets: 200_000,
		Connections: 20_000, AddressConnections: 4_000,
	}
}

// Sizes are the limits as users meet them.
func (f Fair) Sizes() []Size {
	const more = "429 with `Retry-After`"
	return []Size{
		{"callerRate", "requests a second of a caller; four seconds of them may come at once", int64(f.CallerRate), false, "caller-rate", more},
		{"callerRequests", "requests of a caller at a time", int64(f.CallerRequests), false, "caller-requests", more},
		{"callerStreams", "open streams of a caller", int64(f.CallerStreams), false, "caller-streams", more},
		{"projectRate", "requests a second that are about a project; four seconds of them may come at once", int64(f.ProjectRate), false, "project-rate", more},
		{"projectRequests", "requests about a project at a time", int64(f.ProjectRequests), false, "project-requests", more},
		{"projectStreams", "open streams about a project", int64(f.ProjectStreams), false, "project-streams", more},
		{"projectOperations", "operations of a project that go on", int64(f.ProjectOperations), false, "project-operations", more},
		{"projectDocuments", "documents of a project", int64(f.ProjectDocuments), false, "project-documents", "429 with Retry-After for one that is new; delete some first"},
		{"projectBytes", "the documents of a project with their files", f.ProjectBytes, true, "project-bytes", "429 with Retry-After for one that is new, or put; delete some first"},
		{"groupTargets", "apps of a group times the clusters that each goes to", int64(f.GroupTargets), false, "group-targets", "422, with how many there are"},
		{"connections", "connections to the REST API", int64(f.Connections), false, "connections", "closed at once"},
		{"addressConnections", "those of one address, of IPv6 of a network of 64 bits; all who come by a proxy have its address", int64(f.AddressConnections), false, "address-connections", "closed at once"},
	}
}

// Size is a limit as a user meets it.
type Size struct {
	Key    string // as logged
	Of     string // what it bounds
	Value  int64
	Bytes  bool   // else a number
	Flag   string // that sets it, "" for none
	Answer string // that one gets for more
}

// beyond is what becomes of a workload that is too much.
const beyond = "it is left out, and the tenant's status names it"

// streamsEnd is what one gets for streams that are too much.
const streamsEnd = "503, by gRPC UNAVAILABLE; a stream that has begun ends. For a caller who has fewer streams, the newest stream of the caller who has the most ends"

// All are the limits that users meet, in the order in which an upload meets them, with what flags have set them to.
func All(body, renderMemory, watched int64) []Size {
	return []Size{
		{"headers", "the header of a request", Headers, true, "", "431"},
		{"json", "a JSON document, alone or as the part `metadata` of a form", JSON, true, "", "422"},
		{"jsonMarks", "parts of such a document: its objects, lists and what commas separate there", JSONMarks, false, "", "422"},
		{"yamlMarks", "what separates the parts of a document that comes as YAML, such as `-`, `:` and `,`, and comments", YAMLMarks, false, "", "422; it may be sent as JSON"},
		{"yamlKeys", "members of an object there", YAMLKeys, false, "", "422; it may be sent as JSON"},
		{"body", "a whole request, such as a form with a chart", body, true, "max-body", "422"},
		{"bodies", "all bodies of requests that an API has in memory, with 256 B for each part of a document; a caller has half of them", Bodies * body, true, "", "503"},
		{"streams", "what an API keeps for status streams: documents and tables, each once for all who asked for it, with their last changes", Streams, true, "", streamsEnd},
		{"streamQueries", "different queries that an API streams at a time", StreamQueries, false, "", streamsEnd},
		{"gathers", "requests for metrics at a time; a caller of the API has half of them", Gathers, false, "", "503"},
		{"grpc", "a gRPC request", GRPC, true, "", "RESOURCE_EXHAUSTED"},
		{"grpcConnections", "connections to a gRPC server", GRPCConnections, false, "", "closed at once"},
		{"grpcAddressConnections", "those of one address, of IPv6 of a network of 64 bits", GRPCAddressConnections, false, "", "closed at once"},
		{"grpcStreams", "calls and streams of a connection to the gRPC server of `StatusNotify` at a time", GRPCStreams, false, "", "they wait"},
		{"tenantStreams", "calls and streams of a connection to the workload API at a time", TenantStreams, false, "", "they wait"},
		{"tenants", "a message of a tenant's stream, such as a sync", Tenants, true, "", "RESOURCE_EXHAUSTED"},
		{"tenantSaid", "workloads that a sync names", TenantSaid, false, "", "RESOURCE_EXHAUSTED"},
		{"tenantMembers", "parts of a message of the stream: workloads, labels, annotations", TenantMembers, false, "", "RESOURCE_EXHAUSTED"},
		{"tenantCall", "another gRPC request of a tenant, such as one with a rule", TenantCall, true, "", "RESOURCE_EXHAUSTED"},
		{"nameless", "a gRPC request there that needs no credentials", Nameless, true, "", "RESOURCE_EXHAUSTED"},
		{"namelessCalls", "calls to the workload API at a time that need no credentials, such as for health", NamelessCalls, false, "", "UNAVAILABLE"},
		{"namelessAddressCalls", "those of one address, of IPv6 of a network of 64 bits", NamelessAddressCalls, false, "", "UNAVAILABLE"},
		{"tokenCalls", "calls at a time whose bearer token is still looked for, by REST and of tenants apart", TokenCalls, false, "", "503, by gRPC UNAVAILABLE"},
		{"tokenAddressCalls", "those of one address, of IPv6 of a network of 64 bits", TokenAddressCalls, false, "", "503, by gRPC UNAVAILABLE"},
		{"tenantCalls", "calls of a tenant at a time, its streams apart", TenantCalls, false, "", "UNAVAILABLE"},
		{"tenantReads", "requests at a time for workloads, matches, status, explanations and previews of a tenant, or of all, of which one is at work; of a caller half of them", TenantReads, false, "", "429, also after a wait of 10 s"},
		{"tenantRules", "workload rules of a tenant, or of the operator", TenantRules, false, "", "429, by gRPC RESOURCE_EXHAUSTED"},
		{"tenantRuleBytes", "all workload rules of a tenant together, or of the operator", TenantRuleBytes, true, "", "429, by gRPC RESOURCE_EXHAUSTED"},
		{"tenantRuleExpressions", "matchExpressions of all workload rules of a tenant together, or of the operator", TenantRuleExpressions, false, "", "429, by gRPC RESOURCE_EXHAUSTED"},
		{"template", "the template of a workload rule", Template, true, "", "400, by gRPC INVALID_ARGUMENT"},
		{"ruleExpressions", "matchExpressions of a workload rule, in all terms", RuleExpressions, false, "", "400, by gRPC INVALID_ARGUMENT"},
		{"ruleValues", "values of them all", RuleValues, false, "", "400, by gRPC INVALID_ARGUMENT"},
		{"ruleInjections", "annotations that a workload rule injects", RuleInjections, false, "", "400, by gRPC INVALID_ARGUMENT"},
		{"ruleNodeTerms", "nodeSelectorTerms of its template", RuleNodeTerms, false, "", "400, by gRPC INVALID_ARGUMENT"},
		{"annotations", "all annotations of what a match makes", Annotations, true, "", "the match is Failed"},
		{"tokens", "bearer tokens of a tenant, or of a service account", Tokens, false, "", "429"},
		{"tenantWorkloads", "workloads of a tenant", TenantWorkloads, false, "", beyond},
		{"tenantBytes", "all workloads of a tenant together", Tenants, true, "", beyond},
		{"workload", "a workload", Workload, true, "", beyond},
		{"workloadID", "the id of a workload", WorkloadID, true, "", beyond},
		{"ruleMatches", "matches of a rule with a tenant's workloads", RuleMatches, false, "", "nothing is made for the others; `beyond` in the rule's matches counts them"},
		{"leftOut", "workloads that the tenant's status names as left out", LeftOut, false, "", "`leftOutCount` there counts all, to 50,000"},
		{"quantity", "a quantity of Kubernetes, such as 500m", Quantity, true, "", "400, with the member"},
		{"quantityExponent", "the exponent of one, such as 1e3", QuantityExponent, false, "", "400, with the member"},
		{"testExpressions", "matchLabels and matchExpressions of all objectSelectors of a status intent, or of a table query", TestExpressions, false, "", "400"},
		{"testValues", "values of them all", TestValues, false, "", "400"},
		{"patchSteps", "steps of the `patchJson` of a customization", PatchSteps, false, "", "400"},
		{"files", "entries of an archive", Files, false, "", "422"},
		{"expanded", "all files of an archive, and a chart with the dependencies packed in it", Expanded, true, "", "422"},
		{"ratio", "expanded over compressed bytes of an archive that has more than 1 MiB", Ratio, false, "", "422"},
		{"parsed", "a template or a schema", Parsed, true, "", "400, with the file"},
		{"written", "the text that the templates of a chart write", Written, true, "", "400, with the file"},
		{"bundle", "what a chart is rendered to, as JSON", Bundle, true, "", "400, with the file"},
		{"placements", "the clusters that all app intents of a generic placement intent name, as they are in memory: some 100 B each", Placements, true, "", "422, with the app intent"},
		{"bundles", "the manifests of all apps of a group together, as their charts are rendered", Bundles, true, "", "422, with the app"},
		{"manifests", "manifests that status documents with `output=detail` have in memory at a time, of an app each; those of a project have half of it", Manifests, true, "", "429, or for those of others 503, after a wait of 10 s"},
		{"apps", "apps of a group", Apps, false, "", "422, with how many there are"},
		{"appClusters", "clusters that an app of a group goes to, with those that it leaves in the same operation", AppClusters, false, "", "422, with the app"},
		{"dependencies", "app dependencies of a group; of several of an app on the same one the longest counts, and the longest until that is Ready", Dependencies, false, "", "422, with how many there are"},
		{"actions", "actions in the history of a group, a logical cloud, or the networks of a cluster, besides the first one and the last instance. An update or a rollback is two", Actions, false, "", "older ones are cut, when there are as many again: no rollback goes back to them"},
		{"runs", "operations on one instance of which its record tells", Runs, false, "", "what made it stays, older terminates are cut"},
		{"varied", "what intents make of the apps of a group, for all clusters, each manifest once", Varied, true, "", "422, with the app"},
		{"customized", "the templates, patches and files of the generic k8s intents of a group, together", Varied, true, "", "422, with the intent"},
		{"values", "the values that patches of a group have from elsewhere, together", Varied, true, "", "422, with the intent"},
		{"externalValues", "values that patches of a group have from other hosts", ExternalValues, false, "", "422, with the intent"},
		{"externalValue", "the answer of another host that has a value of a patch", ExternalValue, true, "", "422, with the intent"},
		{"expressionText", "the text that a function of an expression makes, in a rule or a collector", ExpressionText, true, "", "a row error; of a readiness rule the resource is not ready, and says why"},
		{"expressionSearch", "the product of the bytes of two texts of which an expression looks for one in the other", ExpressionSearch, false, "", "as for `expressionText`"},
		{"expressionMatch", "the product of the bytes of a text and the steps of a regular expression", ExpressionMatch, false, "", "as for `expressionText`"},
		{"expressionParts", "parts of two values that an expression compares", ExpressionParts, false, "", "as for `expressionText`"},
		{"expressionMade", "parts of a list or a map that an expression makes; an object is one", ExpressionMade, false, "", "as for `expressionText`"},
		{"cell", "a cell of a table", Cell, true, "", "Null and a row error"},
		{"tableResult", "a table as it is shown", TableResult, true, "", "rows are left out: `truncated`"},
		{"table", "the cells and errors of a table", Table, true, "", "errors, and no rows"},
		{"tables", "all tables of an answer together, or its objects with their statuses, as they are in memory", Tables, true, "", "errors, and no rows, in those that take most; where that is not enough, 400, and a stream ends with it"},
		{"tablesJSON", "such an answer as JSON", TablesJSON, true, "", "400, and a stream ends with it"},
		{"answers", "all these answers that an API makes at a time, those for streams apart", Answers, true, "", "429"},
		{"answersAtOnce", "those at a time of which the API keeps no tables from before; a caller has half of them", AnswersAtOnce, false, "", "they wait; 429 after 10 s"},
		{"answerFirst", "what each of those has of `answers` in any case", AnswerFirst, true, "", "it is of what is left of `answers`, of which a caller has half"},
		{"diffFields", "fields of a resource that a difference shows", DiffFields, false, "", "the others are left out: `cut`"},
		{"diffValue", "a value that a difference shows", DiffValue, true, "", "it is left out or ends early: `cut`"},
		{"renderMemory", "the memory that rendering or checking a chart takes", renderMemory, true, "render-memory", "400, with the file"},
		{"renderStack", "the stack that rendering or checking a chart takes", RenderStack, true, "", "400, with the file"},
		{"watched", "what a worker holds of the resources in clusters that it watches itself, of all of them", watched, true, "watch-memory", "the apps that have most in the clusters that have most are not heard: Unknown, with the reason"},
		{"blob", "a chart, an archive or a bundle as it is stored", Blob, true, "", "400"},
		{"page", "the documents of a page of groups or clusters with where they stand, as they are stored", Page, true, "", "the page ends with the one that goes beyond; `continue` asks for the next one"},
		{"kubeconfig", "the kubeconfig of a cluster", Kubeconfig, true, "", "422"},
		{"document", "everything else as it is stored", Document, true, "", "422"},
	}
}

// Text is the value as people read it: "256 MiB".
func (s Size) Text() string {
	if s.Value == 0 {
		return "none"
	}
	if !s.Bytes {
		return fmt.Sprint(s.Value)
	}
	n := s.Value
	for _, unit := range []string{"B", "KiB", "MiB"} {
		if n%1024 != 0 || n == 0 {
			return fmt.Sprint(n, " ", unit)
		}
		n /= 1024
	}
	return fmt.Sprint(n, " GiB")
}
