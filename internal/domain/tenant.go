package domain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/fail"
)

// Tenant is somebody whose own clusters tell us of their workloads. What the tenant's rules want for them is made in an
// infrastructure cluster. Its name is the tenant-id of the gRPC API.
type Tenant struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     TenantSpec `json:"spec" api:"required"`
	// ContextID is made with the tenant and never changes: all that its matches have in clusters carries it in the label of
	// deployments (WorkloadRule.App is the app), so that cluster status reports on it.
	ContextID string `json:"-" bson:"contextID"`
}

// TenantSpec says where the tenant's matches are made, and what they may be.
type TenantSpec struct {
	// the infrastructure cluster in which matches are made, as provider+cluster
	Cluster string `json:"cluster" api:"required"`
	// where what is made with dpuSelectionPolicy Any may run: on the nodes of the tenant's hosts, the default, or on all nodes
	Nodes TenantNodes `json:"nodes" api:"enum=hosts;all"`
	// the pod security standard that templates must keep to; baseline when missing
	PodSecurity PodSecurity `json:"podSecurity" api:"enum=privileged;baseline;restricted"`
	// what templates may be, such as apps/v1/Deployment; v1/Pod alone when missing
	Kinds []string `json:"kinds"`
	// a sync that would take away more than so many percent of the tenant's workloads is held; 0, the default, is off
	DeleteGuard int `json:"deleteGuard"`
	// how long a workload stays after its cluster has said that it is gone, such as 30s; not at all when missing
	DeleteAfter string `json:"deleteAfter"`
}

// TenantNodes says on which infrastructure nodes a tenant's matches may be with the policy Any.
type TenantNodes string

// The values.
const (
	NodesHosts TenantNodes = "hosts"
	NodesAll   TenantNodes = "all"
)

// PodSecurity is one of Kubernetes' pod security standards.
type PodSecurity string

// The standards.
const (
	PodPrivileged PodSecurity = "privileged"
	PodBaseline   PodSecurity = "baseline"
	PodRestricted PodSecurity = "restricted"
)

// podStandards are all of them, those first that let more be.
var podStandards = []PodSecurity{PodPrivileged, PodBaseline, PodRestricted}

// AtLeast says whether it is one of the standards, and lets no more be than another one.
func (p PodSecurity) AtLeast(other PodSecurity) bool {
	at := slices.Index(podStandards, p)
	return at >= 0 && at >= slices.Index(podStandards, other)
}

// KindPod is what templates may be unless the tenant says more, and the only type of workload that rules may ask for.
const KindPod = "v1/Pod"

// MaxTenantName is the longest name of a tenant, in bytes: with the word tenant before it, it is the name of a namespace.
const MaxTenantName = 56

// MaxDeleteAfter is the longest time that a workload may stay.
const MaxDeleteAfter = time.Hour

// Tenants is the noun.
var Tenants = &Noun{
	Kind: "tenants", Title: "tenant", Collection: "tenants", Names: []string{"tenant"},
	New: func() Object { return &Tenant{} }, Abandons: true,
}

// Noun is Tenants.
func (*Tenant) Noun() *Noun { return Tenants }

// Default fills in what is missing.
func (t *Tenant) Default() {
	if t.Spec.Nodes == "" {
		t.Spec.Nodes = NodesHosts
	}
	if t.Spec.PodSecurity == "" {
		t.Spec.PodSecurity = PodBaseline
	}
	if len(t.Spec.Kinds) == 0 {
		t.Spec.Kinds = []string{KindPod}
	}
}

// IsTenantName says whether a tenant may have the name: a DNS-1123 label.
func IsTenantName(s string) bool { return len(s) <= MaxTenantName && namespacePattern.MatchString(s) }

// templateKind is such as v1/Pod or apps/v1/Deployment.
var templateKind = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[0-9][a-z0-9]*/[A-Z][A-Za-z0-9]*$`)

// Validate checks the body.
func (t *Tenant) Validate(p *fail.Problems) {
	t.Metadata.Validate(p)
	if t.Name != "" && !IsTenantName(t.Name) {
		p.Add("metadata.name", "must be a DNS-1123 label of at most %d: a-z, 0-9 and -, not - first or last", MaxTenantName)
	}
	if _, ok := ParseClusterName(t.Spec.Cluster); !ok {
		p.Add("spec.cluster", "%q does not name a cluster; use provider+cluster", t.Spec.Cluster)
	}
	oneOf(p, "spec.nodes", t.Spec.Nodes, NodesHosts, NodesAll)
	oneOf(p, "spec.podSecurity", t.Spec.PodSecurity, PodBaseline, PodRestricted, PodPrivileged)
	there := make(map[string]bool, len(t.Spec.Kinds))
	for i, kind := range t.Spec.Kinds {
		path := fmt.Sprintf("spec.kinds[%d]", i)
		switch {
		case !templateKind.MatchString(kind):
			p.Add(path, "%q is not a kind such as v1/Pod or apps/v1/Deployment", kind)
		case there[kind]:
			p.Add(path, "%q is there twice", kind)
		}
		there[kind] = true
	}
	if g := t.Spec.DeleteGuard; g < 0 || g > 100 {
		p.Add("spec.deleteGuard", "must be a percentage, 0 to 100; 0 is off")
	}
	if text := t.Spec.DeleteAfter; text != "" {
		if d, err := time.ParseDuration(text); err != nil || d < 0 || d > MaxDeleteAfter {
			p.Add("spec.deleteAfter", "%q is not a time of at most %s, such as 30s", text, MaxDeleteAfter)
		}
	}
}

// oneOf adds a problem unless s is one of the values.
func oneOf[T ~string](p *fail.Problems, path string, s T, values ...T) {
	if !slices.Contains(values, s) {
		words := make([]string, len(values))
		for i, v := range values {
			words[i] = string(v)
		}
		p.Add(path, "%q is none of %s", s, strings.Join(words, ", "))
	}
}

// References is the infrastructure cluster.
func (t *Tenant) References() []Reference {
	return []Reference{{"spec.cluster", ClustersNoun, t.ClusterName().Key()}}
}

// ClusterName is the infrastructure cluster.
func (t *Tenant) ClusterName() ClusterName {
	c, _ := ParseClusterName(t.Spec.Cluster)
	return c
}

// Namespace is where the tenant's matches are made: tenant-<name>.
func (t *Tenant) Namespace() string { return tenantNamespace + t.Name }

// Grace is spec.deleteAfter, 0 for none.
func (t *Tenant) Grace() time.Duration {
	d, _ := time.ParseDuration(t.Spec.DeleteAfter)
	return d
}

// TenantKey is the key of the tenant with a name.
func TenantKey(name string) Key { return Join("tenants", name) }

// ParseClusterName is the opposite of ClusterName.String; false when s is not of that form.
func ParseClusterName(s string) (c ClusterName, ok bool) {
	provider, name, ok := strings.Cut(s, "+")
	var p fail.Problems
	CheckName(&p, "provider", provider)
	CheckName(&p, "cluster", name)
	if !ok || p.Err() != nil {
		return ClusterName{}, false
	}
	return ClusterName{Provider: provider, Name: name}, true
}
