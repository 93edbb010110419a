package domain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/fail"
)

// StatusCollector is a SELECT in CEL over what all clusters report of an object: which rows, grouped how, and which columns. It
// is KubeStellar's manifest of that name.
type StatusCollector struct {
	Identity   `bson:",inline"`
	APIVersion string              `json:"apiVersion" api:"enum=control.kubestellar.io/v1alpha1"` // KubeStellar's; may be left out
	Kind       string              `json:"kind" api:"enum=StatusCollector"`                       // KubeStellar's; may be left out
	Metadata   CollectorMetadata   `json:"metadata" api:"required"`
	Spec       StatusCollectorSpec `json:"spec" api:"required"`
	// Status is made when the collector is shown; what is sent is not looked at.
	Status     CollectorStatus `json:"status" bson:"-"`
	Generation int64           `json:"-" bson:"generation"` // counts changes of the spec
	noun       *Noun
}

// CollectorMetadata is Metadata without its empty members, and what else KubeStellar's manifests have there that users write: a
// manifest comes back as it was sent.
type CollectorMetadata struct {
	Name        string            `json:"name" api:"required"`   // how the collector is named, and found in paths; unique in its library
	Description string            `json:"description,omitempty"` // for people; at most 1024 characters
	UserData1   string            `json:"userData1,omitempty"`   // whatever the user wants to keep with it; at most 512 characters
	UserData2   string            `json:"userData2,omitempty"`   // more of the same kind; at most 512 characters
	Labels      map[string]string `json:"labels,omitempty"`      // kept, and shown again
	Annotations map[string]string `json:"annotations,omitempty"` // kept, and shown again
}

// CollectorStatus says whether the collector can be evaluated.
type CollectorStatus struct {
	ObservedGeneration int64    `json:"observedGeneration"` // counts the specs that were written, from 1
	Errors             []string `json:"errors,omitempty"`   // why it cannot be evaluated any more, as after an upgrade
}

// What a collector is called in Kubernetes.
const (
	CollectorAPIVersion = "control.kubestellar.io/v1alpha1"
	CollectorKind       = "StatusCollector"
)

// StatusCollectors is the noun of the fleet's library, which every project may use, and ProjectCollectors that of a project's own.
var (
	StatusCollectors  = statusCollectors("status-collectors", nil)
	ProjectCollectors = statusCollectors("project-status-collectors", Projects)
)

func statusCollectors(kind string, parent *Noun) *Noun {
	title := "status collector"
	if parent != nil {
		title = parent.Title + " " + title
	}
	n := &Noun{
		Kind: kind, Title: title, Collection: "status-collectors", Names: []string{"statusCollector"}, Parent: parent,
		Longest: MaxSubdomain, // as Kubernetes has it
	}
	n.New = func() Object { return &StatusCollector{noun: n} }
	return n
}

// FleetCollector stands before the name of one of the fleet's collectors where a status intent names it.
const FleetCollector = "fleet/"

// CollectorNamed finds the collector that a status intent names by its noun and key; within is the intent's group, or
// anything else in the project.
func CollectorNamed(within Key, name string) (*Noun, Key) {
	if fleet, ok := strings.CutPrefix(name, FleetCollector); ok {
		return StatusCollectors, Join(StatusCollectors.Collection, fleet)
	}
	return ProjectCollectors, ScopeOf(within).Child(ProjectCollectors.Collection, name)
}

// added are the members that an API server of Kubernetes adds to an object, as `kubectl get -o yaml` shows them.
var added = regexp.MustCompile(`^status$|^status\.|^metadata\.(creationTimestamp|deletionGracePeriodSeconds|deletionTimestamp|` +
	`finalizers|generateName|generation|managedFields|ownerReferences|resourceVersion|selfLink|uid)$`)

// AddedByCluster says of the path of a member that nobody knows here whether a cluster has added it to the manifest. It is taken
// without a word, since it says nothing of the collector.
func AddedByCluster(path string) bool { return added.MatchString(path) }

// Foreign says which members that it does not know a collector takes without a word.
func (*StatusCollector) Foreign(path string) bool { return AddedByCluster(path) }

// Noun is the library's that it is of.
func (c *StatusCollector) Noun() *Noun { return c.noun }

// LocalName is the name.
func (c *StatusCollector) LocalName() string { return c.Metadata.Name }

// Validate checks the body, but for the spec: combine.Check says of that all that is wrong with it, in the order of its members.
func (c *StatusCollector) Validate(p *fail.Problems) {
	if c.APIVersion != "" && c.APIVersion != CollectorAPIVersion {
		p.Add("apiVersion", "%q is not %s", c.APIVersion, CollectorAPIVersion)
	}
	if c.Kind != "" && c.Kind != CollectorKind {
		p.Add("kind", "%q is not %s", c.Kind, CollectorKind)
	}
	m := Metadata{c.Metadata.Name, c.Metadata.Description, c.Metadata.UserData1, c.Metadata.UserData2}
	checkName(p, "metadata.name", m.Name, MaxSubdomain)
	m.checkRemarks(p)
}

// StatusCollectorSpec is KubeStellar's, and orderBy. It has select, or combinedFields with or without groupBy.
type StatusCollectorSpec struct {
	Filter         string            `json:"filter,omitempty"`         // WHERE: of type bool; false and null drop the row. Empty keeps all
	GroupBy        []NamedExpression `json:"groupBy,omitempty"`        // GROUP BY, and the first columns
	CombinedFields []NamedAggregator `json:"combinedFields,omitempty"` // the aggregates, the columns after those of groupBy
	Select         []NamedExpression `json:"select,omitempty"`         // the columns of a table without aggregation
	Limit          *int              `json:"limit,omitempty"`          // LIMIT: 1 to 1000 rows; 20 where it is missing, or 0 as KubeStellar's clients write what is missing
	OrderBy        []ColumnOrder     `json:"orderBy,omitempty"`        // ORDER BY: columns of the table
}

// NamedExpression is a column.
type NamedExpression struct {
	Name string `json:"name" api:"required"` // of the column; unique in the table
	Def  string `json:"def" api:"required"`  // an expression (CEL) over inventory, obj, returned and propagation
}

// NamedAggregator is a column of aggregates.
type NamedAggregator struct {
	Name    string         `json:"name" api:"required"` // of the column; unique in the table
	Type    AggregatorType `json:"type" api:"required"` // COUNT, SUM, AVG, MIN or MAX
	Subject string         `json:"subject,omitempty"`   // an expression (CEL) for the numbers; COUNT has none
}

// AggregatorType is a function over the rows of a group.
type AggregatorType string

// The aggregators. COUNT counts rows; the others are over the values of a subject.
const (
	AggregatorCount AggregatorType = "COUNT"
	AggregatorSum   AggregatorType = "SUM"
	AggregatorAvg   AggregatorType = "AVG"
	AggregatorMin   AggregatorType = "MIN"
	AggregatorMax   AggregatorType = "MAX"
)

// AggregatorTypes are all of them.
var AggregatorTypes = []AggregatorType{AggregatorCount, AggregatorSum, AggregatorAvg, AggregatorMin, AggregatorMax}

// ColumnOrder sorts by a column; Null comes last in either direction.
type ColumnOrder struct {
	Column     string `json:"column" api:"required"` // a column of the table
	Descending bool   `json:"descending,omitempty"`  // the greatest first
}

// Bounds of a spec.
const (
	DefaultCollectorLimit = 20   // rows, where a spec has no limit
	MaxCollectorLimit     = 1000 // rows
	MaxCollectorColumns   = 50   // columns, and entries of orderBy
)

// Rows is how many rows the table has at the most.
func (s *StatusCollectorSpec) Rows() int {
	if s.Limit == nil || *s.Limit == 0 {
		return DefaultCollectorLimit
	}
	return *s.Limit
}

// Columns are the names of the columns of the table.
func (s *StatusCollectorSpec) Columns() []string {
	names := make([]string, 0, s.width())
	for _, columns := range [][]NamedExpression{s.Select, s.GroupBy} {
		for _, c := range columns {
			names = append(names, c.Name)
		}
	}
	for _, c := range s.CombinedFields {
		names = append(names, c.Name)
	}
	return names
}

func (s *StatusCollectorSpec) width() int {
	return len(s.Select) + len(s.GroupBy) + len(s.CombinedFields)
}

// Few adds a problem, and is false, where the spec has more columns or orders than a table may have. A body has room for a million of them:
// nothing else is said of such a spec, and none of its expressions is compiled.
func (s *StatusCollectorSpec) Few(p *fail.Problems) bool {
	few := true
	if n := s.width(); n > MaxCollectorColumns {
		p.Add("spec", "has %d columns; a table has at most %d", n, MaxCollectorColumns)
		few = false
	}
	if n := len(s.OrderBy); n > MaxCollectorColumns {
		p.Add("spec.orderBy", "has %d columns; a table has at most %d", n, MaxCollectorColumns)
		few = false
	}
	return few
}

// longestColumns is how much of the names of columns a problem tells: all of those that are valid.
const longestColumns = MaxCollectorColumns * (MaxName + len(", "))

// Validate adds every problem of the spec to p under the path "spec", in the order of its members; of one that is too large, that alone (Few). It
// does not look into the expressions: combine.Check does both.
func (s *StatusCollectorSpec) Validate(p *fail.Problems) {
	if !s.Few(p) {
		return
	}
	columns := s.Columns()
	if len(columns) == 0 {
		p.Add("spec", "has no columns: it needs select or combinedFields")
	}
	names := columnNames{}
	s.validateGroups(p, names)
	s.validateAggregators(p, names)
	s.validateSelect(p, names)
	if rows := s.Rows(); rows < 1 || rows > MaxCollectorLimit {
		p.Add("spec.limit", "is %d; it must be from 1 to %d", rows, MaxCollectorLimit)
	}
	ordered, listed := map[string]bool{}, strings.Join(columns, ", ")
	for i, o := range s.OrderBy {
		path := at("spec.orderBy", i, "column")
		switch {
		case !slices.Contains(columns, o.Column):
			p.Add(path, "%q is no column of the table; its columns are %.*s", o.Column, longestColumns, listed)
		case ordered[o.Column]:
			p.Add(path, "column %q is there already", o.Column)
		}
		ordered[o.Column] = true
	}
}

func (s *StatusCollectorSpec) validateGroups(p *fail.Problems, names columnNames) {
	for i, g := range s.GroupBy {
		names.check(p, at("spec.groupBy", i, "name"), g.Name)
		checkExpression(p, at("spec.groupBy", i, "def"), g.Def)
	}
	if len(s.GroupBy) > 0 && len(s.CombinedFields) == 0 {
		p.Add("spec.combinedFields", "is required with groupBy, such as [{name: count, type: COUNT}]")
	}
}

func (s *StatusCollectorSpec) validateAggregators(p *fail.Problems, names columnNames) {
	for i, f := range s.CombinedFields {
		names.check(p, at("spec.combinedFields", i, "name"), f.Name)
		if !slices.Contains(AggregatorTypes, f.Type) {
			p.Add(at("spec.combinedFields", i, "type"), "%q is no aggregator; they are COUNT, SUM, AVG, MIN and MAX", f.Type)
			continue
		}
		switch path := at("spec.combinedFields", i, "subject"); {
		case f.Type == AggregatorCount && f.Subject != "":
			p.Add(path, "COUNT counts rows and has no subject")
		case f.Type != AggregatorCount && strings.TrimSpace(f.Subject) == "":
			p.Add(path, "is required: %s is over the values of an expression", f.Type)
		}
	}
}

func (s *StatusCollectorSpec) validateSelect(p *fail.Problems, names columnNames) {
	if len(s.Select) > 0 && len(s.GroupBy)+len(s.CombinedFields) > 0 {
		p.Add("spec.select", "cannot be with groupBy or combinedFields: a table has a row for each cluster, or one for each group")
	}
	for i, c := range s.Select {
		names.check(p, at("spec.select", i, "name"), c.Name)
		checkExpression(p, at("spec.select", i, "def"), c.Def)
	}
}

// columnNames are those that were seen.
type columnNames map[string]bool

func (seen columnNames) check(p *fail.Problems, path, name string) {
	switch {
	case strings.TrimSpace(name) == "":
		p.Add(path, "is required")
	case seen[name]:
		p.Add(path, "a column %q is there already", name)
	}
	CheckLength(p, path, name, MaxName)
	seen[name] = true
}

func checkExpression(p *fail.Problems, path, expression string) {
	if strings.TrimSpace(expression) == "" {
		p.Add(path, "is required")
	}
}

// at is the path of a member of an item of a list.
func at(list string, i int, member string) string { return fmt.Sprintf("%s[%d].%s", list, i, member) }
