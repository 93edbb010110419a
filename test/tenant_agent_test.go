package test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/deploy/crd"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/tenantcert"
	"github.com/drover-io/drover/test/harness"
)

// agency is a tenant whose cluster has agents.
type agency struct {
	*tenancy
	at     string               // the tenant's cluster
	api    *harness.Replica     // with which they speak, so that it can be away; nil for the stack's
	kube   kubernetes.Interface // the tenant's cluster
	crs    dynamic.ResourceInterface
	spaces [2]string // whose Pods may be told of; the first one is the agents', and the WorkloadRules are there
	folder string    // with certificates
	traces *harness.Collector
}

// newAgency is one whose agents have an API of their own.
func newAgency(ctx context.Context, t *testing.T) *agency {
	t.Helper()
	s := harness.SharedStack(t)
	e := newAgencyIn(ctx, t, s, harness.ClusterNames[1])
	e.traces, e.api = harness.NewCollector(t), s.AddAPI(t)
	e.certify()
	return e
}

// newAgencyIn is one whose cluster is one of the shared ones. Each of them has one definition of WorkloadRules.
func newAgencyIn(ctx context.Context, t *testing.T, s *harness.Stack, cluster string) *agency {
	t.Helper()
	e := &agency{tenancy: newTenancy(ctx, t, s, domain.ReportNone), at: cluster, folder: t.TempDir()}
	e.deleteRule(ctx)
	at := harness.NewCluster(t, cluster)
	e.kube = at.Client(t)
	for i := range e.spaces {
		e.spaces[i] = kubetest.Name("tenant")
		kubetest.MakeNamespace(t, at.Dynamic(t), e.spaces[i])
	}
	defined := kubetest.Define(t, at.Dynamic(t), crd.WorkloadRules().Manifest)
	e.crs = at.Dynamic(t).Resource(defined).Namespace(e.spaces[0])
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		list, err := e.crs.List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		for _, o := range list.Items { // of a test that has failed
			_, _ = e.crs.Patch(ctx, o.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		}
		kubetest.Undefine(t, at.Dynamic(t), defined)
		for _, name := range e.spaces {
			_ = e.kube.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
		}
	})
	e.configure(ctx, e.spaces[0])
	return e
}

// certify makes new certificates of a new CA, and has the API started with them.
func (e *agency) certify() {
	e.Helper()
	e.api.Kill()
	fresh := e.TempDir()
	require.NoError(e, tenantcert.Make(fresh))
	e.takeCertificates(fresh)
	e.api.Start(e, "DROVER_TENANT_TLS_CERT="+filepath.Join(fresh, "server.crt"), "DROVER_TENANT_TLS_KEY="+filepath.Join(fresh, "server.key"),
		"DROVER_TENANT_TLS_CA="+filepath.Join(fresh, "ca.crt"), "DROVER_OTLP_ENDPOINT="+e.traces.URL, "OTEL_BSP_SCHEDULE_DELAY=100")
}

// takeCertificates gives the agents certificates of the CA in a folder.
func (e *agency) takeCertificates(of string) {
	e.Helper()
	require.NoError(e, tenantcert.Tenant(of, e.tenant.Name))
	for from, to := range map[string]string{"ca.crt": "ca.crt", e.tenant.Name + ".crt": "tls.crt", e.tenant.Name + ".key": "tls.key"} {
		data, err := os.ReadFile(filepath.Join(of, from))
		require.NoError(e, err)
		require.NoError(e, os.WriteFile(filepath.Join(e.folder, to), data, 0o600))
	}
}

// agent starts one that has a certificate.
func (e *agency) agent() *harness.TenantAgent {
	e.Helper()
	return e.agentWith(e.byCertificate()...)
}

func (e *agency) byCertificate() []string {
	return []string{"--client-cert", filepath.Join(e.folder, "tls.crt"), "--client-key", filepath.Join(e.folder, "tls.key")}
}

// agentByToken starts one that has a bearer token.
func (e *agency) agentByToken(ctx context.Context) *harness.TenantAgent {
	e.Helper()
	one := &domain.TenantToken{Identity: domain.Identity{Parent: domain.KeyOf(e.tenant)}, Metadata: domain.Metadata{Name: "agent"}}
	_, err := e.tenancy.api.Create(ctx, one, nil)
	require.NoError(e, err)
	file := filepath.Join(e.folder, "token")
	require.NoError(e, os.WriteFile(file, []byte(one.Status.Token+"\n"), 0o600))
	return e.agentWith("--token-file", file)
}

func (e *agency) agentWith(credentials ...string) *harness.TenantAgent {
	e.Helper()
	return e.agentOf("drover", e.api.Tenants, append(credentials, "--otlp-endpoint", e.traces.URL)...)
}

// agentOf starts a program of build/bin as one that speaks with an API.
func (e *agency) agentOf(program, server string, args ...string) *harness.TenantAgent {
	e.Helper()
	return harness.StartTenantAgent(e, program, e.at, append([]string{
		"--tenant", e.tenant.Name, "--agent-namespace", e.spaces[0], "--server", server, "--server-name", tenantcert.ServerName,
		"--server-ca", filepath.Join(e.folder, "ca.crt"),
	}, args...)...)
}

// traced waits until the agent has told what runs, and of a rule that it has carried over, to which what the API did is linked.
func (e *agency) traced(ctx context.Context) {
	e.Helper()
	harness.Until(ctx, e, "the agent's traces", func() bool {
		told, carried := false, map[string]bool{}
		all := spans(e.traces.Spans())
		for _, x := range all {
			told = told || x.Service == "drover-tenant-agent" && x.Name == "sync"
			if x.Service == "drover-tenant-agent" && x.Name == "carry rule" {
				carried[x.Trace] = true
			}
		}
		return told && slices.ContainsFunc(all, func(x harness.Span) bool {
			return x.Service == "drover-api" && x.Attributes["drover.verb"] == "create" && slices.ContainsFunc(all, func(call harness.Span) bool {
				return call.Trace == x.Trace && slices.ContainsFunc(call.Links, func(link string) bool { return carried[link] }) && all.below(x, call.Name)
			})
		})
	})
}

// configure has the agents tell of the Pods of some namespaces.
func (e *agency) configure(ctx context.Context, spaces ...string) {
	e.Helper()
	names, err := json.Marshal(spaces)
	require.NoError(e, err)
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "drover-tenant-agent"}, Data: map[string]string{"config": "namespaces: " + string(names)},
	}
	configs := e.kube.CoreV1().ConfigMaps(e.spaces[0])
	if _, err = configs.Update(ctx, m, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
		_, err = configs.Create(ctx, m, metav1.CreateOptions{})
	}
	require.NoError(e, err)
}

// start has Pods run in a namespace of the tenant's cluster; no node takes them.
func (e *agency) start(ctx context.Context, space string, names ...string) {
	e.Helper()
	off := false
	for _, name := range names {
		_, err := e.kube.CoreV1().Pods(space).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}},
			Spec: corev1.PodSpec{
				SchedulerName: "nobody", AutomountServiceAccountToken: &off, Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}},
			},
		}, metav1.CreateOptions{})
		require.NoError(e, err)
	}
}

// stop has Pods gone.
func (e *agency) stop(ctx context.Context, space string, names ...string) {
	e.Helper()
	for _, name := range names {
		require.NoError(e, e.kube.CoreV1().Pods(space).Delete(ctx, name, *metav1.NewDeleteOptions(0)))
	}
}

// spec is that of a rule for the Pods with a label.
func (e *agency) spec(label, image string) domain.WorkloadRuleSpec {
	e.Helper()
	spec := e.newRule(image).Spec
	spec.WorkloadTerms = []domain.WorkloadTerm{{MatchExpressions: []domain.MatchExpression{
		{Key: "state.extra.labels." + label, Operation: domain.OperationExists, Values: []string{}},
	}}}
	return spec
}

// write has a WorkloadRule be there, for the Pods with the label app.
func (e *agency) write(ctx context.Context, name, image string) {
	e.Helper()
	data, err := json.Marshal(e.spec("app", image))
	require.NoError(e, err)
	o := &unstructured.Unstructured{Object: map[string]any{}}
	require.NoError(e, json.Unmarshal(data, &o.Object))
	o.Object = map[string]any{"spec": o.Object}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "drover.io", Version: "v1alpha1", Kind: "WorkloadRule"})
	o.SetName(name)
	_, err = e.crs.Apply(ctx, name, o, metav1.ApplyOptions{FieldManager: "person"})
	require.NoError(e, err)
}

// takeAway deletes a WorkloadRule, which is gone when its rule is.
func (e *agency) takeAway(ctx context.Context, name string) {
	e.Helper()
	require.NoError(e, e.crs.Delete(ctx, name, metav1.DeleteOptions{}))
}

func (e *agency) gone(ctx context.Context, name string) {
	e.Helper()
	harness.Until(ctx, e, "the WorkloadRule is gone", func() bool {
		_, err := e.crs.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// says waits until a WorkloadRule's condition has a reason, of its present spec, and gives the error that its status has.
func (e *agency) says(ctx context.Context, name, reason string) (wrong string) {
	e.Helper()
	harness.Until(ctx, e, fmt.Sprintf("the WorkloadRule %s is %s", name, reason), func() bool {
		o, err := e.crs.Get(ctx, name, metav1.GetOptions{})
		require.NoError(e, err)
		data, err := o.MarshalJSON()
		require.NoError(e, err)
		var said struct {
			Status struct {
				ObservedGeneration int64
				Error              string
				Conditions         []metav1.Condition
			}
		}
		require.NoError(e, json.Unmarshal(data, &said))
		wrong = said.Status.Error
		return said.Status.ObservedGeneration == o.GetGeneration() && len(said.Status.Conditions) == 1 && said.Status.Conditions[0].Reason == reason
	})
	return wrong
}

// stands waits until just these Pods have an object each, of an image. Objects and records are the same, both ways.
func (e *agency) stands(ctx context.Context, image string, want ...string) {
	e.Helper()
	slices.Sort(want)
	have := []string{}
	defer func() {
		if e.Failed() {
			e.Logf("want %v, have %v", want, have)
		}
	}()
	harness.Until(ctx, e, "made for the Pods that there are", func() bool {
		have = []string{}
		for _, p := range e.pods(ctx) {
			if p.Spec.Containers[0].Image == image && p.DeletionTimestamp == nil {
				have = append(have, p.Annotations["name"])
			}
		}
		slices.Sort(have)
		records := e.records(ctx)
		return slices.Equal(have, want) && len(e.pods(ctx)) == len(want) && len(records) == len(want) &&
			!slices.ContainsFunc(records, func(m domain.Match) bool { return m.Mark != domain.MarkApplied || !m.Due.IsZero() })
	})
	made := map[string]string{}
	for _, r := range e.records(ctx) {
		made[r.Made.Name] = r.Made.UID
	}
	there := map[string]string{}
	for name, p := range e.pods(ctx) {
		there[name] = string(p.UID)
	}
	require.Equal(e, made, there)
}

// TestTenantAgent: the agent as a process between a real cluster and the real stack. It is frozen and killed, its API is away, its
// certificates change, and what runs and which rules there are is known all the same.
func TestTenantAgent(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	e := newAgency(ctx, t)
	here, there := e.spaces[0], e.spaces[1]
	first := e.agent()

	e.start(ctx, here, "a", "b")
	e.start(ctx, there, "x")
	e.write(ctx, "web", "nginx:1")
	e.stands(ctx, "nginx:1", "a", "b")
	e.says(ctx, "web", "Synced")
	e.traced(ctx)
	e.stop(ctx, here, "a")
	e.start(ctx, here, "c")
	e.stands(ctx, "nginx:1", "b", "c")
	e.write(ctx, "web", "nginx:2")
	e.stands(ctx, "nginx:2", "b", "c")
	e.configure(ctx, here, there)
	e.stands(ctx, "nginx:2", "b", "c", "x")
	e.configure(ctx, there)
	e.stands(ctx, "nginx:2", "x")
	e.configure(ctx, here, there)
	e.stands(ctx, "nginx:2", "b", "c", "x")

	// A rule that was made by a person is not touched, whatever is said of it here.
	theirs := &domain.WorkloadRule{
		Identity: domain.Identity{Parent: domain.KeyOf(e.tenant)}, Metadata: domain.Metadata{Name: here + ".theirs"}, Spec: e.spec("nobody", "nginx:9"),
	}
	theirs.Spec.WorkloadTerms[0].MatchExpressions[0].Values = []string{""}
	_, err := e.tenancy.api.Create(ctx, theirs, nil)
	require.NoError(t, err)
	e.write(ctx, "theirs", "nginx:3")
	require.Contains(t, e.says(ctx, "theirs", "Conflict"), "was not made for this object")
	e.takeAway(ctx, "theirs")
	e.gone(ctx, "theirs")
	same, err := e.tenancy.api.Get(ctx, domain.WorkloadRules, domain.KeyOf(theirs))
	require.NoError(t, err)
	require.Equal(t, theirs.Spec, same.(*domain.WorkloadRule).Spec)

	// The API is away, and answers again with other certificates.
	e.write(ctx, "old", "nginx:2")
	e.says(ctx, "old", "Synced")
	e.api.Kill()
	e.stop(ctx, here, "b")
	e.start(ctx, there, "y")
	e.takeAway(ctx, "old")
	e.write(ctx, "web", "nginx:4")
	e.says(ctx, "web", "Unreachable")
	e.says(ctx, "old", "Unreachable")
	e.certify()
	e.gone(ctx, "old")
	e.stands(ctx, "nginx:4", "c", "x", "y")
	require.True(t, first.Alive(), "it has read the files that there are now")

	// It is frozen past its Lease. Another one speaks, and the first one does not when it goes on.
	spoken := first.Metric(ctx, t, "syncs_total")
	thaw := first.Freeze(t)
	second := e.agentByToken(ctx)
	e.stop(ctx, here, "c")
	e.start(ctx, here, "d")
	e.stands(ctx, "nginx:4", "d", "x", "y")
	harness.Until(ctx, t, "the second one knows that it has the Lease", func() bool { return second.Metric(ctx, t, "leader") == 1 })
	thaw()
	harness.Until(ctx, t, "the first one knows that it has lost its Lease", func() bool { return first.Metric(ctx, t, "leader") == 0 })
	e.stop(ctx, there, "y")
	e.write(ctx, "web", "nginx:5")
	e.stands(ctx, "nginx:5", "d", "x")
	require.Equal(t, spoken, first.Metric(ctx, t, "syncs_total"), "it has not spoken again")
	harness.Until(ctx, t, "the second one speaks", func() bool { return second.Metric(ctx, t, "connected") == 1 })

	// All agents are killed, and 30 changes are seen by nobody.
	first.Kill()
	second.Kill()
	var names []string
	for i := range 15 {
		names = append(names, fmt.Sprint("n", i))
	}
	e.start(ctx, here, names...)
	e.stop(ctx, here, names[5:]...)
	e.stop(ctx, here, "d")
	e.stop(ctx, there, "x")
	e.start(ctx, there, "z")
	e.write(ctx, "web", "nginx:6")
	e.write(ctx, "more", "nginx:6")
	third := e.agent()
	e.says(ctx, "more", "Synced")
	twice := append(slices.Clone(names[:5]), "z")
	e.stands(ctx, "nginx:6", append(twice, twice...)...)
	e.takeAway(ctx, "more")
	e.gone(ctx, "more")
	e.stands(ctx, "nginx:6", twice...)

	e.takeAway(ctx, "web")
	e.gone(ctx, "web")
	e.stands(ctx, "")
	status, err := e.tenancy.api.TenantStatus(ctx, domain.KeyOf(e.tenant))
	require.NoError(t, err)
	require.True(t, status.Connected)
	require.NoError(t, third.Stop(ctx))
	harness.Until(ctx, t, "shown as not connected", func() bool {
		status, err := e.tenancy.api.TenantStatus(ctx, domain.KeyOf(e.tenant))
		require.NoError(t, err)
		return !status.Connected
	})
	lease, err := e.kube.CoordinationV1().Leases(here).Get(ctx, "drover-tenant-agent", metav1.GetOptions{})
	require.NoError(t, err)
	require.Empty(t, *lease.Spec.HolderIdentity, "it was given back")
	require.Equal(t, 6, status.Workloads)
}
