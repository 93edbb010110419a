package domain

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/quantity"
)

// ClusterQuota bounds what the namespace of a logical cloud may take on each of its clusters.
type ClusterQuota struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	// Spec is resource name to quantity, as the hard limits of a ResourceQuota: "limits.cpu" to "4".
	Spec map[string]string `json:"spec"`
}

// ClusterQuotas is the noun.
var ClusterQuotas = &Noun{
	Kind: "cluster-quotas", Title: "cluster quota", Collection: "cluster-quotas", Names: []string{"clusterQuota"},
	Parent: LogicalClouds, New: func() Object { return &ClusterQuota{} }, Fixed: true,
}

// Noun is ClusterQuotas.
func (*ClusterQuota) Noun() *Noun { return ClusterQuotas }

// subdomainPattern is what Kubernetes takes as the name of an object (RFC 1123 subdomain).
var subdomainPattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// Validate checks the body.
func (o *ClusterQuota) Validate(p *fail.Problems) {
	o.Metadata.Validate(p)
	if !subdomainPattern.MatchString(o.Name) {
		p.Add("metadata.name", "must be the name of a ResourceQuota: a-z, 0-9, - and ., no - or . first or last")
	}
	for _, k := range slices.Sorted(maps.Keys(o.Spec)) {
		switch {
		case !isLabelKey(k): // both are what Kubernetes calls qualified names
			p.Add("spec["+k+"]", "is not the name of a resource such as limits.cpu or count/pods")
		case !quotaResource(k):
			p.Add("spec["+k+"]", "is no resource that Kubernetes bounds, such as limits.cpu, pods or count/pods; one without a slash is one of %s, or begins with %s", strings.Join(quotaResources, ", "), hugePages)
		}
		switch n, err := quantity.Parse(o.Spec[k]); {
		case err != nil:
			p.Add("spec["+k+"]", "%.40q %s", o.Spec[k], err)
		case n.Sign() < 0:
			p.Add("spec["+k+"]", "%q is less than 0", o.Spec[k])
		}
	}
}

// quotaResources are the resources without a slash in their name that a ResourceQuota may bound, but for huge pages.
var quotaResources = []string{
	"configmaps", "cpu", "ephemeral-storage", "limits.cpu", "limits.ephemeral-storage", "limits.memory", "memory", "persistentvolumeclaims", "pods",
	"replicationcontrollers", "requests.cpu", "requests.ephemeral-storage", "requests.memory", "requests.storage", "resourcequotas", "secrets",
	"services", "services.loadbalancers", "services.nodeports",
}

// hugePages is what the names of huge pages begin with.
const hugePages = "hugepages-"

// quotaResource says whether Kubernetes takes a qualified name in a ResourceQuota: any other makes it refuse the whole of it, in each cluster.
func quotaResource(name string) bool {
	return strings.Contains(name, "/") || slices.Contains(quotaResources, name) || strings.HasPrefix(strings.TrimPrefix(name, "requests."), hugePages)
}

// LogicalCloudKV is a set of key-value pairs of a logical cloud, which are stored for whoever reads them: nothing is done with them.
type LogicalCloudKV struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     KVSpec `json:"spec" api:"required"`
}

// LogicalCloudKVs is the noun.
var LogicalCloudKVs = &Noun{
	Kind: "logical-cloud-kv-pairs", Title: "logical cloud KV pair", Collection: "kv-pairs", Names: []string{"kvPair"},
	Parent: LogicalClouds, New: func() Object { return &LogicalCloudKV{} }, Fixed: true,
}

// Noun is LogicalCloudKVs.
func (*LogicalCloudKV) Noun() *Noun { return LogicalCloudKVs }

// Validate checks the body.
func (o *LogicalCloudKV) Validate(p *fail.Problems) {
	o.Metadata.Validate(p)
	o.Spec.validate(p)
}
