package render

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"
	"sync"
	"text/template"

	"github.com/BurntSushi/toml"
	"github.com/Masterminds/sprig/v3"
	"sigs.k8s.io/yaml"
	goyaml "sigs.k8s.io/yaml/goyaml.v3"
)

// functions are Helm's: sprig's without those that read the environment or the network, and conversions
// that swallow errors, as charts expect them to. The engine binds include, tpl and lookup itself.
var functions = sync.OnceValue(func() template.FuncMap {
	f := sprig.TxtFuncMap()
	delete(f, "env")
	delete(f, "expandenv")
	own := template.FuncMap{
		"getHostByName": func(string) string { return "" },
		"required":      required,
		"fail":          func(text string) (string, error) { return "", refusal{text} },
		"toYaml":        toYAML,
		"mustToYaml":    mustToYAML,
		"toYamlPretty":  toYAMLPretty,
		"fromYaml":      parseMap(yamlInto),
		"fromYamlArray": parseArray(yamlInto),
		"toJson":        toJSON,
		"mustToJson":    mustToJSON,
		"fromJson":      parseMap(json.Unmarshal),
		"fromJsonArray": parseArray(json.Unmarshal),
		"toToml":        toTOML,
		"mustToToml":    mustToTOML,
		"fromToml":      parseMap(toml.Unmarshal),
	}
	maps.Copy(f, own)
	return f
})

// required gives v back unless it is nil or "".
func required(text string, v any) (any, error) {
	if v == nil || v == "" {
		return v, refusal{text}
	}
	return v, nil
}

func yamlInto(data []byte, to any) error { return yaml.Unmarshal(data, to) }

// parseMap makes a function that reads a map; where it cannot, the map holds the reason as "Error".
func parseMap(unmarshal func([]byte, any) error) func(string) map[string]any {
	return func(text string) map[string]any {
		m := map[string]any{}
		if err := unmarshal([]byte(text), &m); err != nil {
			m["Error"] = err.Error()
		}
		return m
	}
}

// parseArray makes a function that reads a list; where it cannot, the list holds the reason.
func parseArray(unmarshal func([]byte, any) error) func(string) []any {
	return func(text string) []any {
		a := []any{}
		if err := unmarshal([]byte(text), &a); err != nil {
			a = []any{err.Error()}
		}
		return a
	}
}

func toYAML(v any) string {
	text, _ := mustToYAML(v)
	return text
}

func mustToYAML(v any) (string, error) {
	data, err := yaml.Marshal(v)
	return strings.TrimSuffix(string(data), "\n"), err
}

func toYAMLPretty(v any) string {
	var data bytes.Buffer
	encoder := goyaml.NewEncoder(&data)
	encoder.SetIndent(2)
	if err := encoder.Encode(v); err != nil {
		return ""
	}
	return strings.TrimSuffix(data.String(), "\n")
}

func toJSON(v any) string {
	text, _ := mustToJSON(v)
	return text
}

func mustToJSON(v any) (string, error) {
	data, err := json.Marshal(v)
	return string(data), err
}

func toTOML(v any) string {
	text, err := mustToTOML(v)
	if err != nil {
		return err.Error()
	}
	return text
}

func mustToTOML(v any) (string, error) {
	var data bytes.Buffer
	err := toml.NewEncoder(&data).Encode(v)
	return data.String(), err
}
