package readiness_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/readiness"
)

var database = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Database"}

func rule(expression string) readiness.Rule {
	return readiness.Rule{Name: "db", Group: database.Group, Kind: database.Kind, Expression: expression}
}

func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	object, err := readiness.Decode(data)
	require.NoError(t, err)
	return object
}

func TestRules(t *testing.T) {
	readiness.SetDeadline(t, time.Hour) // only cost is to end what is too expensive
	for name, c := range map[string]struct {
		expression, object string
		want               readiness.Status
		message            string // how it begins
	}{
		"fulfilled":     {`object.status.phase == "Running"`, `{status: {phase: Running}}`, readiness.Ready, ""},
		"not fulfilled": {`object.status.phase == "Running"`, `{status: {phase: Waiting}}`, readiness.NotReady, "rule db: not fulfilled"},
		"a member is missing": {
			`object.status.phase == "Running"`, `{metadata: {name: d}}`, readiness.NotReady, "rule db: no such key: status",
		},
		"a member may be missing": {`object.?status.?phase.orValue("Running") == "Running"`, `{metadata: {name: d}}`, readiness.Ready, ""},
		"numbers":                 {`object.status.ready >= object.spec.size && object.status.load < 0.5`, `{spec: {size: 3}, status: {ready: 3, load: 0.25}}`, readiness.Ready, ""},
		"a number of another type": {
			`object.status.ready > 1`, `{status: {ready: many}}`, readiness.NotReady, "rule db: no such overload",
		},
		"conditions":            {`object.status.conditions.exists(c, c.type == "Up" && c.status == "True")`, `{status: {conditions: [{type: Up, status: "True"}]}}`, readiness.Ready, ""},
		"strings":               {`object.metadata.name.split("-")[1].upperAscii() == "X"`, `{metadata: {name: d-x}}`, readiness.Ready, ""},
		"the kind":              {`object.apiVersion == "example.com/v1" && object.kind == "Database"`, `{metadata: {name: d}}`, readiness.Ready, ""},
		"an earlier generation": {`true`, `{metadata: {generation: 2}, status: {observedGeneration: 1}}`, readiness.NotReady, "generation is 2, status is of 1"},
		"being deleted":         {`true`, `{metadata: {deletionTimestamp: "2020-08-21T05:39:34Z"}}`, readiness.NotReady, "being deleted"},
		"too expensive": {
			`object.a.all(x, object.a.all(y, object.a.all(z, x + y + z > 0)))`, `{a: [` + strings.Repeat("1,", 99) + `1]}`,
			readiness.NotReady, "rule db: operation cancelled: actual cost limit exceeded",
		},
	} {
		t.Run(name, func(t *testing.T) {
			rules, err := readiness.Compile(rule(c.expression))
			require.NoError(t, err)
			got := rules.Of(database, parsed(t, c.object))
			require.Equal(t, c.want, got.Status, "%s", got.Message)
			require.True(t, strings.HasPrefix(got.Message, c.message), "%q", got.Message)
		})
	}
}

func TestARuleThatTakesTooLongIsNotReady(t *testing.T) {
	readiness.SetDeadline(t, -time.Second)
	rules, err := readiness.Compile(rule(`object.a.all(x, x > 0)`))
	require.NoError(t, err)
	got := rules.Of(database, parsed(t, `{a: [`+strings.Repeat("1,", 999)+`1]}`))
	require.Equal(t, readiness.State{Status: readiness.NotReady, Message: "rule db: takes too long"}, got)
}

func TestWhichRuleApplies(t *testing.T) {
	rules, err := readiness.Compile(
		readiness.Rule{Name: "any", Group: "example.com", Kind: "Database", Expression: `object.v == "any"`},
		readiness.Rule{Name: "v2", Group: "example.com", Version: "v2", Kind: "Database", Expression: `object.v == "v2"`},
		readiness.Rule{Name: "pods", Kind: "Pod", Expression: `true`},
	)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		gvk  schema.GroupVersionKind
		v    string
		want readiness.Status
	}{
		"of every version":        {database, "any", readiness.Ready},
		"of the version":          {database.GroupKind().WithVersion("v2"), "v2", readiness.Ready},
		"of the version only":     {database.GroupKind().WithVersion("v2"), "any", readiness.NotReady},
		"before those of kstatus": {schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, "", readiness.Ready},
	} {
		t.Run(name, func(t *testing.T) {
			require.True(t, rules.Has(c.gvk))
			require.Equal(t, c.want, rules.Of(c.gvk, map[string]any{"v": c.v}).Status)
		})
	}
	other := schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Database"}
	require.False(t, rules.Has(other))
	require.Equal(t, readiness.Ready, rules.Of(other, map[string]any{}).Status, "kstatus decides where there is no rule")
	require.Equal(t, readiness.NotPresent, rules.Of(database, nil).Status)
	var none *readiness.Rules
	require.False(t, none.Has(database))
}

func TestRulesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		rules []readiness.Rule
		want  []string // "rule: what is wrong", how each begins
	}{
		"no expression":  {[]readiness.Rule{rule(" ")}, []string{"db: has no expression"}},
		"no kind":        {[]readiness.Rule{{Name: "x", Expression: "true"}}, []string{"x: names no kind"}},
		"syntax":         {[]readiness.Rule{rule("object.status ==")}, []string{"db: line 1, column 17: Syntax error"}},
		"second line":    {[]readiness.Rule{rule("true &&\n  objekt.a == 1")}, []string{"db: line 2, column 3: undeclared reference to 'objekt'"}},
		"two faults":     {[]readiness.Rule{rule("a && b")}, []string{"db: line 1, column 1: undeclared reference to 'a'", "db: line 1, column 6: undeclared reference to 'b'"}},
		"a string":       {[]readiness.Rule{rule(`"yes"`)}, []string{"db: is of type string, not bool"}},
		"a member":       {[]readiness.Rule{rule("object.status.ready")}, []string{"db: is of type dyn, not bool"}},
		"a bad pattern":  {[]readiness.Rule{rule(`object.a.matches("(")`)}, []string{"db: line 1, column 18: invalid matches argument"}},
		"too long":       {[]readiness.Rule{rule(strings.Repeat("true || ", 600) + "true")}, []string{"db: expression code point size exceeds limit"}},
		"too deep":       {[]readiness.Rule{rule(`[1].all(a, [1].all(b, [1].all(c, [1].all(d, true))))`)}, []string{"db: line 1, column 41: comprehension exceeds nesting limit"}},
		"not a function": {[]readiness.Rule{rule(`now() == 1`)}, []string{"db: line 1, column 4: undeclared reference to 'now'"}},
		"a kind twice": {
			[]readiness.Rule{rule("true"), {Name: "db2", Group: "example.com", Kind: "Database", Expression: "true"}},
			[]string{"db2: Database.example.com has a rule already: db"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readiness.Compile(c.rules...)
			require.True(t, fail.Is(err, fail.Invalid), "%v", err)
			fields := fail.FieldsOf(err)
			require.Len(t, fields, len(c.want), "%v", err)
			for i, f := range fields {
				require.True(t, strings.HasPrefix(f.Path+": "+f.Message, c.want[i]), "%s: %s", f.Path, f.Message)
			}
		})
	}
}

func TestRulesMayBeUsedByManyAtOnce(t *testing.T) {
	rules, err := readiness.Compile(rule(`object.a.all(x, x > 0)`))
	require.NoError(t, err)
	done := make(chan readiness.State)
	for i := range 8 {
		go func() {
			s := readiness.State{}
			for range 50 {
				s = rules.Of(database, map[string]any{"a": []any{int64(i)}})
			}
			done <- s
		}()
	}
	ready := 0
	for range 8 {
		if s := <-done; s.Status == readiness.Ready {
			ready++
		}
	}
	require.Equal(t, 7, ready)
}
