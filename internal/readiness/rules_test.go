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
	return readiness.Rule{Name: "db", Group: database.Group, Kind: database.Kind, Ready: expression}
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
		"conditions":                      {`object.status.conditions.exists(c, c.type == "Up" && c.status == "True")`, `{status: {conditions: [{type: Up, status: "True"}]}}`, readiness.Ready, ""},
		"strings":                         {`object.metadata.name.split("-")[1].upperAscii() == "X"`, `{metadata: {name: d-x}}`, readiness.Ready, ""},
		"the kind":                        {`object.apiVersion == "example.com/v1" && object.kind == "Database"`, `{metadata: {name: d}}`, readiness.Ready, ""},
		"an earlier generation":           {`true`, `{metadata: {generation: 2}, status: {observedGeneration: 1}}`, readiness.NotReady, "generation is 2, status is of 1"},
		"an earlier generation in a text": {`true`, `{metadata: {generation: 2}, status: {observedGeneration: "1"}}`, readiness.NotReady, "generation is 2, status is of 1"},
		"this generation in a text":       {`object.status.observedGeneration == "2"`, `{metadata: {generation: 2}, status: {observedGeneration: "2"}}`, readiness.Ready, ""},
		"a condition of an earlier generation": {
			`object.status.conditions.exists(c, c.type == "Ready" && c.status == "True")`,
			`{metadata: {generation: 2}, status: {conditions: [{type: Ready, status: "True", observedGeneration: 1}]}}`, readiness.Ready, "",
		},
		"being deleted": {`true`, `{metadata: {deletionTimestamp: "2020-08-21T05:39:34Z"}}`, readiness.NotReady, "being deleted"},
		"too expensive": {
			`object.a.all(x, object.a.all(y, object.a.all(z, x + y + z > 0)))`, `{a: [` + strings.Repeat("1,", 99) + `1]}`,
			readiness.NotReady, "rule db: operation cancelled: actual cost limit exceeded",
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, readiness.Check(rule(c.expression)))
			rules := readiness.Compile(rule(c.expression))
			got := rules.Of(database, parsed(t, c.object))
			require.Equal(t, c.want, got.Status, "%s", got.Message)
			require.True(t, strings.HasPrefix(got.Message, c.message), "%q", got.Message)
		})
	}
}

func TestARuleThatTakesTooLongIsNotReady(t *testing.T) {
	readiness.SetDeadline(t, -time.Second)
	rules := readiness.Compile(rule(`object.a.all(x, x > 0)`))
	got := rules.Of(database, parsed(t, `{a: [`+strings.Repeat("1,", 999)+`1]}`))
	require.Equal(t, readiness.State{Status: readiness.NotReady, Message: "rule db: takes too long"}, got)
}

func TestWhichRuleApplies(t *testing.T) {
	rules := readiness.Compile(
		readiness.Rule{Name: "any", Group: "example.com", Kind: "Database", Ready: `object.v == "any"`},
		readiness.Rule{Name: "v2", Group: "example.com", Version: "v2", Kind: "Database", Ready: `object.v == "v2"`},
		readiness.Rule{Name: "pods", Kind: "Pod", Ready: `true`},
		readiness.Rule{Name: "too late", Kind: "Pod", Ready: `false`},
	)
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

func TestMessages(t *testing.T) {
	long := strings.Repeat("é", 2000)
	for name, c := range map[string]struct{ expression, object, want string }{
		"says what is lacking":    {`"has " + string(object.ready) + " of 3"`, `{ready: 2}`, "rule db: has 2 of 3"},
		"none":                    {"", `{ready: 2}`, "rule db: not fulfilled"},
		"an empty one":            {`string(object.?note.orValue(" "))`, `{ready: 2}`, "rule db: not fulfilled"},
		"one that fails":          {`string(object.none)`, `{ready: 2}`, "rule db: not fulfilled"},
		"one of several lines":    {`"a\n\t b"`, `{ready: 2}`, "rule db: a b"},
		"one that is too long":    {`string(object.long)`, `{ready: 2, long: ` + long + `}`, "rule db: " + long[:1024] + "…"},
		"what fails says so":      {`"a message"`, `{ready: many}`, "rule db: no such overload"},
		"nothing when it is not":  {`"a message"`, `{ready: 3}`, ""},
		"nothing when it is gone": {`"a message"`, `{ready: 2, metadata: {deletionTimestamp: "2020-08-21T05:39:34Z"}}`, "being deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			r := rule(`object.ready >= 3`)
			r.Message = c.expression
			require.NoError(t, readiness.Check(r))
			require.Equal(t, c.want, readiness.Compile(r).Of(database, parsed(t, c.object)).Message)
		})
	}
}

func TestRulesThatAreRefused(t *testing.T) {
	ready := func(expression string) readiness.Rule { return rule(expression) }
	message := func(expression string) readiness.Rule {
		return readiness.Rule{Name: "db", Kind: "Database", Ready: "true", Message: expression}
	}
	for name, c := range map[string]struct {
		rule readiness.Rule
		want []string // "field: what is wrong", how each begins
	}{
		"no expression":       {ready(" "), []string{"spec.ready: has no expression"}},
		"syntax":              {ready("object.status =="), []string{"spec.ready: line 1, column 17: Syntax error"}},
		"second line":         {ready("true &&\n  objekt.a == 1"), []string{"spec.ready: line 2, column 3: undeclared reference to 'objekt'"}},
		"two faults":          {ready("a && b"), []string{"spec.ready: line 1, column 1: undeclared reference to 'a'", "spec.ready: line 1, column 6: undeclared reference to 'b'"}},
		"a string":            {ready(`"yes"`), []string{"spec.ready: is of type string, not bool; compare it"}},
		"a member":            {ready("object.status.ready"), []string{"spec.ready: is of type dyn, not bool; compare it"}},
		"a bad pattern":       {ready(`object.a.matches("(")`), []string{"spec.ready: line 1, column 18: invalid matches argument"}},
		"too long":            {ready(strings.Repeat("true || ", 600) + "true"), []string{"spec.ready: expression code point size exceeds limit"}},
		"too deep":            {ready(`[1].all(a, [1].all(b, [1].all(c, [1].all(d, true))))`), []string{"spec.ready: line 1, column 41: comprehension exceeds nesting limit"}},
		"not a function":      {ready(`now() == 1`), []string{"spec.ready: line 1, column 4: undeclared reference to 'now'"}},
		"a message of a kind": {message(`1`), []string{"spec.message: is of type int, not string; convert it"}},
		"a member as message": {message(`object.status.reason`), []string{"spec.message: is of type dyn, not string; convert it"}},
		"both": {
			readiness.Rule{Kind: "Database", Ready: "a", Message: "b"},
			[]string{"spec.ready: line 1, column 1: undeclared reference to 'a'", "spec.message: line 1, column 1: undeclared reference to 'b'"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := readiness.Check(c.rule)
			require.True(t, fail.Is(err, fail.Invalid), "%v", err)
			fields := fail.FieldsOf(err)
			require.Len(t, fields, len(c.want), "%v", err)
			for i, f := range fields {
				require.True(t, strings.HasPrefix(f.Path+": "+f.Message, c.want[i]), "%s: %s", f.Path, f.Message)
			}
		})
	}
}

// TestARuleThatDoesNotCompileAnyMore: one that an earlier version has let pass must not spoil a status.
func TestARuleThatDoesNotCompileAnyMore(t *testing.T) {
	bad := rule("gone(object)")
	bad.Message = "gone(object)"
	got := readiness.Compile(bad).Of(database, map[string]any{})
	require.Equal(t, readiness.NotReady, got.Status)
	require.Contains(t, got.Message, "rule db: line 1, column 5: undeclared reference to 'gone'")
	good := rule("false")
	good.Message = "gone(object)"
	require.Equal(t, "rule db: not fulfilled", readiness.Compile(good).Of(database, map[string]any{}).Message)
}

func TestRulesMayBeUsedByManyAtOnce(t *testing.T) {
	rules := readiness.Compile(rule(`object.a.all(x, x > 0)`))
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
