package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/nearest"
)

// maxWarnings bounds how many unknown members are named, and how many warnings of an operation or a write.
const maxWarnings = 16

// receive reads the request's body as a document of the resource, and the files that came with it.
func receive(c echo.Context, r resource, parent domain.Key) (o domain.Object, sent sentForm, err error) {
	var body []byte
	if r.noun.File && (!r.keeps || !alone(c)) {
		if sent, err = form(c.Request()); errors.Is(err, http.ErrNotMultipart) && r.keeps && c.Request().Method == http.MethodPut {
			err = fail.Wrap(err, fail.Malformed, "%s, or application/json without the file", fail.TextOf(err))
		}
		if body = sent.metadata; err == nil && body == nil {
			err = fail.New(fail.Invalid, "Empty body: the part \"metadata\" is missing, which has the document as JSON")
		}
	} else {
		body, err = bodyOf(c)
	}
	if err != nil {
		return nil, sent, err
	}
	o = r.noun.New()
	unknown, err := read(c, body, o)
	if err == nil {
		parts, own := sent.strays(r.noun)
		strays := straysOf(unknown)
		for _, name := range parts {
			strays = append(strays, stray{cut(name, maxWarning), "part", fmt.Sprintf("; the parts of this form are \"metadata\" and %q", own)})
		}
		err = judge(c, strays)
	}
	if err != nil {
		return nil, sent, err
	}
	o.Base().Parent = parent
	return o, sent, nil
}

// What is done about members of a body, and parts of a form, that nobody knows, by the parameter fieldValidation, which is Kubernetes'.
const (
	fieldValidation = "fieldValidation"
	validateStrict  = "Strict" // refuse
	validateWarn    = "Warn"   // warn, which is the default
	validateIgnore  = "Ignore"
)

// stray is something in a request that nobody knows: a field, or a part of a form.
type stray struct {
	name, what string
	hint       string // what was meant, or what there is
}

// straysOf are fields that a body has, and its document has not.
func straysOf(unknown []nearest.Stray) (all []stray) {
	for _, m := range unknown {
		all = append(all, stray{m.Path, "field", m.Meant()})
	}
	return all
}

// judge refuses what nobody knows, warns of it or lets it be, as the request asks for.
func judge(c echo.Context, unknown []stray) error {
	switch how := c.QueryParam(fieldValidation); how {
	case validateIgnore:
	case validateStrict:
		var p fail.Problems
		for _, m := range unknown {
			p.Add(m.name, "unknown %s%s", m.what, m.hint)
		}
		return p.Err()
	case validateWarn, "":
		for _, m := range unknown {
			warn(c, "unknown %s %q%s", m.what, m.name, m.hint)
		}
	default:
		return fail.Query(fieldValidation, "%q; use %s, %s or %s", how, validateStrict, validateWarn, validateIgnore)
	}
	return nil
}

// alone says whether a PUT brings a document without its file, as JSON, as YAML or as what curl sends when nobody tells it the type.
func alone(c echo.Context) bool {
	r := c.Request()
	if r.Method != http.MethodPut {
		return false
	}
	untold, _ := c.Get(contextUntold).(bool)
	media, _, err := mime.ParseMediaType(r.Header.Get(echo.HeaderContentType))
	return untold || err == nil && (media == echo.MIMEApplicationJSON || media == mimeYAML)
}

// readAll reads at most limit bytes; more is Malformed.
func readAll(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, unreadable(err)
	}
	if int64(len(data)) > limit {
		return nil, tooLarge(limit)
	}
	return data, nil
}

func tooLarge(limit int64) error {
	return fail.New(fail.Malformed, "File Size Exceeds %d bytes", limit)
}

// unreadable classifies an error of reading a body.
func unreadable(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return tooLarge(large.Limit)
	}
	if full := (*fail.Error)(nil); errors.As(err, &full) {
		return full
	}
	if tooSlow(err) {
		return echo.NewHTTPError(http.StatusRequestTimeout, "the body does not come; nothing was done")
	}
	return fail.Wrap(err, fail.Malformed, "the body cannot be read")
}

// read is decode of a body that somebody has sent, for which there must be memory. Members that v does not have are not looked for where the
// request says that it is no matter.
func read(c echo.Context, body []byte, v any) (unknown []nearest.Stray, err error) {
	if err := room(c, body); err != nil {
		return nil, err
	}
	most := maxWarnings
	if c.QueryParam(fieldValidation) == validateIgnore {
		most = 0
	}
	return decode(body, v, most)
}

// byteOrderMark is what some editors begin a file with; a receiver may pass over it (RFC 8259, 8.1).
var byteOrderMark = []byte("\ufeff")

// decode reads JSON into v, a pointer to a struct. Members that v does not have are accepted, and so many of them are
// returned, but for those that v calls foreign. Names match whatever their case, as EMCO's clients expect. A member that is there
// twice is Invalid, and bytes that are no text are Malformed: what would be stored is not what was sent.
func decode(body []byte, v any, most int) (unknown []nearest.Stray, err error) {
	body = bytes.TrimRightFunc(bytes.TrimPrefix(body, byteOrderMark), unicode.IsSpace) // what is in front counts as lines
	if len(body) == 0 {
		return nil, fail.New(fail.Invalid, "Empty body")
	}
	err = json.Unmarshal(body, v)
	if errors.As(err, new(*json.SyntaxError)) {
		body = withoutBraces(body)
		err = json.Unmarshal(body, v)
	}
	if err != nil {
		return nil, undecodable(body, err)
	}
	return once(v, body, most)
}

// withoutBraces is a document without closing braces behind its end. Examples of EMCO's have one too many, and EMCO does not read on.
func withoutBraces(body []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(body))
	var value json.RawMessage
	if d.Decode(&value) != nil || len(bytes.Trim(body[d.InputOffset():], "} \t\r\n")) > 0 {
		return body
	}
	return value
}

// once refuses what is decoded to something else than was sent, and gives so many of the members that v does not have.
func once(v any, body []byte, most int) (unknown []nearest.Stray, err error) {
	if !utf8.Valid(body) {
		return nil, fail.New(fail.Malformed, "Invalid JSON: it is not UTF-8")
	}
	if path, half, found := nearest.Half(body); found {
		return nil, &fail.Error{Kind: fail.Malformed, Message: "Invalid JSON:", Fields: []fail.Field{{
			Path: cmp.Or(path, "body"), Message: half + " is half of a surrogate pair, and no text; send the character itself, or both halves",
		}}}
	}
	unknown, path, again, found := nearest.Members(v, body, most)
	if !found {
		return unknown, nil
	}
	var p fail.Problems
	if strings.HasSuffix(path, again) {
		p.Add(path, "is there twice")
	} else {
		p.Add(path, "is there twice, once as %q", again)
	}
	return nil, p.Err()
}

func undecodable(body []byte, err error) error {
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrong):
	case errors.As(err, &syntax):
		before := body[:min(max(syntax.Offset-1, 0), int64(len(body)))]
		return fail.Wrap(err, fail.Malformed, "Invalid JSON: line %d, byte %d: %s", 1+bytes.Count(before, []byte("\n")), len(before)-bytes.LastIndexByte(before, '\n'), err)
	default:
		return fail.Wrap(err, fail.Malformed, "Invalid JSON: %s", err)
	}
	return &fail.Error{Kind: fail.Malformed, Message: "Invalid JSON:", Cause: err, Fields: []fail.Field{{
		Path: cmp.Or(pathOf(body, wrong), "body"), Message: fmt.Sprintf("cannot be %s, must be %s", wrong.Value, jsonType(wrong.Type)),
	}}}
}

// pathOf is the path of a value of another type in a body, as the body has it. encoding/json names what is embedded, which is no member, and neither
// elements of lists nor members of maps. Where a type reads itself, the place is one in its own value, and encoding/json's path is all that there is.
func pathOf(body []byte, wrong *json.UnmarshalTypeError) string {
	path := nearest.At(body, wrong.Offset)
	if wrong.Field == "" {
		return path
	}
	named := wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:]
	if strings.Contains(strings.ToLower("."+strings.ReplaceAll(path, "[", ".")+"."), strings.ToLower("."+named+".")) {
		return path
	}
	return wrong.Field
}

// jsonType is what JSON calls values of a Go type.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Pointer:
		return "object"
	case reflect.Slice, reflect.Array:
		return "array"
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	default:
		return "integer"
	}
}
