package nearest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// Twice finds the first member that a body, which is JSON, has twice: its path, and how its name was written the second time. Names of
// members of v, a pointer to a struct, match whatever their case, as encoding/json has it: it takes the last of them in silence, whatever somebody
// who looked at the body before has taken. Those of what v leaves open, such as labels, are others when their case is another.
func Twice(v any, body []byte) (path, again string, found bool) {
	_, path, again, found = Members(v, body, 0)
	return path, again, found
}

// Members is Twice, and gives the first members of the body that v does not have, but those that v calls foreign: at most so many, however many
// there are. Nothing is made of the others.
func Members(v any, body []byte, most int) (unknown []Stray, path, again string, twice bool) {
	s := &scan{body: body, most: most}
	if takes, ok := v.(foreigner); ok {
		s.foreign = takes.Foreign
	}
	s.value(reflect.TypeOf(v))
	return s.strays, strings.TrimPrefix(s.path, "."), s.again, s.found
}

// Half finds the first text of a body, which is JSON, that has half of a surrogate pair: its path, or that of the object whose member is called so, and
// the half. encoding/json puts U+FFFD into its place in silence.
func Half(body []byte) (path, half string, found bool) {
	if halfOf(body) == "" { // of nearly every body, and the whole is not gone through again
		return "", "", false
	}
	s := &scan{body: body, halves: true}
	s.value(nil)
	return strings.TrimPrefix(s.path, "."), s.again, s.found
}

// At is the path of the value of a body, which is JSON, that a decoder had read so many bytes up to: all of a text or a number, or what an object
// or a list begins with. "" for the body itself.
func At(body []byte, offset int64) (path string) {
	s := &scan{body: body, until: max(int(offset), 1)}
	s.value(nil)
	return strings.TrimPrefix(s.path, ".")
}

// halfOf is the first half of a surrogate pair in JSON, as it is written, "" for none.
func halfOf(text []byte) string {
	for i := 0; ; {
		at := bytes.IndexByte(text[i:], '\\')
		if at < 0 {
			return ""
		}
		i += at
		first, ok := escaped(text[i:])
		if !ok || !utf16.IsSurrogate(first) {
			i = min(i+2, len(text)) // what is escaped may be a backslash
			continue
		}
		if second, _ := escaped(text[i+6:]); utf16.DecodeRune(first, second) == utf8.RuneError {
			return string(text[i : i+6])
		}
		i += 12
	}
}

// escaped is the unit of UTF-16 with which a text begins, as JSON escapes it.
func escaped(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(unit), err == nil
}

// scan goes through JSON that was decoded before.
type scan struct {
	body        []byte
	at          int
	halves      bool   // it looks for those of surrogate pairs
	until       int    // it looks for the innermost value that begins before this place, and ends there or behind it; 0 for none
	path, again string // of what was found; path is made on the way out
	found       bool

	strays  []Stray // members that the type does not have, most of them at the most
	most    int
	foreign func(path string) bool // says of which of them it is no matter; nil for none
	trail   []step                 // to where it is, while strays are looked for
}

// step is one on the way into a document: a member of an object by name, or an element of a list by index.
type step struct {
	member bool
	name   string
	index  int
}

// enter and leave note the way.
func (s *scan) enter(next step) {
	if s.most > 0 {
		s.trail = append(s.trail, next)
	}
}

func (s *scan) leave() {
	if s.most > 0 {
		s.trail = s.trail[:len(s.trail)-1]
	}
}

// to is the path of a member of the object that it is in.
func (s *scan) to(name string) string {
	var b strings.Builder
	for _, step := range s.trail {
		if step.member {
			b.WriteString("." + step.name)
		} else {
			fmt.Fprintf(&b, "[%d]", step.index)
		}
	}
	b.WriteString("." + name)
	return strings.TrimPrefix(b.String(), ".")
}

// stray notes a member that a struct does not have.
func (s *scan) stray(t reflect.Type, name string) {
	if len(s.strays) >= s.most {
		return
	}
	m := Stray{Path: s.to(name)}
	if s.foreign != nil && s.foreign(m.Path) {
		return
	}
	if near := Name(name, memberNames(t)); near != "" {
		m.near = s.to(near)
	}
	s.strays = append(s.strays, m)
}

// few is how many names are compared with each other, before there is a map of them.
const few = 12

// next is the next byte that is no space, 0 at the end.
func (s *scan) next() byte {
	for s.at < len(s.body) {
		switch c := s.body[s.at]; c {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// value goes through one value, which is decoded to a type; nil for one that is not known.
func (s *scan) value(t reflect.Type) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	first, begun := s.next(), s.at
	switch first {
	case '{':
		s.object(t)
	case '[':
		s.array(t)
	case '"':
		s.half(s.text())
	default:
		s.word()
	}
	s.found = s.found || begun < s.until && s.until <= s.at
}

// word goes through a number, or what else has no quotes: one byte at the least, also of what is no JSON.
func (s *scan) word() {
	for s.at++; s.at < len(s.body); s.at++ {
		switch s.body[s.at] {
		case ',', ']', '}', ' ', '\t', '\n', '\r':
			return
		}
	}
}

// text goes through a string, and gives it with its quotes.
func (s *scan) text() []byte {
	begun := s.at
	for s.at++; s.at < len(s.body); s.at++ {
		switch s.body[s.at] {
		case '\\':
			s.at++
		case '"':
			s.at++
			return s.body[begun:s.at]
		}
	}
	s.at = len(s.body)
	return s.body[begun:]
}

// half looks at a text for half of a surrogate pair, where that is looked for.
func (s *scan) half(text []byte) {
	if s.halves {
		s.again = halfOf(text)
		s.found = s.again != ""
	}
}

func (s *scan) array(t reflect.Type) {
	var element reflect.Type
	if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		element = t.Elem()
	}
	s.at++
	for i := 0; s.next() != ']' && s.at < len(s.body); i++ {
		s.enter(step{index: i})
		if s.value(element); s.found {
			s.path = fmt.Sprintf("[%d]%s", i, s.path)
			return
		}
		s.leave()
		if s.next() == ',' {
			s.at++
		}
	}
	s.at++
}

func (s *scan) object(t reflect.Type) {
	var members map[string]member
	var of reflect.Type
	if t != nil {
		switch t.Kind() {
		case reflect.Struct:
			members = membersOf(t)
		case reflect.Map:
			of = t.Elem()
		default: // a type that decodes itself
		}
	}
	var one [few]string
	names, many := one[:0], map[string]bool(nil)
	s.at++
	for s.next() == '"' {
		quoted := s.text()
		if s.half(quoted); s.found {
			return
		}
		name := nameOf(quoted)
		key, inner := name, of
		if members != nil {
			if m, ok := memberOf(members, name); ok {
				key, inner = m.name, m.of
			} else {
				s.stray(t, name)
			}
		}
		if many == nil && len(names) == few {
			many = make(map[string]bool, 2*few)
			for _, n := range names {
				many[n] = true
			}
		}
		there := many[key]
		for i := 0; many == nil && i < len(names); i++ {
			there = there || names[i] == key
		}
		if there && !s.halves && s.until == 0 {
			s.path, s.again, s.found = "."+key, name, true
			return
		}
		if many != nil {
			many[key] = true
		} else {
			names = append(names, key)
		}
		if s.next() == ':' {
			s.at++
		}
		s.enter(step{member: true, name: name})
		if s.value(inner); s.found {
			s.path = "." + name + s.path
			return
		}
		s.leave()
		if s.next() == ',' {
			s.at++
		}
	}
	s.at++
}

// nameOf is a name as it is meant: what is escaped is another way to write the same, and so is what is no text.
func nameOf(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 && len(quoted) >= 2 && utf8.Valid(quoted) {
		return string(quoted[1 : len(quoted)-1])
	}
	var name string
	if json.Unmarshal(quoted, &name) != nil {
		return string(quoted)
	}
	return name
}

// member is one of a struct: its name as it is told, and its type.
type member struct {
	name string
	of   reflect.Type
}

// known are the members of structs by reflect.Type, each map by name: looking at the tags of a type takes longer than reading a small body.
var known sync.Map

func membersOf(t reflect.Type) map[string]member {
	if m, ok := known.Load(t); ok {
		return m.(map[string]member)
	}
	all := map[string]member{}
	for _, name := range memberNames(t) {
		all[name] = member{name, memberType(t, name)}
	}
	m, _ := known.LoadOrStore(t, all)
	return m.(map[string]member)
}

// memberOf is the member that encoding/json puts a name into.
func memberOf(all map[string]member, name string) (member, bool) {
	if m, ok := all[name]; ok {
		return m, true
	}
	for _, m := range all {
		if strings.EqualFold(m.name, name) {
			return m, true
		}
	}
	return member{}, false
}
