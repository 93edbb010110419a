package domain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/fail"
)

// StatusCollector says how what clusters report of one object is made into a table: it is a SELECT over one row per cluster,
// whose expressions are CEL. The fleet has a library of them, and so has each project: one type, two nouns.
type StatusCollector struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     StatusCollectorSpec `json:"spec" api:"required"`
	noun     *Noun
}

// Noun is that of the fleet's collectors, or that of projects'.
func (c *StatusCollector) Noun() *Noun { return c.noun }

// Validate checks the body, but for the expressions. These are checked by combine.Check, which says of the whole spec all that
// is wrong with it, in the order of its members.
func (c *StatusCollector) Validate(p *fail.Problems) {
	c.Metadata.Validate(p)
	c.Spec.Validate(p)
}

// StatusCollectorSpec is KubeStellar's, and orderBy. It has select, or combinedFields with or without groupBy.
type StatusCollectorSpec struct {
	Filter         string            `json:"filter,omitempty"`         // WHERE: of type bool; false and null drop the row. Empty keeps all
	GroupBy        []NamedExpression `json:"groupBy,omitempty"`        // GROUP BY, and the first columns
	CombinedFields []NamedAggregator `json:"combinedFields,omitempty"` // the aggregates, the columns after those of groupBy
	Select         []NamedExpression `json:"select,omitempty"`         // the columns of a table without aggregation
	Limit          *int              `json:"limit,omitempty"`          // LIMIT: 1 to 1000 rows; 20 where it is missing
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
	MaxCollectorColumns   = 50   // columns
)

// Rows is how many rows the table has at the most.
func (s *StatusCollectorSpec) Rows() int {
	if s.Limit == nil {
		return DefaultCollectorLimit
	}
	return *s.Limit
}

// Columns are the names of the columns of the table.
func (s *StatusCollectorSpec) Columns() []string {
	names := make([]string, 0, len(s.Select)+len(s.GroupBy)+len(s.CombinedFields))
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

// Validate adds every problem of the spec to p under the path "spec", in the order of its members. It does not look into the
// expressions: combine.Check does both.
func (s *StatusCollectorSpec) Validate(p *fail.Problems) {
	columns := s.Columns()
	if len(columns) == 0 {
		p.Add("spec", "has no columns: it needs select or combinedFields")
	}
	if len(columns) > MaxCollectorColumns {
		p.Add("spec", "has %d columns; a table has at most %d", len(columns), MaxCollectorColumns)
	}
	names := columnNames{}
	s.validateGroups(p, names)
	s.validateAggregators(p, names)
	s.validateSelect(p, names)
	if rows := s.Rows(); rows < 1 || rows > MaxCollectorLimit {
		p.Add("spec.limit", "is %d; it must be from 1 to %d", rows, MaxCollectorLimit)
	}
	ordered := map[string]bool{}
	for i, o := range s.OrderBy {
		path := at("spec.orderBy", i, "column")
		switch {
		case !slices.Contains(columns, o.Column):
			p.Add(path, "%q is no column of the table; its columns are %s", o.Column, strings.Join(columns, ", "))
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
