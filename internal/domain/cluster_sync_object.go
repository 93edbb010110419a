package domain

import "github.com/drover-io/drover/internal/fail"

// ClusterSyncObject is a set of key-value pairs of a cluster provider, which clusters that are reached by
// GitOps name: stored only.
type ClusterSyncObject struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     KVSpec `json:"spec" api:"required"`
}

// ClusterSyncObjects is the noun.
var ClusterSyncObjects = &Noun{
	Kind: "cluster-sync-objects", Title: "cluster sync object", Collection: "cluster-sync-objects", Names: []string{"clusterSyncObject"},
	Parent: ClusterProviders, New: func() Object { return &ClusterSyncObject{} },
}

// Noun is ClusterSyncObjects.
func (*ClusterSyncObject) Noun() *Noun { return ClusterSyncObjects }

// Pairs are its pairs.
func (o *ClusterSyncObject) Pairs() KVSpec { return o.Spec }

// Validate checks the body.
func (o *ClusterSyncObject) Validate(p *fail.Problems) {
	o.Metadata.Validate(p)
	o.Spec.validate(p)
}
