package match

import (
	"strconv"

	"github.com/drover-io/drover/internal/domain"
)

// View is a workload as keys see it:
//
//	{"metadata": {"id", "orchestrator", "resourceType", "resourceNamespace", "resourceName"},
//	 "state": {"nodeName", "ready", "extra": {"labels": {}, "annotations": {}}}}
//
// An empty text of metadata or state is not there. The labels and annotations always are, be they empty. For a rule of the
// operator, metadata has tenantId too.
type View struct{ root map[string]any }

// ViewOf is how a rule sees a workload; operators says that it is a rule of the operator.
func ViewOf(w *domain.Workload, operators bool) View {
	metadata := map[string]any{}
	set := func(in map[string]any, name, value string) {
		if value != "" {
			in[name] = value
		}
	}
	set(metadata, "id", w.ID)
	set(metadata, "orchestrator", string(w.Orchestrator))
	set(metadata, "resourceType", w.ResourceType)
	set(metadata, "resourceNamespace", w.ResourceNamespace)
	set(metadata, "resourceName", w.ResourceName)
	if operators {
		set(metadata, "tenantId", w.Tenant)
	}
	extra := make(map[string]any, len(w.Extra)+2)
	extra[domain.ExtraLabels], extra[domain.ExtraAnnotations] = map[string]string{}, map[string]string{}
	for name, data := range w.Extra {
		if data == nil {
			data = map[string]string{}
		}
		extra[name] = data
	}
	state := map[string]any{"ready": w.Ready, "extra": extra}
	set(state, "nodeName", w.NodeName)
	return View{map[string]any{"metadata": metadata, "state": state}}
}

// Value is what is at a key: a text, a map, or nothing.
type Value struct {
	Present bool   // else it is absent
	Map     bool   // else it is a text
	Text    string // a map as compact JSON with sorted keys is made by Value.String alone
	value   any
}

// At is the value at a key.
func (v View) At(key Key) Value {
	var at any = v.root
	for i, name := range key {
		var found bool
		switch in := at.(type) {
		case map[string]any:
			at, found = in[name]
		case map[string]string:
			if text, is := in[name]; is && i == len(key)-1 {
				return Value{Present: true, Text: text}
			}
		}
		if !found {
			return Value{}
		}
	}
	switch x := at.(type) {
	case string:
		return Value{Present: true, Text: x}
	case bool:
		return Value{Present: true, Text: strconv.FormatBool(x)}
	default:
		return Value{Present: true, Map: true, value: x}
	}
}

// String is the value as an annotation has it: a text raw, a map as compact JSON with sorted keys; "" for nothing.
func (v Value) String() string {
	if !v.Map {
		return v.Text
	}
	return string(encode(v.value))
}

// holds is the table of issue 13: what an operation says of a value.
func (e *expression) holds(v Value) bool {
	text := v.Present && !v.Map
	op, values := e.Operation, e.Values
	switch op {
	case domain.OperationIn:
		return text && e.has(v.Text)
	case domain.OperationNotIn:
		return !text || !e.has(v.Text)
	case domain.OperationExists:
		return v.Present
	case domain.OperationDoesNotExist:
		return !v.Present
	case domain.OperationGt, domain.OperationLt:
		if !text || len(values) != 1 {
			return false
		}
		have, err := strconv.ParseInt(v.Text, 10, 64)
		if err != nil {
			return false
		}
		bound, err := strconv.ParseInt(values[0], 10, 64)
		if err != nil {
			return false
		}
		return op == domain.OperationGt && have > bound || op == domain.OperationLt && have < bound
	default:
		return false
	}
}

// encode is compact JSON with sorted keys, and without HTML's escapes.
func encode(v any) []byte {
	data, err := marshal(v)
	if err != nil { // maps of texts, numbers and lists of them: there is nothing that JSON has not
		panic(err)
	}
	return data
}
