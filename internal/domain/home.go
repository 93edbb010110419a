package domain

import (
	"fmt"
	"time"
)

// Home is what a tenant has in an infrastructure cluster beside the objects of its matches: its namespace; the report on the
// matches of one of its rules, where an agent reports; or the namespace of the operator's rules, which all tenants share and the
// first one that needed it has. The record is written before that is made, and removed when the cluster has confirmed that it is
// gone.
type Home struct {
	Tenant    string      `bson:"tenant"`    // its name
	ContextID string      `bson:"contextID"` // the tenant's: another tenant may have the name later; OperatorContext of the operator's namespace
	Cluster   ClusterName `bson:"cluster"`
	Namespace string      `bson:"namespace"`
	App       string      `bson:"app,omitempty"` // of a report, RuleApp of the rule; "" of a namespace
	// Began is when the cluster was watched for it.
	Began time.Time `bson:"began,omitempty"`
	// Leaving says that it is being removed, if nobody needs it: who needs it looks after he has said so, and whoever removes it
	// looks who needs it after he has said that. Of two that cross, one sees the other.
	Leaving bool `bson:"leaving,omitempty"`
}

// OperatorContext is in place of a context id where something is the operator's. No tenant has it.
const OperatorContext = "operator"

// ID is the record's _id.
func (h *Home) ID() string {
	id := h.ContextID + "/" + h.Cluster.String()
	if h.App != "" {
		id += "/" + h.App
	}
	return id
}

// Operators says whether it is the namespace of the operator's rules.
func (h *Home) Operators() bool { return h.ContextID == OperatorContext }

// Shared says whether it is there for matches that come and go, and not as long as its tenant.
func (h *Home) Shared() bool { return h.Operators() || h.App != "" }

// HomeOf is the tenant's own namespace.
func HomeOf(t *Tenant) Home {
	return Home{Tenant: t.Name, ContextID: t.ContextID, Cluster: t.ClusterName(), Namespace: t.Namespace()}
}

// OperatorHome is the namespace of the operator's rules in the cluster of a tenant.
func OperatorHome(t *Tenant) Home {
	return Home{Tenant: t.Name, ContextID: OperatorContext, Cluster: t.ClusterName(), Namespace: OperatorNamespace}
}

// ReportHome is the report on the matches of one rule of a tenant, which are in a namespace.
func ReportHome(t *Tenant, rule Key, namespace string) Home {
	return Home{Tenant: t.Name, ContextID: t.ContextID, Cluster: t.ClusterName(), Namespace: namespace, App: RuleApp(rule)}
}

// Left says whether the home of a tenant is nobody's any more; t is the tenant that has the name now, nil for none.
func (h *Home) Left(t *Tenant) bool {
	return t == nil || t.ContextID != h.ContextID || t.ClusterName() != h.Cluster
}

// Keeps says whether a match keeps the namespace of its tenant, which nobody needs any more: what it has in the cluster lies elsewhere, and would
// be left there without one who knows of it.
func (h *Home) Keeps(m Match) bool {
	return h.App == "" && h.Tenant == m.Tenant && m.Made != nil && m.Made.Cluster == h.Cluster && m.Made.Namespace != h.Namespace
}

// TenantLeft is what a tenant that is gone, or is in another cluster now, may have in a cluster still.
type TenantLeft struct {
	Tenant    string      // its name
	ContextID string      // of its namespace's label
	Cluster   ClusterName // where that is
	Namespace string      // its own; objects of the operator's rules are in OperatorNamespace
	Objects   int         // of its matches
}

// Count counts the objects of matches that are in the cluster.
func (l *TenantLeft) Count(matches []Match) {
	for i := range matches {
		if made := matches[i].Made; made != nil && made.Cluster == l.Cluster {
			l.Objects++
		}
	}
}

// String says it to people.
func (l TenantLeft) String() string {
	return fmt.Sprintf("cluster %s may still have %d objects of tenant %q, and its namespace %s with the label drover.io/tenant=%s",
		l.Cluster, l.Objects, l.Tenant, l.Namespace, l.ContextID)
}

// Needs says whether a match needs a shared home.
func (h *Home) Needs(m *Match) bool {
	if h.App != "" && (h.Tenant != m.Tenant || h.App != RuleApp(m.Rule)) {
		return false
	}
	if m.Made != nil && m.Made.Cluster == h.Cluster && m.Made.Namespace == h.Namespace {
		return true
	}
	operators := RuleNoun(m.Rule) == OperatorRules
	return m.IsWanted() && m.Wanted.Cluster == h.Cluster && operators == (h.Namespace == OperatorNamespace)
}
