// Package combinetest reads the conformance table of combined status, and compares what a product makes of a case with what it
// expects. A case goes through internal/combine and, once more, through the API.
package combinetest

import (
	"bytes"
	_ "embed" // the table
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/domain"
)

// Variable is the environment variable that names another file to test by.
const Variable = "DROVER_COMBINED_CASES"

//go:embed cases.yaml
var table []byte

// File is a conformance table.
type File struct {
	Cases          []Case          `yaml:"cases"`
	SingletonCases []SingletonCase `yaml:"singletonCases"`
	LifecycleCases []LifecycleCase `yaml:"lifecycleCases"`
}

// Case is one or more collectors over a table of clusters.
type Case struct {
	Name       string      `yaml:"name"`
	Note       string      `yaml:"note"`
	Collectors []Collector `yaml:"collectors"`
	Clusters   []Cluster   `yaml:"clusters"`
	Expected   Expected    `yaml:"expected"`
}

// Collector is a collector of a case.
type Collector struct {
	Name string `yaml:"name"`
	Spec Spec   `yaml:"spec"`
}

// Spec is that of a collector, as JSON too.
type Spec struct {
	domain.StatusCollectorSpec
	JSON json.RawMessage
}

// Cluster is a row of the input.
type Cluster struct {
	Inventory struct {
		Name     string   `yaml:"name"`
		Provider string   `yaml:"provider"`
		Labels   []string `yaml:"labels"`
	} `yaml:"inventory"`
	Object      JSON        `yaml:"obj"`
	Returned    JSON        `yaml:"returned"` // null where nothing was reported
	Propagation Propagation `yaml:"propagation"`
}

// Propagation has the members that differ from the defaults.
type Propagation struct {
	LastReturnedUpdateTimestamp time.Time  `yaml:"lastReturnedUpdateTimestamp"`
	Reported                    *bool      `yaml:"reported"`
	Present                     *bool      `yaml:"present"`
	Stale                       *bool      `yaml:"stale"`
	StaleSince                  *time.Time `yaml:"staleSince"`
	Ready                       string     `yaml:"ready"`
	State                       string     `yaml:"state"`
	Message                     string     `yaml:"message"`
	Summarised                  bool       `yaml:"summarised"`
}

// Expected is what a case must give: results, or refusals.
type Expected struct {
	Results []Result  `yaml:"results"`
	Refused []Refused `yaml:"refused"`
}

// Result is what is expected of a collector's table.
type Result struct {
	Name              string    `yaml:"name"`
	ColumnNames       []string  `yaml:"columnNames"`
	Rows              []Columns `yaml:"rows"`
	TotalRows         int       `yaml:"totalRows"`
	Truncated         bool      `yaml:"truncated"`
	RowErrors         []Fault   `yaml:"rowErrors"`
	TotalRowErrors    *int      `yaml:"totalRowErrors"` // as many as rowErrors where it is missing
	AggregationErrors []Fault   `yaml:"aggregationErrors"`
	Warnings          []Fault   `yaml:"warnings"` // not compared where it is missing
}

// Columns is a row.
type Columns struct {
	Columns []Cell `yaml:"columns"`
}

// Cell is a cell.
type Cell struct {
	Type   string  `yaml:"type"`
	String *string `yaml:"string"`
	Float  *string `yaml:"float"`
	Bool   *bool   `yaml:"bool"`
	Object JSON    `yaml:"object"`
	Array  JSON    `yaml:"array"`
}

// Fault is an error of a result.
type Fault struct {
	WEC struct {
		ClusterID string `yaml:"clusterId"`
	} `yaml:"wec"`
	ColumnName string   `yaml:"columnName"`
	Mentions   []string `yaml:"mentions"`
}

// Refused is a problem for which the collector is not taken.
type Refused struct {
	Field    string   `yaml:"field"`
	Mentions []string `yaml:"mentions"`
}

// SingletonCase is the status of an object over all clusters.
type SingletonCase struct {
	Name          string `yaml:"name"`
	Note          string `yaml:"note"`
	Kind          string `yaml:"kind"`
	StatusIntents []struct {
		WantSingleton bool `yaml:"wantSingletonReportedState"`
		WantMulti     bool `yaml:"wantMultiWECReportedState"`
	} `yaml:"statusIntents"`
	WECs     []string        `yaml:"wecs"`
	Returned map[string]JSON `yaml:"returnedStatusByWEC"`
	Expected struct {
		ObjectStatus   JSON     `yaml:"objectStatus"` // null for none
		ReportedState  string   `yaml:"reportedState"`
		ReasonMentions []string `yaml:"reasonMentions"`
	} `yaml:"expected"`
}

// LifecycleCase is a change, and what a watch must show of it.
type LifecycleCase struct {
	Name  string `yaml:"name"`
	Given string `yaml:"given"`
	Then  string `yaml:"then"`
}

// JSON is a value as JSON. Doubles stay doubles: 1.0 is "1.0".
type JSON json.RawMessage

// UnmarshalYAML makes JSON of YAML.
func (j *JSON) UnmarshalYAML(node *yaml.Node) error {
	var v any
	if err := node.Decode(&v); err != nil {
		return err
	}
	if v == nil {
		*j = nil
		return nil
	}
	data, err := json.Marshal(exact(v))
	*j = data
	return err
}

// exact puts the digits of doubles in their places.
func exact(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = exact(member)
		}
	case []any:
		for i, item := range v {
			v[i] = exact(item)
		}
	case float64:
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if v == math.Trunc(v) && !strings.ContainsAny(text, "e.") {
			text += ".0"
		}
		return json.RawMessage(text)
	}
	return v
}

// UnmarshalYAML reads a spec as the API does.
func (s *Spec) UnmarshalYAML(node *yaml.Node) error {
	var data JSON
	if err := data.UnmarshalYAML(node); err != nil {
		return err
	}
	s.JSON = json.RawMessage(data)
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	return decoder.Decode(&s.StatusCollectorSpec)
}

// Load reads the table: the one of Variable where that is set, else the one that comes with the package. A member that it does
// not know is an error.
func Load() (*File, error) {
	data := table
	if name := os.Getenv(Variable); name != "" {
		var err error
		if data, err = os.ReadFile(name); err != nil {
			return nil, err
		}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	f := &File{}
	if err := decoder.Decode(f); err != nil {
		return nil, fmt.Errorf("read the cases: %w", err)
	}
	if len(f.Cases) == 0 {
		return nil, fmt.Errorf("read the cases: there are none")
	}
	return f, nil
}

// Row is the input that a cluster is.
func (c *Cluster) Row() (*combine.Row, error) {
	object, err := combine.Decode(json.RawMessage(c.Object))
	if err != nil {
		return nil, err
	}
	returned, err := combine.Decode(json.RawMessage(c.Returned))
	if err != nil {
		return nil, err
	}
	p, is := &c.Propagation, returned != nil
	or := func(set *bool, or bool) bool {
		if set != nil {
			return *set
		}
		return or
	}
	return &combine.Row{
		Key:    combine.Key{Cluster: domain.ClusterName{Provider: c.Inventory.Provider, Name: c.Inventory.Name}},
		Labels: c.Inventory.Labels, Object: object, Returned: returned,
		Propagation: combine.Propagation{
			LastReturnedUpdate: p.LastReturnedUpdateTimestamp, Reported: or(p.Reported, is), Present: or(p.Present, is),
			Stale: or(p.Stale, !is), StaleSince: p.StaleSince, Ready: p.Ready, State: p.State, Message: p.Message,
			Summarised: p.Summarised,
		},
	}, nil
}

// Diff says how a result differs from what is expected, "" for not at all. id is what a cluster of the case is called in the
// result.
func (want *Result) Diff(got *combine.Result, id func(name string) string) string {
	var out []string
	differ := func(what string, want, got any) {
		if d := cmp.Diff(want, got); d != "" {
			out = append(out, what+" (-want +got):\n"+d)
		}
	}
	differ("name", want.Name, got.Name)
	differ("columnNames", want.ColumnNames, got.ColumnNames)
	differ("rows", plainRows(want.Rows), plainRows(got.Rows))
	differ("totalRows", want.TotalRows, got.TotalRows)
	differ("truncated", want.Truncated, got.Truncated)
	differ("errors", []string(nil), got.Errors)
	errors := make([]said, 0, len(got.RowErrors))
	for _, e := range got.RowErrors {
		errors = append(errors, said{e.WEC.ClusterID, e.ColumnName, e.Error})
	}
	expected := slices.Clone(want.RowErrors)
	for i := range expected {
		expected[i].WEC.ClusterID = id(expected[i].WEC.ClusterID)
	}
	out = append(out, faults("rowErrors", expected, errors)...)
	total := len(want.RowErrors)
	if want.TotalRowErrors != nil {
		total = *want.TotalRowErrors
	}
	differ("totalRowErrors", total, got.TotalRowErrors)
	errors = nil
	for _, e := range got.AggregationErrors {
		errors = append(errors, said{"", e.ColumnName, e.Error})
	}
	out = append(out, faults("aggregationErrors", want.AggregationErrors, errors)...)
	if want.Warnings != nil {
		errors = nil
		for _, w := range got.Warnings {
			errors = append(errors, said{text: w})
		}
		out = append(out, faults("warnings", want.Warnings, errors)...)
	}
	return strings.Join(out, "\n")
}

// said is an error of a result.
type said struct{ cluster, column, text string }

func faults(what string, want []Fault, got []said) (out []string) {
	if len(want) != len(got) {
		return []string{fmt.Sprintf("%s: want %d, got %d: %q", what, len(want), len(got), got)}
	}
	for i, w := range want {
		g := got[i]
		if w.WEC.ClusterID != g.cluster || w.ColumnName != g.column {
			out = append(out, fmt.Sprintf("%s[%d]: want %q %q, got %q", what, i, w.WEC.ClusterID, w.ColumnName, g))
		}
		out = append(out, Missing(fmt.Sprintf("%s[%d]", what, i), g.text, w.Mentions)...)
	}
	return out
}

// Missing says which mentions a text has not.
func Missing(what, text string, mentions []string) (out []string) {
	for _, m := range mentions {
		if !strings.Contains(text, m) {
			out = append(out, fmt.Sprintf("%s: %q does not mention %q", what, text, m))
		}
	}
	return out
}

// plainRows are rows as what their JSON decodes to.
func plainRows(rows any) any {
	of := reflect.ValueOf(rows)
	all := make([]any, of.Len())
	for i := range all {
		cells := of.Index(i).FieldByName("Columns")
		row := make([]any, cells.Len())
		for j := range row {
			row[j] = plainCell(cells.Index(j))
		}
		all[i] = row
	}
	return all
}

func plainCell(cell reflect.Value) any {
	plain := map[string]any{}
	for _, name := range []string{"Type", "String", "Float", "Bool", "Object", "Array"} {
		v := cell.FieldByName(name)
		switch {
		case v.Kind() == reflect.String:
			plain[name] = v.String()
		case v.IsNil():
		case v.Kind() == reflect.Pointer:
			plain[name] = v.Elem().Interface()
		default:
			plain[name] = Plain(v.Bytes())
		}
	}
	return plain
}

// Plain is what JSON decodes to, with the digits of its numbers: 1.0 and 1 are the same number.
func Plain(data []byte) any {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return fmt.Sprintf("no JSON: %s", data)
	}
	return trim(v)
}

func trim(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = trim(member)
		}
	case []any:
		for i, item := range v {
			v[i] = trim(item)
		}
	case json.Number:
		if text := v.String(); strings.HasSuffix(text, ".0") {
			return json.Number(strings.TrimSuffix(text, ".0"))
		}
	}
	return v
}
