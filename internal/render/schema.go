package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	chart "helm.sh/helm/v4/pkg/chart/v2"
)

const schemaFile = "values.schema.json"

// checkSchemas checks the values against the schemas of the chart and its dependencies. Helm's own check
// is not used because it fetches whatever a schema refers to, from the network and from files.
func checkSchemas(ctx context.Context, ch *chart.Chart, values map[string]any) error {
	var problems strings.Builder
	if err := collectProblems(ctx, &problems, ch, values); err != nil {
		return err
	}
	if problems.Len() > 0 {
		return errors.New("values don't meet the specifications of the schema(s) in the following chart(s):\n" +
			problems.String())
	}
	return nil
}

func collectProblems(ctx context.Context, to *strings.Builder, ch *chart.Chart, values map[string]any) error {
	if ch.Schema != nil {
		schema, err := compileSchema(ctx, ch)
		if err != nil {
			return err
		}
		at(ctx, "%s: checking the values against it", schemaOf(ch))
		if err := schema.Validate(values); err != nil {
			var invalid *jsonschema.ValidationError
			if !errors.As(err, &invalid) {
				return fmt.Errorf("%s: %w", schemaOf(ch), err)
			}
			presentable(invalid)
			fmt.Fprintf(to, "%s:\n%s\n", ch.Name(), strings.ReplaceAll(withoutFirstLine(invalid.Error()), atUnplaced, ""))
		}
	}
	for _, dependency := range ch.Dependencies() {
		switch below := values[dependency.Name()].(type) {
		case nil:
		case map[string]any:
			if err := collectProblems(ctx, to, dependency, below); err != nil {
				return err
			}
		default:
			fmt.Fprintf(to, "%s:\nexpected an object of values, got %T\n", dependency.Name(), below)
		}
	}
	return nil
}

func compileSchema(ctx context.Context, ch *chart.Chart) (*jsonschema.Schema, error) {
	name := schemaOf(ch)
	if err := checkSize(name, len(ch.Schema)); err != nil {
		return nil, err
	}
	at(ctx, "%s: compiling it", name)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(ch.Schema))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	const url = schemaFolder + schemaFile
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(sealed{})
	if err := compiler.AddResource(url, document); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	schema, err := compiler.Compile(url)
	var outside *jsonschema.LoadURLError
	if errors.As(err, &outside) {
		return nil, fmt.Errorf("%s: $ref or $schema %q is not fetched, nothing outside of the file is: copy it into $defs, or leave the schema out of the chart",
			name, strings.TrimPrefix(outside.URL, schemaFolder))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return schema, nil
}

// schemaOf is where the chart has its schema.
func schemaOf(ch *chart.Chart) string { return ch.ChartFullPath() + "/" + schemaFile }

// schemaFolder is our made-up address of the folder of a schema.
const schemaFolder = "chart:///"

// errOutside is an address outside of the schema.
var errOutside = errors.New("not fetched")

// sealed loads nothing from outside the chart.
type sealed struct{}

// Load refuses every address but a urn, which Helm takes for a schema that accepts everything.
func (sealed) Load(url string) (any, error) {
	if strings.HasPrefix(url, "urn:") {
		return true, nil
	}
	return nil, errOutside
}

// presentable has an error say where values are, in order, and which rules they break. The library shows some of the values, too: one may be a password, and
// what refuses an operation is kept, and told to all who may see that. It goes over maps: the text is the same at each try only in order.
func presentable(e *jsonschema.ValidationError) {
	if must := broken(e.ErrorKind); must != "" {
		e.ErrorKind = &kind.Const{Want: must}
	}
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		slices.Sort(k.Properties)
	case *kind.PropertyNames:
		displace(e)
	}
	for _, cause := range e.Causes {
		presentable(cause)
	}
	slices.SortFunc(e.Causes, func(a, b *jsonschema.ValidationError) int {
		if at := slices.Compare(a.InstanceLocation, b.InstanceLocation); at != 0 {
			return at
		}
		return strings.Compare(a.Error(), b.Error())
	})
}

// unplaced is the place of an error that is told without one, which no value has. atUnplaced is how the library shows it.
const (
	unplaced   = "\x00"
	atUnplaced = `at '/\x00': `
)

// displace takes its place from an error about the name of a property: the library gives it that of another value at times. What is below
// is about the name itself, and has none.
func displace(e *jsonschema.ValidationError) {
	e.InstanceLocation = []string{unplaced}
	for _, cause := range e.Causes {
		displace(cause)
	}
}

// rule is what a value must be, which the library shows as it is: it quotes a string.
type rule string

// broken is the rule that a value breaks, "" for those of which the library shows no value.
func broken(k jsonschema.ErrorKind) rule {
	switch k := k.(type) {
	case *kind.Pattern:
		return rule(fmt.Sprintf("of the pattern '%s'", k.Want))
	case *kind.Format:
		return rule(fmt.Sprintf("of the format '%s'", k.Want))
	case *kind.ContentEncoding:
		return rule(fmt.Sprintf("of the encoding '%s'", k.Want))
	case *kind.ContentMediaType:
		return rule(fmt.Sprintf("of the media type '%s'", k.Want))
	case *kind.Minimum:
		return rule("at least " + number(k.Want))
	case *kind.Maximum:
		return rule("at most " + number(k.Want))
	case *kind.ExclusiveMinimum:
		return rule("more than " + number(k.Want))
	case *kind.ExclusiveMaximum:
		return rule("less than " + number(k.Want))
	case *kind.MultipleOf:
		return rule("a multiple of " + number(k.Want))
	default:
		return ""
	}
}

// number shows a number of a schema.
func number(n *big.Rat) string {
	f, _ := n.Float64()
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// withoutFirstLine cuts the library's heading, which names our made-up address of the schema.
func withoutFirstLine(text string) string {
	if _, rest, found := strings.Cut(text, "\n"); found {
		return rest
	}
	return text
}
