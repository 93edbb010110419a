package combine

import "encoding/json"

// Result is a table as it is shown: a member of results in KubeStellar's CombinedStatus, with totals, warnings and errors added.
// Equal inputs give equal results and, with encoding/json, equal bytes, whatever order the rows came in.
type Result struct {
	Name        string      `json:"name"`        // of the collector
	ColumnNames []string    `json:"columnNames"` // those of select; or those of groupBy, then of combinedFields
	Rows        []ResultRow `json:"rows"`        // never nil
	// RowErrors are of rows of the input: 20 of a column at the most, in the order of clusters and then of columns.
	RowErrors []RowError `json:"rowErrors,omitempty"`
	// AggregationErrors are of groups: what their aggregates left out.
	AggregationErrors []AggregationError `json:"aggregationErrors,omitempty"`
	TotalRows         int                `json:"totalRows"`      // as if there were no limit
	Truncated         bool               `json:"truncated"`      // whether rows are fewer than totalRows
	TotalRowErrors    int                `json:"totalRowErrors"` // of all columns, listed or not
	// Warnings are likely mistakes, such as a column that is null in every row.
	Warnings []string `json:"warnings,omitempty"`
	// Errors say why there is no table: the collector does not compile, or the table took too long. There are no rows then.
	Errors []string `json:"errors,omitempty"`
}

// ResultRow is a row of a result.
type ResultRow struct {
	Columns []Cell `json:"columns"` // one for each of columnNames
}

// CellType says which member of a cell has its value.
type CellType string

// The types of cells. A timestamp, a duration, bytes and a type are Strings.
const (
	CellString CellType = "String"
	CellNumber CellType = "Number"
	CellBool   CellType = "Bool"
	CellNull   CellType = "Null"
	CellObject CellType = "Object"
	CellArray  CellType = "Array"
)

// Cell is a value: its type, and at most one other member.
type Cell struct {
	Type   CellType        `json:"type"`             // String, Number, Bool, Null, Object or Array
	String *string         `json:"string,omitempty"` // of a String
	Float  *string         `json:"float,omitempty"`  // of a Number: decimal, exact, as KubeStellar calls the member
	Bool   *bool           `json:"bool,omitempty"`   // of a Bool
	Object json.RawMessage `json:"object,omitempty"` // of an Object
	Array  json.RawMessage `json:"array,omitempty"`  // of an Array
}

// RowError says what could not be evaluated on a row of the input.
type RowError struct {
	WEC WEC `json:"wec"` // the row's cluster
	// Object is the row's; it is there only in a table of several objects (together).
	Object     string `json:"object,omitempty"`
	ColumnName string `json:"columnName"` // "" for the filter
	Error      string `json:"error"`      // names the paths that were null
}

// WEC is a workload execution cluster, as KubeStellar calls a cluster.
type WEC struct {
	ClusterID string `json:"clusterId"` // provider+name; the name alone where there is no provider
}

// AggregationError says what an aggregate left out.
type AggregationError struct {
	ColumnName string `json:"columnName"` // the aggregate's
	Error      string `json:"error"`      // names the group, how many rows, and the clusters and values of the first three
}
