package nearest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Stray is a member that a document does not have: its path, and that of the one that may have been meant, if any.
type Stray struct {
	Path string // such as spec.replica
	near string
}

// Meant says what may have been meant, "" when nothing is near.
func (m Stray) Meant() string {
	if m.near == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", m.near)
}

// foreigner is a document that says which members it does not have, and are no mistake.
type foreigner interface{ Foreign(path string) bool }

// Unknown are the members of a document, as JSON decodes it, that v, a pointer to a struct, does not have, but those that v calls foreign.
// Names match whatever their case, as encoding/json has it. Of a body that somebody else has sent see Members, which makes nothing of what it goes through.
func Unknown(v, document any) []Stray {
	found := unknown(reflect.TypeOf(v), document, "")
	if takes, ok := v.(foreigner); ok {
		found = slices.DeleteFunc(found, func(m Stray) bool { return takes.Foreign(m.Path) })
	}
	return found
}

// unknown finds the members of a document that a type does not have, sorted within each object.
func unknown(t reflect.Type, document any, path string) []Stray {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var found []Stray
	switch d := document.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(d)) {
			at := strings.TrimPrefix(path+"."+name, ".")
			var member reflect.Type
			switch t.Kind() {
			case reflect.Map:
				member = t.Elem()
			case reflect.Struct:
				member = memberType(t, name)
			default: // a type that decodes itself
				continue
			}
			if member == nil {
				m := Stray{Path: at}
				if near := Name(name, memberNames(t)); near != "" {
					m.near = strings.TrimPrefix(path+"."+near, ".")
				}
				found = append(found, m)
				continue
			}
			found = append(found, unknown(member, d[name], at)...)
		}
	case []any:
		if t.Kind() != reflect.Slice {
			return nil
		}
		for i, x := range d {
			found = append(found, unknown(t.Elem(), x, fmt.Sprintf("%s[%d]", path, i))...)
		}
	}
	return found
}

// memberNames are those of the members of a struct.
func memberNames(t reflect.Type) []string {
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); f.IsExported() && tag != "-" && tag != "" {
			names = append(names, tag)
		}
	}
	return names
}

// memberType is the type of the member of a struct that encoding/json puts a name into; nil for none.
func memberType(t reflect.Type, name string) reflect.Type {
	for _, f := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || tag == "-" || tag == "" {
			continue // every member of a document has a tag
		}
		if strings.EqualFold(tag, name) {
			return f.Type
		}
	}
	return nil
}
