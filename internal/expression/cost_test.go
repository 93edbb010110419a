package expression_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/stretchr/testify/require"
)

// TestAnEvaluationEnds: whatever a call has, and whether or not its type is known, its evaluation ends soon and takes little memory.
func TestAnEvaluationEnds(t *testing.T) {
	chain := func(from, step, last string) string {
		return "optional.of(" + from + ")" + strings.Repeat(".optMap(a,"+step+")", 60) + ".optMap(a," + last + ")"
	}
	large := strings.Repeat("a", 1<<20)
	vars := map[string]any{"object": map[string]any{
		"s": large, "half": large[:len(large)/2] + "b", "pattern": strings.Repeat("(a?){1000}", 4), "l": make([]any, 100_000),
	}}
	for text, want := range map[string]string{
		chain("dyn('xxxxxxxx')", "a+a", "a.size()"):                                 "cost limit exceeded",
		chain("dyn(b'xxxxxxxx')", "a+a", "a.size()"):                                "cost limit exceeded",
		chain("'xxxxxxxx'", "a+a", "a.size()"):                                      "cost limit exceeded",
		chain("[0]", "a+a", "1 in a"):                                               "cost limit exceeded",
		chain("dyn([0])", "a+a", "dyn(1) in a"):                                     "cost limit exceeded",
		chain("dyn([0])", "[a,a]", "dyn(a) == [1]"):                                 "parts",
		chain("dyn([0])", "[a,a]", "a in [a]"):                                      "parts",
		chain("dyn([0])", "{'a':a,'b':a}", "a == {'a': a}"):                         "parts",
		chain("dyn([0])", "{'a':a,'b':a}", "a"):                                     "parts",
		"object.s.indexOf(object.half)":                                             "cost limit exceeded",
		"object.s.lastIndexOf(object.half)":                                         "cost limit exceeded",
		"object.s.indexOf(object.half, 1)":                                          "cost limit exceeded",
		"object.s.matches('(a?){1000}(a?){1000}(a?){1000}')":                        "matches() has a text",
		"matches(object.s, '(a?){1000}')":                                           "matches() has a text",
		"object.s.matches(object.pattern)":                                          "matches() has a text",
		"object.s.matches(object.s)":                                                "a pattern has more than",
		"object.s" + strings.Repeat(".reverse()", 200):                              "cost limit exceeded",
		"object.s" + strings.Repeat(".lowerAscii()", 200):                           "cost limit exceeded",
		strings.Repeat("object.l.size() == 1 || object == object && ", 80) + "true": "cost limit exceeded",
		strings.Repeat("object.s.split('').size() == 1 || ", 100) + "true":          "cost limit exceeded",
	} {
		t.Run(text[:min(len(text), 60)], func(t *testing.T) {
			p := program(t, text)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			_, err := p.Eval(time.Second, vars)
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			require.ErrorContains(t, err, want)
			require.Less(t, took, 5*time.Second)
			require.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(400), "MiB")
			t.Logf("%s", took)
		})
	}
}

// TestOrdinaryExpressionsCostWhatTheyDid: what goes through lists of the usual lengths is evaluated.
func TestOrdinaryExpressionsCostWhatTheyDid(t *testing.T) {
	var list []any
	for range 400 {
		list = append(list, map[string]any{"type": "Ready", "status": "True", "labels": []any{"a", "b"}})
	}
	vars := map[string]any{"object": map[string]any{"l": list, "large": make([]any, 100_000)}}
	for text, want := range map[string]any{
		"object.l.map(c, c).size()":                                     types.Int(400),
		"object.l.filter(c, c.type == 'Ready').map(c, [c]).size()":      types.Int(400),
		"object.l.all(c, c == object.l[0])":                             types.True,
		"object.l == object.l":                                          types.True,
		"object.l != object.l":                                          types.False,
		"(object.large + [1]).size()":                                   types.Int(100_001),
		"object.l[0].type.matches('^[A-Z][a-z]+$')":                     types.True,
		"object.l[0].type.matches(object.l[0].type)":                    types.True,
		"dyn('a') + 'b' == 'ab' && [1] + dyn([2]) == [1, 2]":            types.True,
		"'True' in object.l[0].labels || 'a' in ['b', 'a'] && 1 in [1]": types.True,
	} {
		v, err := program(t, text).Eval(time.Second, vars)
		require.NoError(t, err, text)
		require.Equal(t, want, v, text)
	}
}
