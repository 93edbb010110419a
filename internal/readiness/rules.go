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
	// maxMessage is what is shown of what a message expression makes, in bytes: objects may be large.
	maxMessage = 1024
)

// deadline is how long one evaluation may take; it is there for what cost does not see.
var deadline = time.Second

// Rule says when the objects of a kind are ready.
type Rule struct {
	Name    string // by which errors and messages call it
	Group   string // "" for the core group
	Version string // "" for every version that has no rule of its own
	Kind    string
	// Ready is CEL over the variable object, the object as it was received, and must be of type bool;
	// the string extensions and optionals (object.?status.?phase.orValue("")) are there.
	Ready string
	// Message is CEL of type string that says why an object is not ready; "" for none.
	Message string
}

func (r *Rule) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

// Check compiles the expressions of a rule. The error is Invalid and has a field, spec.ready or spec.message,
// for every fault: where in the expression it is and what it is.
func Check(r Rule) error {
	var problems fail.Problems
	_, faults := compile(r.Ready, cel.BoolType)
	for _, fault := range faults {
		problems.Add("spec.ready", "%s", fault)
	}
	if r.Message != "" {
		_, faults := compile(r.Message, cel.StringType)
		for _, fault := range faults {
			problems.Add("spec.message", "%s", fault)
		}
	}
	return problems.Err()
}

// Rules judges objects by users' rules where there are any, else as Of does. It may be used by many
// goroutines at once; nil has no rules.
type Rules struct {
	programs map[schema.GroupVersionKind]*program
}

// program is a rule, compiled.
type program struct {
	name           string
	ready, message cel.Program // message is nil where there is none
	fault          string      // why ready cannot be evaluated; "" when it can
}

// Compile prepares rules that Check has let pass. What does not compile any more, after an upgrade say, finds
// every object NotReady; of rules for one kind the first counts.
func Compile(rules ...Rule) *Rules {
	compiled := &Rules{programs: make(map[schema.GroupVersionKind]*program, len(rules))}
	for _, r := range rules {
		if compiled.programs[r.gvk()] != nil {
			continue
		}
		p := &program{name: r.Name}
		var faults []string
		if p.ready, faults = compile(r.Ready, cel.BoolType); faults != nil {
			p.fault = strings.Join(faults, "; ")
		}
		if r.Message != "" {
			p.message, _ = compile(r.Message, cel.StringType) // one that does not compile is left out
		}
		compiled.programs[r.gvk()] = p
	}
	return compiled
}

// Has says whether a rule of a user is about the kind.
func (r *Rules) Has(gvk schema.GroupVersionKind) bool {
	return r.find(gvk) != nil
}

// Of judges an object by the rule for its kind, and as the package's Of does where there is none. A rule
// is not asked about an object that is being deleted or whose status is of an earlier generation: those
// are NotReady. So is what a rule cannot be evaluated for, say for want of a member; the message says why.
func (r *Rules) Of(gvk schema.GroupVersionKind, object map[string]any) State {
	p := r.find(gvk)
	if p == nil || object == nil {
		return Of(gvk, object)
	}
	u := typed(gvk, object)
	if lacking := stale(u); lacking != "" {
		return notReady(lacking)
	}
	if why := p.lacks(u.Object); why != "" {
		return notReady("rule " + p.name + ": " + why)
	}
	return State{Status: Ready}
}

// OfJSON is Of for an object that is not decoded yet; what is not an object in JSON is NotReady.
func (r *Rules) OfJSON(gvk schema.GroupVersionKind, data json.RawMessage) State {
	object, err := Decode(data)
	if err != nil {
		return notReady("cannot be read: " + err.Error())
	}
	return r.Of(gvk, object)
}

// find is the rule for a kind, nil where there is none.
func (r *Rules) find(gvk schema.GroupVersionKind) *program {
	if r == nil {
		return nil
	}
	if p := r.programs[gvk]; p != nil {
		return p
	}
	gvk.Version = ""
	return r.programs[gvk]
}

// stale says why a status of an object is not worth looking at, "" when it is.
func stale(u *unstructured.Unstructured) string {
	if u.GetDeletionTimestamp() != nil {
		return "being deleted"
	}
	seen, found, err := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	if generation := u.GetGeneration(); err == nil && found && generation != 0 && seen != generation {
		return fmt.Sprintf("generation is %d, status is of %d", generation, seen)
	}
	return ""
}

// lacks says why an object is not ready, "" when it is.
func (p *program) lacks(object map[string]any) string {
	if p.fault != "" {
		return p.fault
	}
	ready, err := evaluate[bool](p.ready, object)
	switch {
	case err != nil:
		return oneLine(err.Error())
	case ready:
		return ""
	case p.message != nil:
		if message, err := evaluate[string](p.message, object); err == nil && strings.TrimSpace(message) != "" {
			return oneLine(message)
		}
	}
	return "not fulfilled"
}

func evaluate[T bool | string](p cel.Program, object map[string]any) (result T, err error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), deadline, errTooLong)
	defer cancel()
	v, _, err := p.ContextEval(ctx, map[string]any{"object": object})
	if ctx.Err() != nil && err != nil {
		return result, context.Cause(ctx)
	}
	if err != nil {
		return result, err
	}
	result, ok := v.Value().(T)
	if !ok {
		return result, fmt.Errorf("is %s, not %T", v.Type().TypeName(), result)
	}
	return result, nil
}

var errTooLong = errors.New("takes too long")

// oneLine is text without line breaks, cut to maxMessage.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return text
}

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

// compile returns a program whose result is of a type, or what is wrong with the expression.
func compile(expression string, result *cel.Type) (cel.Program, []string) {
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
	if is := ast.OutputType(); !is.IsExactType(result) {
		return nil, []string{fmt.Sprintf("is of type %s, not %s; %s", is, result, cast[result])}
	}
	p, err := environment.Program(ast,
		cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost), cel.InterruptCheckFrequency(checkEvery))
	if err != nil {
		return nil, []string{err.Error()}
	}
	return p, nil
}

// cast says how to come to a type.
var cast = map[*cel.Type]string{
	cel.BoolType:   "compare it with something, as in object.status.ready == true",
	cel.StringType: "convert it, as in string(object.status.reason)",
}

// position says where a fault is, "" when it is the whole.
func position(l common.Location) string {
	if l.Line() < 1 {
		return ""
	}
	return fmt.Sprintf("line %d, column %d: ", l.Line(), l.Column()+1)
}
