package expression

import (
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"

	"github.com/drover-io/drover/internal/limits"
)

// boundedText are the functions whose results may be longer than all that they are given, each with how long its result is at the
// most. They make no text that is longer than limits.ExpressionText: one replace() on a text of 100 KB could make 10 GB. Beside them are
// those that look for a text in another one, byte by byte.
func boundedText() (options []cel.EnvOption) {
	env, err := cel.NewEnv(ext.Strings())
	if err != nil {
		panic(err) // the option is a constant
	}
	for name, refused := range map[string]func(args []ref.Val) ref.Val{
		"replace": longer("replace", replaced), "join": longer("join", joined), "format": longer("format", formatted),
		"indexOf": slow("indexOf"), "lastIndexOf": slow("lastIndexOf"),
	} {
		function := env.Functions()[name]
		bindings, err := function.Bindings()
		if err != nil {
			panic(err)
		}
		for _, o := range function.OverloadDecls() {
			i := slices.IndexFunc(bindings, func(b *functions.Overload) bool { return b.Operator == o.ID() })
			options = append(options, cel.Function(name, cel.MemberOverload(o.ID(), o.ArgTypes(), o.ResultType(), bounded(bindings[i], refused))))
		}
	}
	return options
}

// longer refuses a call that would make too long a text.
func longer(name string, length func(args []ref.Val) int) func(args []ref.Val) ref.Val {
	return func(args []ref.Val) ref.Val {
		if length(args) > limits.ExpressionText {
			return types.NewErr("%s() makes a text of more than %d bytes", name, limits.ExpressionText)
		}
		return nil
	}
}

// slow refuses to look for one text in another where it may compare each byte of the one with each of the other.
func slow(name string) func(args []ref.Val) ref.Val {
	return func(args []ref.Val) ref.Val {
		text, of := len(textOf(args[0])), len(textOf(args[1]))
		if of <= text && product(text-of+1, of) > limits.ExpressionSearch {
			return types.NewErr("%s() looks for a text of %d bytes in one of %d: it may compare more than %d", name, of, text, limits.ExpressionSearch)
		}
		return nil
	}
}

func bounded(of *functions.Overload, refused func(args []ref.Val) ref.Val) cel.OverloadOpt {
	check := func(args ...ref.Val) ref.Val { return refused(args) }
	switch {
	case of.Unary != nil:
		return cel.UnaryBinding(func(arg ref.Val) ref.Val {
			if err := check(arg); err != nil {
				return err
			}
			return of.Unary(arg)
		})
	case of.Binary != nil:
		return cel.BinaryBinding(func(a, b ref.Val) ref.Val {
			if err := check(a, b); err != nil {
				return err
			}
			return of.Binary(a, b)
		})
	default:
		return cel.FunctionBinding(func(args ...ref.Val) ref.Val {
			if err := check(args...); err != nil {
				return err
			}
			return of.Function(args...)
		})
	}
}

// replaced is how long text.replace(old, new) is, and with a number of times at the most.
func replaced(args []ref.Val) int {
	text, old, by := textOf(args[0]), textOf(args[1]), textOf(args[2])
	return len(text) + strings.Count(text, old)*max(0, len(by)-len(old))
}

// joined is how long list.join(between) is.
func joined(args []ref.Val) int {
	between := 0
	if len(args) > 1 {
		between = len(textOf(args[1]))
	}
	return lengthOf(args[0], between, 0)
}

// formatted is how long text.format(list) is at the most: a byte may be two digits.
func formatted(args []ref.Val) int { return len(textOf(args[0])) + 2*lengthOf(args[1], 8, 0) }

// lengthOf is how long the texts in a value are, with something for each of them.
func lengthOf(v ref.Val, each, above int) int {
	length := each
	switch v := v.(type) {
	case types.String:
		length += len(v)
	case types.Bytes:
		length += len(v)
	case traits.Mapper:
		for i := v.Iterator(); i.HasNext() == types.True && above+length <= limits.ExpressionText; {
			key := i.Next()
			length += lengthOf(key, each, above+length)
			length += lengthOf(v.Get(key), each, above+length)
		}
	case traits.Lister:
		for i := v.Iterator(); i.HasNext() == types.True && above+length <= limits.ExpressionText; {
			length += lengthOf(i.Next(), each, above+length)
		}
	}
	return length
}

func textOf(v ref.Val) string {
	text, _ := v.(types.String)
	return string(text)
}
