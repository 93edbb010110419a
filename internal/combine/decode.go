package combine

import (
	"bytes"
	"encoding/json"
	"strconv"

	kjson "sigs.k8s.io/json"
)

// Decode reads an object from JSON as rows need it: whole numbers as int64, those that do not fit as uint64 or, with all their digits,
// as json.Number; others as float64, also where they are whole as 1.0 is, and those beyond all doubles as json.Number, too. No bytes, and
// the JSON null, are a nil object.
func Decode(data json.RawMessage) (map[string]any, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var object map[string]any
	if !hasLong(data) {
		err := kjson.UnmarshalCaseSensitivePreserveInts(data, &object)
		if err == nil || !json.Valid(data) {
			return object, err
		}
		object = nil // it may have a number that no double holds
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&object); err != nil {
		return nil, err
	}
	for name, v := range object {
		object[name] = numbers(v)
	}
	return object, nil
}

// hasLong says whether there are digits in a row that may be more than an int64 holds, in a number or a string.
func hasLong(data []byte) bool {
	const most = 18 // digits that every int64 holds
	run := 0
	for _, c := range data {
		if c < '0' || c > '9' {
			run = 0
		} else if run++; run > most {
			return true
		}
	}
	return false
}

// numbers puts numbers of Go in place of those of JSON.
func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = numbers(member)
		}
	case []any:
		for i, item := range v {
			v[i] = numbers(item)
		}
	case json.Number:
		return numberOf(v)
	}
	return v
}

func numberOf(n json.Number) any {
	if i, err := n.Int64(); err == nil {
		return i
	}
	if u, err := strconv.ParseUint(n.String(), 10, 64); err == nil {
		return u
	}
	f, err := n.Float64()
	if err != nil || isInteger(n.String()) {
		return n
	}
	return f
}

func isInteger(text string) bool {
	for i := range len(text) {
		if (text[i] < '0' || text[i] > '9') && (i > 0 || text[i] != '-') {
			return false
		}
	}
	return true
}
