package combine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
)

// spec is one of JSON.
func spec(tb testing.TB, text string) *domain.StatusCollectorSpec {
	tb.Helper()
	s := &domain.StatusCollectorSpec{}
	require.NoError(tb, json.Unmarshal([]byte(text), s))
	return s
}

func selecting(defs ...string) *domain.StatusCollectorSpec {
	s := &domain.StatusCollectorSpec{}
	for i, def := range defs {
		s.Select = append(s.Select, domain.NamedExpression{Name: fmt.Sprintf("c%d", i), Def: def})
	}
	return s
}

func compiled(tb testing.TB, s *domain.StatusCollectorSpec) *combine.Program {
	tb.Helper()
	p, err := combine.Compile("c", s)
	require.NoError(tb, err)
	return p
}

// reporting is a row of a cluster that has reported an object with a status.
func reporting(tb testing.TB, cluster, status string) *combine.Row {
	tb.Helper()
	returned, err := combine.Decode(json.RawMessage(`{"status":` + status + `}`))
	require.NoError(tb, err)
	return &combine.Row{
		Key:    combine.Key{Cluster: domain.ClusterName{Provider: "p", Name: cluster}},
		Object: map[string]any{"spec": map[string]any{"replicas": int64(3)}}, Returned: returned,
		Propagation: combine.Propagation{Reported: true, Present: true},
	}
}

// cells are those of a result in short: "-" for null.
func cells(r *combine.Result) (rows []string) {
	for _, row := range r.Rows {
		var all []string
		for _, c := range row.Columns {
			switch c.Type {
			case combine.CellNumber:
				all = append(all, *c.Float)
			case combine.CellString:
				all = append(all, *c.String)
			case combine.CellBool:
				all = append(all, fmt.Sprint(*c.Bool))
			case combine.CellNull:
				all = append(all, "-")
			default:
				all = append(all, string(c.Object)+string(c.Array))
			}
		}
		rows = append(rows, strings.Join(all, " "))
	}
	return rows
}

// TestExpressions: what an expression gives on one row, or the error of the row.
func TestExpressions(t *testing.T) {
	since := time.Date(2024, 11, 7, 20, 0, 0, 0, time.FixedZone("", 3600))
	row := reporting(t, "w1", `{"phase":"Running","n":1,"d":1.0,"big":18446744073709551615,"huge":123456789012345678901234567890,"beyond":1e400,
		"list":[{"name":"a","v":1},{"name":"b"}],"nil":null,"half":0.5,"long":1e21,"tiny":1e-7,"neg":-0.0,"o":{"b":1.50,"a":[true,null,"<é>"]}}`)
	row.Labels = []string{"edge", "eu"}
	row.Propagation.StaleSince, row.Propagation.Ready, row.Propagation.Stale = &since, "NotReady", true
	row.Object["status"] = "not to be seen"
	row.Object["kind"] = "Pod"
	row.Returned["kind"] = "not a member"
	for def, want := range map[string]string{
		"inventory.id":                            "p+w1",
		"inventory.labels":                        `["edge","eu"]`,
		"inventory.labels.exists(l, l == 'eu')":   "true",
		"inventory":                               `{"id":"p+w1","labels":["edge","eu"],"name":"w1","provider":"p"}`,
		"obj":                                     `{"kind":"Pod","spec":{"replicas":3}}`,
		"has(returned.status.phase)":              "true",
		"has(returned.spec)":                      "false",
		"returned.spec.a.b":                       "-",
		"returned.status.nil.a":                   "-",
		"has(returned.status.nil)":                "true",
		"has(returned.status.nil.a)":              "false",
		"size(returned)":                          "1",
		"propagation.staleSince":                  "2024-11-07T19:00:00Z",
		"has(propagation.staleSince)":             "true",
		"has(inventory.name)":                     "true",
		"propagation.ready == 'NotReady'":         "true",
		"propagation.lastReturnedUpdateTimestamp": "0001-01-01T00:00:00Z",
		"returned.status.big":                     "18446744073709551615",
		"returned.status.huge":                    "123456789012345678901234567890",
		"returned.status.huge > 1":                "true",
		"[returned.status.huge]":                  "[1.2345678901234568e+29]",
		"returned.status.long":                    "1e+21",
		"returned.status.tiny":                    "1e-7",
		"returned.status.neg":                     "0",
		"returned.status.half":                    "0.5",
		"type(returned.status.n)":                 "int",
		"type(returned.status.d)":                 "double",
		"returned.status.n == returned.status.d":  "true",
		"returned.status.o":                       `{"a":[true,null,"\u003cé\u003e"],"b":1.5}`,
		"returned.status.list.map(x, x.v)":        "[1,null]",
		"returned.status.list.filter(x, has(x.v)).map(x, x.name)": `["a"]`,
		"returned.status.list[1].v":                               "-",
		"has(returned.status.list[1].v)":                          "false",
		"returned.status.list[1].v.w":                             "-",
		"returned.?status.?nope":                                  "-",
		"returned.?status.?phase":                                 "Running",
		"returned.?status.nope.orValue('x')":                      "x",
		"returned.?status.nope.deeper.orValue('x')":               "x",
		"returned.status.list[?5].?name.orValue('none')":          "none",
		"returned.status.?phase.hasValue()":                       "true",
		"{'a': returned.status.phase}.a":                          "Running",
		"{'a': 1}.b":                                              "-",
		"{1: 'a', true: 'b'}":                                     `{"1":"a","true":"b"}`,
		"[1, 2u, 1.5, 'a', b'a', duration('90s'), timestamp('2024-01-01T00:00:00.5Z')]": `[1,2,1.5,"a","YQ==","90s","2024-01-01T00:00:00.5Z"]`,
		"[optional.none(), optional.of(1)]":                                             "[null,1]",
		"google.protobuf.Timestamp":                                                     "google.protobuf.Timestamp",
		"returned.status.phase.lowerAscii()":                                            "running",
		".obj.spec.replicas":                                                            "3",
		"returned.status.nope || true":                                                  "true",
		"false && returned.status.nope":                                                 "false",
		"returned.status.nope in [null]":                                                "true",
		"true ? returned.status.nope : 1":                                               "-",
		"-0.0":                                                                          "0",
		"1e20":                                                                          "100000000000000000000",
		"100000000000000000000000.0":                                                    "1e+23",
		"0.000001":                                                                      "0.000001",
		"duration('1h') - duration('90m')":                                              "-1800s",
		"duration('1ns')":                                                               "0.000000001s",
		"duration('-1.000000001s')":                                                     "-1.000000001s",
		"timestamp('2024-11-07T20:15:27Z') - timestamp('2024-11-07T20:15:00.5Z')": "26.5s",
		"timestamp('2024-11-07T20:15:27Z').getHours('Europe/Berlin')":             "21",
		"propagation.lastReturnedUpdateTimestamp.getFullYear()":                   "1",
		"b'\\xff'":                    "/w==",
		"type(1u)":                    "uint",
		"type(type(1))":               "type",
		"type(null)":                  "null_type",
		"optional.of(optional.of(1))": "1",
		"optional.of(null)":           "-",
		"[?returned.?status.?nope]":   "[]",
		"{?'a': returned.?status.?nope, ?'b': returned.?status.?n}": `{"b":1}`,
		"returned.?status.?list[?0].?v":                             "1",
		"returned.?status.?nope.or(returned.?status.?n).value()":    "1",
		"'äöü'.size()":                                             "3",
		"returned.status.o.`a`":                                    `[true,null,"\u003cé\u003e"]`,
		"'%d %s %.2f'.format([255, 'a', 1.5])":                     "255 a 1.50",
		"returned.status.o.map(k, k)":                              `["a","b"]`,
		"{'b': 1, 'a': 2, 3: 0, 2u: 0, 10: 0, false: 0}.map(k, k)": `[false,2,3,10,"a","b"]`,
		"{2: 0, 2u: 0}.map(k, type(k))":                            `["int","uint"]`,
		"{'c': {'b': 1, 'a': 2}}.exists(k, k == 'c')":              "true",
		"dyn({'b': 1, 'a': 2}).filter(k, k != 'a')":                `["b"]`,
		"optional.of({'b': 1, 'a': 2}).optMap(m, m.map(k, m[k]))":  "[2,1]",

		"returned.status.phase.a":      "!returned.status.phase is of type string, which has no member a",
		"returned.status.list.a":       "!returned.status.list is of type list, which has no member a",
		"has(returned.status.phase.a)": "!returned.status.phase is of type string",
		"dyn(1).a":                     "!a value of type int has no member a",
		"0.0 / 0.0":                    "!is NaN, which is no number",
		"int('x')":                     "!type conversion error",
		"int(1e19)":                    "!integer overflow",
		"string(b'\\xff')":             "!invalid UTF-8",
		"1/0":                          "!division by zero",
		"1u/0u":                        "!division by zero",
		"1%0":                          "!modulus by zero",
		"-1.0/0.0":                     "!is -Inf, which is no number",
		"9223372036854775807 + obj.spec.replicas":            "!integer overflow",
		"-(-9223372036854775807 - 1)":                        "!integer overflow",
		"returned.status.big + 1u":                           "!unsigned integer overflow",
		"duration('1h') + timestamp('9999-12-31T23:59:59Z')": "!timestamp overflow",
		"returned.status.list[5]":                            "!index out of bounds",
		"returned.?status.?nope.value()":                     "!optional.none() dereference",
		"!returned.status.nope":                              "!returned.status.nope is null",
		"returned.status.nope ? 1 : 2":                       "!returned.status.nope is null",
		"returned.status.nope && true":                       "!returned.status.nope is null",
		"returned.status.beyond":                             "!is the number 1e400, which is too large",
		"[returned.status.beyond]":                           "!1e400 is too large a number",
		"returned.status.beyond > 1":                         "!1e400 is too large a number",
		"returned.status":                                    "!has in it what is the number 1e400, which is too large",
		"[1.0 / 0.0]":                                        "!has in it what is +Inf",
		"{1: 'a', '1': 'b'}":                                 "!is a map whose keys are no names of members",
		"returned.status.x + returned.status.y + 1":          "!returned.status.x, returned.status.y are null",
		"returned.status['x']":                               "!no such key: x",
		"returned.spec.replicas + obj.spec.replicas + returned.metadata.generation": "!returned.spec.replicas, returned.metadata.generation are null",
	} {
		t.Run(def, func(t *testing.T) {
			r := combine.Evaluate(t.Context(), compiled(t, selecting(def)), slices.Values([]*combine.Row{row}))
			if message, fails := strings.CutPrefix(want, "!"); fails {
				require.Len(t, r.RowErrors, 1)
				require.Contains(t, r.RowErrors[0].Error, message)
				require.Equal(t, []string{"-"}, cells(r))
				return
			}
			require.Empty(t, r.RowErrors)
			require.Equal(t, []string{want}, cells(r))
		})
	}
}

// TestANumberBeyondAllDoubles ends nothing but what has to do with it, whether or not there is one of many digits beside it.
func TestANumberBeyondAllDoubles(t *testing.T) {
	for _, status := range []string{`{"n":3,"x":1e400}`, `{"n":3,"x":-1e400,"long":123456789012345678901234567890}`, `{"n":3,"l":[{"x":1e400}]}`} {
		r := combine.Evaluate(t.Context(), compiled(t, selecting("returned.status.n")), slices.Values([]*combine.Row{reporting(t, "w1", status)}))
		require.Empty(t, r.RowErrors)
		require.Equal(t, []string{"3"}, cells(r))
	}
	for _, broken := range []string{`{"a":1e400`, `{"a":1} {}`, `[1e400]`} {
		_, err := combine.Decode(json.RawMessage(broken))
		require.Error(t, err, broken)
	}
}

// TestSummarised: of a summarised object nobody knows whether a member is missing, however it is asked for. What the agent does not
// cut is not concerned.
func TestSummarised(t *testing.T) {
	row := reporting(t, "w1", `{"phase":"Running","list":[{"a":1}]}`)
	row.Propagation.Summarised = true
	for def, want := range map[string]string{
		"returned.status.phase":                        "Running",
		"has(returned.status.phase)":                   "true",
		"returned.?status.?phase.orValue('')":          "Running",
		"obj.spec.none":                                "-",
		"has(obj.spec.none)":                           "false",
		"propagation.staleSince":                       "-",
		"returned.status.none":                         "!returned.status.none is missing",
		"has(returned.status.none)":                    "!returned.status.none is missing",
		"returned.status.none == null":                 "!summarised",
		"returned.?status.?none.orValue(0)":            "!none is missing",
		"returned.status.list.all(x, x.b == 1)":        "!b is missing",
		"returned.status.list.exists(x, has(x.b))":     "!b is missing",
		"returned.spec":                                "!returned.spec is missing",
		"returned.status.?list[?0].?b.orValue('none')": "!b is missing",
		"returned.?status.none.orValue(0)":             "!none is missing",
		"returned.status[?'none'].orValue(0)":          "!none is missing",
		"returned[?'spec'].orValue(0)":                 "!spec is missing",
		"has(returned.?status.none)":                   "!none is missing",
		"[obj.spec].map(s, s.none)":                    "[null]",
		"obj.?spec.?none.orValue(0)":                   "0",

		"'none' in returned.status":                                    "!none is missing",
		"'phase' in returned.status":                                   "true",
		"'spec' in returned":                                           "!spec is missing",
		"returned.status.list.exists(x, 'b' in x)":                     "!b is missing",
		"returned.status['no' + 'ne']":                                 "!none is missing",
		"returned.status[?'no' + 'ne'].orValue(0)":                     "!none is missing",
		"[returned].map(r, r.status.none)":                             "!none is missing",
		"{'s': returned.status}.s.list.map(x, x.a)":                    "[1]",
		"{'s': returned.status}.none":                                  "-",
		"size(returned.status.list) == 1 && has(obj.spec.none)":        "false",
		"[obj.spec].exists(s, has(s.none)) || returned.status == null": "false",
		"[obj.spec].map(s, s.none) == [returned.status.phase]":         "false",
		"returned.status":                                              `{"list":[{"a":1}],"phase":"Running"}`,
		"returned.status.map(k, k)":                                    `["list","phase"]`,
		"[returned.status, returned.status.list]":                      `[{"list":[{"a":1}],"phase":"Running"},[{"a":1}]]`,
		"returned.status == returned.status":                           "true",
		"returned.status == {'phase': 'Running', 'other': 1}":          "false",
		"optional.ofNonZeroValue(returned.status).hasValue()":          "true",
	} {
		t.Run(def, func(t *testing.T) {
			r := combine.Evaluate(t.Context(), compiled(t, selecting(def)), slices.Values([]*combine.Row{row}))
			if message, fails := strings.CutPrefix(want, "!"); fails {
				require.Len(t, r.RowErrors, 1, "%v", cells(r))
				require.Contains(t, r.RowErrors[0].Error, message)
				require.Contains(t, r.RowErrors[0].Error, "summarised")
				return
			}
			require.Equal(t, []string{want}, cells(r), "%v", r.RowErrors)
		})
	}
}

// TestWhatIsTooLargeIsNotCompiled: a body has room for a spec of a million expressions, and each of them may be wrong.
func TestWhatIsTooLargeIsNotCompiled(t *testing.T) {
	const n = 300_000
	s := &domain.StatusCollectorSpec{Filter: "x", Select: make([]domain.NamedExpression, n), OrderBy: make([]domain.ColumnOrder, n)}
	for i := range n {
		s.Select[i], s.OrderBy[i] = domain.NamedExpression{Name: "a", Def: "x"}, domain.ColumnOrder{Column: "b"}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := combine.Check(s)
	runtime.ReadMemStats(&after)
	require.Equal(t, "Invalid Input:\nspec: has 300000 columns; a table has at most 50\nspec.orderBy: has 300000 columns; a table has at most 50", fail.TextOf(err))
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}

// TestFaultsBeyondCounting: no expression is compiled any more when there are more faults than an answer names.
func TestFaultsBeyondCounting(t *testing.T) {
	def := "[" + strings.TrimSuffix(strings.Repeat("x,", 60), ",") + "]"
	err := combine.Check(selecting(def, def, def, def))
	fields := fail.FieldsOf(err)
	require.Len(t, fields, 120)
	require.True(t, strings.HasPrefix(fields[119].Path, "spec.select[1]"), fields[119].Path)
}

// TestRefused: all that is wrong with a spec, by field, in the order of its members.
func TestRefused(t *testing.T) {
	long := strings.Repeat("true || ", 600) + "true"
	var wide []domain.NamedExpression
	for i := range 51 {
		wide = append(wide, domain.NamedExpression{Name: fmt.Sprint(i), Def: "1"})
	}
	for name, c := range map[string]struct {
		spec *domain.StatusCollectorSpec
		want []string
	}{
		"empty":         {spec(t, `{}`), []string{"spec: has no columns"}},
		"filter alone":  {spec(t, `{"filter":"true"}`), []string{"spec: has no columns"}},
		"groupBy alone": {spec(t, `{"groupBy":[{"name":"a","def":"1"}]}`), []string{"spec.combinedFields: is required with groupBy"}},
		"both": {
			spec(t, `{"combinedFields":[{"name":"n","type":"COUNT"}],"select":[{"name":"a","def":"1"}]}`),
			[]string{"spec.select: cannot be with groupBy or combinedFields"},
		},
		"names": {
			spec(t, `{"groupBy":[{"name":"","def":"1"},{"name":"a","def":"1"}],"combinedFields":[{"name":"a","type":"COUNT"},{"name":" ","type":"COUNT"}]}`),
			[]string{"spec.groupBy[0].name: is required", `spec.combinedFields[0].name: a column "a" is there already`, "spec.combinedFields[1].name: is required"},
		},
		"limits":    {spec(t, `{"select":[{"name":"a","def":"1"}],"limit":-1}`), []string{"spec.limit: is -1; it must be from 1 to 1000"}},
		"too many":  {spec(t, `{"select":[{"name":"a","def":"1"}],"limit":1001}`), []string{"spec.limit: is 1001"}},
		"no column": {spec(t, `{"select":[{"name":"a","def":"1"}],"orderBy":[{"column":"b"},{"column":"a"},{"column":"a","descending":true}]}`), []string{`spec.orderBy[0].column: "b" is no column`, `spec.orderBy[2].column: column "a" is there already`}},
		"too wide":  {&domain.StatusCollectorSpec{Select: wide}, []string{"spec: has 51 columns; a table has at most 50"}},
		"no def":    {selecting(" "), []string{"spec.select[0].def: is required"}},
		"no type":   {spec(t, `{"combinedFields":[{"name":"n","type":""}]}`), []string{`spec.combinedFields[0].type: "" is no aggregator`}},
		"position":  {selecting("true &&\n  x"), []string{"spec.select[0].def: line 2, column 3: undeclared reference to 'x'"}},
		"two faults in one": {
			selecting("x + y"), []string{"spec.select[0].def: line 1, column 1: undeclared reference to 'x'", "spec.select[0].def: line 1, column 5: undeclared reference to 'y'"},
		},
		"syntax":                       {selecting("returned.status =="), []string{"spec.select[0].def: line 1, column 19: Syntax error"}},
		"too long":                     {&domain.StatusCollectorSpec{Filter: long, Select: selecting("1").Select}, []string{"spec.filter: expression code point size exceeds limit"}},
		"too deep":                     {selecting(`[1].all(a, [1].all(b, [1].all(c, [1].all(d, true))))`), []string{"spec.select[0].def: line 1, column 41: comprehension exceeds nesting limit"}},
		"no now":                       {selecting("now()"), []string{"spec.select[0].def: line 1, column 4: undeclared reference to 'now'"}},
		"unknown by has":               {selecting("has(returned.state)"), []string{"spec.select[0].def: line 1, column 4: returned has no member state; it has metadata, spec, status"}},
		"unknown by index":             {selecting("propagation['age']"), []string{"spec.select[0].def: line 1, column 12: propagation has no member age"}},
		"unknown by optional":          {selecting("inventory.?cpu.orValue(1)"), []string{"spec.select[0].def: line 1, column 10: inventory has no member cpu"}},
		"unknown in a macro":           {selecting("[1].all(x, inventory.cpu == x)"), []string{"spec.select[0].def: line 1, column 21: inventory has no member cpu"}},
		"status of obj by has":         {selecting("has(obj.status.a)"), []string{"spec.select[0].def: line 1, column 4: obj has no status"}},
		"status by index":              {selecting("obj['status']"), []string{"spec.select[0].def: line 1, column 4: obj has no status"}},
		"a variable hidden as a value": {selecting("optional.of({'name': 'a'}).optMap(inventory, inventory.name)"), []string{"spec.select[0].def: line 1, column 34: inventory is a variable already"}},
		"a variable hidden":            {selecting("[1].map(obj, obj)"), []string{"spec.select[0].def: line 1, column 8: obj is a variable already"}},
		"a string as filter":           {spec(t, `{"filter":"propagation.ready","select":[{"name":"a","def":"1"}]}`), []string{"spec.filter: is of type string, not bool"}},
		"a list as key":                {spec(t, `{"groupBy":[{"name":"a","def":"inventory.labels"}],"combinedFields":[{"name":"n","type":"COUNT"}]}`), []string{"spec.groupBy[0].def: is of type list(string)"}},
		"a bool as subject":            {spec(t, `{"combinedFields":[{"name":"n","type":"SUM","subject":"propagation.stale"}]}`), []string{"spec.combinedFields[0].subject: is of type bool"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := combine.Compile("c", c.spec)
			require.True(t, fail.Is(err, fail.Invalid), "%v", err)
			fields := fail.FieldsOf(err)
			require.Len(t, fields, len(c.want), "%v", err)
			for i, f := range fields {
				require.True(t, strings.HasPrefix(f.Path+": "+f.Message, c.want[i]), "%s: %s", f.Path, f.Message)
			}
			require.Equal(t, combine.Check(c.spec), err)
			broken := combine.Broken("c", c.spec, err)
			require.Len(t, broken.Errors, len(c.want))
			require.Equal(t, c.spec.Columns(), broken.ColumnNames)
		})
	}
}

// TestExact: sums that double arithmetic would get wrong, in every order of rows.
func TestExact(t *testing.T) {
	for name, c := range map[string]struct {
		values []string // of status.v, in JSON
		want   string   // sum avg min max
	}{
		"tenths":             {[]string{`0.1`, `0.2`}, "0.3 0.15 0.1 0.2"},
		"a third":            {[]string{`1`, `0`, `0`}, "1 0.3333333333333333 0 1"},
		"past an int64":      {[]string{`9223372036854775807`, `9223372036854775807`, `2`}, "18446744073709551616 6148914691236517000 2 9223372036854775807"},
		"below an int64":     {[]string{`-9223372036854775808`, `-1`}, "-9223372036854775809 -4611686018427387904.5 -9223372036854775808 -1"},
		"integers and large": {[]string{`123456789012345678901234567890`, `1`}, "123456789012345678901234567891 61728394506172839450617283945.5 1 123456789012345678901234567890"},
		"doubles cancel":     {[]string{`1e300`, `1.5`, `-1e300`}, "1.5 0.5 -1e+300 1e+300"},
		"a large double":     {[]string{`1e300`}, "1e+300 1e+300 1e+300 1e+300"},
		"strings and null":   {[]string{`"1Ki"`, `"24"`, `null`}, "1048 524 24 1024"},
		"a billionth":        {[]string{`"1n"`, `"1"`}, "1.000000001 0.5000000005 1e-9 1"},
		"a quantity alone":   {[]string{`"0.0000000001"`}, "1e-10 1e-10 1e-10 1e-10"},
	} {
		t.Run(name, func(t *testing.T) {
			p := compiled(t, spec(t, `{"combinedFields":[
				{"name":"s","type":"SUM","subject":"returned.status.v"},{"name":"a","type":"AVG","subject":"returned.status.v"},
				{"name":"i","type":"MIN","subject":"returned.status.v"},{"name":"x","type":"MAX","subject":"returned.status.v"}]}`))
			var rows []*combine.Row
			for i, v := range c.values {
				rows = append(rows, reporting(t, fmt.Sprint("w", i), `{"v":`+v+`}`))
			}
			want := ""
			for range rows {
				rows = append(rows[1:], rows[0])
				r := combine.Evaluate(t.Context(), p, slices.Values(rows))
				require.Empty(t, r.AggregationErrors)
				if want == "" {
					want = cells(r)[0]
				}
				require.Equal(t, want, cells(r)[0])
			}
			require.Equal(t, c.want, want)
		})
	}
}

// TestAggregatesSkip: what an aggregate cannot use is left out of it alone, and said.
func TestAggregatesSkip(t *testing.T) {
	p := compiled(t, spec(t, `{"groupBy":[{"name":"zone","def":"returned.status.zone"}],"combinedFields":[
		{"name":"n","type":"COUNT"},{"name":"s","type":"SUM","subject":"returned.status.v"},
		{"name":"x","type":"MAX","subject":"has(returned.status.at) ? dyn(timestamp(returned.status.at)) : returned.status.v"}]}`))
	rows := []*combine.Row{
		reporting(t, "w1", `{"zone":"a","v":"x"}`), reporting(t, "w2", `{"zone":"a","v":true}`), reporting(t, "w3", `{"zone":"a","v":{"a":1}}`),
		reporting(t, "w4", `{"zone":"a","v":[1]}`), reporting(t, "w5", `{"zone":"a","v":2}`),
		reporting(t, "w6", `{"zone":"b","at":"2024-01-01T00:00:00Z"}`), reporting(t, "w7", `{"zone":"b","at":"2024-01-01T00:00:00.5Z"}`),
		reporting(t, "w8", `{"zone":"c","at":"2024-01-01T00:00:00Z"}`), reporting(t, "w9", `{"zone":"c","v":1}`),
		reporting(t, "x1", `{"zone":{},"v":1}`), reporting(t, "x2", `{"zone":"c","at":"no time"}`),
	}
	r := combine.Evaluate(t.Context(), p, slices.Values(rows))
	require.Equal(t, []string{"a 5 2 2", "b 2 0 2024-01-01T00:00:00.5Z", "c 3 1 1"}, cells(r))
	require.Len(t, r.AggregationErrors, 3)
	require.Equal(t, combine.AggregationError{
		ColumnName: "s", Error: `left out 4 clusters in the group of zone "a", of which it can use no value: p+w1 (string "x"), p+w2 (bool true), p+w3 (map {"a":1}), …`,
	}, r.AggregationErrors[0])
	require.Contains(t, r.AggregationErrors[2].Error, `left out 1 cluster in the group of zone "c", of which it can use no value: p+w8 (timestamp 2024-01-01T00:00:00Z)`)
	require.Len(t, r.RowErrors, 2)
	require.Equal(t, "zone", r.RowErrors[0].ColumnName)
	require.Contains(t, r.RowErrors[0].Error, "is of type map, by which rows cannot be grouped")
	require.Equal(t, combine.WEC{ClusterID: "p+x2"}, r.RowErrors[1].WEC)

	rows = rows[:2] // of a cluster there are two objects
	for i, object := range []string{"Pod/a", "Pod/b"} {
		rows[i].Key = combine.Key{Object: object, Cluster: rows[0].Cluster}
	}
	r = combine.Evaluate(t.Context(), p, slices.Values(rows))
	require.Equal(t, `left out 2 rows in the group of zone "a", of which it can use no value: Pod/a on p+w1 (string "x"), Pod/b on p+w1 (bool true)`, r.AggregationErrors[0].Error)
}

// TestOrder: values of all types in either direction, Null always last; times are compared as times.
func TestOrder(t *testing.T) {
	rows := []*combine.Row{
		reporting(t, "w1", `{"v":"b"}`), reporting(t, "w2", `{"v":2}`), reporting(t, "w3", `{"v":true}`), reporting(t, "w4", `{}`),
		reporting(t, "w5", `{"v":10.5}`), reporting(t, "w6", `{"v":"a"}`), reporting(t, "w7", `{"v":false}`), reporting(t, "w8", `{"v":null}`),
		reporting(t, "w9", `{"at":"2024-01-01T00:00:00.25Z"}`), reporting(t, "wA", `{"at":"2024-01-01T00:00:00Z"}`),
	}
	s := selecting("inventory.name", "has(returned.status.at) ? dyn(timestamp(returned.status.at)) : returned.status.v")
	s.OrderBy = []domain.ColumnOrder{{Column: "c1"}}
	names := func() (out []string) {
		for _, row := range cells(combine.Evaluate(t.Context(), compiled(t, s), slices.Values(rows))) {
			out = append(out, row[:2])
		}
		return out
	}
	require.Equal(t, []string{"w7", "w3", "w2", "w5", "w6", "w1", "wA", "w9", "w4", "w8"}, names())
	s.OrderBy[0].Descending = true
	require.Equal(t, []string{"w9", "wA", "w1", "w6", "w5", "w2", "w3", "w7", "w4", "w8"}, names())
	limit := 3
	s.Limit = &limit
	require.Equal(t, []string{"w9", "wA", "w1"}, names())
}

// TestRowsAreByProviderThenName, and in a table of several objects by object before that; errors name the object then.
func TestRowsAreByProviderThenName(t *testing.T) {
	var rows []*combine.Row
	for _, key := range []string{"b/a+b/c", "b/a/z", "a/b/a", "b/a/c"} {
		parts := strings.Split(key, "/")
		row := reporting(t, parts[2], `{}`)
		row.Key.Object, row.Cluster.Provider = parts[0], parts[1]
		rows = append(rows, row)
	}
	r := combine.Evaluate(t.Context(), compiled(t, selecting("inventory.id", "1 / size([])")), slices.Values(rows))
	require.Equal(t, []string{"b+a -", "a+c -", "a+z -", "a+b+c -"}, cells(r))
	require.Equal(t, "a", r.RowErrors[0].Object)
	require.Equal(t, "b", r.RowErrors[1].Object)
}

// TestErrorsNameMembersOfItems that were null, and nothing that was not: those of no variable, too.
func TestErrorsNameMembersOfItems(t *testing.T) {
	row := reporting(t, "w1", `{"l":[{"type":"a","n":1},{"type":"b","deep":{}}],"m":{"x":{}}}`)
	for def, want := range map[string]string{
		"returned.status.l.map(c, c.n + 1)":                                ": c.n is null",
		"returned.status.l.all(c, c.n > 0)":                                ": c.n is null",
		"returned.status.l[1].n + 1":                                       ": returned.status.l[1].n is null",
		"timestamp(returned.status.l[1].since)":                            ": returned.status.l[1].since is null",
		"returned.status.m['x'].n + 1":                                     ": returned.status.m[x].n is null",
		"returned.status.l.filter(c, c.type == 'b')[0].n + 1":              ": .n is null",
		"returned.status.l.filter(c, c.type == 'b').map(c, c.deep.er + 1)": ": c.deep.er is null",
		"returned.status.n + returned.status.l[1].n":                       ": returned.status.n, returned.status.l[1].n are null",
	} {
		r := combine.Evaluate(t.Context(), compiled(t, selecting(def)), slices.Values([]*combine.Row{row}))
		require.Len(t, r.RowErrors, 1, def)
		require.True(t, strings.HasSuffix(r.RowErrors[0].Error, want), "%s: %s", def, r.RowErrors[0].Error)
	}
	p := compiled(t, selecting("returned.status.l.map(c, c.n + 1)", "returned.status.l[0].n / 0"))
	r := combine.Evaluate(t.Context(), p, slices.Values([]*combine.Row{row}))
	require.Len(t, r.RowErrors, 2)
	require.NotContains(t, r.RowErrors[1].Error, "null", "that was of another expression")
}

// TestAnAgeOfWhatWasNeverReported says why there is none: from year 1 to now is longer than any duration.
func TestAnAgeOfWhatWasNeverReported(t *testing.T) {
	never, once := &combine.Row{Key: combine.Key{Cluster: domain.ClusterName{Provider: "p", Name: "never"}}}, reporting(t, "once", `{}`)
	once.Propagation.LastReturnedUpdate = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, member := range []string{"propagation.lastReturnedUpdateTimestamp", "propagation['lastReturnedUpdateTimestamp']"} {
		s := selecting("inventory.name")
		s.Filter = "timestamp('2026-01-02T00:00:00Z') - " + member + " > duration('1h')"
		r := combine.Evaluate(t.Context(), compiled(t, s), slices.Values([]*combine.Row{never, once}))
		require.Equal(t, []string{"once"}, cells(r))
		require.Len(t, r.RowErrors, 1)
		require.Equal(t, "p+never", r.RowErrors[0].WEC.ClusterID)
		require.Contains(t, r.RowErrors[0].Error, "propagation.lastReturnedUpdateTimestamp is year 1, as the cluster has never reported the object")
		s.Filter = member + " < timestamp('2026-01-02T00:00:00Z')"
		require.Equal(t, []string{"never", "once"}, cells(combine.Evaluate(t.Context(), compiled(t, s), slices.Values([]*combine.Row{never, once}))))
	}
}

// TestWarnings: an expression that is null wherever something was reported is most likely mistyped; one that is null somewhere, or
// where nothing was reported, is not.
func TestWarnings(t *testing.T) {
	s := selecting("returned.status.a", "returned.status.b", "returned.status.c")
	s.Filter = "returned.status.keep"
	silent := reporting(t, "w3", `{}`)
	silent.Returned = nil
	rows := []*combine.Row{reporting(t, "w1", `{"keep":true,"a":1,"b":null}`), reporting(t, "w2", `{"keep":true,"a":null}`), silent}
	r := combine.Evaluate(t.Context(), compiled(t, s), slices.Values(rows))
	require.Equal(t, []string{
		`column "c1" is null in all 2 rows that have reported; is there a typing error in returned.status.b?`,
		`column "c2" is null in all 2 rows that have reported; is there a typing error in returned.status.c?`,
	}, r.Warnings)
	s.Filter = "returned.status.kept"
	r = combine.Evaluate(t.Context(), compiled(t, s), slices.Values(rows))
	require.Equal(t, []string{"the filter is null in all 2 rows that have reported; is there a typing error in returned.status.kept?"}, r.Warnings)
	r = combine.Evaluate(t.Context(), compiled(t, s), slices.Values(rows[2:]))
	require.Empty(t, r.Warnings)
}

// TestWhatIsNullWhereAllIsWell is no typing error.
func TestWhatIsNullWhereAllIsWell(t *testing.T) {
	rows := []*combine.Row{reporting(t, "w1", `{}`), reporting(t, "w2", `{}`)}
	s := selecting("propagation.staleSince", "propagation.?staleSince", "[propagation.staleSince][0]", "propagation[?'staleSince'].orValue(null)", "returned.status.staleSince")
	s.Filter = "propagation.staleSince != null || true"
	r := combine.Evaluate(t.Context(), compiled(t, s), slices.Values(rows))
	require.Len(t, r.Warnings, 1)
	require.Contains(t, r.Warnings[0], "returned.status.staleSince")
	oldest := spec(t, `{"combinedFields":[{"name":"n","type":"MIN","subject":"propagation.staleSince"}]}`)
	require.Empty(t, combine.Evaluate(t.Context(), compiled(t, oldest), slices.Values(rows)).Warnings)
}

// TestWhatIsAlwaysNull: null drops a row, and an aggregate skips it, also where an expression is never anything else.
func TestWhatIsAlwaysNull(t *testing.T) {
	rows := []*combine.Row{reporting(t, "w1", `{}`)}
	s := spec(t, `{"filter":"null","combinedFields":[{"name":"n","type":"COUNT"},{"name":"s","type":"SUM","subject":"null"},{"name":"m","type":"MAX","subject":"null"}]}`)
	r := combine.Evaluate(t.Context(), compiled(t, s), slices.Values(rows))
	require.Equal(t, []string{"0 0 -"}, cells(r))
	require.Empty(t, r.RowErrors)
	require.Len(t, r.Warnings, 1)
}

// TestErrorsDoNotDependOnTheLimit: neither those of rows nor those of aggregates.
func TestErrorsDoNotDependOnTheLimit(t *testing.T) {
	var rows []*combine.Row
	for i := range 30 {
		rows = append(rows, reporting(t, fmt.Sprintf("w%02d", i), fmt.Sprintf(`{"k":%d,"v":"x%d"}`, 100-i, i)))
	}
	s := spec(t, `{"groupBy":[{"name":"k","def":"returned.status.k"}],"combinedFields":[{"name":"n","type":"COUNT"},{"name":"sum","type":"SUM","subject":"returned.status.v"}]}`)
	var before []combine.AggregationError
	for _, limit := range []int{1, 5, 1000} {
		s.Limit = &limit
		r := combine.Evaluate(t.Context(), compiled(t, s), slices.Values(rows))
		require.Len(t, r.Rows, min(limit, 30))
		require.Len(t, r.AggregationErrors, combine.MaxRowErrors+1)
		require.Contains(t, r.AggregationErrors[0].Error, `in the group of k 71, of which it can use no value: p+w29 (string "x29")`)
		require.Equal(t, "and the same in 10 more groups", r.AggregationErrors[20].Error)
		if before != nil {
			require.Equal(t, before, r.AggregationErrors)
		}
		before = r.AggregationErrors
	}
	s = spec(t, `{"select":[{"name":"a","def":"returned.status.v + 1"}],"limit":1}`)
	r := combine.Evaluate(t.Context(), compiled(t, s), slices.Values(rows))
	require.Len(t, r.RowErrors, combine.MaxRowErrors)
	require.Equal(t, 30, r.TotalRowErrors)
}

// TestAggregatesOfMixedNumbers are exact, whatever the numbers are written as.
func TestAggregatesOfMixedNumbers(t *testing.T) {
	s := &domain.StatusCollectorSpec{CombinedFields: []domain.NamedAggregator{{Name: "n", Type: domain.AggregatorCount}}}
	for _, kind := range domain.AggregatorTypes[1:] {
		s.CombinedFields = append(s.CombinedFields, domain.NamedAggregator{Name: string(kind), Type: kind, Subject: "returned.status.v"})
	}
	p, huge := compiled(t, s), "1"+strings.Repeat("0", 400)
	for values, want := range map[string]string{
		`"1Ki","1e3","0.1","-0"`: "4 2024.1 506.025 0 1024",
		`0.1,0.2`:                "2 0.3 0.15 0.1 0.2",
		`"0.1",0.2`:              "2 0.3 0.15 0.1 0.2",
		`1,"1",1.0`:              "3 3 1 1 1",
		`9223372036854775807,1`:  "2 9223372036854775808 4611686018427387904 1 9223372036854775807",
		`18446744073709551615,1`: "2 18446744073709551616 9223372036854775808 1 18446744073709551615",
		`1,2,2`:                  "3 5 1.6666666666666667 1 2",
		`-0.0`:                   "1 0 0 0 0",
		`"1E","1Ei"`:             "2 2152921504606846976 1076460752303423488 1000000000000000000 1152921504606846976",
		`1e21,1`:                 "2 1000000000000000000001 500000000000000000000.5 1 1e+21",
		`9007199254740993,0.5`:   "2 9007199254740993.5 4503599627370496.75 0.5 9007199254740993",
		`"1n"`:                   "1 1e-9 1e-9 1e-9 1e-9",
		`"33333333333333333333333333.1","100m",0.1`:           "3 33333333333333333333333333.3 11111111111111111111111111.1 0.1 33333333333333333333333333.1",
		`1e21,1000000000000000000000`:                         "2 2e+21 1e+21 1000000000000000000000 1000000000000000000000",
		`1000000000000000000000,1e21`:                         "2 2e+21 1e+21 1000000000000000000000 1000000000000000000000",
		`"1e400","0","0"`:                                     "3 " + huge + " 3.333333333333333e+399 0 " + huge,
		`"-1e400","0","0"`:                                    "3 -" + huge + " -3.333333333333333e+399 -" + huge + " 0",
		`true,1," 1","0x10","1_000","NaN","Infinity","","1e"`: "9 1 1 1 1",
	} {
		var rows []*combine.Row
		for i, v := range strings.Split(values, ",") {
			rows = append(rows, reporting(t, fmt.Sprint("w", i), `{"v":`+v+`}`))
		}
		require.Equal(t, []string{want}, cells(combine.Evaluate(t.Context(), p, slices.Values(rows))), values)
	}
}

// TestAKeyIsWrittenWithAllItsDigits where a row has it so, whichever row is the first.
func TestAKeyIsWrittenWithAllItsDigits(t *testing.T) {
	p := compiled(t, spec(t, `{"groupBy":[{"name":"v","def":"returned.status.v"}],"combinedFields":[{"name":"n","type":"COUNT"}]}`))
	table := combine.NewTable(p)
	for _, step := range []struct{ cluster, value, want string }{
		{"w2", `1e21`, "1e+21 1"},
		{"w3", `1000000000000000000000`, "1000000000000000000000 2"},
		{"w1", `1e21`, "1000000000000000000000 3"},
		{"w3", `1e21`, "1e+21 3"},
		{"w1", `1000000000000000000000`, "1000000000000000000000 3"},
	} {
		table.Put(t.Context(), reporting(t, step.cluster, `{"v":`+step.value+`}`))
		require.Equal(t, []string{step.want}, cells(table.Result()))
	}
}

// TestAPanicGivesItsSlotBack: else all tables of the process would wait for ever after a few.
func TestAPanicGivesItsSlotBack(t *testing.T) {
	table := combine.NewTable(combine.Panicking())
	require.Panics(t, func() { table.Put(t.Context(), reporting(t, "w1", `{}`)) })
	require.Zero(t, combine.SlotsTaken())
}

// TestWhatOtherTablesTakeDoesNotCount: a table that has waited for others is not given up because of that, but when its caller goes.
func TestWhatOtherTablesTakeDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		combine.SetTableTime(t, combine.TableTime)
		release := combine.TakeSlots(t)
		p := compiled(t, selecting("inventory.name"))
		put := func(ctx context.Context) (*combine.Table, chan bool) {
			table, done := combine.NewTable(p), make(chan bool)
			go func() { done <- table.Put(ctx, reporting(t, "w1", `{}`)) }()
			synctest.Wait()
			return table, done
		}
		waiting, done := put(t.Context())
		leaving, leave := context.WithCancel(t.Context())
		left, ended := put(leaving)
		leave()
		require.True(t, <-ended)
		require.Contains(t, left.Result().Errors[0], "context canceled")
		<-time.After(2 * combine.TableTime)
		require.Zero(t, waiting.Len())
		release()
		require.True(t, <-done)
		require.Zero(t, waiting.Taken())
		require.Equal(t, []string{"w1"}, cells(waiting.Result()))
	})
}

// TestBounds: cells, results, errors and the time of a table.
func TestBounds(t *testing.T) {
	t.Run("a cell", func(t *testing.T) {
		p := compiled(t, selecting("returned.status.s", "returned.status", "[returned.status.s, returned.status.s]"))
		most := reporting(t, "w1", `{"s":"`+strings.Repeat("a", 40<<10)+`"}`)
		more := reporting(t, "w2", `{"s":"`+strings.Repeat("a", 70<<10)+`"}`)
		r := combine.Evaluate(t.Context(), p, slices.Values([]*combine.Row{most, more}))
		require.Equal(t, combine.CellString, r.Rows[0].Columns[0].Type)
		require.Equal(t, combine.CellObject, r.Rows[0].Columns[1].Type)
		require.Equal(t, 4, r.TotalRowErrors)
		for _, cell := range append(r.Rows[1].Columns, r.Rows[0].Columns[2]) {
			require.Equal(t, combine.CellNull, cell.Type)
		}
		require.Contains(t, r.RowErrors[1].Error, "is 71680 bytes long; a cell has at most 65536")
	})
	t.Run("a result", func(t *testing.T) {
		s := selecting("inventory.name", "returned.status.s")
		limit := 1000
		s.Limit = &limit
		var rows []*combine.Row
		for i := range 100 {
			rows = append(rows, reporting(t, fmt.Sprintf("w%02d", i), `{"s":"`+strings.Repeat("<é\\n", 3000)+`"}`))
		}
		r := combine.Evaluate(t.Context(), compiled(t, s), slices.Values(rows))
		require.True(t, r.Truncated)
		require.Equal(t, 100, r.TotalRows)
		require.Less(t, len(written(t, r)), limits.TableResult)
		require.Greater(t, len(r.Rows), 5)
	})
	t.Run("errors", func(t *testing.T) {
		var s domain.StatusCollectorSpec
		for i := range 50 {
			s.Select = append(s.Select, domain.NamedExpression{Name: fmt.Sprint(strings.Repeat("<", 120), i), Def: "returned.status[returned.status.s]"})
		}
		var rows []*combine.Row
		for i := range 100 {
			rows = append(rows, reporting(t, fmt.Sprintf("w%02d%s", i, strings.Repeat("x", 100)), `{"s":"`+strings.Repeat("<", 3000)+`"}`))
		}
		r := combine.Evaluate(t.Context(), compiled(t, &s), slices.Values(rows))
		require.Equal(t, 5000, r.TotalRowErrors)
		require.Less(t, len(written(t, r)), limits.TableResult)
		require.NotEmpty(t, r.Rows)
	})
	t.Run("cost", func(t *testing.T) {
		row := reporting(t, "w1", `{"l":[`+strings.Repeat("1,", 99)+`1]}`)
		p := compiled(t, selecting("returned.status.l.all(x, returned.status.l.all(y, returned.status.l.all(z, x + y + z > 0)))", "inventory.name"))
		r := combine.Evaluate(t.Context(), p, slices.Values([]*combine.Row{row}))
		require.Equal(t, []string{"- w1"}, cells(r))
		require.Contains(t, r.RowErrors[0].Error, "cost limit exceeded")
	})
	t.Run("time of an evaluation", func(t *testing.T) {
		combine.SetDeadline(t, -time.Second)
		row := reporting(t, "w1", `{"l":[`+strings.Repeat("1,", 999)+`1]}`)
		r := combine.Evaluate(t.Context(), compiled(t, selecting("returned.status.l.all(x, x > 0)")), slices.Values([]*combine.Row{row}))
		require.Equal(t, "takes too long", r.RowErrors[0].Error)
	})
	t.Run("memory of a table", func(t *testing.T) {
		table := combine.NewTable(compiled(t, selecting("returned.status.s")))
		rows := []*combine.Row{reporting(t, "w", `{"s":"`+strings.Repeat("a", 64<<10)+`"}`), reporting(t, "w", `{"s":"`+strings.Repeat("b", 64<<10)+`"}`)}
		const fit = limits.Table / limits.Cell
		for i := range fit + 1 {
			require.True(t, table.Put(t.Context(), rows[i%2]))
		}
		require.Empty(t, table.Result().Errors, "what is replaced does not count")
		for i := range fit {
			one := *rows[0]
			one.Cluster.Name = fmt.Sprint("w", i)
			require.True(t, table.Put(t.Context(), &one))
		}
		require.Contains(t, table.Result().Errors[0], "longer than 64 MiB")
	})
	t.Run("memory of errors", func(t *testing.T) {
		p := compiled(t, selecting("int(returned.status.s)"))
		size := func(says string) int64 {
			table := combine.NewTable(p)
			require.True(t, table.Put(t.Context(), reporting(t, "w", says)))
			if errors := table.Result().RowErrors; len(errors) > 0 {
				require.Greater(t, len(errors[0].Error), 20)
			}
			return table.Size()
		}
		require.GreaterOrEqual(t, size(`{"s":"a"}`), size(`{"s":"1"}`)+20)
	})
	t.Run("time of a table", func(t *testing.T) {
		count := compiled(t, spec(t, `{"combinedFields":[{"name":"n","type":"COUNT"}]}`))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for why, put := range map[string]func(table *combine.Table) bool{
			"longer than 10s": func(table *combine.Table) bool {
				combine.SetTableTime(t, -1)
				return table.Put(t.Context(), reporting(t, "w2", `{}`))
			},
			"context canceled": func(table *combine.Table) bool { return table.Put(ended, reporting(t, "w2", `{}`)) },
		} {
			combine.SetTableTime(t, time.Hour)
			table := combine.NewTable(count)
			require.True(t, table.Put(t.Context(), reporting(t, "w1", `{}`)))
			require.True(t, put(table))
			r := table.Result()
			require.Empty(t, r.Rows, "never half a number")
			require.Contains(t, r.Errors[0], why)
			require.False(t, table.Put(t.Context(), reporting(t, "w3", `{}`)))
			require.False(t, table.Drop(reporting(t, "w1", `{}`).Key))
			require.Equal(t, r, table.Result())
		}
	})
}

// TestNothingChanges: a row that gives what it gave changes no table, whatever else is in it.
func TestNothingChanges(t *testing.T) {
	table := combine.NewTable(compiled(t, selecting("returned.status.a", "1 / returned.status.b")))
	require.True(t, table.Put(t.Context(), reporting(t, "w1", `{"a":1,"b":0}`)))
	require.False(t, table.Put(t.Context(), reporting(t, "w1", `{"a":1,"b":0,"c":5}`)))
	require.True(t, table.Put(t.Context(), reporting(t, "w1", `{"a":1,"b":1}`)), "the error is gone")
	require.True(t, table.Put(t.Context(), reporting(t, "w1", `{"a":"1","b":1}`)), "another type")
	require.Equal(t, 1, table.Len())
	require.True(t, table.Drop(reporting(t, "w1", `{}`).Key))
	require.False(t, table.Drop(reporting(t, "w1", `{}`).Key))
}

// TestWhatHasLeftTakesNoRoom: a table that had many rows is as large as its rows are now.
func TestWhatHasLeftTakesNoRoom(t *testing.T) {
	const many, left = 3000, 10
	table := combine.NewTable(compiled(t, &domain.StatusCollectorSpec{CombinedFields: []domain.NamedAggregator{
		{Name: "least", Type: domain.AggregatorMin, Subject: "returned.status.a"}, {Name: "text", Type: domain.AggregatorSum, Subject: "returned.status.b"},
	}}))
	for i := range many {
		table.Put(t.Context(), reporting(t, fmt.Sprintf("w%04d", i), fmt.Sprintf(`{"a":%d,"b":"x"}`, i)))
	}
	require.Greater(t, combine.Room(table), 3*many-1, "else this tests nothing")
	for i := range many - left {
		require.True(t, table.Drop(reporting(t, fmt.Sprintf("w%04d", i), `{}`).Key))
	}
	require.Equal(t, left, table.Len())
	require.Less(t, combine.Room(table), many/10)
	require.Equal(t, fmt.Sprint(many-left), *table.Result().Rows[0].Columns[0].Float)
}

// expressions are those of random specs.
var expressions = []string{
	"returned.status.a", "returned.status.b", "returned.status.a.b", "obj.spec.replicas", "inventory.name", "inventory.provider",
	"propagation.stale", "propagation.staleSince", "propagation.lastReturnedUpdateTimestamp", "returned.status.a + returned.status.b",
	"1 / returned.status.a", "returned.status", "has(returned.status.a)", "returned.status.a == returned.status.b", "1.0 / returned.status.b",
	"returned.status['a']", "returned.status.a > 1", "null", "returned.?status.?b.orValue(7)", "returned.status.l.map(x, x.y)",
	"string(returned.status.a)", "returned.status.a != null", "!propagation.stale", "type(returned.status.a)",
	"returned.status.map(k, k)", "{1: 'x', true: 'y', 'b': 1, 'a': 2}.map(k, [k, returned.status.a])", "returned.map(k, returned.status[k] + 1)",
	"has(returned.status.b) ? dyn(propagation.lastReturnedUpdateTimestamp) : returned.status.a",
}

var statuses = []string{
	`{}`, `{"a":1}`, `{"a":1.0,"b":0}`, `{"a":"1","b":2.5}`, `{"a":true,"b":null}`, `{"a":{"b":3}}`, `{"a":[1],"l":[{"y":1},{}]}`,
	`{"a":"500m","b":"1Gi"}`, `{"a":0.1,"b":1e300}`, `{"a":"x","l":"x"}`, `{"a":9223372036854775807,"b":1}`, `{"a":2,"b":3}`,
	`{"a":9007199254740993}`, `{"a":18446744073709551616}`, `{"a":1e21}`, `{"a":1000000000000000000000,"b":-9223372036854775808}`,
	`{"a":9007199254740992.0,"b":-0.1}`, `{"a":"1e400","b":"-1e400"}`, `{"a":9007199254740992,"b":-9223372036854775807}`,
}

// randomSpec is one that compiles.
func randomSpec(r *rand.Rand) *domain.StatusCollectorSpec {
	pick := func() string { return expressions[r.IntN(len(expressions))] }
	for {
		s := &domain.StatusCollectorSpec{}
		if r.IntN(2) == 0 {
			s.Filter = pick()
		}
		limit := 1 + r.IntN(6)
		if s.Limit = &limit; r.IntN(2) == 0 {
			s.Limit = nil
		}
		if r.IntN(3) == 0 {
			for i := range 1 + r.IntN(3) {
				s.Select = append(s.Select, domain.NamedExpression{Name: fmt.Sprint("s", i), Def: pick()})
			}
		} else {
			for i := range r.IntN(3) {
				s.GroupBy = append(s.GroupBy, domain.NamedExpression{Name: fmt.Sprint("g", i), Def: pick()})
			}
			for i := range 1 + r.IntN(3) {
				f := domain.NamedAggregator{Name: fmt.Sprint("f", i), Type: domain.AggregatorTypes[r.IntN(5)]}
				if f.Type != domain.AggregatorCount {
					f.Subject = pick()
				}
				s.CombinedFields = append(s.CombinedFields, f)
			}
		}
		columns := s.Columns()
		for i := range r.IntN(3) {
			s.OrderBy = append(s.OrderBy, domain.ColumnOrder{Column: columns[(i+r.IntN(len(columns)))%len(columns)], Descending: r.IntN(2) == 0})
		}
		if combine.Check(s) == nil {
			return s
		}
	}
}

func randomRow(tb testing.TB, r *rand.Rand, clusters int) *combine.Row {
	row := reporting(tb, fmt.Sprint("w", r.IntN(clusters)), statuses[r.IntN(len(statuses))])
	row.Cluster.Provider = fmt.Sprint("p", r.IntN(2))
	at := time.Unix(int64(r.IntN(5)), int64(r.IntN(2)*250_000_000))
	row.Propagation.LastReturnedUpdate = at
	switch r.IntN(8) {
	case 0:
		row.Returned, row.Propagation.Stale = nil, true
	case 1:
		row.Propagation.Stale, row.Propagation.StaleSince = true, &at
	case 2:
		row.Propagation.Summarised = true
	case 3:
		row.Object = map[string]any{"spec": map[string]any{"replicas": int64(r.IntN(3))}}
	}
	return row
}

// TestIncrementalIsWhole: after any changes a table shows, byte for byte, what a new one of the same rows shows, in whatever order
// they come.
func TestIncrementalIsWhole(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 12))
		s, clusters := randomSpec(r), 2+r.IntN(12)
		p := compiled(t, s)
		table, rows := combine.NewTable(p), map[combine.Key]*combine.Row{}
		for range 40 {
			before := written(t, table.Result())
			var changed bool
			if key := randomRow(t, r, clusters).Key; r.IntN(4) == 0 {
				_, there := rows[key]
				changed = table.Drop(key)
				require.Equal(t, there, changed)
				delete(rows, key)
			} else {
				row := randomRow(t, r, clusters)
				changed = table.Put(t.Context(), row)
				rows[row.Key] = row
			}
			now := written(t, table.Result())
			if !changed {
				require.Equal(t, before, now, "seed %d: it said that nothing changed", seed)
			}
			all := slices.Collect(maps.Values(rows))
			r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			whole := combine.Evaluate(t.Context(), p, slices.Values(all))
			require.Equal(t, written(t, whole), now, "seed %d: %s", seed, written(t, s))
			require.Equal(t, len(rows), table.Len())
		}
	}
}
