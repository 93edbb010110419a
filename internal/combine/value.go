package combine

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/drover-io/drover/internal/limits"
)

// class is what a value is, in the order in which values are sorted. Null is always the last.
type class uint8

const (
	isBool class = iota
	isNumber
	isString
	isTime // this and the next three are String cells
	isDuration
	isBytes
	isType
	isObject
	isArray
	isNull
)

// value is what an expression gave, as small as it can be kept: rows may be many.
type value struct {
	class  class
	text   string // of all but numbers, bools, times and nulls; JSON of objects and arrays
	number number // and of a bool 1 for true; of a time its seconds, of a duration its nanoseconds
	nanos  int32  // of a time, beside its seconds
}

var null = value{class: isNull}

// valueOf makes a value of what an expression gave: a value of CEL, or of Go as Decode has them.
func valueOf(v any) (value, error) {
	switch v := v.(type) {
	case nil:
		return null, nil
	case bool:
		return ofBool(v), nil
	case int64:
		return value{class: isNumber, number: integer(v)}, nil
	case float64:
		return ofDouble(v)
	case string:
		return ofText(isString, v)
	case time.Time:
		return ofTime(v), nil
	case uint64:
		return value{class: isNumber, number: ofRat(new(big.Rat).SetUint64(v), false)}, nil
	case json.Number:
		return ofDigits(v)
	case map[string]any:
		return ofJSON(isObject, v)
	case []any, []string:
		return ofJSON(isArray, v)
	case ref.Val:
		return ofVal(v)
	default:
		return null, errorText("is of type " + typeName(v) + ", which no cell can hold")
	}
}

func ofBool(b bool) value {
	if b {
		return value{class: isBool, number: integer(1)}
	}
	return value{class: isBool}
}

func ofDouble(f float64) (value, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return null, errorText("is " + strconv.FormatFloat(f, 'g', -1, 64) + ", which is no number")
	}
	return value{class: isNumber, number: double(f)}, nil
}

// ofDigits is a number that is too large for an int64.
func ofDigits(n json.Number) (value, error) {
	if len(n) > limits.Quantity {
		return null, errorText("is a number of " + strconv.Itoa(len(n)) + " digits, which is too large")
	}
	digits, ok := new(big.Int).SetString(n.String(), 10)
	if !ok { // it has an exponent
		return null, errorText("is the number " + n.String() + ", which is too large")
	}
	return value{class: isNumber, number: ofRat(new(big.Rat).SetInt(digits), false)}, nil
}

func ofText(c class, text string) (value, error) {
	if len(text) > limits.Cell {
		return null, tooLong(len(text))
	}
	return value{class: c, text: text}, nil
}

func tooLong(length int) error {
	return errorText("is " + strconv.Itoa(length) + " bytes long; a cell has at most " + strconv.Itoa(limits.Cell))
}

func ofTime(t time.Time) value {
	t = t.UTC()
	return value{class: isTime, number: integer(t.Unix()), nanos: int32(t.Nanosecond())}
}

// string is the value where it is a String cell.
func (v *value) string() string {
	if v.class == isTime {
		return time.Unix(v.number.small, int64(v.nanos)).UTC().Format(time.RFC3339Nano)
	}
	return v.text
}

func ofVal(v ref.Val) (value, error) {
	switch v := v.(type) {
	case types.Null:
		return null, nil
	case types.Bool:
		return ofBool(bool(v)), nil
	case types.Int:
		return value{class: isNumber, number: integer(int64(v))}, nil
	case types.Uint:
		return value{class: isNumber, number: ofRat(new(big.Rat).SetUint64(uint64(v)), false)}, nil
	case types.Double:
		return ofDouble(float64(v))
	case types.String:
		return ofText(isString, strings.Clone(string(v))) // it may be a part of a long one, which would be kept with it
	case types.Bytes:
		return ofText(isBytes, base64.StdEncoding.EncodeToString(v))
	case types.Timestamp:
		return ofTime(v.Time), nil
	case types.Duration:
		return value{class: isDuration, text: seconds(v.Duration), number: integer(int64(v.Duration))}, nil
	case *types.Optional:
		if !v.HasValue() {
			return null, nil
		}
		return ofVal(v.GetValue())
	case *types.Type:
		return ofText(isType, v.TypeName())
	case traits.Mapper:
		return ofJSON(isObject, v)
	case traits.Lister:
		return ofJSON(isArray, v)
	default:
		return null, errorText("is of type " + typeName(v) + ", which no cell can hold")
	}
}

// seconds writes a duration as CEL does: "5s", "1.5s".
func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s" }

func ofJSON(c class, v any) (value, error) {
	text, err := appendJSON(nil, v)
	if err == nil && len(text) > limits.Cell {
		err = tooLong(len(text))
	}
	if err != nil {
		return null, err
	}
	return value{class: c, text: string(text)}, nil
}

// appendJSON writes a value with its members sorted and its numbers as cells have them, at most limits.Cell bytes.
func appendJSON(to []byte, v any) ([]byte, error) {
	if len(to) > limits.Cell {
		return nil, errorText("is longer than " + strconv.Itoa(limits.Cell) + " bytes, the most that a cell has")
	}
	switch v := v.(type) {
	case map[string]any:
		return appendObject(to, v)
	case []any:
		return appendList(to, v)
	case []string:
		return appendList(to, v)
	case traits.Mapper:
		if native, ok := v.Value().(map[string]any); ok {
			return appendJSON(to, native)
		}
		members := map[string]any{}
		for i := v.Iterator(); i.HasNext() == types.True; {
			key := i.Next()
			name, ok := key.ConvertToType(types.StringType).(types.String)
			if _, twice := members[string(name)]; !ok || twice {
				return nil, errorText("is a map whose keys are no names of members")
			}
			members[string(name)] = v.Get(key)
		}
		return appendJSON(to, members)
	case traits.Lister:
		var items []any
		for i := v.Iterator(); i.HasNext() == types.True; {
			items = append(items, i.Next())
			if len(items) > limits.Cell {
				break
			}
		}
		return appendList(to, items)
	case *types.Optional:
		if v.HasValue() {
			return appendJSON(to, v.GetValue())
		}
		return append(to, "null"...), nil
	}
	one, err := valueOf(v)
	if err != nil {
		return nil, errorText("has in it what " + err.Error())
	}
	switch one.class {
	case isNull:
		return append(to, "null"...), nil
	case isBool:
		return strconv.AppendBool(to, one.number.small == 1), nil
	case isNumber:
		return append(to, one.number.String()...), nil
	default:
		return appendString(to, one.string()), nil
	}
}

func appendObject(to []byte, members map[string]any) (_ []byte, err error) {
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	to = append(to, '{')
	for i, name := range names {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(appendString(to, name), ':')
		if to, err = appendJSON(to, members[name]); err != nil {
			return nil, err
		}
	}
	return append(to, '}'), nil
}

func appendList[V any](to []byte, items []V) (_ []byte, err error) {
	to = append(to, '[')
	for i, item := range items {
		if i > 0 {
			to = append(to, ',')
		}
		if to, err = appendJSON(to, item); err != nil {
			return nil, err
		}
	}
	return append(to, ']'), nil
}

// appendString writes a string of JSON as encoding/json does.
func appendString(to []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			var b bytes.Buffer
			_ = json.NewEncoder(&b).Encode(text) // a string can be encoded
			return append(to, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
		}
	}
	to = append(to, '"')
	to = append(to, text...)
	return append(to, '"')
}

// compare is the order of values. Of two classes that of the first; nulls are last, and equal.
func (v *value) compare(w *value) int {
	if v.class != w.class {
		return cmp.Compare(v.class, w.class)
	}
	switch v.class {
	case isNull:
		return 0
	case isBool, isNumber, isDuration:
		return v.number.compare(w.number)
	case isTime:
		return cmp.Or(v.number.compare(w.number), cmp.Compare(v.nanos, w.nanos))
	default:
		return strings.Compare(v.text, w.text)
	}
}

// appendKey tells a value from every other that is not equal to it as CEL has it: 1 and 1.0 are equal, neither is "1".
func (v *value) appendKey(to []byte) []byte {
	to = append(to, byte('a'+v.class))
	text := v.string()
	switch v.class {
	case isBool, isDuration:
		text = v.number.String()
	case isNumber:
		text = v.number.key()
	default: // the text is all that there is
	}
	to = strconv.AppendInt(to, int64(len(text)), 10)
	to = append(to, ':')
	return append(to, text...)
}

// cell is the value as it is shown.
func (v *value) cell() Cell {
	switch v.class {
	case isNull:
		return Cell{Type: CellNull}
	case isBool:
		b := v.number.small == 1
		return Cell{Type: CellBool, Bool: &b}
	case isNumber:
		text := v.number.String()
		return Cell{Type: CellNumber, Float: &text}
	case isObject:
		return Cell{Type: CellObject, Object: json.RawMessage(v.text)}
	case isArray:
		return Cell{Type: CellArray, Array: json.RawMessage(v.text)}
	default:
		text := v.string()
		return Cell{Type: CellString, String: &text}
	}
}

// keeps is how many bytes it keeps beside itself.
func (v *value) keeps() int {
	if v.number.big != nil {
		return len(v.text) + (v.number.big.Num().BitLen()+v.number.big.Denom().BitLen())/8 + 100
	}
	return len(v.text)
}

// typeName is how CEL calls what the value is.
func (v *value) typeName() string {
	return [...]string{"bool", "number", "string", "timestamp", "duration", "bytes", "type", "map", "list", "null_type"}[v.class]
}
