package domain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/drover-io/drover/internal/fail"
)

// ClusterProvider groups clusters of one owner.
type ClusterProvider struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
}

// ClusterProviders is the noun.
var ClusterProviders = &Noun{
	Kind: "cluster-providers", Title: "cluster provider", Collection: "cluster-providers", Names: []string{"clusterProvider"},
	New: func() Object { return &ClusterProvider{} }, Bounds: true,
}

// Noun is ClusterProviders.
func (*ClusterProvider) Noun() *Noun { return ClusterProviders }

// Sealed is data encrypted for the store: AES-256-GCM under the key named.
type Sealed struct {
	KeyID string `bson:"keyID"`
	Data  []byte `bson:"data"` // nonce, then ciphertext with tag
}

// Cluster is a registered Kubernetes cluster. It carries the history of its network intents.
type Cluster struct {
	Identity   `bson:",inline"`
	Metadata   `json:"metadata" api:"required"`
	Spec       ClusterSpec `json:"spec"`
	Kubeconfig Sealed      `json:"-" bson:"kubeconfig"`
	// KubeconfigDigest tells clients of the cluster when their credentials are out of date.
	KubeconfigDigest Digest `json:"-" bson:"kubeconfigDigest"`
	// Expires is when the first of the kubeconfig's credentials does, as far as that can be told; zero for never.
	Expires time.Time `json:"-" bson:"expires,omitempty"`
	History History   `json:"-" bson:"history"`
	// Tried is what was found when the cluster was registered, or its registration last replaced.
	Tried Trial `json:"-" bson:"tried"`
	// KeepKubeconfig says of one that comes in place of another that it came without a kubeconfig: that of the other stays.
	KeepKubeconfig bool `json:"-" bson:"-"`
	// SameKubeconfig says of one that has come in place of another that its kubeconfig is that of the other.
	SameKubeconfig bool `json:"-" bson:"-"`
	// MustAnswer says of one that comes that it is refused where the cluster cannot be used with its kubeconfig now.
	MustAnswer bool `json:"-" bson:"-"`
	// Remarks are what the user should know of what was accepted.
	Remarks []string `json:"-" bson:"-"`
}

// Trial is one look whether a cluster can be reached with its kubeconfig; the zero value is none.
type Trial struct {
	At    time.Time `bson:"at"`
	Error string    `bson:"error"` // why it cannot, "" when it can
	// Version is that of its Kubernetes then, "" where the cluster does not tell.
	Version string `bson:"version,omitempty"`
}

// ClusterSpec has EMCO's GitOps member, which is empty, and how the cluster reports what became of resources.
type ClusterSpec struct {
	GitOps GitOps `json:"gitOps"`
	// how what became of resources is known: auto, the default, is by an agent where one lives, else agentless
	Report Report `json:"report,omitempty" bson:"report,omitempty" api:"enum=auto;agent;install;agentless;none"`
}

// GitOps is EMCO's member for clusters that are reached through a git repository or a cloud's service. Those are refused.
type GitOps struct {
	Type            string `json:"gitOpsType"`            // must be empty
	ReferenceObject string `json:"gitOpsReferenceObject"` // must be empty
	ResourceObject  string `json:"gitOpsResourceObject"`  // must be empty
}

// ClustersNoun is the noun (Clusters is a placement's way to name clusters).
var ClustersNoun = &Noun{
	Kind: "clusters", Title: "cluster", Collection: "clusters", Names: []string{"cluster"},
	Parent: ClusterProviders, New: func() Object { return &Cluster{} }, File: true, Abandons: true,
	Owner: &OwnerKind{ // of its network intents
		ID: "{clusterProvider}/clusters/{cluster}", Label: "networks of {clusterProvider} / {cluster}", Name: "{clusterProvider}+{cluster}",
		Attributes: []Attribute{{"DroverCluster", "{clusterProvider}+{cluster}"}},
		Document:   "networks",
		Operations: []OwnerOperation{
			{Operation: OpInstantiate, Word: "apply", Summary: "Apply the network intents of a cluster", About: "The networks and provider networks are applied in the cluster. The answer comes when it is accepted: follow it with status."},
			{Operation: OpTerminate, Summary: "Terminate the network intents of a cluster", About: "The networks and provider networks are deleted in the cluster."},
			{Operation: OpStop, Summary: "Stop the running operation on the network intents of a cluster", About: "What has been done stays; terminate takes it out."},
		},
	},
}

// Noun is ClustersNoun.
func (*Cluster) Noun() *Noun { return ClustersNoun }

// ExpiryNotice is how long before credentials expire people are told.
const ExpiryNotice = 14 * 24 * time.Hour

// Expiring says that the cluster's credentials have expired, or are about to; "" as long as nobody needs to do anything.
func (c *Cluster) Expiring(now time.Time) string {
	left := c.Expires.Sub(now)
	switch {
	case c.Expires.IsZero() || left > ExpiryNotice:
		return ""
	case left <= 0:
		return fmt.Sprintf("the credentials of cluster %q expired at %s; replace its kubeconfig (PUT)", c.Name, c.Expires.UTC().Format(time.RFC3339))
	default:
		return fmt.Sprintf("the credentials of cluster %q expire at %s; replace its kubeconfig (PUT)", c.Name, c.Expires.UTC().Format(time.RFC3339))
	}
}

// ClusterName is provider and name.
func (c *Cluster) ClusterName() ClusterName {
	return ClusterName{Provider: c.Parent.Name(), Name: c.Name}
}

// Validate checks the body.
func (c *Cluster) Validate(p *fail.Problems) {
	c.Metadata.Validate(p)
	c.Spec.GitOps.validate(p)
	if c.Spec.Report != "" && !slices.Contains(Reports, c.Spec.Report) {
		p.Add("spec.report", "%q is none of %s, %s, %s, %s, %s", c.Spec.Report, ReportAuto, ReportAgent, ReportInstall, ReportAgentless, ReportNone)
	}
}

// validate refuses what nobody would act on: nothing would ever get to such a cluster.
func (g GitOps) validate(p *fail.Problems) {
	switch {
	case g.Type != "":
		p.Add("spec.gitOps.gitOpsType", "%q is not supported: clusters are reached by their Kubernetes API alone; leave it empty and send the cluster's kubeconfig", g.Type)
	case g.ReferenceObject != "":
		p.Add("spec.gitOps.gitOpsReferenceObject", "is for clusters that are reached by GitOps, which is not supported; leave it empty")
	case g.ResourceObject != "":
		p.Add("spec.gitOps.gitOpsResourceObject", "is for clusters that are reached by GitOps, which is not supported; leave it empty")
	}
}

// Reporting is how the cluster reports.
func (c *Cluster) Reporting() Report { return cmp.Or(c.Spec.Report, ReportAuto) }

// ClusterLabel is a label of a cluster; placements select by it.
type ClusterLabel struct {
	Identity `bson:",inline"`
	Label    string `json:"clusterLabel" api:"required"` // the word by which placements select the cluster
}

// ClusterLabels is the noun.
var ClusterLabels = &Noun{
	Kind: "cluster-labels", Title: "cluster label", Collection: "labels", Names: []string{"clusterLabel"},
	Parent: ClustersNoun, New: func() Object { return &ClusterLabel{} },
}

// Noun is ClusterLabels.
func (*ClusterLabel) Noun() *Noun { return ClusterLabels }

// LocalName is the label.
func (l *ClusterLabel) LocalName() string { return l.Label }

// Validate checks the body.
func (l *ClusterLabel) Validate(p *fail.Problems) { CheckName(p, "clusterLabel", l.Label) }

// ClusterKV is a set of key-value pairs of a cluster.
type ClusterKV struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     KVSpec `json:"spec" api:"required"`
}

// KeyValues is an Object that is a set of key-value pairs.
type KeyValues interface {
	Object
	Pairs() KVSpec
}

// KVSpec is EMCO's list of maps.
type KVSpec struct {
	KV []map[string]string `json:"kv" api:"required"` // maps of keys to values; a value has at most 128 bytes, and of a key the first one counts
}

// ClusterKVs is the noun.
var ClusterKVs = &Noun{
	Kind: "cluster-kv-pairs", Title: "cluster KV pair", Collection: "kv-pairs", Names: []string{"kvPair"},
	Parent: ClustersNoun, New: func() Object { return &ClusterKV{} },
}

// Noun is ClusterKVs.
func (*ClusterKV) Noun() *Noun { return ClusterKVs }

// Pairs are its pairs.
func (o *ClusterKV) Pairs() KVSpec { return o.Spec }

// Validate checks the body.
func (o *ClusterKV) Validate(p *fail.Problems) {
	o.Metadata.Validate(p)
	o.Spec.validate(p)
}

// maxValue is the longest value, in characters.
const maxValue = 128

func (s KVSpec) validate(p *fail.Problems) {
	if s.KV == nil {
		p.Add("spec.kv", "Invalid type. Expected: array, given: null")
	}
	for i, m := range s.KV {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if len(m[k]) > maxValue { // paths of what is right are not written: there are many
				CheckLength(p, fmt.Sprintf("spec.kv[%d][%s]", i, k), m[k], maxValue)
			}
		}
	}
}

// Hidden says which values of keys nobody finds: an earlier map has another one of the key.
func (s KVSpec) Hidden() (texts []string) {
	first := map[string]int{}
	for i, m := range s.KV {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if before, found := first[k]; !found {
				first[k] = i
			} else if s.KV[before][k] != m[k] {
				texts = append(texts, fmt.Sprintf("spec.kv[%d]: who asks for %q gets the value that spec.kv[%d] has", i, k, before))
			}
		}
	}
	return texts
}

// Only are the pairs of some keys, and how many bytes these have.
func (s KVSpec) Only(keys map[string]bool) (some KVSpec, bytes int) {
	for _, m := range s.KV {
		var kept map[string]string
		for k, v := range m {
			if !keys[k] {
				continue
			}
			if kept == nil {
				kept = map[string]string{}
			}
			kept[k], bytes = v, bytes+len(k)+len(v)
		}
		if kept != nil {
			some.KV = append(some.KV, kept)
		}
	}
	return some, bytes
}

// Value finds a key in the pairs.
func (s KVSpec) Value(key string) (string, bool) {
	for _, m := range s.KV {
		if v, ok := m[key]; ok {
			return v, true
		}
	}
	return "", false
}
