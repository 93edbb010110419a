package match

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	psa "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fields"
	"github.com/drover-io/drover/internal/limits"
)

// MaxTemplate bounds a template, in bytes.
const MaxTemplate = limits.Template

// template is a manifest, cleaned. It is kept as JSON: a process has the rules of all tenants in memory, and as an object one of
// these takes several times as much.
type template struct {
	json   []byte
	pod    []string // the members on the way to the object with metadata and spec of a Pod; nil when the kind has none
	hasPod bool
	level  domain.PodSecurity
}

// podPaths are where kinds have metadata and spec of Pods.
var podPaths = map[string][]string{
	"v1/Pod": {}, "v1/PodTemplate": {"template"}, "v1/ReplicationController": {"spec", "template"},
	"apps/v1/Deployment": {"spec", "template"}, "apps/v1/ReplicaSet": {"spec", "template"},
	"apps/v1/StatefulSet": {"spec", "template"}, "apps/v1/DaemonSet": {"spec", "template"},
	"batch/v1/Job": {"spec", "template"}, "batch/v1/CronJob": {"spec", "jobTemplate", "spec", "template"},
}

// notTemplates are the members of metadata that say something of an object that exists; a template does not keep them.
var notTemplates = []string{
	"ownerReferences", "finalizers", "uid", "resourceVersion", "generateName", "generation", "creationTimestamp",
	"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields", "namespace",
}

const inTemplate = "spec.ruleTemplate"

// template checks the rule's template and cleans it.
func (c *compiler) template() (t template) {
	p, data := &c.problems, c.rule.Spec.RuleTemplate
	if len(data) == 0 {
		p.Add(inTemplate, "is required")
		return t
	}
	if len(data) > MaxTemplate {
		p.Add(inTemplate, "has %d bytes, of %d at most", len(data), MaxTemplate)
		return t
	}
	var object map[string]any
	if err := json.Unmarshal(bytes.TrimSpace(data), &object); err != nil || object == nil {
		p.Add(inTemplate, "is not a JSON object")
		return t
	}
	if t.level = domain.PodPrivileged; c.tenant != nil {
		t.level = c.tenant.Spec.PodSecurity
	}
	kind, ok := c.kind(object)
	if !ok || !c.metadata(object) {
		return t
	}
	if path, err := fields.Unbounded(schema.FromAPIVersionAndKind(object["apiVersion"].(string), object["kind"].(string)), object); path != "" {
		p.Add(inTemplate+"."+path, "%s", err)
		return t
	}
	if t.pod, t.hasPod = podPaths[kind]; t.hasPod {
		c.pod(&t, object)
	}
	t.json = encode(object)
	return t
}

// object is a copy of the manifest.
func (t *template) object() (object map[string]any, err error) {
	err = json.Unmarshal(t.json, &object)
	return object, err
}

// kind checks apiVersion and kind, and is such as apps/v1/Deployment.
func (c *compiler) kind(object map[string]any) (string, bool) {
	p := &c.problems
	version, isText := object["apiVersion"].(string)
	if !isText || version == "" {
		p.Add(inTemplate+".apiVersion", "must be a text such as v1")
	}
	kind, alsoText := object["kind"].(string)
	if !alsoText || kind == "" {
		p.Add(inTemplate+".kind", "must be a text such as Pod")
	}
	if version == "" || kind == "" {
		return "", false
	}
	kind = version + "/" + kind
	if c.tenant != nil && !slices.Contains(c.tenant.Spec.Kinds, kind) {
		p.Add(inTemplate+".kind", "%s is not allowed for tenant %q; use %s", kind, c.tenant.Name, strings.Join(c.tenant.Spec.Kinds, ", "))
		return "", false
	}
	return kind, true
}

// metadata checks the object's metadata, and takes out what a template has no use for. The status goes, too.
func (c *compiler) metadata(object map[string]any) bool {
	p, path := &c.problems, inTemplate+".metadata"
	delete(object, "status")
	if object["metadata"] == nil {
		object["metadata"] = map[string]any{}
	}
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		p.Add(path, "is not an object")
		return false
	}
	for _, member := range notTemplates {
		delete(metadata, member)
	}
	var typed metav1.ObjectMeta
	if at, err := read(metadata, &typed); err != nil {
		p.Add(path+at, "does not fit: %s", err)
		return false
	}
	if typed.Name != "" && !domain.IsSubdomain(typed.Name) {
		p.Add(path+".name", "%q is not the name of an object: a-z, 0-9, - and ., no - or . first or last", typed.Name)
	}
	for name := range typed.Annotations {
		if strings.HasPrefix(strings.ToLower(name), ourPrefix) {
			p.Add(path+".annotations", "%q is reserved: %s is for what Drover writes itself", name, ourPrefix)
		}
	}
	return true
}

// nodeTerms is how many terms a Pod has that say on which nodes it must be.
func nodeTerms(spec *corev1.PodSpec) int {
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil || spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return 0
	}
	return len(spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms)
}

// pod checks the Pod in a template: what it is, and what the tenant may not say of it.
func (c *compiler) pod(t *template, object map[string]any) {
	path := strings.Join(append([]string{inTemplate}, t.pod...), ".")
	for _, member := range t.pod {
		inner, ok := object[member].(map[string]any)
		if !ok {
			c.problems.Add(path, "is required, and must be an object")
			return
		}
		object = inner
	}
	metadata, spec, at, err := typedPod(object)
	if err != nil {
		c.problems.Add(path+at, "is not as a Pod has it: %s", err)
		return
	}
	if n := nodeTerms(spec); c.written && n > limits.RuleNodeTerms {
		c.problems.Add(path+".spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms", "has %d members, of %d at most", n, limits.RuleNodeTerms)
	}
	if t.level == domain.PodPrivileged {
		return
	}
	refuse := func(member, why string) { c.problems.Add(path+".spec."+member, "%s", why) }
	if spec.NodeName != "" {
		refuse("nodeName", "is not allowed: the node is chosen by dpuSelectionPolicy")
	}
	if spec.PriorityClassName != "" {
		refuse("priorityClassName", "is not allowed")
	}
	if spec.ServiceAccountName != "" {
		refuse("serviceAccountName", "is not allowed")
	}
	if spec.DeprecatedServiceAccount != "" {
		refuse("serviceAccount", "is not allowed")
	}
	if spec.AutomountServiceAccountToken != nil && *spec.AutomountServiceAccountToken {
		refuse("automountServiceAccountToken", "is not allowed: no token of a service account is mounted")
	}
	for i, v := range spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for j, source := range v.Projected.Sources {
			if source.ServiceAccountToken != nil {
				refuse(fmt.Sprintf("volumes[%d].projected.sources[%d].serviceAccountToken", i, j), "is not allowed: no token of a service account is mounted")
			}
		}
	}
	if why := insecure(t.level, metadata, spec); why != "" {
		c.problems.Add(path+".spec", "violates the pod security standard %q: %s", t.level, why)
	}
}

// typedPod reads metadata and spec of a Pod. The names of members are compared letter by letter, as clusters do. With an error it says
// where.
func typedPod(object map[string]any) (metadata *metav1.ObjectMeta, spec *corev1.PodSpec, at string, err error) {
	var pod struct {
		metav1.ObjectMeta `json:"metadata,omitempty"`
		Spec              corev1.PodSpec `json:"spec,omitempty"`
	}
	typed := map[string]any{"metadata": object["metadata"], "spec": object["spec"]}
	for member, value := range typed {
		if value == nil {
			delete(typed, member)
		}
	}
	if at, err := read(typed, &pod); err != nil {
		return nil, nil, at, err
	}
	return &pod.ObjectMeta, &pod.Spec, "", nil
}

// read reads an object into a typed one. With an error it says which member does not fit, such as .spec.containers[0].image.
func read[T any](object map[string]any, into *T) (at string, err error) {
	if err = runtime.DefaultUnstructuredConverter.FromUnstructured(object, into); err == nil {
		return "", nil
	}
	at = misfit(object, func(part any) bool {
		fits, ok := part.(map[string]any)
		return ok && runtime.DefaultUnstructuredConverter.FromUnstructured(fits, new(T)) == nil
	})
	return at, err
}

// misfit is the path to the first member of a value that does not fit, "" for the value itself; fits is asked of the value with nothing
// in it but one member, and so on down to the member that is at fault.
func misfit(value any, fits func(any) bool) string {
	switch v := value.(type) {
	case map[string]any:
		if !fits(map[string]any{}) {
			return ""
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			around := func(inner any) bool { return fits(map[string]any{name: inner}) }
			if !around(v[name]) {
				return "." + name + misfit(v[name], around)
			}
		}
	case []any:
		if !fits([]any{}) {
			return ""
		}
		for i, one := range v {
			around := func(inner any) bool { return fits([]any{inner}) }
			if !around(one) {
				return fmt.Sprintf("[%d]", i) + misfit(one, around)
			}
		}
	}
	return ""
}

// evaluator knows the pod security standards of the newest version that it has.
var evaluator = func() policy.Evaluator {
	e, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil { // its own checks are right
		panic(err)
	}
	return e
}()

// insecure says what of a Pod violates a standard, "" for nothing.
func insecure(level domain.PodSecurity, metadata *metav1.ObjectMeta, spec *corev1.PodSpec) string {
	if level == domain.PodPrivileged {
		return ""
	}
	results := policy.AggregateCheckResults(evaluator.EvaluatePod(psa.LevelVersion{Level: psa.Level(level), Version: psa.LatestVersion()}, metadata, spec))
	if results.Allowed {
		return ""
	}
	return results.ForbiddenDetail()
}
