package workflows

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/drover-io/drover/internal/domain"
)

// Wanted says which operations are looked for in Temporal's visibility; a zero member lets everything pass.
type Wanted struct {
	Project      string
	Owner        domain.Key
	Within       []domain.Key // scopes, or the collections of all scopes of a sort; nil for everywhere
	Cluster      domain.ClusterName
	ContextID    string
	Operation    domain.Operation
	IDs          []string // of the roots
	Open, Closed bool     // those that run, those that do not: those that somebody has paused, too, as not all servers know that word
	Since        time.Time
}

// OperationsQuery selects the roots of operations, without what runs for their apps and clusters.
func OperationsQuery(w Wanted) string {
	terms := append([]string{oneOf("WorkflowType", rootNames())}, w.identity()...)
	if len(w.IDs) > 0 {
		terms = append(terms, oneOf("WorkflowId", w.IDs))
	}
	switch {
	case w.Open:
		terms = append(terms, "ExecutionStatus = 'Running'")
	case w.Closed:
		terms = append(terms, "ExecutionStatus != 'Running'")
	}
	if !w.Since.IsZero() {
		terms = append(terms, fmt.Sprintf("(CloseTime IS NULL OR CloseTime >= '%s')", w.Since.UTC().Format(time.RFC3339Nano)))
	}
	return strings.Join(terms, " AND ")
}

// PartsQuery selects all that is open of an operation, what somebody has paused among it: its root and what runs for its apps and clusters.
func PartsQuery(s domain.Scope) string {
	terms := Wanted{ContextID: s.ContextID, Operation: s.Operation}.identity()
	return strings.Join(append(terms, "CloseTime IS NULL"), " AND ")
}

// ClusterQuery selects the workflows on a cluster, those of its own networks among them: of each of them ScopeOf says to
// which operation it belongs.
func ClusterQuery(w Wanted) string {
	names := append(rootNames(), ApplyToClusterName, DeleteFromClusterName)
	terms := append([]string{oneOf("WorkflowType", names)}, w.identity()...)
	return strings.Join(append(terms, is(clusterAttribute, fit(w.Cluster.String()))), " AND ")
}

func (w Wanted) identity() (terms []string) {
	if w.Project != "" {
		terms = append(terms, is(projectAttribute, w.Project))
	}
	if w.Owner != "" {
		for _, a := range ownerAttributes(w.Owner) {
			terms = append(terms, is(temporal.NewSearchAttributeKeyKeyword(a.Name), a.Value))
		}
	}
	if len(w.Within) > 0 {
		terms = append(terms, within(w.Within))
	}
	if w.ContextID != "" {
		terms = append(terms, is(contextAttribute, w.ContextID))
	}
	if w.Operation != "" {
		terms = append(terms, is(operationAttribute, string(w.Operation)))
	}
	return terms
}

// within selects what lies in scopes. Only operations of projects have a project; an operation without one is a cluster's own, whose provider begins the
// name of the cluster. Names that fit cuts are longer than those of all scopes.
func within(scopes []domain.Key) string {
	projects, providers := domain.Key(domain.Projects.Collection), domain.Key(domain.ClusterProviders.Collection)
	var names, any []string
	for _, s := range scopes {
		switch {
		case s == projects:
			any = append(any, projectAttribute.GetName()+" IS NOT NULL")
		case s == providers:
			any = append(any, projectAttribute.GetName()+" IS NULL")
		case s.Under(projects):
			names = append(names, s.Name())
		case s.Under(providers):
			any = append(any, fmt.Sprintf("(%s IS NULL AND %s STARTS_WITH '%s+')", projectAttribute.GetName(), clusterAttribute.GetName(), s.Name()))
		}
	}
	if len(names) > 0 {
		any = append(any, oneOf(projectAttribute.GetName(), names))
	}
	return "(" + strings.Join(any, " OR ") + ")"
}

func rootNames() []string {
	names := make([]string, 0, len(roots))
	for _, r := range roots {
		names = append(names, r.name)
	}
	return names
}

// is compares an attribute with a value of ours, in which there are no quotes.
func is(k temporal.SearchAttributeKeyKeyword, value string) string {
	return fmt.Sprintf("%s = '%s'", k.GetName(), value)
}

func oneOf(name string, values []string) string {
	return fmt.Sprintf("%s IN ('%s')", name, strings.Join(values, "', '"))
}

// ScopeOf reads the operation that a workflow belongs to from its search attributes, "" for one that it does not have. The
// owner is "" when the names in it were too long to be kept.
func ScopeOf(attribute func(name string) string) domain.Scope {
	get := func(k temporal.SearchAttributeKeyKeyword) string { return attribute(k.GetName()) }
	s := domain.Scope{ContextID: get(contextAttribute), Operation: domain.Operation(get(operationAttribute))}
	whole := true // false for a name that fit has cut
	key := domain.OwnerOf(func(name string) string {
		value := attribute(name)
		whole = whole && len(value) < longest
		return value
	})
	if whole && domain.IsOwner(key) {
		s.Owner = key
	}
	return s
}
