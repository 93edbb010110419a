package expression

import (
	"math"
	"regexp"
	"regexp/syntax"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"github.com/drover-io/drover/internal/limits"
)

// CEL charges a call when it was made, and by its overload: of operands that are dyn none is known, and the call costs 1 whatever it
// makes. So costs says what such calls cost, and guarded refuses beforehand what would take too long.

// costs are what calls cost that CEL would charge too little for.
type costs struct{}

const (
	// perByte is what CEL charges for a byte of a text.
	perByte = 0.1
	// charged is how many bytes of text a function goes through for a cost of 1 where CEL charges none for its size.
	charged = 4 << 10
	// compared is how many parts of values are compared for a cost of 1.
	compared = 100
)

// CallCost is how cel-go asks; nil is CEL's own cost.
func (costs) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	refused := types.IsError(result) // it costs what was done before
	switch function {
	case operators.Add:
		switch made := result.(type) {
		case types.String:
			if overload == "" {
				return cost(int(math.Ceil(float64(len(made)) * perByte)))
			}
		case types.Bytes:
			if overload == "" {
				return cost(int(math.Ceil(float64(len(made)) * perByte)))
			}
		case traits.Lister:
			// A list of two lists is made at once, and is gone through later. It has as many as the longer one, and those that are charged:
			// a macro adds one at a time to what it makes.
			return cost(min(sizeOf(args[0]), sizeOf(args[1])))
		}
	case operators.Equals, operators.NotEquals:
		if deep(args[0]) && deep(args[1]) {
			own := min(sizeOf(args[0]), sizeOf(args[1])) / 10
			return cost(max(own, parts(args[0], limits.ExpressionParts)/compared, 1))
		}
	case operators.In:
		if list, ok := args[1].(traits.Lister); ok && (overload == "" || deep(args[0])) {
			own := sizeOf(list)
			if deep(args[0]) {
				own = max(own, parts(list, limits.ExpressionParts)/compared)
			}
			return cost(own)
		}
	case overloads.Matches:
		if pattern := textOf(args[1]); refused && len(pattern) <= MaxLength { // or it has not been compiled
			return cost(len(pattern))
		} else if refused {
			return cost(1)
		}
	case "format", "strings.quote":
		if !refused {
			return cost(1 + sizeOf(result)/charged)
		}
	}
	return nil
}

func cost(of int) *uint64 {
	c := uint64(max(of, 1)) //nolint:gosec // it is positive
	return &c
}

// guarded has calls refuse operands with which they would take too long, or would not end.
func guarded() []cel.ProgramOption {
	return []cel.ProgramOption{
		cel.CustomDecoratorV2(guard), cel.OptimizeRegex(constant(overloads.Matches), constant(overloads.MatchesString)),
	}
}

func guard(of interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	if constructor, ok := of.(interpreter.InterpretableConstructor); ok {
		for _, part := range constructor.InitVals() {
			if _, constant := part.(interpreter.InterpretableConst); !constant {
				return made{constructor}, nil
			}
		}
		return of, nil // cel-go makes it once
	}
	call, ok := of.(interpreter.InterpretableCall)
	if !ok || len(call.Args()) != 2 {
		return of, nil
	}
	var do func(a, b ref.Val) ref.Val
	switch call.Function() {
	case operators.Equals:
		do = equal
	case operators.NotEquals:
		do = func(a, b ref.Val) ref.Val {
			is := equal(a, b)
			if types.IsError(is) {
				return is
			}
			return types.Bool(is != types.True)
		}
	case operators.In:
		do = within
	case overloads.Matches:
		do = func(text, pattern ref.Val) ref.Val {
			p, ok := pattern.(types.String)
			if _, is := text.(types.String); !ok || !is {
				return types.MaybeNoSuchOverloadErr(text)
			}
			if len(p) > MaxLength {
				return types.NewErr("a pattern has more than %d bytes", MaxLength)
			}
			r, err := compilePattern(string(p))
			if err != nil {
				return types.WrapErr(err)
			}
			return r.match(text)
		}
	default:
		return of, nil
	}
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
		return do(args[0], args[1])
	}), nil
}

// equal compares. Two values of which one has few parts are soon different.
func equal(a, b ref.Val) ref.Val {
	if deep(a) && deep(b) && parts(a, limits.ExpressionParts) >= limits.ExpressionParts && parts(b, limits.ExpressionParts) >= limits.ExpressionParts {
		return tooManyParts()
	}
	return types.Equal(a, b)
}

func within(v, in ref.Val) ref.Val {
	if list, ok := in.(traits.Lister); ok {
		if sizeOf(list) >= limits.ExpressionParts || deep(v) && parts(list, limits.ExpressionParts) >= limits.ExpressionParts {
			return tooManyParts()
		}
	}
	if in.Type().HasTrait(traits.ContainerType) {
		return in.(traits.Container).Contains(v)
	}
	return types.ValOrErr(in, "no such overload")
}

func tooManyParts() ref.Val {
	return types.NewErr("compares values of more than %d parts", limits.ExpressionParts)
}

// pattern is a regular expression with how many steps it may need for a byte.
type pattern struct {
	*regexp.Regexp
	size int
}

func compilePattern(text string) (*pattern, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify()) // cel-go's RegexProgramSize leaves repetitions as they are, of which this panics
	if err != nil {
		return nil, err
	}
	r, err := regexp.Compile(text)
	return &pattern{r, len(program.Inst)}, err
}

func (p *pattern) match(v ref.Val) ref.Val {
	text, ok := v.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(v)
	}
	if product(len(text)+1, p.size) > limits.ExpressionMatch {
		return types.NewErr("matches() has a text of %d bytes and a pattern of %d steps, together more than %d", len(text), p.size, limits.ExpressionMatch)
	}
	return types.Bool(p.MatchString(string(text)))
}

// constant compiles a pattern once that stands in the expression. cel-go's own does not look at sizes; one of an overload comes first.
func constant(overload string) *interpreter.RegexOptimization {
	return &interpreter.RegexOptimization{
		Function: overloads.Matches, OverloadID: overload, RegexIndex: 1,
		Factory: func(call interpreter.InterpretableCall, text string) (interpreter.InterpretableCall, error) {
			p, err := compilePattern(text)
			if err != nil {
				return nil, err
			}
			return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
				return p.match(args[0])
			}), nil
		},
	}
}

// made is a list or a map that an expression makes. It may have a value several times, that one another one, and so on: whoever goes
// through it would not come to an end.
type made struct {
	interpreter.InterpretableConstructor
}

// Exec and Eval are how cel-go evaluates it.
func (m made) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := m.InterpretableConstructor.Exec(frame)
	if count(v, limits.ExpressionMade, false) >= limits.ExpressionMade {
		return types.NewErr("makes a value of more than %d parts", limits.ExpressionMade)
	}
	return v
}

func (m made) Eval(vars interpreter.Activation) ref.Val { return m.Exec(interpreter.AsFrame(vars)) }

// deep says whether a value has parts.
func deep(v ref.Val) bool {
	switch v := v.(type) {
	case types.String, types.Bool, types.Int, types.Uint, types.Double, types.Null, types.Bytes:
		return false
	case *types.Optional:
		return v.HasValue() && deep(v.GetValue())
	case traits.Lister, traits.Mapper:
		return true
	default:
		return false
	}
}

// parts is how many parts a value has, itself included, but no more than most.
func parts(v ref.Val, most int) int { return count(v, most, true) }

// count leaves the parts out of what comes from an object as it is, unless it is to go into it: that is a tree.
func count(v ref.Val, most int, into bool) int {
	n := 1
	switch v := v.(type) {
	case types.String, types.Bool, types.Int, types.Uint, types.Double, types.Null, types.Bytes:
	case *types.Optional:
		if v.HasValue() {
			n += count(v.GetValue(), most, into)
		}
	case traits.Mapper:
		if _, native := v.Value().(map[string]any); native && !into {
			break
		}
		for i := v.Iterator(); n < most && i.HasNext() == types.True; {
			of, _ := v.Find(i.Next())
			n += 1 + count(of, most-n, into)
		}
	case traits.Lister:
		if sizeOf(v) >= most && into {
			return most
		}
		if _, native := v.Value().([]any); native && !into {
			break
		}
		for i := v.Iterator(); n < most && i.HasNext() == types.True; {
			n += count(i.Next(), most-n, into)
		}
	}
	return min(n, most)
}

// sizeOf is how many elements or bytes a value has.
func sizeOf(v ref.Val) int {
	switch v := v.(type) {
	case types.String:
		return len(v)
	case types.Bytes:
		return len(v)
	case *types.Optional:
		if v.HasValue() {
			return sizeOf(v.GetValue())
		}
	case traits.Sizer:
		n, _ := v.Size().(types.Int)
		return int(n)
	}
	return 1
}

func product(a, b int) int {
	if a > 0 && b > math.MaxInt/a {
		return math.MaxInt
	}
	return a * b
}
