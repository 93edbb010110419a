package vary

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/yamlsize"
)

// Object reads the one object of a file in YAML or JSON. The error is Invalid: there is none, or there are several.
func Object(file []byte) (object map[string]any, err error) {
	if len(file) > limits.Etcd {
		return nil, fail.New(fail.Invalid, "it has %d bytes, and no object in a cluster has more than %d", len(file), limits.Etcd)
	}
	if err := yamlsize.Check(file, limits.Etcd); err != nil {
		return nil, err
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(file)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fail.Wrap(err, fail.Invalid, "it cannot be read as YAML: %s", unquoted(err))
		}
		data, err := yaml.YAMLToJSON(document)
		if err != nil {
			return nil, fail.Wrap(err, fail.Invalid, "it cannot be read as YAML: %s", unquoted(err))
		}
		if string(data) == "null" {
			continue
		}
		if object != nil {
			return nil, fail.New(fail.Invalid, "it has more than one document")
		}
		if object, err = decode(data); err != nil {
			return nil, fail.New(fail.Invalid, "it is not an object, but plain text or a sequence")
		}
	}
	if object == nil {
		return nil, fail.New(fail.Invalid, "there is no object in it")
	}
	return object, nil
}

// Template reads a template, and says which object it is. The error is Invalid.
func Template(file []byte) (apiVersion, kind, name string, err error) {
	object, err := Object(file)
	if err != nil {
		return "", "", "", err
	}
	id, err := identify(object)
	if err != nil {
		return "", "", "", fail.Wrap(err, fail.Invalid, "%s", fail.TextOf(err))
	}
	return version(id), id.Kind, id.Name, nil
}

// readPatch reads a JSON patch, which may be carried out many times. One that is too long was stored before there was a limit.
func readPatch(steps []domain.PatchStep) (jsonpatch.Patch, error) {
	if text := domain.TooManySteps(steps); text != "" {
		return nil, fail.New(fail.Malformed, "patchJson %s", text)
	}
	text, err := encode(steps)
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return nil, fail.Wrap(err, fail.Malformed, "patchJson cannot be read: %s", unquoted(err))
	}
	return patch, nil
}

// withValues is a patch with other values, by step.
func withValues(patch jsonpatch.Patch, values map[int]json.RawMessage) (jsonpatch.Patch, error) {
	patch = slices.Clone(patch)
	for i, v := range values {
		value, err := encode(v)
		if err != nil {
			return nil, err
		}
		patch[i] = maps.Clone(patch[i])
		if patch[i]["value"] = &value; string(value) == "null" {
			patch[i]["value"] = nil // as the library reads it
		}
	}
	return patch, nil
}

// patchJSON carries out a JSON patch (RFC 6902). Numbers are kept to the digit.
func patchJSON(object map[string]any, patch jsonpatch.Patch) (patched map[string]any, err error) {
	was, err := encode(object)
	if err != nil {
		return nil, err
	}
	defer func() { // the library panics where a test of the whole object has no value, which validation refuses
		if p := recover(); p != nil {
			patched, err = nil, fail.New(fail.Malformed, "patchJson does not fit the object")
		}
	}()
	options := jsonpatch.NewApplyOptions()
	options.AccumulatedCopySizeLimit = limits.Etcd
	options.EscapeHTML = false
	is, err := patch.ApplyWithOptions(was, options)
	if err != nil {
		return nil, fail.Wrap(err, fail.Malformed, "patchJson cannot be carried out: %s", unquoted(err))
	}
	if len(is) > limits.Etcd {
		return nil, fail.New(fail.Malformed, "patchJson makes an object of %d bytes, and none in a cluster has more than %d", len(is), limits.Etcd)
	}
	if patched, err = decode(is); err != nil {
		return nil, fail.New(fail.Malformed, "patchJson leaves no object")
	}
	return patched, nil
}

// merge carries out a strategic merge patch; on an object of which the kind is not built in, a JSON merge patch (RFC 7386), as
// kubectl does.
func merge(object, patch map[string]any) (patched map[string]any, err error) {
	id, err := identify(object)
	if err != nil {
		return nil, err
	}
	typed, err := scheme.Scheme.New(schema.GroupVersionKind{Group: id.Group, Version: id.Version, Kind: id.Kind})
	if err != nil {
		return mergeJSON(object, patch), nil
	}
	defer func() { // the library takes the shape of what it merges for granted
		if p := recover(); p != nil {
			patched, err = nil, fail.New(fail.Malformed, "the patch does not fit the object")
		}
	}()
	merged, err := strategicpatch.StrategicMergeMapPatch(plain(object).(map[string]any), plain(patch).(map[string]any), typed)
	if err != nil {
		return nil, fail.Wrap(err, fail.Malformed, "the patch cannot be carried out: %s", unquoted(err))
	}
	return merged, nil
}

// unquoted is the text of a library's error as far as it quotes nothing of a file or an object, which may be secret.
func unquoted(err error) string {
	text := err.Error()
	const noKey = "does not contain declared merge key"
	if i := strings.Index(text, noKey); i >= 0 {
		return "an item of a list " + text[i:]
	}
	for _, quotes := range []string{"map[", "`", "\n", "[{", "{\""} {
		text, _, _ = strings.Cut(text, quotes)
	}
	return strings.TrimRight(text, " :")
}

// plain has numbers as the library of merge patches compares them; those that would lose digits stay as they are.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = plain(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = plain(x)
		}
		return out
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil && strconv.FormatFloat(f, 'f', -1, 64) == v.String() {
			return f
		}
	}
	return v
}

// mergeJSON is RFC 7386.
func mergeJSON(object, patch map[string]any) map[string]any {
	out := make(map[string]any, len(object))
	for k, v := range object {
		out[k] = v
	}
	for k, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(out, k)
		case map[string]any:
			of, _ := out[k].(map[string]any)
			out[k] = mergeJSON(of, v)
		default:
			out[k] = v
		}
	}
	return out
}
