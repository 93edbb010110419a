package combine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"github.com/drover-io/drover/internal/expression"
)

// The variables.
const (
	inventory   = "inventory"
	object      = "obj"
	returned    = "returned"
	propagation = "propagation"
)

// lastUpdate is the member of propagation that is never null, and year 1 where there was no report: no duration is as long as from there to now.
const lastUpdate = "lastReturnedUpdateTimestamp"

// members are those of the variables of which all are known, with their types. Dyn is for what may be null.
var members = map[string]map[string]*cel.Type{
	inventory: {"name": cel.StringType, "provider": cel.StringType, "id": cel.StringType, "labels": cel.ListType(cel.StringType)},
	returned:  {"metadata": cel.DynType, "spec": cel.DynType, "status": cel.DynType},
	propagation: {
		lastUpdate: cel.TimestampType, "reported": cel.BoolType, "present": cel.BoolType,
		"stale": cel.BoolType, "staleSince": cel.DynType, "ready": cel.StringType, "state": cel.StringType,
		"message": cel.StringType, "summarised": cel.BoolType,
	},
}

// What expressions are rewritten to. A path from a variable, such as returned.status.phase, is a variable of its own: it is
// looked up in the row without CEL. Where the operand is anything else, a member is a call. Users cannot write these names.
const (
	pathName     = "@"    // and the number of the path: its value, null where it is missing
	presenceName = "@has" // and the number of the path: whether it is there
	memberCall   = "@member"
	hasCall      = "@has_member"
	optionalCall = "@optional_member"
	orderedCall  = "@ordered" // what a macro goes through: of a map its keys, sorted
	inputName    = "@input"   // is no variable: what evaluates the expression finds its input by it
	maxPaths     = 64         // as many have variables; those after them are calls
)

// environment is that of all expressions.
var environment = newEnvironment()

func newEnvironment() *expression.Environment {
	free := cel.MapType(cel.StringType, cel.DynType)
	options := []cel.EnvOption{
		cel.CustomTypeAdapter(whole),
		cel.Variable(inventory, free), cel.Variable(object, free), cel.Variable(returned, free), cel.Variable(propagation, free),
		member(memberCall, cel.DynType, func(v ref.Val, found bool) ref.Val {
			if !found {
				return types.NullValue
			}
			return v
		}),
		member(hasCall, cel.BoolType, func(_ ref.Val, found bool) ref.Val { return types.Bool(found) }),
		member(optionalCall, cel.OptionalType(cel.DynType), func(v ref.Val, found bool) ref.Val {
			if !found {
				return types.OptionalNone
			}
			return types.OptionalOf(v)
		}),
	}
	options = append(options, cel.Function(orderedCall, cel.Overload(orderedCall, []*cel.Type{cel.DynType}, cel.DynType, cel.UnaryBinding(ordered))))
	for _, of := range []string{inventory, propagation} {
		for name, t := range members[of] {
			if t != cel.DynType {
				options = append(options, cel.Variable(of+"."+name, t))
			}
		}
	}
	for i := range maxPaths {
		options = append(options,
			cel.Variable(pathName+strconv.Itoa(i), cel.DynType), cel.Variable(presenceName+strconv.Itoa(i), cel.BoolType))
	}
	return expression.NewEnvironment(options...)
}

// member declares a function that looks for a member of a value; result makes what it gives.
func member(name string, t *cel.Type, result func(v ref.Val, found bool) ref.Val) cel.EnvOption {
	return cel.Function(name, cel.Overload(name, []*cel.Type{cel.DynType, cel.StringType}, t, cel.BinaryBinding(
		func(of, key ref.Val) ref.Val {
			optional, chained := of.(*types.Optional)
			if chained {
				if !optional.HasValue() {
					if name == memberCall {
						return of
					}
					return result(nil, false)
				}
				of = optional.GetValue()
			}
			switch of := of.(type) {
			case types.Null:
				return result(nil, false)
			case traits.Mapper:
				v, found := of.Find(key)
				switch {
				case types.IsError(v):
					return v
				case chained && name == memberCall && !found:
					return types.OptionalNone
				case chained && name == memberCall:
					return types.OptionalOf(v)
				}
				return result(v, found)
			default:
				return types.NewErr("a value of type %s has no member %s", of.Type().TypeName(), key.Value())
			}
		})))
}

// noted is a call for a member of what is no variable, such as an item of a list. It notes in the input that it was null, so that an error
// can name it.
type noted struct {
	interpreter.InterpretableCall
	name string
}

// Exec and Eval are how cel-go evaluates it.
func (n noted) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := n.InterpretableCall.Exec(frame)
	if v == types.NullValue {
		if is, ok := frame.ResolveName(inputName); ok {
			if in := is.(*input); !slices.Contains(in.nulls, n.name) {
				in.nulls = append(in.nulls, n.name)
			}
		}
	}
	return v
}

func (n noted) Eval(vars interpreter.Activation) ref.Val { return n.Exec(interpreter.AsFrame(vars)) }

// noting has a program note its members that are null. What a program is made by it keeps: the paths of its expression alone.
func noting(paths []path) cel.ProgramOption {
	names := map[int64]string{} // of these calls: cel-go makes the inner ones first
	return cel.CustomDecoratorV2(func(of interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		call, ok := of.(interpreter.InterpretableCall)
		if !ok || call.Function() != memberCall {
			return of, nil
		}
		operand, name := call.Args()[0], call.Args()[1]
		text := names[operand.ID()]
		if attribute, ok := operand.(interpreter.InterpretableAttribute); ok {
			text = written(attribute, paths)
		}
		if constant, ok := name.(interpreter.InterpretableConst); ok {
			text += "." + fmt.Sprint(constant.Value().Value())
		}
		names[of.ID()] = text
		return noted{call, text}, nil
	})
}

// written is how a user writes what is no call, such as c or returned.status.conditions[0]; "" for what has a call in it, as a macro is.
func written(of interpreter.InterpretableAttribute, paths []path) string {
	named, ok := of.Attr().(interpreter.NamespacedAttribute)
	if !ok {
		return ""
	}
	text := named.CandidateVariableNames()[0]
	if i, err := strconv.Atoi(strings.TrimPrefix(text, pathName)); err == nil && i < len(paths) {
		text = paths[i].String()
	}
	for _, q := range named.Qualifiers() {
		index := "…"
		if constant, ok := q.(interpreter.ConstantQualifier); ok {
			index = fmt.Sprint(constant.Value().Value())
		}
		text += "[" + index + "]"
	}
	return text
}

// ordered has macros go through maps by the order of their keys, which is that of values: Go's is another one each time, and
// tables are to be the same.
func ordered(v ref.Val) ref.Val {
	m, ok := v.(traits.Mapper)
	if !ok {
		return v
	}
	type key struct {
		is    ref.Val
		value value
	}
	var keys []key
	for i := m.Iterator(); i.HasNext() == types.True; {
		k := i.Next()
		v, err := ofVal(k)
		if err != nil { // NaN
			v = null
		}
		keys = append(keys, key{k, v})
	}
	slices.SortFunc(keys, func(a, b key) int { // 1 and 1u are two keys
		return cmp.Or(a.value.compare(&b.value), cmp.Compare(a.is.Type().TypeName(), b.is.Type().TypeName()))
	})
	all := make([]ref.Val, len(keys))
	for i := range keys {
		all[i] = keys[i].is
	}
	return types.NewRefValList(whole, all)
}

// cutBySummary says that nobody knows whether a member is there.
func cutBySummary(name string) string {
	return name + " is missing, and may have been cut: the agent has summarised the object"
}

// adapter gives CEL integers that no int64 holds. That of cut has what an agent has summarised.
type adapter struct {
	types.Adapter
	cut bool
}

var whole, cut = adapter{Adapter: types.DefaultTypeAdapter}, adapter{types.DefaultTypeAdapter, true}

// NativeToValue is the adapter's.
func (a adapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case map[string]any:
		m := types.NewStringInterfaceMap(a, v)
		if a.cut {
			return cutMap{m}
		}
		return m
	case []any:
		return types.NewDynamicList(a, v)
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return types.NewErr("%s is too large a number", v)
		}
		return types.Double(f)
	default:
		return a.Adapter.NativeToValue(v)
	}
}

// cutMap is a map of an object that the agent has summarised: nobody knows whether a member that is missing was there, however
// it is asked for. The maps and lists in it are such, too.
type cutMap struct{ traits.Mapper }

// Find, Get, Contains and IsZeroValue are how CEL asks.
func (m cutMap) Find(key ref.Val) (ref.Val, bool) {
	v, found := m.Mapper.Find(key)
	if !found && v == nil {
		v = types.NewErr("%s", cutBySummary(fmt.Sprint(key.Value())))
	}
	return v, found
}

// Get is as Find.
func (m cutMap) Get(key ref.Val) ref.Val {
	v, _ := m.Find(key)
	return v
}

// Contains is an error where Find is.
func (m cutMap) Contains(key ref.Val) ref.Val {
	v, found := m.Find(key)
	if types.IsError(v) {
		return v
	}
	return types.Bool(found)
}

// IsZeroValue is false: what was cut had something in it.
func (m cutMap) IsZeroValue() bool { return false }

// path leads from a variable to a member: returned, then status and phase.
type path struct {
	root    string
	members []string
}

// String is such as returned.status.phase.
func (p path) String() string { return strings.Join(append([]string{p.root}, p.members...), ".") }

// rewriter makes of what a user wrote what has missing members null.
type rewriter struct {
	ctx    *cel.OptimizerContext
	ast    *ast.AST
	paths  []path
	faults []expression.Fault
	// nullable says that it looks at what is null as long as all is well, dated that it looks at lastReturnedUpdateTimestamp.
	nullable, dated bool
}

func (r *rewriter) fault(id int64, format string, args ...any) {
	r.faults = append(r.faults, expression.FaultAt(r.ast, id, format, args...))
}

// pathOf is the path that an expression is, of at least one member.
func pathOf(e ast.Expr) (p path, ok bool) {
	for e.Kind() == ast.SelectKind && (len(p.members) == 0 || !e.AsSelect().IsTestOnly()) {
		p.members = append(p.members, e.AsSelect().FieldName())
		e = e.AsSelect().Operand()
	}
	if e.Kind() != ast.IdentKind || len(p.members) == 0 {
		return p, false
	}
	slices.Reverse(p.members)
	p.root = strings.TrimPrefix(e.AsIdent(), ".")
	return p, variable(p.root)
}

func variable(name string) bool {
	return name == inventory || name == object || name == returned || name == propagation
}

// known notes a fault where a variable has no such member.
func (r *rewriter) known(id int64, root, name string) {
	r.nullable = r.nullable || root == propagation && name == "staleSince"
	r.dated = r.dated || root == propagation && name == lastUpdate
	switch of := members[root]; {
	case root == object && name == "status":
		r.fault(id, "obj has no status: it is the manifest as it was sent; what clusters report is returned.status")
	case of != nil && of[name] == nil:
		names := make([]string, 0, len(of))
		for n := range of {
			names = append(names, n)
		}
		slices.Sort(names)
		r.fault(id, "%s has no member %s; it has %s", root, name, strings.Join(names, ", "))
	}
}

// number is the one of a path; false where there are too many.
func (r *rewriter) number(p path) (string, bool) {
	for i := range r.paths {
		if r.paths[i].root == p.root && slices.Equal(r.paths[i].members, p.members) {
			return strconv.Itoa(i), true
		}
	}
	if len(r.paths) == maxPaths {
		return "", false
	}
	r.paths = append(r.paths, p)
	return strconv.Itoa(len(r.paths) - 1), true
}

func (r *rewriter) rewrite(e ast.Expr) {
	switch e.Kind() {
	case ast.IdentKind:
		r.dated = r.dated || e.AsIdent() == propagation+"."+lastUpdate
	case ast.SelectKind:
		r.rewriteSelect(e)
	case ast.CallKind:
		r.rewriteCall(e)
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			r.rewrite(element)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			r.rewrite(entry.AsMapEntry().Key())
			r.rewrite(entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			r.rewrite(field.AsStructField().Value())
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		for _, name := range []string{c.IterVar(), c.IterVar2(), c.AccuVar()} { // that of optMap() is the third
			if variable(name) {
				r.fault(e.ID(), "%s is a variable already: call the one of the macro otherwise", name)
			}
		}
		list := r.ast.GetType(c.IterRange().ID()).Kind() == types.ListKind
		for _, part := range []ast.Expr{c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()} {
			r.rewrite(part)
		}
		if !list {
			r.order(c.IterRange())
		}
	default: // what has no parts
	}
}

func (r *rewriter) rewriteSelect(e ast.Expr) {
	s := e.AsSelect()
	p, isPath := pathOf(e)
	if isPath {
		r.known(e.ID(), p.root, p.members[0])
		if number, ok := r.number(p); ok {
			name := pathName
			if s.IsTestOnly() {
				name = presenceName
			}
			e.SetKindCase(r.ctx.NewIdent(name + number))
			return
		}
	}
	optional := isOptional(r.ast.GetType(s.Operand().ID()))
	r.rewrite(s.Operand())
	call := memberCall
	switch {
	case s.IsTestOnly():
		call = hasCall
	case optional:
		call = optionalCall
	}
	r.call(e, call, s.Operand(), s.FieldName())
}

func (r *rewriter) rewriteCall(e ast.Expr) {
	c := e.AsCall()
	if c.IsMemberFunction() {
		r.rewrite(c.Target())
	}
	args := c.Args()
	if of, name, ok := selected(c); ok && of.Kind() == ast.IdentKind {
		if root := strings.TrimPrefix(of.AsIdent(), "."); variable(root) {
			r.known(e.ID(), root, name)
		}
	}
	for _, arg := range args {
		r.rewrite(arg)
	}
	if _, name, ok := selected(c); ok && c.FunctionName() != operators.Index {
		r.call(e, optionalCall, args[0], name)
	}
}

// selected says of which operand a call takes which member: a.?b, a["b"] or a[?"b"].
func selected(c ast.CallExpr) (of ast.Expr, name string, ok bool) {
	switch c.FunctionName() {
	case operators.OptSelect, operators.Index, operators.OptIndex:
	default:
		return nil, "", false
	}
	if len(c.Args()) != 2 || c.Args()[1].Kind() != ast.LiteralKind {
		return nil, "", false
	}
	literal, ok := c.Args()[1].AsLiteral().(types.String)
	return c.Args()[0], string(literal), ok
}

// order makes of what a macro goes through a call that puts it into its order.
func (r *rewriter) order(e ast.Expr) {
	of := r.ctx.NewIdent(orderedCall) // with a number of its own
	of.SetKindCase(e)
	e.SetKindCase(r.ctx.NewCall(orderedCall, of))
}

func (r *rewriter) call(e ast.Expr, function string, of ast.Expr, name string) {
	e.SetKindCase(r.ctx.NewCall(function, of, r.ctx.NewLiteral(types.String(name))))
}
