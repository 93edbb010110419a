package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

// printer prints values in a form that the user has asked for, as kubectl's do.
type printer struct {
	form string // "", wide, name, json, yaml or jsonpath
	path *jsonpath.JSONPath
}

const aboutOutput = "the `form`: table (or nothing), wide, name, json, yaml or jsonpath=TEMPLATE"

func newPrinter(form string) (*printer, error) {
	switch form {
	case "", "table":
		return &printer{}, nil
	case "wide", "name", "json", "yaml":
		return &printer{form: form}, nil
	}
	text, ok := strings.CutPrefix(form, "jsonpath=")
	if !ok {
		return nil, usage("-o %s is none of table, wide, name, json, yaml and jsonpath=TEMPLATE", form)
	}
	switch {
	case text == "": // as of a variable that is not set
		return nil, usage("-o %s needs a template, such as jsonpath={.metadata.name}", form)
	case text == ".", text == "{.}": // the whole, to who knows jq; kubectl's library looks for a member without a name, and prints nothing
		text = "{@}"
	case !strings.Contains(text, "{"): // kubectl takes .metadata.name too
		text = "{." + strings.TrimPrefix(text, ".") + "}"
	}
	path := jsonpath.New("output").AllowMissingKeys(true)
	if err := path.Parse(text); err != nil {
		return nil, usage("-o %s: %w", form, err)
	}
	return &printer{form: "jsonpath", path: path}, nil
}

// newValuePrinter is of what is told in words, or is a value for programs: it has no table, and no names.
func newValuePrinter(form string) (*printer, error) {
	if form != "" && form != "json" && form != "yaml" && !strings.HasPrefix(form, "jsonpath=") {
		return nil, usage("-o %s is none of json, yaml and jsonpath=TEMPLATE", form)
	}
	return newPrinter(form)
}

// people says whether people read it.
func (p *printer) people() bool { return p.form == "" || p.form == "wide" }

// next prints a value of a stream: as one line of JSON, as a document of YAML, or what the path finds in it.
func (p *printer) next(out io.Writer, v any) error {
	switch p.form {
	case "json":
		return json.NewEncoder(forPrograms(out)).Encode(v)
	case "yaml":
		if _, err := io.WriteString(out, "---\n"); err != nil {
			return err
		}
	}
	return p.value(out, v)
}

// value prints a value as JSON, as YAML or what the path finds in it.
func (p *printer) value(out io.Writer, v any) error {
	out = forPrograms(out)
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	switch p.form {
	case "yaml":
		text, err := yaml.JSONToYAML(data)
		if err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		_, err = out.Write(text)
		return err
	case "jsonpath":
		var plain any
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if err := d.Decode(&plain); err != nil {
			return fmt.Errorf("decode: %w", err)
		}
		var b bytes.Buffer
		if err := p.path.Execute(&b, numbers(plain)); err != nil {
			return usage("jsonpath: %w", err)
		}
		if b.Len() > 0 && b.Bytes()[b.Len()-1] != '\n' {
			b.WriteByte('\n')
		}
		_, err := out.Write(b.Bytes())
		return err
	default:
		var b bytes.Buffer
		if err := json.Indent(&b, data, "", "  "); err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		b.WriteByte('\n')
		_, err := out.Write(b.Bytes())
		return err
	}
}

// numbers is a value with its numbers as such, since an expression of jsonpath compares numbers with nothing else. Those that are whole stay so.
func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, of := range v {
			v[name] = numbers(of)
		}
	case []any:
		for i, of := range v {
			v[i] = numbers(of)
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if n, err := v.Float64(); err == nil {
			return n
		}
	}
	return v
}
