package rpc

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/drover-io/drover/internal/convey"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/match"
	"github.com/drover-io/drover/internal/statusnotify"
	"github.com/drover-io/drover/internal/universe"
)

// encoded are messages as they come over the wire.
func encoded(f *testing.F, messages ...proto.Message) {
	f.Helper()
	for _, m := range messages {
		data, err := proto.Marshal(m)
		require.NoError(f, err)
		f.Add(data)
	}
}

// FuzzStream: whatever a stream brings is refused as Invalid, or says something of workloads that all have ids.
func FuzzStream(f *testing.F) {
	pod := &universe.WorkloadUpdate{
		WorkloadMetadata: &universe.WorkloadMetadata{Id: "a", Orchestrator: 1, ResourceType: "v1/Pod", ResourceNamespace: "default", ResourceName: "a"},
		WorkloadState:    &universe.WorkloadState{NodeName: "n", Ready: true, Extra: map[string]*universe.WorkloadState_ExtraData{"labels": {Data: map[string]string{"a": ""}}, "x": nil}},
	}
	encoded(f, &universe.WorkloadStreamRequest{},
		&universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadUpdate{WorkloadUpdate: pod}},
		&universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadDelete{WorkloadDelete: &universe.WorkloadDelete{}}},
		&universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadSync{WorkloadSync: &universe.WorkloadSync{WorkloadUpdates: []*universe.WorkloadUpdate{pod, {}, pod}}}})
	f.Fuzz(func(t *testing.T, data []byte) {
		in := &universe.WorkloadStreamRequest{}
		if proto.Unmarshal(data, in) != nil {
			return
		}
		said, err := saidBy(in)
		if err != nil {
			require.Equal(t, fail.Invalid, fail.KindOf(err))
			return
		}
		for _, w := range said.Put {
			require.NotEmpty(t, w.ID)
		}
		for _, id := range said.Delete {
			require.NotEmpty(t, id)
		}
	})
}

// FuzzRegistration: whatever is registered for is an owner's status, or refused as Invalid.
func FuzzRegistration(f *testing.F) {
	encoded(f, &statusnotify.StatusRegistration{},
		&statusnotify.StatusRegistration{
			ClientId: "c", StatusType: statusnotify.StatusValue_READY, Output: statusnotify.OutputType_ALL, Apps: []string{"a"}, Clusters: []string{"p+c", "", "+"}, Resources: []string{"r"},
			Key: &statusnotify.StatusRegistration_DigKey{DigKey: &statusnotify.DigKey{Project: "p", CompositeApp: "ca", CompositeAppVersion: "v1", DeploymentIntentGroup: "g"}},
		},
		&statusnotify.StatusRegistration{Key: &statusnotify.StatusRegistration_LcKey{LcKey: &statusnotify.LcKey{Project: "../p", LogicalCloud: "a/b"}}, StatusType: 7})
	f.Fuzz(func(t *testing.T, data []byte) {
		in := &statusnotify.StatusRegistration{}
		if proto.Unmarshal(data, in) != nil {
			return
		}
		owner, _, err := target(in)
		if err != nil {
			require.Equal(t, fail.Invalid, fail.KindOf(err))
			return
		}
		noun := domain.OwnerNoun(owner)
		require.NotNil(t, noun, "%q", owner)
		_, ok := noun.Split(owner)
		require.True(t, ok, "%q", owner)
	})
}

// FuzzRules: whatever comes as a rule is refused as Invalid, each member by the name that the protocol has for it, or comes back as
// it was. What is taken can be asked of any workload.
func FuzzRules(f *testing.F) {
	rule := func(change func(*universe.RuleData)) *universe.Rule {
		d := &universe.RuleData{
			OrchestratorType: 1, ResourceType: "v1/Pod", DpuSelectionPolicy: "Any", RuleTemplate: []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"n"},"spec":{"containers":[{"name":"n","image":"i"}]}}`),
			WorkloadTerms:      []*universe.RuleWorkloadTerm{{MatchExpressions: []*universe.RuleMatchExpression{{Key: "metadata['id']", Operation: 1, Values: []string{"a"}}}}},
			WorkloadInfoInject: []*universe.WorkloadInfoInject{{Key: "@", Message: &universe.WorkloadInfoInject_AsAnnotation{AsAnnotation: &universe.WorkloadInfoInjectConfigAsAnnotation{Name: "x"}}}},
		}
		change(d)
		return &universe.Rule{Id: "r", Data: d}
	}
	encoded(f, &universe.Rule{}, rule(func(*universe.RuleData) {}),
		rule(func(d *universe.RuleData) {
			d.OrchestratorType, d.WorkloadTerms[0].MatchExpressions[0].Operation = -1, 99
		}),
		rule(func(d *universe.RuleData) { d.WorkloadInfoInject[0].Message, d.WorkloadTerms = nil, nil }),
		rule(func(d *universe.RuleData) {
			d.WorkloadTerms[0].MatchExpressions[0].Operation, d.WorkloadTerms[0].MatchExpressions[0].Values = 5, []string{"-9223372036854775808"}
		}))
	tenant := &domain.Tenant{Metadata: domain.Metadata{Name: "t"}}
	tenant.Default()
	tenant.Spec.Cluster, tenant.Spec.Nodes = "p+c", domain.NodesAll
	w := &domain.Workload{Tenant: "t", ID: "a", Orchestrator: domain.Kubernetes, ResourceType: domain.KindPod, NodeName: "n"}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := &universe.Rule{}
		if proto.Unmarshal(data, in) != nil {
			return
		}
		rule, err := convey.RuleOf(in, domain.TenantKey("t"))
		if err != nil {
			require.Equal(t, fail.Invalid, fail.KindOf(err))
			return
		}
		compiled, err := match.Compile(tenant, rule)
		if err != nil {
			require.Equal(t, fail.Invalid, fail.KindOf(err))
			for _, field := range fail.FieldsOf(inProto(err)) {
				require.Regexp(t, `^rule\.(id|data\.[a-z_]+)`, field.Path)
			}
			return
		}
		require.Equal(t, compiled.Matches(w), compiled.Explain(w).Matches)
		object, reason := compiled.Resource(tenant, nil, w)
		require.NotEqual(t, object == nil, reason == nil)
		back, err := convey.RuleOf(convey.Rule(rule), domain.TenantKey("t"))
		require.NoError(t, err)
		require.NoError(t, match.ValidateRule(tenant, back))
	})
}
