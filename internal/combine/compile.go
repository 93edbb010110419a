package combine

import (
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/expression"
	"github.com/drover-io/drover/internal/fail"
)

// deadline is how long one evaluation may take.
var deadline = expression.Deadline

// Program is a collector, compiled. It may be used by many goroutines at once.
type Program struct {
	name    string
	columns []string
	named   int // bytes of the names of columns
	// first are the expressions of select or of groupBy, subjects those of combinedFields.
	filter   *compiled // nil where there is none
	first    []*compiled
	grouped  bool // whether there are combinedFields
	subjects []aggregate
	orderBy  []order
	limit    int
}

// aggregate is a column of aggregates.
type aggregate struct {
	domain.NamedAggregator
	subject *compiled // nil for COUNT
}

// order is by a column, by its number.
type order struct {
	column     int
	descending bool
}

// Check says all that is wrong with a spec, its expressions included, in the order of its members. The error is Invalid, with a
// field for each fault, such as spec.groupBy[0].def with "line 1, column 9: undeclared reference to 'x'". It finds what
// StatusCollectorSpec.Validate finds, so that one of the two is enough.
func Check(spec *domain.StatusCollectorSpec) error {
	_, err := Compile("", spec)
	return err
}

// Compile prepares a collector, which is called name in its results. The error is Check's.
func Compile(name string, spec *domain.StatusCollectorSpec) (*Program, error) {
	var structure fail.Problems
	if !spec.Few(&structure) {
		return nil, structure.Err()
	}
	spec.Validate(&structure)
	c := compiler{}
	p := &Program{name: name, columns: spec.Columns(), grouped: len(spec.CombinedFields) > 0, limit: spec.Rows()}
	if strings.TrimSpace(spec.Filter) != "" {
		p.filter = c.compile("spec.filter", spec.Filter, forFilter)
	}
	for i, g := range spec.GroupBy {
		p.first = append(p.first, c.compile(at("spec.groupBy", i, "def"), g.Def, forKey))
	}
	for i, f := range spec.CombinedFields {
		a := aggregate{NamedAggregator: f}
		if f.Type != domain.AggregatorCount && slices.Contains(domain.AggregatorTypes, f.Type) {
			a.subject = c.compile(at("spec.combinedFields", i, "subject"), f.Subject, forSubject)
		}
		p.subjects = append(p.subjects, a)
	}
	for i, s := range spec.Select {
		p.first = append(p.first, c.compile(at("spec.select", i, "def"), s.Def, nil))
	}
	for _, name := range p.columns {
		p.named += len(name)
	}
	for _, o := range spec.OrderBy {
		p.orderBy = append(p.orderBy, order{slices.Index(p.columns, o.Column), o.Descending})
	}
	if fields := append(fail.FieldsOf(structure.Err()), c.faults...); len(fields) > 0 {
		slices.SortStableFunc(fields, func(a, b fail.Field) int { return slices.Compare(rank(a.Path), rank(b.Path)) })
		return nil, &fail.Error{Kind: fail.Invalid, Message: "Invalid Input:", Fields: fields}
	}
	return p, nil
}

// Broken is the result of a collector that does not compile any more, after an upgrade say, with what is wrong as errors. The
// other collectors go on.
func Broken(name string, spec *domain.StatusCollectorSpec, err error) *Result {
	r := &Result{Name: name, ColumnNames: spec.Columns(), Rows: []ResultRow{}}
	for _, f := range fail.FieldsOf(err) {
		r.Errors = append(r.Errors, f.Path+": "+f.Message)
	}
	if r.Errors == nil {
		r.Errors = []string{fail.TextOf(err)}
	}
	return r
}

func at(list string, i int, member string) string {
	return list + "[" + strconv.Itoa(i) + "]." + member
}

// rank is the place of a path in the order of a spec's members.
func rank(path string) []int {
	_, path, _ = strings.Cut(path, ".")
	list, member, _ := strings.Cut(path, ".")
	list, index, _ := strings.Cut(strings.TrimSuffix(list, "]"), "[")
	i, err := strconv.Atoi(index)
	if err != nil {
		i = -1
	}
	return []int{
		slices.Index([]string{"filter", "groupBy", "combinedFields", "select", "limit", "orderBy"}, list), i,
		slices.Index([]string{"name", "type", "def", "subject", "column"}, member),
	}
}

// compiler compiles the expressions of a spec.
type compiler struct{ faults []fail.Field }

// compiled is an expression.
type compiled struct {
	text string
	// path is the expression where that is all it is: it needs no CEL.
	path *path
	// program evaluates it, and looks paths up by their numbers.
	program *expression.Program
	paths   []path
	// nullable says that null is no sign of a typing error.
	nullable bool
	// dated says that it looks at lastReturnedUpdateTimestamp.
	dated bool
}

// compile compiles an expression; fits says what is wrong with the type of its result, "" for nothing. Nil where there are faults;
// one that is missing is the structure's fault. None is compiled any more after as many faults as an answer names.
func (c *compiler) compile(path, text string, fits func(*cel.Type) string) *compiled {
	if strings.TrimSpace(text) == "" || len(c.faults) >= fail.MostProblems {
		return nil
	}
	before := len(c.faults)
	add := func(faults ...expression.Fault) {
		for _, f := range faults {
			c.faults = append(c.faults, fail.Field{Path: path, Message: f.String()})
		}
	}
	checked, faults := environment.Compile(text)
	if add(faults...); faults != nil {
		return nil
	}
	r := rewriter{}
	rewritten, faults := environment.Rewrite(checked, func(ctx *cel.OptimizerContext, a *ast.AST) {
		r.ctx, r.ast = ctx, a
		r.rewrite(a.Expr())
	})
	add(r.faults...)
	if add(faults...); len(c.faults) > before {
		return nil
	}
	if fits != nil {
		if why := fits(checked.OutputType()); why != "" {
			add(expression.Fault{Message: why})
			return nil
		}
	}
	e, err := r.program(text, rewritten)
	if err != nil {
		add(expression.Fault{Message: err.Error()})
		return nil
	}
	return e
}

// program is that of a rewritten expression.
func (r *rewriter) program(text string, rewritten *cel.Ast) (*compiled, error) {
	e := &compiled{text: text, paths: r.paths, nullable: r.nullable, dated: r.dated}
	root := rewritten.NativeRep().Expr()
	if root.Kind() == ast.IdentKind {
		name := root.AsIdent()
		if i, err := strconv.Atoi(strings.TrimPrefix(name, pathName)); err == nil {
			e.path = &r.paths[i]
			return e, nil
		}
		if of, member, ok := strings.Cut(name, "."); ok && members[of] != nil {
			e.path = &path{root: of, members: []string{member}}
			return e, nil
		}
	}
	var err error
	if e.program, err = environment.Program(rewritten, noting(r.paths)); err != nil {
		// It evaluates what is constant, and int('x') fails. That is an error of each row, as 1/0 is.
		if e.program, err = environment.PlainProgram(rewritten, noting(r.paths)); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// forFilter, forKey and forSubject refuse types that can never do.
func forFilter(t *cel.Type) string {
	switch content(t).Kind() {
	case types.BoolKind, types.NullTypeKind, types.DynKind, types.AnyKind:
		return ""
	default:
		return "is of type " + t.String() + ", not bool; compare it with something, as in returned.status.phase == \"Running\""
	}
}

func forKey(t *cel.Type) string {
	switch content(t).Kind() {
	case types.ListKind, types.MapKind, types.StructKind:
		return "is of type " + t.String() + "; rows are grouped by atomic values, such as a string, a number or a bool"
	default:
		return ""
	}
}

func forSubject(t *cel.Type) string {
	switch content(t).Kind() {
	case types.IntKind, types.UintKind, types.DoubleKind, types.StringKind, types.TimestampKind, types.NullTypeKind, types.DynKind, types.AnyKind:
		return ""
	default:
		return "is of type " + t.String() + "; a subject is a number, or a string that Kubernetes reads as a quantity"
	}
}

// content is the type of what an optional value has in it.
func content(t *cel.Type) *cel.Type {
	if isOptional(t) && len(t.Parameters()) == 1 {
		return t.Parameters()[0]
	}
	return t
}

func isOptional(t *cel.Type) bool {
	return t.Kind() == types.OpaqueKind && t.TypeName() == "optional_type"
}

// eval evaluates on a row: a value of CEL, or of Go as Decode has them.
func (e *compiled) eval(in *input) (any, error) {
	if e.path != nil {
		return in.value(*e.path)
	}
	in.paths, in.nulls = e.paths, nil
	return e.program.Eval(deadline, in)
}

// why is the text of an error, with the paths and the other members that were null.
func (e *compiled) why(in *input, err error) string {
	text := expression.OneLine(err.Error(), maxError)
	if e.dated && in.row.Propagation.LastReturnedUpdate.IsZero() {
		text += ": propagation." + lastUpdate + " is year 1, as the cluster has never reported the object"
	}
	var nulls []string
	for _, p := range e.paths {
		if v, err := in.value(p); v == nil && err == nil {
			nulls = append(nulls, p.String())
		}
	}
	nulls = append(nulls, in.nulls...)
	switch {
	case len(nulls) == 0:
		return text
	case len(nulls) > 3:
		nulls = append(nulls[:3], "…")
	}
	is := " is null"
	if len(nulls) > 1 {
		is = " are null"
	}
	return text + ": " + expression.OneLine(strings.Join(nulls, ", "), maxError) + is
}

// input is a row as the expressions see it.
type input struct {
	row   *Row
	paths []path   // of the expression that is evaluated
	nulls []string // members that were null in it, other than those of paths: see noted
	roots [4]map[string]any
}

// ResolveName finds a variable: one of the four, a typed member of one, or a path of the expression.
func (in *input) ResolveName(name string) (any, bool) {
	if name == inputName {
		return in, true
	}
	if number, ok := strings.CutPrefix(name, presenceName); ok {
		if i, err := strconv.Atoi(number); err == nil && i < len(in.paths) {
			return in.presence(in.paths[i]), true
		}
		return nil, false
	}
	if number, ok := strings.CutPrefix(name, pathName); ok {
		i, err := strconv.Atoi(number)
		if err != nil || i >= len(in.paths) {
			return nil, false
		}
		v, err := in.value(in.paths[i])
		if err != nil {
			return types.NewErr("%s", err), true
		}
		return in.seen(in.paths[i].root, v), true
	}
	if variable(name) {
		return in.seen(name, in.root(name)), true
	}
	if of, member, ok := strings.Cut(name, "."); ok {
		return in.row.known(of, member)
	}
	return nil, false
}

// seen is a value of a variable as CEL is to see it.
func (in *input) seen(root string, v any) any {
	if root == returned && in.row.Propagation.Summarised {
		switch v.(type) {
		case map[string]any, []any:
			return cut.NativeToValue(v)
		}
	}
	return v
}

// Parent is none.
func (in *input) Parent() cel.Activation { return nil }

// root is a variable.
func (in *input) root(name string) map[string]any {
	i := map[string]int{inventory: 0, object: 1, returned: 2, propagation: 3}[name]
	if in.roots[i] == nil {
		in.roots[i] = in.row.variable(name)
	}
	return in.roots[i]
}

func (r *Row) variable(name string) map[string]any {
	if name == object {
		if _, ok := r.Object["status"]; ok || r.Object == nil {
			return without(r.Object, "status")
		}
		return r.Object
	}
	v := make(map[string]any, len(members[name]))
	for member := range members[name] {
		if is, ok := r.known(name, member); ok {
			v[member] = is
		}
	}
	return v
}

// known is a member of inventory, returned or propagation; false where it is null.
func (r *Row) known(variable, member string) (any, bool) {
	p := &r.Propagation
	switch variable {
	case inventory:
		switch member {
		case "name":
			return r.Cluster.Name, true
		case "provider":
			return r.Cluster.Provider, true
		case "id":
			return r.ClusterID(), true
		case "labels":
			return append([]string{}, r.Labels...), true
		}
	case returned:
		v, ok := r.Returned[member]
		return v, ok
	case propagation:
		switch member {
		case lastUpdate:
			return p.LastReturnedUpdate.UTC(), true
		case "reported":
			return p.Reported, true
		case "present":
			return p.Present, true
		case "stale":
			return p.Stale, true
		case "staleSince":
			if p.StaleSince != nil {
				return p.StaleSince.UTC(), true
			}
		case "ready":
			return p.Ready, true
		case "state":
			return p.State, true
		case "message":
			return p.Message, true
		case "summarised":
			return p.Summarised, true
		}
	}
	return nil, false
}

func without(of map[string]any, name string) map[string]any {
	rest := make(map[string]any, len(of))
	for k, v := range of {
		if k != name {
			rest[k] = v
		}
	}
	return rest
}

// find looks a path up; found says whether its last member is there. An error is that a part of it cannot have members, or that
// one is missing of an object that was summarised.
func (in *input) find(p path) (v any, found bool, err error) {
	for i, name := range p.members {
		switch of := v.(type) {
		case map[string]any:
			v, found = of[name]
		case nil:
			switch {
			case i > 0:
				return nil, false, nil
			case p.root == object:
				v, found = in.row.Object[name]
			default:
				v, found = in.row.known(p.root, name)
			}
		default:
			return nil, false, errorText(path{p.root, p.members[:i]}.String() + " is of type " + typeName(v) + ", which has no member " + name)
		}
		if !found && in.row.Propagation.Summarised && p.root == returned {
			return nil, false, errorText(cutBySummary(path{p.root, p.members[:i+1]}.String()))
		}
	}
	return v, found, nil
}

// value is that of a path, nil where it is missing.
func (in *input) value(p path) (any, error) {
	v, _, err := in.find(p)
	return v, err
}

// presence is whether a path is there: a bool, or an error of CEL.
func (in *input) presence(p path) any {
	_, found, err := in.find(p)
	if err != nil {
		return types.NewErr("%s", err)
	}
	return found
}

// errorText is an error without a kind: it is shown as it is.
type errorText string

// Error is the text.
func (e errorText) Error() string { return string(e) }

// typeName is how CEL calls the type of a value.
func typeName(v any) string {
	val, ok := v.(ref.Val)
	if !ok {
		val = whole.NativeToValue(v)
	}
	switch val.Type().TypeName() {
	case "google.protobuf.Timestamp":
		return "timestamp"
	case "google.protobuf.Duration":
		return "duration"
	default:
		return val.Type().TypeName()
	}
}
