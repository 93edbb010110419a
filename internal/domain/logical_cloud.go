package domain

import (
	"maps"
	"regexp"
	"slices"

	"github.com/drover-io/drover/internal/fail"
)

// LogicalCloud is a set of clusters with the namespace and the rights with which apps run there. Level
// "0" is the admin cloud: namespace default, the cluster's own credentials.
type LogicalCloud struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata"`
	Spec     LogicalCloudSpec `json:"spec"`
	History  History          `json:"-" bson:"history"`
}

// LogicalCloudSpec has all members in every answer.
type LogicalCloudSpec struct {
	Namespace string            `json:"namespace"`
	Labels    map[string]string `json:"labels"`
	Level     string            `json:"level"`
	User      CloudUser         `json:"user"`
}

// CloudUser is the user of a level 1 cloud.
type CloudUser struct {
	UserName string `json:"userName"`
	Type     string `json:"type"`
}

// LogicalClouds is the noun.
var LogicalClouds = &Noun{
	Kind: "logical-clouds", Title: "logical cloud", Collection: "logical-clouds",
	Parent: Projects, New: func() Object { return &LogicalCloud{} },
}

// LevelAdmin and LevelStandard are the levels of logical clouds.
const (
	LevelAdmin    = "0"
	LevelStandard = "1"
)

// Noun is LogicalClouds.
func (*LogicalCloud) Noun() *Noun { return LogicalClouds }

// Default fills in what EMCO does: level 1, and for the admin cloud the namespace default.
func (o *LogicalCloud) Default() {
	if o.Spec.Level == "" {
		o.Spec.Level = LevelStandard
	}
	if o.Spec.Level == LevelAdmin && o.Spec.Namespace == "" {
		o.Spec.Namespace = "default"
	}
}

// namespacePattern is Kubernetes' (RFC 1123 label): EMCO takes more, and clusters refuse it later.
var namespacePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// Validate checks the body.
func (o *LogicalCloud) Validate(p *fail.Problems) {
	o.Metadata.Validate(p)
	if ns := o.Spec.Namespace; ns != "" && (len(ns) > 63 || !namespacePattern.MatchString(ns)) {
		p.Add("spec.namespace", "must be the name of a Kubernetes namespace: at most 63 of a-z, 0-9 and -, not - first or last")
	}
	CheckLength(p, "spec.user.userName", o.Spec.User.UserName, 20)
	CheckLength(p, "spec.user.type", o.Spec.User.Type, 128)
	if o.Spec.Level != LevelAdmin && o.Spec.Level != LevelStandard {
		p.Add("spec.level", "must be %q or %q", LevelAdmin, LevelStandard)
	}
	for _, k := range slices.Sorted(maps.Keys(o.Spec.Labels)) {
		CheckLength(p, "spec.labels["+k+"]", o.Spec.Labels[k], 128)
	}
}

// ClusterReference puts a cluster into a logical cloud.
type ClusterReference struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata"`
	Spec     ClusterReferenceSpec `json:"spec"`
}

// ClusterReferenceSpec names the cluster.
type ClusterReferenceSpec struct {
	ClusterProvider string `json:"clusterProvider"`
	Cluster         string `json:"cluster"`
	LoadBalancerIP  string `json:"loadBalancerIP"`
	Certificate     string `json:"certificate"`
}

// ClusterReferences is the noun.
var ClusterReferences = &Noun{
	Kind: "cluster-references", Title: "cluster reference", Collection: "cluster-references",
	Parent: LogicalClouds, New: func() Object { return &ClusterReference{} },
}

// Noun is ClusterReferences.
func (*ClusterReference) Noun() *Noun { return ClusterReferences }

// ClusterName is the cluster.
func (o *ClusterReference) ClusterName() ClusterName {
	return ClusterName{Provider: o.Spec.ClusterProvider, Name: o.Spec.Cluster}
}

// Validate checks the body.
func (o *ClusterReference) Validate(p *fail.Problems) {
	o.Metadata.Validate(p)
	CheckName(p, "spec.clusterProvider", o.Spec.ClusterProvider)
	CheckName(p, "spec.cluster", o.Spec.Cluster)
	CheckLength(p, "spec.loadBalancerIP", o.Spec.LoadBalancerIP, 16)
}

// References is the cluster.
func (o *ClusterReference) References() []Reference {
	return []Reference{{"spec.cluster", ClustersNoun, o.ClusterName().Key()}}
}
