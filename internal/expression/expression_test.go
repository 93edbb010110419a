package expression_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/expression"
)

var environment = expression.NewEnvironment(cel.Variable("object", cel.MapType(cel.StringType, cel.DynType)))

func program(t *testing.T, text string) *expression.Program {
	t.Helper()
	checked, faults := environment.Compile(text)
	require.Empty(t, faults)
	p, err := environment.Program(checked)
	require.NoError(t, err)
	return p
}

func TestFaultsHavePositions(t *testing.T) {
	for text, want := range map[string][]string{
		" ":            {"has no expression"},
		"1 +":          {"line 1, column 4: Syntax error"},
		"1 +\n  a + b": {"line 2, column 3: undeclared reference to 'a'", "line 2, column 7: undeclared reference to 'b'"},
		"[1].all(a, [1].all(b, [1].all(c, [1].all(d, true))))": {"line 1, column 41: comprehension exceeds nesting limit"},
		strings.Repeat("1 + ", 1100) + "1":                     {"expression code point size exceeds limit"},
	} {
		_, faults := environment.Compile(text)
		require.Len(t, faults, len(want), "%v", faults)
		for i, f := range faults {
			require.True(t, strings.HasPrefix(f.String(), want[i]), "%s", f)
		}
	}
}

// TestBounds: cost ends what is expensive; time ends macros, and nothing else takes long.
func TestBounds(t *testing.T) {
	list := make([]any, 100)
	vars := map[string]any{"object": map[string]any{"a": list}}
	_, err := program(t, "object.a.all(x, object.a.all(y, object.a.all(z, x == z)))").Eval(time.Hour, vars)
	require.ErrorContains(t, err, "cost limit exceeded")
	for _, macro := range []string{"object.a.all(x, x == null)", "[1].all(x, object == object)"} {
		_, err = program(t, macro).Eval(-time.Second, vars)
		require.True(t, errors.Is(err, expression.ErrTooLong), "%v", err)
	}
	v, err := program(t, "object.a.size()").Eval(-time.Second, vars)
	require.NoError(t, err)
	require.Equal(t, types.Int(100), v)
}

// stalling is an object that the process stands still at, so many times.
type stalling struct {
	times int
	value any
}

func (s *stalling) ResolveName(string) (any, bool) {
	if s.times--; s.times >= 0 {
		<-time.After(2 * expression.Deadline) // of the bubble
	}
	return s.value, true
}

func (s *stalling) Parent() cel.Activation { return nil }

// TestAStallIsNoError: what a busy machine takes too long for is evaluated once more, and no oftener.
func TestAStallIsNoError(t *testing.T) {
	for stalls, tooLong := range []bool{false, false, true} {
		synctest.Test(t, func(t *testing.T) {
			vars := &stalling{stalls, map[string]any{"a": []any{1, 2}}}
			v, err := program(t, "object.a.all(x, x > 0)").Eval(expression.Deadline, vars)
			if tooLong {
				require.ErrorIs(t, err, expression.ErrTooLong)
				return
			}
			require.NoError(t, err)
			require.Equal(t, types.True, v)
		})
	}
}

// TestRewrite: what is put in place of a part is checked again, and stands where the part stood.
func TestRewrite(t *testing.T) {
	rewrite := func(to string) (*cel.Ast, []expression.Fault) {
		checked, faults := environment.Compile("1 == 1 && [1].all(x,\n  object.a == dyn(x))")
		require.Empty(t, faults)
		return environment.Rewrite(checked, func(ctx *cel.OptimizerContext, a *ast.AST) {
			ast.PostOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
				if e.Kind() == ast.SelectKind {
					e.SetKindCase(ctx.NewIdent(to))
				}
			}))
		})
	}
	changed, faults := rewrite("object")
	require.Empty(t, faults)
	p, err := environment.Program(changed)
	require.NoError(t, err)
	v, err := p.Eval(time.Hour, map[string]any{"object": map[string]any{"a": int64(1)}})
	require.NoError(t, err)
	require.Equal(t, types.False, v, "a map is not 1")
	_, faults = rewrite("nobody")
	require.Equal(t, []expression.Fault{{Line: 2, Column: 9, Message: "undeclared reference to 'nobody' (in container '')"}}, faults)
}

func TestOneLine(t *testing.T) {
	require.Equal(t, "a b", expression.OneLine(" a\n\tb ", 10))
	require.Equal(t, "éé…", expression.OneLine("ééé", 5))
}

// TestTextsAreBounded: a call that would make a text of gigabytes is not made. Cost ends it only when it has been.
func TestTextsAreBounded(t *testing.T) {
	vars := map[string]any{"object": map[string]any{"s": strings.Repeat("a", 20_000), "l": []any{"x", "y"}, "many": strings.Split(strings.Repeat("x ", 99), " ")}}
	for text, function := range map[string]string{
		"object.s.replace('a', object.s)":        "replace",
		"object.s.replace('', object.s)":         "replace",
		"object.s.replace('a', object.s, 10000)": "replace",
		"object.many.join(object.s)":             "join",
		"'" + strings.Repeat("%s", 60) + "'.format([" + strings.Repeat("object.s, ", 59) + "object.s])": "format",
		"'%s'.format([[{'a': [" + strings.Repeat("object.s, ", 59) + "object.s]}]])":                    "format",
	} {
		_, err := program(t, text).Eval(time.Hour, vars)
		require.ErrorContains(t, err, function+"() makes a text of more than 1048576 bytes", text)
	}
	for text, want := range map[string]string{
		"'abcabc'.replace('b', 'xx')":       "axxcaxxc",
		"'abcabc'.replace('b', 'xx', 1)":    "axxcabc",
		"object.l.join('-')":                "x-y",
		"object.l.join()":                   "xy",
		"'%s has %d'.format(['a', 3])":      "a has 3",
		"'%.2f %x'.format([1.005, b'abc'])": "1.00 616263",
	} {
		v, err := program(t, text).Eval(time.Hour, vars)
		require.NoError(t, err, text)
		require.Equal(t, types.String(want), v)
	}
}
