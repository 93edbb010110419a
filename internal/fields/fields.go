// Package fields finds the members of a manifest that its kind does not have, such as a misspelt spec.replica. It finds them in
// the warnings of an API server, or by the schemas that are at hand. It also says what the manifest is without them.
//
// A path is written as API servers write it in their warnings: "spec.template.spec.containers[0].command".
package fields

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-io/drover/internal/plan"
)

// named is how strict decoding names a field, in a refusal that lists all of them and in warnings
// (sigs.k8s.io/json; apiextensions, apiserver/schema/pruning).
var named = regexp.MustCompile(`unknown field ("(?:[^"\\]|\\.)*")`)

// Named are the paths of the unknown fields that a message of strict decoding names.
func Named(message string) (paths []string) {
	for _, m := range named.FindAllStringSubmatch(message, -1) {
		if path, err := strconv.Unquote(m[1]); err == nil && path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}

// undeclared ends the lines of a refusal of server-side apply (structured-merge-diff, typed/validate.go).
const undeclared = ": field not declared in schema"

// Undeclared are the paths of the unknown fields that a refusal of server-side apply names: one of each object, as it
// stops at the first. Elements of lists are named by their keys: "spec.containers[name=\"main\"].command".
func Undeclared(message string) (paths []string) {
	for line := range strings.Lines(message) {
		path, ok := strings.CutSuffix(strings.TrimRight(line, "\r\n"), undeclared)
		if !ok {
			continue
		}
		// A refusal of one field has it in its first line, behind the object: "failed to … object (…): .spec.a". Kubernetes 1.22 and older do not say
		// there of which object.
		if strings.HasPrefix(path, "failed to ") {
			_, after, found := strings.Cut(path, ": .")
			if !found {
				continue
			}
			path = "." + after
		}
		if path = strings.TrimSpace(path); strings.HasPrefix(path, ".") {
			paths = append(paths, path[1:])
		}
	}
	return paths
}

// Without is the manifest without the members at the paths, and which of them it had, sorted, with elements of lists by
// their index. Numbers are kept to the digit. An error is Invalid: the manifest is not an object.
func Without(manifest []byte, paths []string) (rest []byte, gone []string, err error) {
	object, err := plan.DecodeObject(manifest)
	if err != nil {
		return nil, nil, err
	}
	for _, path := range paths {
		gone = append(gone, remove(object, "."+path, "")...)
	}
	if gone == nil {
		return manifest, nil, nil
	}
	slices.Sort(gone)
	rest, err = json.Marshal(object)
	return rest, slices.Compact(gone), err
}

// Missing are the paths of what was sent and is not in the object that a cluster has made of it, sorted. What is empty
// says nothing, and is not looked for; nor are members of lists that are longer or shorter than they were sent, as others
// have written into them.
func Missing(sent, made []byte) []string {
	is, err := plan.DecodeObject(sent)
	if err != nil {
		return nil
	}
	got, err := plan.DecodeObject(made)
	if err != nil {
		return nil
	}
	for _, name := range append([]string{"status"}, identity...) { // a status is written by others
		delete(is, name)
	}
	paths := missing(is, got, "")
	slices.Sort(paths)
	return paths
}

func missing(sent, made any, at string) (paths []string) {
	switch sent := sent.(type) {
	case map[string]any:
		got, ok := made.(map[string]any)
		if !ok {
			return nil
		}
		for name, value := range sent {
			here := strings.TrimPrefix(at+"."+name, ".")
			switch member, ok := got[name]; {
			case ok:
				paths = append(paths, missing(value, member, here)...)
			case !empty(value):
				paths = append(paths, here)
			}
		}
	case []any:
		got, ok := made.([]any)
		if !ok || len(got) != len(sent) {
			return nil
		}
		for i := range sent {
			paths = append(paths, missing(sent[i], got[i], at+"["+strconv.Itoa(i)+"]")...)
		}
	default: // a scalar has no members
	}
	return paths
}

// empty says whether a value is one that may be left out.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case json.Number:
		return v == "0"
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	default:
		return false
	}
}

// remove takes out what the path leads to from v, which stands at a path itself, and says what that was. Names may have
// dots in them: the longest one that is there is meant.
func remove(v any, path, at string) (gone []string) {
	switch v := v.(type) {
	case map[string]any:
		rest, ok := strings.CutPrefix(path, ".")
		if !ok {
			return nil
		}
		for _, name := range begins(v, rest) {
			tail, here := rest[len(name):], strings.TrimPrefix(at+"."+name, ".")
			if tail == "" {
				delete(v, name)
				return []string{here}
			}
			if gone = remove(v[name], tail, here); gone != nil {
				return gone
			}
		}
	case []any:
		is, tail, ok := selector(path)
		if !ok {
			return nil
		}
		for i := range v {
			if is(i, v[i]) {
				gone = append(gone, remove(v[i], tail, at+"["+strconv.Itoa(i)+"]")...)
			}
		}
	default: // a scalar has no members
	}
	return gone
}

// begins are the names of members with which the path begins, the longest first.
func begins(members map[string]any, path string) (names []string) {
	for name := range members {
		if tail, ok := strings.CutPrefix(path, name); ok && (tail == "" || tail[0] == '.' || tail[0] == '[') {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	return names
}

// selector reads the element of a list with which the path begins: "[3]", or "[name=\"a\",port=80]". A key that an
// element does not have is one that the schema has a default for.
func selector(path string) (is func(i int, element any) bool, tail string, ok bool) {
	path, ok = strings.CutPrefix(path, "[")
	if !ok {
		return nil, "", false
	}
	if digits, tail, ok := strings.Cut(path, "]"); ok {
		if n, err := strconv.Atoi(digits); err == nil {
			return func(i int, _ any) bool { return i == n }, tail, true
		}
	}
	keys := map[string]string{}
	for {
		name, rest, ok := strings.Cut(path, "=")
		if !ok {
			return nil, "", false
		}
		end := strings.IndexAny(rest, ",]")
		value := rest[:max(end, 0)]
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			end = len(quoted)
			if value, err = strconv.Unquote(quoted); err != nil {
				return nil, "", false
			}
		}
		if end < 0 || end >= len(rest) {
			return nil, "", false
		}
		keys[name] = value
		path = rest[end+1:]
		if rest[end] == ']' {
			return func(_ int, element any) bool { return hasKeys(element, keys) }, path, true
		}
	}
}

func hasKeys(element any, keys map[string]string) bool {
	members, ok := element.(map[string]any)
	if !ok {
		return false
	}
	for name, value := range keys {
		if is, ok := members[name]; ok && fmt.Sprint(is) != value {
			return false
		}
	}
	return true
}
