package test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/convey"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/match"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/universe"
	"github.com/drover-io/drover/test/harness"
)

// workloadCases is a file of cases; its head says what its members are.
type workloadCases struct {
	Version  int `json:"version"`
	Defaults struct {
		TenantID string         `json:"tenant_id"`
		RuleID   string         `json:"rule_id"`
		RuleData map[string]any `json:"rule_data"`
	} `json:"defaults"`
	Topology struct {
		Hosts map[string]struct {
			Tenant string   `json:"tenant"`
			DPUs   []string `json:"dpus"`
		} `json:"hosts"`
	} `json:"topology"`
	Workloads map[string]json.RawMessage `json:"workloads"`
	Cases     []workloadCase             `json:"cases"`
}

// workloadCase is one of them. Members that its kind has no use for are not there.
type workloadCase struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Kind   string `json:"kind"`
	Basis  string `json:"basis"`
	Policy string `json:"policy"`

	RuleID         string         `json:"rule_id"`
	RuleData       map[string]any `json:"rule_data"`
	Workload       string         `json:"workload"`
	WorkloadTenant string         `json:"workload_tenant"`

	Method     string              `json:"method"`
	Metadata   map[string][]string `json:"metadata"`
	PeerTenant string              `json:"peer_tenant"`
	// Store has ids of rules by tenant, or, of a stream, names of workloads.
	Store            json.RawMessage `json:"store"`
	OtherTenantStore []string        `json:"other_tenant_store"`
	Request          json.RawMessage `json:"request"`
	Messages         []caseMessage   `json:"messages"`
	End              string          `json:"end"`

	Inject              []any             `json:"inject"`
	TemplateAnnotations map[string]string `json:"template_annotations"`
	DPUSelectionPolicy  string            `json:"dpu_selection_policy"`
	Tenant              string            `json:"tenant"`

	Expect caseExpect `json:"expect"`
}

// caseMessage is one message of a stream: one of its members is there.
type caseMessage struct {
	Sync   *[]string `json:"sync"`
	Update string    `json:"update"`
	Delete string    `json:"delete"`
	Raw    string    `json:"raw"`
}

// caseExpect is what is to come of a case; what is not there is not looked at.
type caseExpect struct {
	Code              string            `json:"code"`
	Match             *bool             `json:"match"`
	IDs               *[]string         `json:"ids"`
	Stored            *[]string         `json:"stored"`
	OtherTenantStored *[]string         `json:"other_tenant_stored"`
	Annotations       map[string]string `json:"annotations"`
	AnnotationsJSON   map[string]any    `json:"annotations_json"`
	Nodes             *[]string         `json:"nodes"`
	Namespace         string            `json:"namespace"`
}

// caseWorld is where cases are tried: tenants with hosts in a stack.
type caseWorld struct {
	*testing.T
	ctx   context.Context
	stack *harness.Stack
	file  *workloadCases
	admin *grpc.ClientConn
	rules universe.WorkloadRuleServiceClient

	cluster *harness.Cluster // where matches are made
	said    string           // the tenant whose workloads the case has said
}

// caseKinds has what tries the cases of each kind.
var caseKinds = map[string]func(*caseWorld, *workloadCase){
	"match": (*caseWorld).tryMatch, "eval": (*caseWorld).tryEval, "validate": (*caseWorld).tryValidate, "rpc": (*caseWorld).tryCall,
	"inject": (*caseWorld).tryInject, "placement": (*caseWorld).tryPlacement,
	"stream": (*caseWorld).tryStream,
}

// caseTenants are those that exist.
var caseTenants = []string{"tenant1", "tenant2"}

// TestWorkloadCases tries the cases of testdata/workload-cases.yaml, or of the file that DROVER_WORKLOAD_CASES names, through
// the gRPC port and the store. A member that nobody knows fails the test.
func TestWorkloadCases(t *testing.T) {
	file := readCases(t)
	ctx := within(t)
	s := harness.SharedStack(t)
	w := &caseWorld{T: t, ctx: ctx, stack: s, file: file, admin: s.TenantConnection("")}
	w.rules, w.cluster = universe.NewWorkloadRuleServiceClient(w.admin), harness.NewCluster(t, harness.ClusterNames[0])
	w.furnish()
	for i := range file.Cases {
		c := &file.Cases[i]
		t.Run(c.ID, func(t *testing.T) {
			one := *w
			one.T = t
			try, known := caseKinds[c.Kind]
			require.True(t, known, "%s: nobody knows cases of the kind %q", c.Title, c.Kind)
			t.Log(c.Title)
			defer one.clear()
			try(&one, c)
		})
	}
}

func readCases(t *testing.T) *workloadCases {
	t.Helper()
	name := "testdata/workload-cases.yaml"
	if other := os.Getenv("DROVER_WORKLOAD_CASES"); other != "" {
		name = other
	}
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	file := &workloadCases{}
	require.NoError(t, yaml.UnmarshalStrict(data, file), name)
	require.NotEmpty(t, file.Cases, name)
	return file
}

// furnish makes the tenants with their hosts, and takes them away when the test ends.
func (w *caseWorld) furnish() {
	api := w.stack.Client.API()
	cluster := w.stack.RegisterAs(w.ctx, w.cluster.Name, w.cluster.Kubeconfig(w), domain.ReportNone)
	for _, name := range caseTenants {
		tenant := &domain.Tenant{Metadata: domain.Metadata{Name: name}, Spec: domain.TenantSpec{Cluster: cluster.String()}}
		_, err := api.Create(w.ctx, tenant, nil)
		require.NoError(w, err)
	}
	for _, name := range slices.Sorted(maps.Keys(w.file.Topology.Hosts)) {
		h := w.file.Topology.Hosts[name]
		host := &domain.Host{Identity: domain.Identity{Parent: domain.TenantKey(h.Tenant)}, Metadata: domain.Metadata{Name: name}, Spec: domain.HostSpec{Nodes: h.DPUs}}
		_, err := api.Create(w.ctx, host, nil)
		require.NoError(w, err)
	}
	w.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), harness.Patience)
		defer cancel()
		for name, h := range w.file.Topology.Hosts {
			require.NoError(w, api.Delete(ctx, domain.TenantKey(h.Tenant).Child(domain.Hosts.Collection, name)))
		}
		for _, name := range caseTenants {
			require.NoError(w, api.Delete(ctx, domain.TenantKey(name)))
		}
	})
}

// unreachable is the kubeconfig of a cluster where nothing listens.
const unreachable = `{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{"token":"t"}}]}`

// clear takes away what a case has left.
func (w *caseWorld) clear() {
	for _, tenant := range caseTenants {
		ctx := harness.ForTenant(w.ctx, tenant)
		list, err := w.rules.List(ctx, &universe.ListRequest{})
		require.NoError(w, err)
		for _, rule := range list.GetRules() {
			_, err := w.rules.Delete(ctx, &universe.DeleteRequest{Id: rule.GetId()})
			require.NoError(w, err)
		}
	}
	if w.said != "" {
		w.say(w.said)
	}
	for _, tenant := range caseTenants {
		harness.Until(w.ctx, w, "nothing is left of the case", func() bool { return len(w.all(tenant)) == 0 })
	}
}

// rule is that of a case: the default, of which members are replaced.
func (w *caseWorld) rule(c *workloadCase) *universe.Rule {
	w.Helper()
	id := c.RuleID
	if id == "" {
		id = w.file.Defaults.RuleID
	}
	return &universe.Rule{Id: id, Data: w.ruleData(c.RuleData)}
}

func (w *caseWorld) ruleData(changes map[string]any) *universe.RuleData {
	w.Helper()
	members := maps.Clone(w.file.Defaults.RuleData)
	for name, value := range changes {
		switch name {
		case "terms":
			members["workload_terms"] = longTerms(w, value)
			continue
		case "rule_template_text":
			text, ok := value.(string)
			require.True(w, ok, "rule_template_text is no text")
			members["rule_template"] = []byte(text) // base64 in JSON
			continue
		}
		if value == nil {
			delete(members, name)
			continue
		}
		members[name] = value
	}
	text, err := json.Marshal(members)
	require.NoError(w, err)
	data := &universe.RuleData{}
	require.NoError(w, protojson.Unmarshal(text, data), "%s", text)
	return data
}

// longTerms writes out terms, each a list of [key, operation, values].
func longTerms(w *caseWorld, value any) []any {
	w.Helper()
	var short [][][3]any
	data, err := json.Marshal(value)
	require.NoError(w, err)
	require.NoError(w, json.Unmarshal(data, &short))
	terms := []any{}
	for _, term := range short {
		expressions := []any{}
		for _, e := range term {
			operation, ok := e[1].(string)
			require.True(w, ok)
			expressions = append(expressions, map[string]any{"key": e[0], "operation": "OPERATION_" + operation, "values": e[2]})
		}
		terms = append(terms, map[string]any{"match_expressions": expressions})
	}
	return terms
}

// workload is an entry of workloads, as the product has it.
func (w *caseWorld) workload(tenant, name string) *domain.Workload {
	w.Helper()
	in := w.update(name)
	about, state := in.GetWorkloadMetadata(), in.GetWorkloadState()
	require.Equal(w, universe.OrchestratorType_ORCHESTRATOR_TYPE_KUBERNETES, about.GetOrchestrator())
	out := &domain.Workload{
		Tenant: tenant, ID: about.GetId(), Orchestrator: domain.Kubernetes, ResourceType: about.GetResourceType(),
		ResourceNamespace: about.GetResourceNamespace(), ResourceName: about.GetResourceName(),
		NodeName: state.GetNodeName(), Ready: state.GetReady(), Extra: map[string]map[string]string{},
	}
	for kind, data := range state.GetExtra() {
		out.Extra[kind] = data.GetData()
	}
	return out
}

// update is an entry of workloads as a message.
func (w *caseWorld) update(name string) *universe.WorkloadUpdate {
	w.Helper()
	raw, found := w.file.Workloads[name]
	require.True(w, found, "there is no workload %q", name)
	in := &universe.WorkloadUpdate{}
	require.NoError(w, protojson.Unmarshal(raw, in))
	return in
}

// expectCode compares how a call ended.
func (w *caseWorld) expectCode(c *workloadCase, err error) {
	w.Helper()
	if c.Expect.Code != "" {
		require.Equal(w, c.Expect.Code, grpcstatus.Code(err).String(), "%v", err)
	}
}

// create creates a rule of the tenant of the cases.
func (w *caseWorld) create(rule *universe.Rule) error {
	_, err := w.rules.Create(harness.ForTenant(w.ctx, w.file.Defaults.TenantID), &universe.CreateRequest{Rule: rule})
	return err
}

// matches has a rule stored by gRPC, and then a tenant's cluster say a workload by its stream. When that has been answered, what
// follows is in the store: these are the matches of the rule, by REST. Both stay until the case ends.
func (w *caseWorld) matches(c *workloadCase, tenant, of string, rule *universe.Rule) []service.Match {
	w.Helper()
	_, err := w.rules.Create(harness.ForTenant(w.ctx, tenant), &universe.CreateRequest{Rule: rule})
	w.expectCode(c, err)
	require.NoError(w, err)
	w.say(of, w.update(c.Workload))
	w.said = of
	found := w.all(tenant)
	if of != tenant {
		found = append(found, w.all(of)...)
	}
	for _, m := range found {
		require.Equal(w, rule.GetId(), m.Rule.Name())
		require.Equal(w, w.update(c.Workload).GetWorkloadMetadata().GetId(), m.Workload)
	}
	return found
}

// all are the matches of a tenant.
func (w *caseWorld) all(tenant string) (found []service.Match) {
	w.Helper()
	for m, err := range w.stack.Client.API().Matches(w.ctx, domain.TenantKey(tenant), nil) {
		require.NoError(w, err)
		found = append(found, m)
	}
	return found
}

// say has a tenant's cluster say that it has these workloads and no others.
func (w *caseWorld) say(tenant string, all ...*universe.WorkloadUpdate) {
	w.Helper()
	s, err := universe.NewWorkloadServiceClient(w.admin).WorkloadStream(harness.ForTenant(w.ctx, tenant))
	require.NoError(w, err)
	require.NoError(w, s.Send(&universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadSync{WorkloadSync: &universe.WorkloadSync{WorkloadUpdates: all}}}))
	_, err = s.CloseAndRecv()
	require.NoError(w, err)
}

func (w *caseWorld) tryMatch(c *workloadCase) {
	of := w.file.Defaults.TenantID
	if c.WorkloadTenant != "" {
		of = c.WorkloadTenant
	}
	found := w.matches(c, w.file.Defaults.TenantID, of, w.rule(c))
	require.NotNil(w, c.Expect.Match)
	require.Equal(w, *c.Expect.Match, len(found) == 1, "%+v", found)
	require.LessOrEqual(w, len(found), 1)
}

// tryEval asks a rule that was never validated.
func (w *caseWorld) tryEval(c *workloadCase) {
	tenant := domain.TenantKey(w.file.Defaults.TenantID)
	rule, err := convey.RuleOf(w.rule(c), tenant)
	require.NoError(w, err)
	of := &domain.Tenant{Metadata: domain.Metadata{Name: tenant.Name()}}
	of.Default()
	got := slices.ContainsFunc(match.CompileAll(of, []*domain.WorkloadRule{rule}), func(r *match.Rule) bool {
		return r.Matches(w.workload(tenant.Name(), c.Workload))
	})
	require.NotNil(w, c.Expect.Match)
	require.Equal(w, *c.Expect.Match, got)
}

func (w *caseWorld) tryValidate(c *workloadCase) {
	rule := w.rule(c)
	err := w.create(rule)
	w.expectCode(c, err)
	got, getErr := w.rules.Get(harness.ForTenant(w.ctx, w.file.Defaults.TenantID), &universe.GetRequest{Id: rule.GetId()})
	if err != nil {
		require.Equal(w, codes.NotFound, grpcstatus.Code(getErr), "what was refused is not stored: %v", getErr)
		return
	}
	require.NoError(w, getErr)
	require.True(w, proto.Equal(rule, got.GetRule()), "what was accepted comes back as it was: %v", got)
}

// tryCall makes one call.
func (w *caseWorld) tryCall(c *workloadCase) {
	var store map[string][]string
	if len(c.Store) > 0 {
		require.NoError(w, json.Unmarshal(c.Store, &store))
	}
	for tenant, ids := range store {
		for _, id := range ids {
			_, err := w.rules.Create(harness.ForTenant(w.ctx, tenant), &universe.CreateRequest{Rule: &universe.Rule{Id: id, Data: w.ruleData(nil)}})
			require.NoError(w, err)
		}
	}
	client := w.rules
	if c.PeerTenant != "" {
		client = universe.NewWorkloadRuleServiceClient(w.stack.TenantConnection(c.PeerTenant))
	}
	ctx := w.ctx
	for name, values := range c.Metadata {
		for _, v := range values {
			ctx = metadata.AppendToOutgoingContext(ctx, name, v)
		}
	}
	ids, err := w.call(ctx, client, c)
	w.expectCode(c, err)
	if c.Expect.IDs != nil {
		require.Equal(w, *c.Expect.IDs, ids)
	}
}

// call makes the call of a case, and gives the ids in the answer.
func (w *caseWorld) call(ctx context.Context, client universe.WorkloadRuleServiceClient, c *workloadCase) (ids []string, err error) {
	var in struct {
		ID   string           `json:"id"`
		Data *json.RawMessage `json:"data"`
	}
	none := string(bytes.TrimSpace(c.Request)) == "null" // a request without a rule
	given := map[string]json.RawMessage{}
	if len(c.Request) > 0 && !none {
		require.NoError(w, json.Unmarshal(c.Request, &in))
		require.NoError(w, json.Unmarshal(c.Request, &given))
	}
	rule := func() *universe.Rule {
		if none {
			return nil
		}
		r := &universe.Rule{Id: in.ID}
		switch data, found := given["data"]; {
		case !found:
			r.Data = w.ruleData(nil)
		case string(data) != "null":
			var changes map[string]any
			require.NoError(w, json.Unmarshal(data, &changes))
			r.Data = w.ruleData(changes)
		}
		return r
	}
	switch rpc := c.Method; rpc {
	case "Create":
		_, err = client.Create(ctx, &universe.CreateRequest{Rule: rule()})
	case "Update":
		_, err = client.Update(ctx, &universe.UpdateRequest{Rule: rule()})
	case "Delete":
		_, err = client.Delete(ctx, &universe.DeleteRequest{Id: in.ID})
	case "Get":
		var got *universe.GetResponse
		if got, err = client.Get(ctx, &universe.GetRequest{Id: in.ID}); err == nil {
			ids = append(ids, got.GetRule().GetId())
		}
	case "List":
		var got *universe.ListResponse
		got, err = client.List(ctx, &universe.ListRequest{})
		ids = []string{}
		for _, r := range got.GetRules() {
			ids = append(ids, r.GetId())
		}
	default:
		w.Fatalf("there is no method %q", c.Method)
	}
	return ids, err
}

// made is the match of the rule of a case, and the Pod that is in the cluster for it; nil when nothing is to be made.
func (w *caseWorld) made(c *workloadCase, tenant string, data map[string]any) (one service.Match, pod *corev1.Pod) {
	w.Helper()
	if len(c.TemplateAnnotations) > 0 {
		template := map[string]any{}
		require.NoError(w, json.Unmarshal(w.ruleData(nil).GetRuleTemplate(), &template))
		template["metadata"].(map[string]any)["annotations"] = c.TemplateAnnotations
		text, err := json.Marshal(template)
		require.NoError(w, err)
		data["rule_template_text"] = string(text)
	}
	// It matches every workload.
	data["terms"] = []any{[]any{[]any{"metadata.id", "EXISTS", []any{""}}}}
	found := w.matches(c, tenant, tenant, &universe.Rule{Id: w.file.Defaults.RuleID, Data: w.ruleData(data)})
	require.Len(w, found, 1)
	if c.Expect.Nodes != nil && len(*c.Expect.Nodes) == 0 {
		return found[0], nil
	}
	harness.Until(w.ctx, w, "it is made", func() bool {
		one = w.all(tenant)[0]
		return one.State == domain.ResourceApplied
	})
	pod, err := w.cluster.Client(w).CoreV1().Pods(one.Object.Namespace).Get(w.ctx, one.Object.Name, metav1.GetOptions{})
	require.NoError(w, err)
	return one, pod
}

func (w *caseWorld) tryInject(c *workloadCase) {
	one, pod := w.made(c, w.file.Defaults.TenantID, map[string]any{"workload_info_inject": c.Inject})
	require.Empty(w, one.Reason)
	annotations := pod.Annotations
	expected := map[string]bool{}
	for name, text := range c.Expect.Annotations {
		expected[name] = true
		require.Contains(w, annotations, name)
		require.Equal(w, text, annotations[name], name)
	}
	for name, value := range c.Expect.AnnotationsJSON {
		expected[name] = true
		want, err := json.Marshal(value)
		require.NoError(w, err)
		require.JSONEq(w, string(want), annotations[name], name)
	}
	for _, inject := range c.Inject {
		as, _ := inject.(map[string]any)["as_annotation"].(map[string]any)
		name, _ := as["name"].(string)
		if _, there := annotations[name]; !expected[name] {
			require.False(w, there, "%s is there", name)
		}
	}
}

func (w *caseWorld) tryPlacement(c *workloadCase) {
	one, pod := w.made(c, c.Tenant, map[string]any{"dpu_selection_policy": c.DPUSelectionPolicy})
	require.NotNil(w, c.Expect.Nodes)
	if pod == nil {
		require.Nil(w, one.Object, "nothing is to be made")
		require.NotEmpty(w, one.Reason)
		return
	}
	require.ElementsMatch(w, *c.Expect.Nodes, hostnames(w, pod))
	if c.Expect.Namespace != "" {
		require.Equal(w, c.Expect.Namespace, pod.Namespace)
	}
}

// hostnames are the values of the required node affinity of a Pod.
func hostnames(w *caseWorld, pod *corev1.Pod) (names []string) {
	w.Helper()
	require.NotNil(w, pod.Spec.Affinity)
	for _, term := range pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, e := range term.MatchExpressions {
			require.Equal(w, "kubernetes.io/hostname", e.Key)
			names = append(names, e.Values...)
		}
	}
	return names
}
