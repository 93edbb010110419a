package domain

// Home is the namespace that a tenant has in an infrastructure cluster. The record is written before the namespace is made, and
// removed when the cluster has confirmed that it is gone: after the tenant is deleted, or has gone to another cluster.
type Home struct {
	Tenant    string      `bson:"tenant"`    // its name
	ContextID string      `bson:"contextID"` // the tenant's: another tenant may have the name later
	Cluster   ClusterName `bson:"cluster"`
	Namespace string      `bson:"namespace"`
}

// ID is the record's _id.
func (h *Home) ID() string { return h.ContextID + "/" + h.Cluster.String() }

// HomeOf is the tenant's.
func HomeOf(t *Tenant) Home {
	return Home{Tenant: t.Name, ContextID: t.ContextID, Cluster: t.ClusterName(), Namespace: t.Namespace()}
}

// Left says whether the home is nobody's any more; t is the tenant that has the name now, nil for none.
func (h *Home) Left(t *Tenant) bool {
	return t == nil || t.ContextID != h.ContextID || t.ClusterName() != h.Cluster
}
