package match_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/match"
)

// pod is a template whose Pod has more in its spec.
func pod(more string) string {
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"containers":[{"name":"c","image":"i"}]` + more + `}}`
}

func TestTemplates(t *testing.T) {
	for name, c := range map[string]struct {
		template string
		tenant   func(*domain.TenantSpec)
		wrong    []string // the members that are named; none when it is accepted
	}{
		"a Pod":                         {template: podTemplate},
		"of another namespace":          {template: `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"kube-system"}}`},
		"nothing":                       {wrong: []string{"spec.ruleTemplate"}},
		"no JSON":                       {template: "hello", wrong: []string{"spec.ruleTemplate"}},
		"a list":                        {template: "[]", wrong: []string{"spec.ruleTemplate"}},
		"null":                          {template: "null", wrong: []string{"spec.ruleTemplate"}},
		"two objects":                   {template: podTemplate + podTemplate, wrong: []string{"spec.ruleTemplate"}},
		"of no kind":                    {template: "{}", wrong: []string{"spec.ruleTemplate.apiVersion", "spec.ruleTemplate.kind"}},
		"of a kind that is not said":    {template: `{"apiVersion":"apps/v1","kind":"Deployment"}`, wrong: []string{"spec.ruleTemplate.kind"}},
		"too large":                     {template: pod(`,"x":"` + strings.Repeat("x", match.MaxTemplate) + `"`), wrong: []string{"spec.ruleTemplate"}},
		"no name":                       {template: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"A b"}}`, wrong: []string{"spec.ruleTemplate.metadata.name"}},
		"metadata of a wrong type":      {template: `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":7}}`, wrong: []string{"spec.ruleTemplate.metadata.labels"}},
		"an annotation of ours":         {template: `{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"Drover.io/x":"y"}}}`, wrong: []string{"spec.ruleTemplate.metadata.annotations"}},
		"a spec of a wrong type":        {template: `{"apiVersion":"v1","kind":"Pod","spec":{"containers":"c"}}`, wrong: []string{"spec.ruleTemplate.spec.containers"}},
		"an image that is a number":     {template: `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"a","image":"i"},{"name":"b","image":5}]}}`, wrong: []string{"spec.ruleTemplate.spec.containers[1].image"}},
		"containers that are an object": {template: `{"apiVersion":"v1","kind":"Pod","spec":{"containers":{"name":"a"}}}`, wrong: []string{"spec.ruleTemplate.spec.containers"}},
		"a spec that is a list":         {template: `{"apiVersion":"v1","kind":"Pod","spec":[]}`, wrong: []string{"spec.ruleTemplate.spec"}},
		"a label that is a number":      {template: `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"b","c":1}},"spec":{}}`, wrong: []string{"spec.ruleTemplate.metadata.labels.c"}},
		"labels that are a text":        {template: `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":"a"},"spec":{}}`, wrong: []string{"spec.ruleTemplate.metadata.labels"}},
		"a member of a Pod in a Job":    {template: `{"apiVersion":"batch/v1","kind":"Job","spec":{"template":{"spec":{"hostNetwork":"yes"}}}}`, tenant: func(s *domain.TenantSpec) { s.Kinds = []string{"batch/v1/Job"} }, wrong: []string{"spec.ruleTemplate.spec.template.spec.hostNetwork"}},
		"the host's network":            {template: pod(`,"hostNetwork":true`), wrong: []string{"spec.ruleTemplate.spec"}},
		"a name in another case of letters hides nothing": {template: pod(`,"hostNetwork":true,"HostNetwork":false`), wrong: []string{"spec.ruleTemplate.spec"}},
		"a privileged container":                          {template: `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"c","image":"i","securityContext":{"privileged":true}}]}}`, wrong: []string{"spec.ruleTemplate.spec"}},
		"what baseline lets be, restricted does not":      {template: podTemplate, tenant: func(s *domain.TenantSpec) { s.PodSecurity = domain.PodRestricted }, wrong: []string{"spec.ruleTemplate.spec"}},
		"a node, a priority and an account": {
			template: pod(`,"nodeName":"n","priorityClassName":"p","serviceAccountName":"s","automountServiceAccountToken":true`),
			wrong:    []string{"spec.ruleTemplate.spec.nodeName", "spec.ruleTemplate.spec.priorityClassName", "spec.ruleTemplate.spec.serviceAccountName", "spec.ruleTemplate.spec.automountServiceAccountToken"},
		},
		"a token by a volume": {
			template: pod(`,"volumes":[{"name":"v","projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}}]`),
			wrong:    []string{"spec.ruleTemplate.spec.volumes[0].projected.sources[0].serviceAccountToken"},
		},
		"all of that for a privileged tenant": {
			template: pod(`,"hostNetwork":true,"nodeName":"n","priorityClassName":"p","serviceAccountName":"s","automountServiceAccountToken":true`),
			tenant:   func(s *domain.TenantSpec) { s.PodSecurity = domain.PodPrivileged },
		},
		"a Deployment whose Pods are checked": {
			template: `{"apiVersion":"apps/v1","kind":"Deployment","spec":{"template":{"spec":{"hostPID":true,"containers":[{"name":"c","image":"i"}]}}}}`,
			tenant:   func(s *domain.TenantSpec) { s.Kinds = []string{"apps/v1/Deployment"} }, wrong: []string{"spec.ruleTemplate.spec.template.spec"},
		},
		"a Deployment without Pods": {
			template: `{"apiVersion":"apps/v1","kind":"Deployment","spec":{}}`,
			tenant:   func(s *domain.TenantSpec) { s.Kinds = []string{"apps/v1/Deployment"} }, wrong: []string{"spec.ruleTemplate.spec.template"},
		},
		"a kind that has no Pods": {template: `{"apiVersion":"v1","kind":"ConfigMap"}`, tenant: func(s *domain.TenantSpec) { s.Kinds = []string{"v1/ConfigMap"} }},
	} {
		t.Run(name, func(t *testing.T) {
			of := tenant()
			if c.tenant != nil {
				c.tenant(&of.Spec)
			}
			err := match.ValidateRule(of, rule(func(s *domain.WorkloadRuleSpec) { s.RuleTemplate = domain.Template(c.template) }))
			var paths []string
			for _, f := range fail.FieldsOf(err) {
				paths = append(paths, f.Path)
			}
			require.Equal(t, c.wrong, paths, "%v", err)
		})
	}
}

// made is what a rule makes of the workload, decoded.
func made(t *testing.T, change func(*domain.WorkloadRuleSpec)) map[string]any {
	t.Helper()
	r, err := match.Compile(tenant(), rule(change))
	require.NoError(t, err)
	got, reason := r.Resource(tenant(), hosts(), workload())
	require.Nil(t, reason)
	var object map[string]any
	require.NoError(t, json.Unmarshal(got.Manifest, &object))
	return object
}

// TestWhatATemplateDoesNotKeep: what is said of an object that exists, and where it is.
func TestWhatATemplateDoesNotKeep(t *testing.T) {
	object := made(t, func(s *domain.WorkloadRuleSpec) {
		s.RuleTemplate = domain.Template(`{"apiVersion":"v1","kind":"Pod","status":{"phase":"Running"},"spec":{"containers":[{"name":"c","image":"i"}]},"metadata":{
			"name":"a-name-that-is-much-longer-than-what-is-left-of-it","generateName":"g-","namespace":"kube-system","uid":"u","resourceVersion":"7","finalizers":["f"],
			"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}],"managedFields":[],"deletionTimestamp":"2026-11-21T05:29:07Z",
			"labels":{"app":"x","emco/deployment-id":"another"},"annotations":{"note":"kept"}}}`)
	})
	require.NotContains(t, object, "status")
	metadata := object["metadata"].(map[string]any)
	require.Regexp(t, `^a-name-that-is-much-longer-than-what-is--[0-9a-f]{10}$`, metadata["name"])
	require.Equal(t, "tenant-tenant1", metadata["namespace"])
	require.Equal(t, map[string]any{"app": "x", "emco/deployment-id": "4711-r"}, metadata["labels"])
	require.Equal(t, "kept", metadata["annotations"].(map[string]any)["note"])
	for _, gone := range []string{"generateName", "uid", "resourceVersion", "finalizers", "ownerReferences", "managedFields", "deletionTimestamp"} {
		require.NotContains(t, metadata, gone)
	}
	require.Equal(t, false, object["spec"].(map[string]any)["automountServiceAccountToken"], "no token is mounted")
}

// TestAQuantityThatKubernetesTakesMinutesFor is refused by its name, at once, of whatever kind it is.
func TestAQuantityThatKubernetesTakesMinutesFor(t *testing.T) {
	const limit = `"resources":{"limits":{"cpu":"9999999E999999999999"}}`
	for path, manifest := range map[string]string{
		"spec.containers[0].resources.limits.cpu":               `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"c","image":"i",` + limit + `}]}}`,
		"spec.template.spec.containers[0].resources.limits.cpu": `{"apiVersion":"apps/v1","kind":"Deployment","spec":{"template":{"spec":{"containers":[{"name":"c","image":"i",` + limit + `}]}}}}`,
		"spec.hard.pods": `{"apiVersion":"v1","kind":"ResourceQuota","spec":{"hard":{"pods":"9999999E999999999999"}}}`,
	} {
		r := rule(func(s *domain.WorkloadRuleSpec) { s.RuleTemplate = domain.Template(manifest) })
		r.Parent = "" // the operator's own may have any kind
		done := make(chan error, 1)
		go func() { done <- match.ValidateRule(nil, r) }()
		select {
		case err := <-done:
			require.Len(t, fail.FieldsOf(err), 1)
			require.Equal(t, "spec.ruleTemplate."+path, fail.FieldsOf(err)[0].Path)
		case <-time.After(10 * time.Second):
			require.FailNow(t, "it is busy with the quantity", path)
		}
	}
}

// TestOursGoesIntoEveryTerm: the template's terms are ORed, so one without ours would be a way out.
func TestOursGoesIntoEveryTerm(t *testing.T) {
	object := made(t, func(s *domain.WorkloadRuleSpec) {
		s.RuleTemplate = domain.Template(pod(`,"affinity":{"podAffinity":{},"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
			{"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}]},{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}]}}}`))
	})
	text, err := json.Marshal(object["spec"].(map[string]any)["affinity"])
	require.NoError(t, err)
	const ours = `{"key":"kubernetes.io/hostname","operator":"In","values":["dpu1-host-a"]}`
	require.JSONEq(t, `{"podAffinity":{},"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
		{"matchExpressions":[{"key":"zone","operator":"In","values":["a"]},`+ours+`]},
		{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}],"matchExpressions":[`+ours+`]}]}}}`, string(text))
}

// TestWhyNothingIsMade: what is waited for, and what stays so.
func TestWhyNothingIsMade(t *testing.T) {
	for name, c := range map[string]struct {
		rule     func(*domain.WorkloadRuleSpec)
		workload func(*domain.Workload)
		tenant   func(*domain.TenantSpec)
		hosts    []*domain.Host
		says     string
		failed   bool
	}{
		"on no node":      {workload: func(w *domain.Workload) { w.NodeName = "" }, hosts: hosts(), says: "on no node yet"},
		"no such host":    {workload: func(w *domain.Workload) { w.NodeName = "z" }, hosts: hosts(), says: `no host of that name`},
		"without nodes":   {hosts: []*domain.Host{{Metadata: domain.Metadata{Name: "host-a"}}}, says: "has no nodes"},
		"no hosts at all": {rule: func(s *domain.WorkloadRuleSpec) { s.DPUSelectionPolicy = domain.AnyNode }, says: "have no nodes"},
		"too large": {
			rule: func(s *domain.WorkloadRuleSpec) {
				s.WorkloadInfoInject = []domain.WorkloadInfoInject{{Key: "@", AsAnnotation: &domain.WorkloadInfoAsAnnotation{Name: "all"}}}
			},
			workload: func(w *domain.Workload) { w.Extra["labels"]["large"] = strings.Repeat("x", match.MaxAnnotations) },
			hosts:    hosts(), says: "more than 262144 bytes", failed: true,
		},
		"insecure by what is injected": {
			rule: func(s *domain.WorkloadRuleSpec) {
				s.WorkloadInfoInject = []domain.WorkloadInfoInject{{Key: "state.extra.labels.profile", AsAnnotation: &domain.WorkloadInfoAsAnnotation{Name: "container.apparmor.security.beta.kubernetes.io/nginx"}}}
			},
			workload: func(w *domain.Workload) { w.Extra["labels"]["profile"] = "unconfined" },
			hosts:    hosts(), says: "violates the pod security standard", failed: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			of, w := tenant(), workload()
			change := c.rule
			if change == nil {
				change = func(*domain.WorkloadRuleSpec) {}
			}
			if c.workload != nil {
				c.workload(w)
			}
			r, err := match.Compile(of, rule(change))
			require.NoError(t, err)
			got, reason := r.Resource(of, c.hosts, w)
			require.Nil(t, got)
			require.Contains(t, reason.Text, c.says)
			require.Equal(t, c.failed, reason.Failed)
			m, _ := r.Want(of, c.hosts, w)
			wanted := m.Wanted
			require.Equal(t, reason.Text, wanted.Without)
			require.Empty(t, wanted.Spec)
		})
	}
	of := tenant()
	of.Spec.Nodes = domain.NodesAll
	r, err := match.Compile(of, rule(func(s *domain.WorkloadRuleSpec) { s.DPUSelectionPolicy = domain.AnyNode }))
	require.NoError(t, err)
	w := workload()
	w.NodeName = ""
	got, reason := r.Resource(of, nil, w)
	require.Nil(t, reason)
	require.Nil(t, got.Nodes, "any node")
	require.NotContains(t, string(got.Manifest), "affinity")
}

// TestHashes: another annotation is no other object, another spec is.
func TestHashes(t *testing.T) {
	made := func(change func(*domain.WorkloadRuleSpec), w *domain.Workload) *match.Resource {
		r, err := match.Compile(tenant(), rule(change))
		require.NoError(t, err)
		got, reason := r.Resource(tenant(), hosts(), w)
		require.Nil(t, reason)
		return got
	}
	inject := func(s *domain.WorkloadRuleSpec) {
		s.WorkloadInfoInject = []domain.WorkloadInfoInject{{Key: "state.ready", AsAnnotation: &domain.WorkloadInfoAsAnnotation{Name: "ready"}}}
	}
	first := made(inject, workload())
	require.Equal(t, first, made(inject, workload()), "the same is the same")
	changed := workload()
	changed.Ready = false
	second := made(inject, changed)
	require.Equal(t, first.Spec, second.Spec)
	require.NotEqual(t, first.Annotations, second.Annotations)
	changed.NodeName = "host-b"
	third := made(inject, changed)
	require.NotEqual(t, second.Spec, third.Spec, "it goes elsewhere")
	require.Equal(t, []string{"dpu1-host-b", "dpu2-host-b"}, third.Nodes)
	require.Equal(t, first.ID, third.ID)
}

// FuzzTemplates: any template is refused by a member, or makes an object of the tenant's with our label.
func FuzzTemplates(f *testing.F) {
	for _, seed := range []string{podTemplate, pod(`,"affinity":{"nodeAffinity":null}`), pod(`,"affinity":7`), "{}", "null", `{"apiVersion":"v1","kind":"Pod","metadata":null,"spec":null}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":null,"labels":null}}`, `{"apiVersion":"apps/v1","kind":"Deployment","spec":{"template":{"metadata":null}}}`} {
		f.Add([]byte(seed))
	}
	of := tenant()
	of.Spec.Kinds = []string{"v1/Pod", "v1/ConfigMap", "apps/v1/Deployment", "batch/v1/CronJob"}
	f.Fuzz(func(t *testing.T, template []byte) {
		r, err := match.Compile(of, rule(func(s *domain.WorkloadRuleSpec) { s.RuleTemplate = template }))
		if err != nil {
			require.True(t, fail.Is(err, fail.Invalid))
			require.NotEmpty(t, fail.FieldsOf(err))
			return
		}
		made, reason := r.Resource(of, hosts(), workload())
		if reason != nil {
			require.NotEmpty(t, reason.Text)
			return
		}
		var object struct {
			Metadata struct {
				Namespace string
				Labels    map[string]string
			}
		}
		require.NoError(t, json.Unmarshal(made.Manifest, &object))
		require.Equal(t, "tenant-tenant1", object.Metadata.Namespace)
		require.Equal(t, "4711-r", object.Metadata.Labels["emco/deployment-id"])
	})
}

// TestUnambiguous: what would be decoded to something else than was sent is refused, and named.
func TestUnambiguous(t *testing.T) {
	for name, c := range map[string]struct{ template, wrong string }{
		"a Pod":           {template: podTemplate},
		"a member twice":  {`{"metadata":{"labels":{"a":"b"},"labels":{}}}`, "spec.ruleTemplate.metadata.labels: is there twice"},
		"half a pair":     {`{"metadata":{"name":"\ud800"}}`, `spec.ruleTemplate.metadata.name: \ud800 is half of a surrogate pair`},
		"bytes of others": {"{\"metadata\":\"\xff\"}", "spec.ruleTemplate: is not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			err := match.Unambiguous(&domain.WorkloadRule{Spec: domain.WorkloadRuleSpec{RuleTemplate: domain.Template(c.template)}})
			if c.wrong == "" {
				require.NoError(t, err)
				return
			}
			require.True(t, fail.Is(err, fail.Invalid), "%v", err)
			require.Contains(t, fail.TextOf(err), c.wrong)
		})
	}
}
