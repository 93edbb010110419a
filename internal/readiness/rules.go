package readiness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/ext"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/fail"
)

// Limits of an expression. Cost is CEL's own measure, about one for an operator or a member.
const (
	maxExpression = 4096 // characters
	maxNesting    = 3    // macros such as all() in one another
	maxCost       = 20_000
	// checkEvery is after how many steps of a macro the deadline is looked at.
	checkEvery = 100
)

// deadline is how long one evaluation may take; it is there for what cost does not see.
var deadline = time.Second

// Rule says when the objects of a kind are ready.
type Rule struct {
	Name    string // by which errors and messages call it
	Group   string // "" for the core group
	Version string // "" for every version that has no rule of its own
	Kind    string
	// Expression is CEL over the variable object, the object as it was received, and must be of type bool;
	// the string extensions and optionals (object.?status.?phase.orValue("")) are there.
	Expression string
}

func (r *Rule) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

// Rules judges objects by users' rules where there are any, else as Of does. It may be used by many
// goroutines at once; nil has no rules.
type Rules struct {
	programs map[schema.GroupVersionKind]program
}

type program struct {
	name string
	eval cel.Program
}

// Compile checks and prepares rules. The error is Invalid and has a field for every fault, named after the
// rule: where in the expression the fault is and what it is.
func Compile(rules ...Rule) (*Rules, error) {
	compiled := &Rules{programs: make(map[schema.GroupVersionKind]program, len(rules))}
	var problems fail.Problems
	for i := range rules {
		r := &rules[i]
		if r.Kind == "" {
			problems.Add(r.Name, "names no kind")
			continue
		}
		if other, taken := compiled.programs[r.gvk()]; taken {
			problems.Add(r.Name, "%s has a rule already: %s", describe(r.gvk()), other.name)
			continue
		}
		eval, faults := compile(r.Expression)
		for _, fault := range faults {
			problems.Add(r.Name, "%s", fault)
		}
		compiled.programs[r.gvk()] = program{r.Name, eval}
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	return compiled, nil
}

// Has says whether a rule of a user is about the kind.
func (r *Rules) Has(gvk schema.GroupVersionKind) bool {
	_, ok := r.find(gvk)
	return ok
}

// Of judges an object by the rule for its kind, and as the package's Of does where there is none. A rule
// is not asked about an object that is being deleted or whose status is of an earlier generation: those
// are NotReady. So is what a rule cannot be evaluated for, say for want of a member; the message says why.
func (r *Rules) Of(gvk schema.GroupVersionKind, object map[string]any) State {
	p, ok := r.find(gvk)
	if !ok || object == nil {
		return Of(gvk, object)
	}
	u := typed(gvk, object)
	if lacking := unsettled(u); lacking != "" {
		return notReady(lacking)
	}
	ready, err := p.ready(u.Object)
	switch {
	case err != nil:
		return notReady(fmt.Sprintf("rule %s: %s", p.name, err))
	case !ready:
		return notReady(fmt.Sprintf("rule %s: not fulfilled", p.name))
	default:
		return State{Status: Ready}
	}
}

// OfJSON is Of for an object that is not decoded yet; what is not an object in JSON is NotReady.
func (r *Rules) OfJSON(gvk schema.GroupVersionKind, data json.RawMessage) State {
	object, err := Decode(data)
	if err != nil {
		return notReady("cannot be read: " + err.Error())
	}
	return r.Of(gvk, object)
}

func (r *Rules) find(gvk schema.GroupVersionKind) (program, bool) {
	if r == nil {
		return program{}, false
	}
	p, ok := r.programs[gvk]
	if !ok {
		gvk.Version = ""
		p, ok = r.programs[gvk]
	}
	return p, ok
}

// unsettled says why a status of an object is not worth looking at, "" when it is.
func unsettled(u *unstructured.Unstructured) string {
	if u.GetDeletionTimestamp() != nil {
		return "being deleted"
	}
	seen, found, err := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	if generation := u.GetGeneration(); err == nil && found && generation != 0 && seen != generation {
		return fmt.Sprintf("generation is %d, status is of %d", generation, seen)
	}
	return ""
}

func (p program) ready(object map[string]any) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), deadline, errTooLong)
	defer cancel()
	v, _, err := p.eval.ContextEval(ctx, map[string]any{"object": object})
	if ctx.Err() != nil && err != nil {
		return false, context.Cause(ctx)
	}
	if err != nil {
		return false, err
	}
	ready, ok := v.Value().(bool)
	if !ok {
		return false, fmt.Errorf("is %s, not bool", v.Type().TypeName())
	}
	return ready, nil
}

var errTooLong = errors.New("takes too long")

// environment is what expressions may use.
var environment = func() *cel.Env {
	env, err := cel.NewEnv(
		cel.Variable("object", cel.MapType(cel.StringType, cel.DynType)),
		cel.OptionalTypes(),
		ext.Strings(),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ASTValidators(
			cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals(),
			cel.ValidateComprehensionNestingLimit(maxNesting),
		),
	)
	if err != nil {
		panic(err) // the options above are constants
	}
	return env
}()

// compile returns a program, or what is wrong with the expression.
func compile(expression string) (cel.Program, []string) {
	if strings.TrimSpace(expression) == "" {
		return nil, []string{"has no expression"}
	}
	ast, issues := environment.Compile(expression)
	if faults := issues.Errors(); len(faults) > 0 {
		lines := make([]string, 0, len(faults))
		for _, f := range faults {
			lines = append(lines, position(f.Location)+f.Message)
		}
		return nil, lines
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return nil, []string{fmt.Sprintf(
			"is of type %s, not bool; compare it with something, as in object.status.ready == true", ast.OutputType())}
	}
	p, err := environment.Program(ast,
		cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost), cel.InterruptCheckFrequency(checkEvery))
	if err != nil {
		return nil, []string{err.Error()}
	}
	return p, nil
}

// position says where a fault is, "" when it is the whole.
func position(l common.Location) string {
	if l.Line() < 1 {
		return ""
	}
	return fmt.Sprintf("line %d, column %d: ", l.Line(), l.Column()+1)
}

func describe(gvk schema.GroupVersionKind) string {
	if gvk.Version == "" {
		return gvk.GroupKind().String()
	}
	return gvk.Kind + "." + gvk.Version + "." + gvk.Group
}
