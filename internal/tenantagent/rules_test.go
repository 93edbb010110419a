package tenantagent_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/drover-io/drover/api/rpc"
	"github.com/drover-io/drover/deploy/crd"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/freeport"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
	"github.com/drover-io/drover/internal/tenantagent"
	"github.com/drover-io/drover/internal/universe"
)

// ruleWorld is a cluster with an agent whose rules are carried to a real server, which has tenant1.
type ruleWorld struct {
	*world
	store   *store.Store
	address string
	rules   universe.WorkloadRuleServiceClient
	objects dynamic.ResourceInterface
	stop    func() // the server
}

func newRuleWorld(t *testing.T) *ruleWorld {
	t.Helper()
	w := newBareRuleWorld(t)
	w.configure("namespaces: [" + w.namespace + "]")
	w.agent(func(c *tenantagent.Config) { c.Server.Address, c.Rules = w.address, true })
	return w
}

// newBareRuleWorld is newRuleWorld without an agent.
func newBareRuleWorld(t *testing.T) *ruleWorld {
	t.Helper()
	tenantagent.SetLook(t, 200*time.Millisecond)
	w := &ruleWorld{world: newWorld(t), store: storetest.Open(t, store.Config{}), address: freeport.Address()}
	client := kubetest.Dynamic(t, kubetest.Kubeconfig(t))
	w.objects = client.Resource(kubetest.Define(t, client, crd.WorkloadRules().Manifest)).Namespace(w.namespace)
	one := &domain.Tenant{Metadata: domain.Metadata{Name: "tenant1"}, ContextID: "1234567890123456789"}
	one.Spec.Cluster = "provider+edge"
	one.Default()
	require.NoError(t, w.store.Create(t.Context(), one))
	w.serve()
	connection, err := grpc.NewClient(w.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { connection.Close() })
	w.rules = universe.NewWorkloadRuleServiceClient(connection)
	t.Cleanup(func() { // when agents have ended: none is there that takes the finalizers away
		ctx := context.WithoutCancel(t.Context())
		list, err := w.objects.List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		for _, o := range list.Items {
			_, err := w.objects.Patch(ctx, o.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			require.True(t, err == nil || apierrors.IsNotFound(err), "%v", err)
		}
	})
	return w
}

// serve starts the server.
func (w *ruleWorld) serve() {
	w.Helper()
	l, err := net.Listen("tcp", w.address)
	require.NoError(w, err)
	m := service.NewMatcher(w.store, quiet{}, time.Now, "process")
	documents := service.New(service.Deps{Store: w.store, Now: time.Now, Matching: m})
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- rpc.ServeTenants(ctx, l, rpc.TenantOptions{Options: rpc.Options{
			Door: door.New(door.Parts{Commands: documents, Documents: documents, Tenancy: m}), Log: slog.New(slog.DiscardHandler), Drain: time.Minute,
		}})
	}()
	w.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(w, <-ended)
		m.Close()
	})
	w.Cleanup(w.stop)
}

// quiet settles nothing.
type quiet struct{}

func (quiet) Settle(context.Context, string) error { return nil }

// spec is that of a rule whose Pods have an image.
func spec(image string) map[string]any {
	return map[string]any{
		"orchestratorType": "kubernetes", "resourceType": "v1/Pod", "dpuSelectionPolicy": "Any",
		"workloadTerms": []any{map[string]any{"matchExpressions": []any{
			map[string]any{"key": "state.extra.labels.app", "operation": "Exists"},
			map[string]any{"key": "metadata.resourceName", "operation": "In", "values": []any{"a", "b"}},
		}}},
		"workloadInfoInject": []any{map[string]any{"key": "@", "asAnnotation": map[string]any{"name": "info"}}},
		"ruleTemplate": map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{
			"containers": []any{map[string]any{"name": "c", "image": image}},
		}},
	}
}

// put makes a WorkloadRule, or changes it.
func (w *ruleWorld) put(name string, spec map[string]any) {
	w.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "drover.io", Version: "v1alpha1", Kind: "WorkloadRule"})
	o.SetName(name)
	_, err := w.objects.Apply(w.Context(), name, o, metav1.ApplyOptions{FieldManager: "person"})
	require.NoError(w, err)
}

func (w *ruleWorld) delete(name string) {
	w.Helper()
	require.NoError(w, w.objects.Delete(w.Context(), name, metav1.DeleteOptions{}))
}

// said is what the agent says of a WorkloadRule.
type said struct {
	ObservedGeneration, Pods int64
	RuleID, Error            string
	Synced, Made             bool
	Conditions               []metav1.Condition
}

func (s said) reason() string {
	if len(s.Conditions) == 0 {
		return ""
	}
	return s.Conditions[0].Reason
}

// await waits until what is said of the last generation is as it should be.
func (w *ruleWorld) await(name string, is func(said) bool) said {
	w.Helper()
	var last struct{ Status said }
	require.Eventually(w, func() bool {
		o, err := w.objects.Get(w.Context(), name, metav1.GetOptions{})
		require.NoError(w, err)
		data, err := o.MarshalJSON()
		require.NoError(w, err)
		last.Status = said{}
		require.NoError(w, json.Unmarshal(data, &last))
		return last.Status.ObservedGeneration == o.GetGeneration() && is(last.Status)
	}, deadline, tick)
	return last.Status
}

func hasReason(reason string) func(said) bool {
	return func(s said) bool { return s.reason() == reason }
}

func (w *ruleWorld) gone(name string) {
	w.Helper()
	require.Eventually(w, func() bool {
		_, err := w.objects.Get(w.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}, deadline, tick)
}

func forTenant(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "tenant-id", "tenant1")
}

// rule is the one that the server has for a WorkloadRule; nil for none.
func (w *ruleWorld) rule(name string) *universe.Rule {
	w.Helper()
	answer, err := w.rules.Get(forTenant(w.Context()), &universe.GetRequest{Id: w.namespace + "." + name})
	if status.Code(err) == codes.NotFound {
		return nil
	}
	require.NoError(w, err)
	return answer.GetRule()
}

func TestRulesAreCarriedOver(t *testing.T) {
	w := newRuleWorld(t)
	w.pod(w.namespace, "a")
	w.pod(w.namespace, "c")
	w.put("one", spec("nginx:1"))
	s := w.await("one", hasReason("Synced"))
	require.Equal(t, w.namespace+".one", s.RuleID)
	require.True(t, s.Synced)
	require.Empty(t, s.Error)
	made := w.rule("one")
	require.Equal(t, []string{""}, made.GetData().GetWorkloadTerms()[0].GetMatchExpressions()[0].GetValues())
	require.JSONEq(t, `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"c","image":"nginx:1"}]}}`, string(made.GetData().GetRuleTemplate()))
	w.await("one", func(s said) bool { return s.Pods == 1 })
	w.pod(w.namespace, "b")
	w.await("one", func(s said) bool { return s.Pods == 2 })

	w.put("one", spec("nginx:2"))
	require.Eventually(t, func() bool { return !proto.Equal(made, w.rule("one")) }, deadline, tick)
	w.await("one", hasReason("Synced"))
	wanted := w.rule("one")
	require.Contains(t, string(wanted.GetData().GetRuleTemplate()), "nginx:2")

	// What somebody does to it at the server is made good. The protocol has no description, and one that came by REST stays.
	stored := func() *domain.WorkloadRule {
		all, err := w.store.List(t.Context(), domain.WorkloadRules, domain.TenantKey("tenant1"))
		require.NoError(t, err)
		require.Len(t, all, 1)
		return all[0].(*domain.WorkloadRule)
	}
	described := stored()
	described.Description = "by REST"
	require.NoError(t, w.store.Replace(t.Context(), described))
	_, err := w.rules.Update(forTenant(t.Context()), &universe.UpdateRequest{Rule: made})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return proto.Equal(wanted, w.rule("one")) }, deadline, tick)
	require.Equal(t, "by REST", stored().Description)
	_, err = w.rules.Delete(forTenant(t.Context()), &universe.DeleteRequest{Id: wanted.GetId()})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return proto.Equal(wanted, w.rule("one")) }, deadline, tick)

	w.delete("one")
	w.gone("one")
	require.Nil(t, w.rule("one"))
}

func TestARuleOfSomebodyElseIsNotTouched(t *testing.T) {
	w := newRuleWorld(t)
	w.put("model", spec("nginx:1"))
	w.await("model", hasReason("Synced"))
	for name, image := range map[string]string{"other": "nginx:2", "same": "nginx:1"} {
		theirs := w.rule("model")
		theirs.Id = w.namespace + "." + name
		_, err := w.rules.Create(forTenant(t.Context()), &universe.CreateRequest{Rule: theirs})
		require.NoError(t, err)
		w.put(name, spec(image))
		s := w.await(name, hasReason("Conflict"))
		require.False(t, s.Synced)
		require.False(t, s.Made)
		require.Contains(t, s.Error, "was not made for this object")
		w.delete(name)
		w.gone(name)
		require.True(t, proto.Equal(theirs, w.rule(name)), "it is there as it was")

		w.put(name, spec(image))
		w.await(name, hasReason("Conflict"))
		_, err = w.rules.Delete(forTenant(t.Context()), &universe.DeleteRequest{Id: theirs.GetId()})
		require.NoError(t, err)
		w.await(name, hasReason("Synced"))
		require.Contains(t, string(w.rule(name).GetData().GetRuleTemplate()), image)
	}
}

func TestARuleThatIsNotTakenSaysWhy(t *testing.T) {
	w := newRuleWorld(t)
	wrong := spec("nginx:1")
	wrong["ruleTemplate"] = map[string]any{"apiVersion": "v1", "kind": "Secret"}
	w.put("one", wrong)
	s := w.await("one", hasReason("Invalid"))
	require.Contains(t, s.Error, "rule.data.rule_template")
	require.Nil(t, w.rule("one"))
	w.put("one", spec("nginx:1"))
	w.await("one", hasReason("Synced"))
	w.put("one", wrong)
	w.await("one", hasReason("Invalid"))
	require.NotNil(t, w.rule("one"), "what was taken stays")
	w.delete("one")
	w.gone("one")
	require.Nil(t, w.rule("one"))
	require.Eventually(t, func() bool { return len(w.list()) == 0 }, deadline, tick)
}

func (w *ruleWorld) list() []*universe.Rule {
	w.Helper()
	answer, err := w.rules.List(forTenant(w.Context()), &universe.ListRequest{})
	require.NoError(w, err)
	return answer.GetRules()
}

// TestTheServerIsAway: what is deleted meanwhile waits, and what is made.
func TestTheServerIsAway(t *testing.T) {
	w := newRuleWorld(t)
	w.put("old", spec("nginx:1"))
	w.await("old", hasReason("Synced"))
	w.stop()
	w.put("new", spec("nginx:1"))
	w.await("new", hasReason("Unreachable"))
	w.delete("old")
	s := w.await("old", hasReason("Unreachable"))
	require.Contains(t, s.Error, "the rule cannot be deleted: ")
	require.NotContains(t, s.Error, "desc =")
	w.serve()
	w.gone("old")
	w.await("new", hasReason("Synced"))
	require.Nil(t, w.rule("old"))
	require.NotNil(t, w.rule("new"))
}

// TestARuleThatArrivesLate: the agent has sent a request to make a rule and had no answer, and the WorkloadRule is deleted. It stays
// until the request cannot arrive any more, and takes what has arrived with it.
func TestARuleThatArrivesLate(t *testing.T) {
	w := newBareRuleWorld(t)
	w.configure("namespaces: [" + w.namespace + "]")
	agent := func() (stop func()) {
		return w.agent(func(c *tenantagent.Config) { c.Server.Address, c.Rules = w.address, true })
	}
	stop := agent()
	w.put("model", spec("nginx:1"))
	w.await("model", hasReason("Synced"))
	stop()
	late := w.rule("model")
	late.Id = w.namespace + ".late"
	w.put("late", spec("nginx:1"))
	w.edit("late", `{"metadata":{"finalizers":["drover.io/workload-rule"]}}`)
	w.edit("late", `{"status":{"making":"`+tenantagent.HashOf(late)+`"}}`, "status")
	w.delete("late")

	tenantagent.SetLate(t, time.Hour)
	stop = agent()
	w.await("late", func(s said) bool { return strings.Contains(s.Error, "may arrive yet") })
	_, err := w.rules.Create(forTenant(t.Context()), &universe.CreateRequest{Rule: late})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return w.rule("late") == nil }, deadline, tick)
	stop()
	_, err = w.objects.Get(t.Context(), "late", metav1.GetOptions{})
	require.NoError(t, err, "another one may arrive")

	tenantagent.SetLate(t, 0)
	agent()
	w.gone("late")
	require.Nil(t, w.rule("late"))
	require.NotNil(t, w.rule("model"))
}

// TestARuleGoesWithItsTenant: who deletes a WorkloadRule after the control plane has deleted the tenant waits for nobody, be it that a request
// to make the rule had no answer. Of an agent that is told the name of a tenant that there is not it waits: the rule is there.
func TestARuleGoesWithItsTenant(t *testing.T) {
	w := newBareRuleWorld(t)
	w.configure("namespaces: [" + w.namespace + "]")
	agent := func(tenant string) (stop func()) {
		return w.agent(func(c *tenantagent.Config) { c.Server.Address, c.Rules, c.Tenant = w.address, true, tenant })
	}
	tenantagent.SetLate(t, time.Second)
	stop := agent("tenant1")
	for _, name := range []string{"one", "two"} {
		w.put(name, spec("nginx:1"))
		w.await(name, hasReason("Synced"))
	}
	stop()
	w.put("late", spec("nginx:1"))
	w.edit("late", `{"metadata":{"finalizers":["drover.io/workload-rule"]}}`)
	w.edit("late", `{"status":{"making":"`+tenantagent.HashOf(w.rule("one"))+`","tenant":"tenant1"}}`, "status")

	stop = agent("nobody")
	w.delete("one")
	s := w.await("one", hasReason("Refused"))
	require.Contains(t, s.Error, `the rule cannot be deleted: tenant-id: tenant "nobody" not found`)
	stop()
	require.NotNil(t, w.rule("one"))

	require.NoError(t, w.store.Delete(t.Context(), domain.Tenants, domain.TenantKey("tenant1"), 0))
	stop = agent("tenant1")
	w.gone("one")
	w.delete("two")
	w.gone("two")
	w.delete("late")
	w.gone("late")
	stop()
}

// TestAnAgentThatHasLostItsLeaseMakesNoRules: it does not know that yet, as one that was frozen.
func TestAnAgentThatHasLostItsLeaseMakesNoRules(t *testing.T) {
	w := newRuleWorld(t)
	w.put("old", spec("nginx:1"))
	w.await("old", hasReason("Synced"))
	leases := w.kube.CoordinationV1().Leases(w.namespace)
	lease, err := leases.Get(t.Context(), "drover-tenant-agent", metav1.GetOptions{})
	require.NoError(t, err)
	other, long := "another agent", int32(3600)
	for { // the one that has it renews it
		now := metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &other, &now, &long
		_, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) {
			break
		}
		lease, err = leases.Get(t.Context(), "drover-tenant-agent", metav1.GetOptions{})
		require.NoError(t, err)
	}
	require.NoError(t, err)
	w.put("new", spec("nginx:1"))
	// It finds out before it writes, or because it could not renew the Lease, and nothing is made in either case.
	require.Eventually(t, func() bool { return strings.Contains(w.log.String(), "the agent has lost its Lease") }, deadline, tick)
	require.Nil(t, w.rule("new"))
	require.NotNil(t, w.rule("old"))
}

// edit changes a WorkloadRule, or its status.
func (w *ruleWorld) edit(name, change string, subresources ...string) {
	w.Helper()
	_, err := w.objects.Patch(w.Context(), name, types.MergePatchType, []byte(change), metav1.PatchOptions{}, subresources...)
	require.NoError(w, err)
}
