// Package expression compiles what users write in CEL and evaluates it within bounds: readiness rules, and the expressions of
// status collectors. It knows how long an expression may be and what it may cost, and where in it a fault is.
package expression

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
)

// Limits of an expression. Cost is CEL's own measure, about one for an operator or a member.
const (
	MaxLength  = 4096 // characters
	MaxNesting = 3    // macros such as all() in one another
	MaxCost    = 20_000
	// Deadline is how long one evaluation may take; it is there for what cost does not see.
	Deadline = time.Second

	// checkEvery is after how many steps of a macro the deadline is looked at: one may compare two large objects, which costs 1.
	checkEvery = 1
	// MaxMessage is what is shown of a text that an expression makes, in bytes: objects may be large.
	MaxMessage = 1024
)

// ErrTooLong is of an evaluation that its deadline has ended.
var ErrTooLong = errors.New("takes too long")

// Fault is what is wrong with an expression.
type Fault struct {
	Line, Column int // from 1; 0 when it is the whole
	Message      string
}

// String is such as "line 1, column 9: undeclared reference to 'x'".
func (f Fault) String() string {
	if f.Line < 1 {
		return f.Message
	}
	return fmt.Sprintf("line %d, column %d: %s", f.Line, f.Column, f.Message)
}

// FaultAt is a fault of the part of the expression that has the id.
func FaultAt(a *ast.AST, id int64, format string, args ...any) Fault {
	l := a.SourceInfo().GetStartLocation(id)
	return Fault{Line: l.Line(), Column: l.Column() + 1, Message: fmt.Sprintf(format, args...)}
}

// Environment is what expressions may use.
type Environment struct{ cel *cel.Env }

// NewEnvironment makes one of the standard library and macros, optionals and the string extensions, with what the options declare
// beside. It panics when they contradict one another, as they are constants of the program.
func NewEnvironment(options ...cel.EnvOption) *Environment {
	env, err := cel.NewEnv(slices.Concat([]cel.EnvOption{
		cel.OptionalTypes(),
		ext.Strings(),
		cel.ParserExpressionSizeLimit(MaxLength),
		cel.ASTValidators(
			cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals(),
			cel.ValidateComprehensionNestingLimit(MaxNesting),
		),
	}, boundedText(), options)...)
	if err != nil {
		panic(err)
	}
	return &Environment{env}
}

// Compile checks an expression and its types, and says all that is wrong with it.
func (e *Environment) Compile(text string) (*cel.Ast, []Fault) {
	if strings.TrimSpace(text) == "" {
		return nil, []Fault{{Message: "has no expression"}}
	}
	compiled, issues := e.cel.Compile(text)
	if faults := faultsOf(issues); faults != nil {
		return nil, faults
	}
	return compiled, nil
}

// Rewrite changes a copy of a checked expression in place, and checks it again. Parts keep their positions when their kind is set
// anew (SetKindCase).
func (e *Environment) Rewrite(checked *cel.Ast, change func(*cel.OptimizerContext, *ast.AST)) (*cel.Ast, []Fault) {
	optimizer, err := cel.NewStaticOptimizer(rewriting(change))
	if err != nil {
		return nil, []Fault{{Message: err.Error()}}
	}
	changed, issues := optimizer.Optimize(e.cel, checked)
	if faults := faultsOf(issues); faults != nil {
		return nil, faults
	}
	return changed, nil
}

type rewriting func(*cel.OptimizerContext, *ast.AST)

// Optimize is how cel-go calls what changes an expression. The texts of macros are of no use after it.
func (change rewriting) Optimize(ctx *cel.OptimizerContext, a *ast.AST) *ast.AST {
	for id := range maps.Clone(a.SourceInfo().MacroCalls()) {
		a.SourceInfo().ClearMacroCall(id)
	}
	change(ctx, a)
	return a
}

func faultsOf(issues *cel.Issues) (faults []Fault) {
	for _, f := range issues.Errors() {
		fault := Fault{Message: f.Message}
		if at(f.Location) {
			fault.Line, fault.Column = f.Location.Line(), f.Location.Column()+1
		}
		faults = append(faults, fault)
	}
	return faults
}

// at says whether a location is of a part of an expression.
func at(l common.Location) bool { return l != nil && l.Line() >= 1 }

// Program evaluates an expression. It may be used by many goroutines at once.
type Program struct {
	cel cel.Program
	// loops says whether there are macros that go through lists. Nothing else takes long enough to be interrupted.
	loops bool
}

// Program prepares a checked expression, with what else it is to have. What is constant in it is evaluated now: that it fails is an error.
func (e *Environment) Program(checked *cel.Ast, more ...cel.ProgramOption) (*Program, error) {
	return e.program(checked, append(more, cel.EvalOptions(cel.OptOptimize))...)
}

// PlainProgram is Program, but what is constant is evaluated each time, and fails then.
func (e *Environment) PlainProgram(checked *cel.Ast, more ...cel.ProgramOption) (*Program, error) {
	return e.program(checked, more...)
}

func (e *Environment) program(checked *cel.Ast, options ...cel.ProgramOption) (*Program, error) {
	options = append(options, guarded()...)
	p, err := e.cel.Program(checked, append(options, cel.CostTracking(costs{}), cel.CostLimit(MaxCost), cel.InterruptCheckFrequency(checkEvery))...)
	if err != nil {
		return nil, err
	}
	loops := false
	ast.PostOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		loops = loops || e.Kind() == ast.ComprehensionKind
	}))
	return &Program{p, loops}, nil
}

// Eval evaluates within a time, Deadline except in tests. vars is a map[string]any, or an activation. What has taken too long is evaluated once more: a
// process may stand still for a second on a busy machine, and the error would stay until the object changes.
func (p *Program) Eval(within time.Duration, vars any) (ref.Val, error) {
	if !p.loops {
		v, _, err := p.cel.Eval(vars)
		return v, err
	}
	v, err := p.once(within, vars)
	if errors.Is(err, ErrTooLong) {
		v, err = p.once(within, vars)
	}
	return v, err
}

func (p *Program) once(within time.Duration, vars any) (ref.Val, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), within, ErrTooLong)
	defer cancel()
	v, _, err := p.cel.ContextEval(ctx, vars)
	if ctx.Err() != nil && err != nil {
		return nil, context.Cause(ctx)
	}
	return v, err
}

// OneLine is text without line breaks, cut to a length in bytes.
func OneLine(text string, longest int) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}
