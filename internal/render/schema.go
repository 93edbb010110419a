package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
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
			fmt.Fprintf(to, "%s:\n%s\n", ch.Name(), withoutFirstLine(err.Error()))
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

// withoutFirstLine cuts the library's heading, which names our made-up address of the schema.
func withoutFirstLine(text string) string {
	if _, rest, found := strings.Cut(text, "\n"); found {
		return rest
	}
	return text
}
