package render

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"helm.sh/helm/v3/pkg/chart"
)

const schemaFile = "values.schema.json"

// checkSchemas checks the values against the schemas of the chart and its dependencies. Helm's own check
// is not used because it fetches whatever a schema refers to, from the network and from files.
func checkSchemas(ch *chart.Chart, values map[string]any) error {
	var problems strings.Builder
	if err := collectProblems(&problems, ch, values); err != nil {
		return err
	}
	if problems.Len() > 0 {
		return errors.New("values don't meet the specifications of the schema(s) in the following chart(s):\n" +
			problems.String())
	}
	return nil
}

func collectProblems(to *strings.Builder, ch *chart.Chart, values map[string]any) error {
	if ch.Schema != nil {
		schema, err := compileSchema(ch)
		if err != nil {
			return err
		}
		if err := schema.Validate(values); err != nil {
			fmt.Fprintf(to, "%s:\n%s\n", ch.Name(), withoutFirstLine(err.Error()))
		}
	}
	for _, dependency := range ch.Dependencies() {
		switch below := values[dependency.Name()].(type) {
		case nil:
		case map[string]any:
			if err := collectProblems(to, dependency, below); err != nil {
				return err
			}
		default:
			fmt.Fprintf(to, "%s:\nexpected an object of values, got %T\n", dependency.Name(), below)
		}
	}
	return nil
}

func compileSchema(ch *chart.Chart) (*jsonschema.Schema, error) {
	at := ch.ChartFullPath() + "/" + schemaFile
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(ch.Schema))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	const url = "chart:///" + schemaFile
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(sealed{})
	if err := compiler.AddResource(url, document); err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	schema, err := compiler.Compile(url)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return schema, nil
}

// sealed loads nothing from outside the chart.
type sealed struct{}

// Load refuses every address but a urn, which Helm takes for a schema that accepts everything.
func (sealed) Load(url string) (any, error) {
	if strings.HasPrefix(url, "urn:") {
		return true, nil
	}
	return nil, errors.New("schemas outside of the file are not fetched; copy it into $defs")
}

// withoutFirstLine cuts the library's heading, which names our made-up address of the schema.
func withoutFirstLine(text string) string {
	if _, rest, found := strings.Cut(text, "\n"); found {
		return rest
	}
	return text
}
