package match

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/plan"
)

// The annotations of what is made.
const (
	AnnotationRule     = "drover.io/rule"     // the key of the rule
	AnnotationWorkload = "drover.io/workload" // the workload's id
	AnnotationSpec     = "drover.io/spec"     // Resource.Spec
)

// IsFor says whether an object with the label of a rule was made for a workload, as far as its annotations say: names have 40 bits of a hash, and may be equal for
// two workloads of a rule. An object without the annotation has lost it.
func IsFor(annotations map[string]string, workload string) bool {
	whose := annotations[AnnotationWorkload]
	return whose == "" || whose == workload
}

// MaxAnnotations bounds the names and values of an object's annotations together, in bytes. It is Kubernetes'.
const MaxAnnotations = limits.Annotations

// maxTemplateName is what is left of a template's name, in bytes.
const maxTemplateName = 40

// hostnameLabel is the label of nodes that has their name.
const hostnameLabel = "kubernetes.io/hostname"

// Resource is what a match is to have in the infrastructure cluster.
type Resource struct {
	Cluster  domain.ClusterName
	ID       plan.ResourceID // with namespace and name
	Manifest json.RawMessage // whole: with namespace, name, label, annotations and affinity; keys sorted
	Label    string          // the value of plan.DeploymentLabel, on the object and on its Pods
	// Spec is the hash of the object without its annotations, Annotations the hash of those.
	Spec, Annotations string
	// Nodes are the nodes on which it may be, sorted; nil for any.
	Nodes []string
}

// Label is the value of plan.DeploymentLabel on what a rule makes for the tenant with a context id.
func Label(contextID string, rule domain.Key) string {
	return plan.DeploymentID(contextID, domain.RuleApp(rule))
}

// Reason is why nothing is made for a match.
type Reason struct {
	Text   string // for people
	Failed bool   // it stays so until the rule or the workload changes; else it is waited for: a host, a node
}

// Resource is what is to be made for a workload that the rule matches: either it or the reason is not nil. It depends on
// nothing but its arguments. The tenant is the workload's; hosts are the tenant's.
func (r *Rule) Resource(t *domain.Tenant, hosts []*domain.Host, w *domain.Workload) (*Resource, *Reason) {
	nodes, reason := r.nodes(t, hosts, w)
	if reason != nil {
		return nil, reason
	}
	object, err := r.template.object()
	if err != nil {
		return nil, &Reason{Text: "the template cannot be read: " + err.Error(), Failed: true}
	}
	made := &Resource{Cluster: t.ClusterName(), Label: Label(t.ContextID, r.key), Nodes: nodes}
	made.ID = r.identity(t, w, object)
	metadata := object["metadata"].(map[string]any)
	metadata["namespace"], metadata["name"] = made.ID.Namespace, made.ID.Name
	if reason := r.annotate(metadata, w); reason != nil {
		return nil, reason
	}
	if pod := r.template.podOf(object); pod != nil {
		if nodes != nil {
			if reason := restrict(pod, nodes); reason != nil {
				return nil, reason
			}
		}
		if r.template.level != domain.PodPrivileged {
			child(pod, "spec")["automountServiceAccountToken"] = false
		}
		if reason := r.secure(pod); reason != nil {
			return nil, reason
		}
	}
	manifest, err := plan.Stamp(encode(object), "", map[string]string{plan.DeploymentLabel: made.Label})
	if err != nil {
		return nil, &Reason{Text: "the template takes no labels: " + err.Error(), Failed: true}
	}
	return r.seal(made, manifest)
}

// identity is that of the object which is made of the template's: its namespace and name, whatever the template says.
func (r *Rule) identity(t *domain.Tenant, w *domain.Workload, object map[string]any) plan.ResourceID {
	id := plan.ResourceID{Namespace: t.Namespace()}
	if r.tenant == "" {
		id.Namespace = domain.OperatorNamespace
	}
	version, _ := object["apiVersion"].(string)
	id.Kind, _ = object["kind"].(string)
	if group, v, grouped := strings.Cut(version, "/"); grouped {
		id.Group, id.Version = group, v
	} else {
		id.Version = version
	}
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if name == "" {
		name = r.id
	}
	name = strings.TrimRight(name[:min(len(name), maxTemplateName)], ".") // a part of a name may not begin with -
	if id.Group == "" && id.Kind == "Service" {
		name = ofService(name)
	}
	sum := sha256.Sum256([]byte(t.Name + "\x00" + string(r.key) + "\x00" + w.ID))
	id.Name = name + "-" + hex.EncodeToString(sum[:5])
	return id
}

// ofService makes of a name one that Kubernetes takes for a Service, a DNS-1035 label: no dots, and a letter first.
func ofService(name string) string {
	name = strings.ReplaceAll(name, ".", "-")
	if name[0] >= '0' && name[0] <= '9' {
		name = "s-" + name
	}
	return name
}

// annotate adds what the rule injects, and what tells whose the object is, to the annotations of the template. It ends with what is too much:
// each annotation may have the whole of a workload.
func (r *Rule) annotate(metadata map[string]any, w *domain.Workload) *Reason {
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
		metadata["annotations"] = annotations
	}
	annotations[AnnotationRule], annotations[AnnotationWorkload] = string(r.key), w.ID
	size := len(AnnotationSpec) + 2*hashBytes
	for name, value := range annotations {
		text, _ := value.(string)
		size += len(name) + len(text)
	}
	view := ViewOf(w, r.tenant == "")
	for _, inject := range r.injections {
		v := view.At(inject.key)
		if !v.Present {
			continue
		}
		text := v.String()
		if before, there := annotations[inject.annotation].(string); there {
			size -= len(inject.annotation) + len(before)
		}
		annotations[inject.annotation] = text
		if size += len(inject.annotation) + len(text); size > MaxAnnotations {
			break
		}
	}
	if size > MaxAnnotations {
		return &Reason{Failed: true, Text: fmt.Sprintf("its annotations would have more than %d bytes: inject less of the workload", MaxAnnotations)}
	}
	return nil
}

// secure looks at the Pod once more as it will be: annotations can turn off what the standard wants, and those that are
// injected are the tenant's.
func (r *Rule) secure(pod map[string]any) *Reason {
	if len(r.injections) == 0 || r.template.level == domain.PodPrivileged {
		return nil
	}
	metadata, spec, at, err := typedPod(pod)
	if err != nil {
		return &Reason{Text: fmt.Sprintf("%s is not as a Pod has it: %v", at, err), Failed: true}
	}
	if why := insecure(r.template.level, metadata, spec); why != "" {
		return &Reason{Failed: true, Text: fmt.Sprintf("with what is injected it violates the pod security standard %q: %s", r.template.level, why)}
	}
	return nil
}

// nodes are those on which the object may be; nil for any.
func (r *Rule) nodes(t *domain.Tenant, hosts []*domain.Host, w *domain.Workload) ([]string, *Reason) {
	if r.policy == domain.AnyNode {
		if t.Spec.Nodes == domain.NodesAll {
			return nil, nil
		}
		var nodes []string
		for _, h := range hosts {
			nodes = append(nodes, h.Spec.Nodes...)
		}
		if len(nodes) == 0 {
			return nil, &Reason{Text: fmt.Sprintf("the hosts of tenant %q have no nodes; add hosts with nodes, or set the tenant's spec.nodes to %s", t.Name, domain.NodesAll)}
		}
		return sorted(nodes), nil
	}
	if w.NodeName == "" {
		return nil, &Reason{Text: "the workload is on no node yet"}
	}
	at := slices.IndexFunc(hosts, func(h *domain.Host) bool { return h.Name == w.NodeName })
	switch {
	case at < 0: // the text is in the record of each match, and what a tenant calls a node may be as long as a workload
		return nil, &Reason{Text: fmt.Sprintf("the workload is on node %.*q, and the tenant has no host of that name", domain.MaxSubdomain, w.NodeName)}
	case len(hosts[at].Spec.Nodes) == 0:
		return nil, &Reason{Text: fmt.Sprintf("the workload is on host %q, which has no nodes", w.NodeName)}
	default:
		return sorted(hosts[at].Spec.Nodes), nil
	}
}

func sorted(nodes []string) []string { return slices.Compact(slices.Sorted(slices.Values(nodes))) }

// podOf is the object with metadata and spec of a Pod in an object of the template's kind, nil when it has none.
func (t *template) podOf(object map[string]any) map[string]any {
	if !t.hasPod {
		return nil
	}
	for _, member := range t.pod {
		object, _ = object[member].(map[string]any)
	}
	return object
}

// restrict puts a Pod on some nodes. What the template says of nodes stays: its terms are ORed, so each of them gets ours. The names must not
// make it larger than an object may be.
func restrict(pod map[string]any, nodes []string) *Reason {
	values, size := make([]any, len(nodes)), 0
	for i, n := range nodes {
		values[i] = n
		size += len(n)
	}
	ours := map[string]any{"key": hostnameLabel, "operator": "In", "values": values}
	required := pod
	for _, member := range []string{"spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"} {
		required = child(required, member)
	}
	terms, _ := required["nodeSelectorTerms"].([]any)
	if len(terms) == 0 {
		terms = []any{map[string]any{}}
	}
	if size *= len(terms); size > limits.Etcd {
		return &Reason{Failed: true, Text: fmt.Sprintf("the names of its %d nodes, in each of %d nodeSelectorTerms, would have %d bytes, of %d at most", len(nodes), len(terms), size, limits.Etcd)}
	}
	for i := range terms {
		term, ok := terms[i].(map[string]any)
		if !ok {
			term = map[string]any{}
			terms[i] = term
		}
		expressions, _ := term["matchExpressions"].([]any)
		term["matchExpressions"] = append(expressions, ours)
	}
	required["nodeSelectorTerms"] = terms
	return nil
}

// child is the object at a member, which is made where there is none.
func child(object map[string]any, member string) map[string]any {
	inner, ok := object[member].(map[string]any)
	if !ok {
		inner = map[string]any{}
		object[member] = inner
	}
	return inner
}

// hashBytes is how much of a hash is kept.
const hashBytes = 16

func hash(v any) string {
	sum := sha256.Sum256(encode(v))
	return hex.EncodeToString(sum[:hashBytes])
}

// seal hashes a manifest that is complete but for the annotation with its hash.
func (r *Rule) seal(made *Resource, manifest []byte) (*Resource, *Reason) {
	var object map[string]any
	decoder := json.NewDecoder(strings.NewReader(string(manifest)))
	decoder.UseNumber()
	if err := decoder.Decode(&object); err != nil {
		return nil, &Reason{Text: "the manifest cannot be read back", Failed: true}
	}
	metadata := object["metadata"].(map[string]any)
	annotations := metadata["annotations"].(map[string]any)
	bare := maps.Clone(object)
	bare["metadata"] = maps.Clone(metadata)
	delete(bare["metadata"].(map[string]any), "annotations")
	made.Spec = hash(bare)
	annotations[AnnotationSpec] = made.Spec
	made.Annotations = hash(annotations)
	made.Manifest = encode(object)
	return made, nil
}
