package api

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/nearest"
)

// parameters are those of the endpoint's query.
func (p endpoint) parameters() []parameter {
	if p.in == nil {
		return p.query
	}
	return append(slices.Clip(p.query), validationQuery)
}

// maxWrong is how many parameters a refusal names.
const maxWrong = 20

// checkQuery refuses a query that has parameters which the endpoint does not know, several values of one that has one, values that one does not
// have, and what cannot be read: a filter that is ignored shows what nobody has asked for (decision 0040).
func (p endpoint) checkQuery(u *url.URL) error {
	if u.RawQuery == "" {
		return nil
	}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil { // Go leaves out what it cannot read
		return fail.New(fail.Invalid, "Invalid query: %s; escape what has a meaning there, such as %% as %%25 and ; as %%3B", err)
	}
	var wrong fail.Problems
	left := maxWrong
	for _, name := range slices.Sorted(maps.Keys(values)) {
		text := p.wrong(name, values[name])
		if text == "" {
			continue
		}
		if left--; left < 0 {
			wrong.Add("query", "there are more")
			break
		}
		wrong.Add(cut(name, maxWarning), "%s", text)
	}
	if err := wrong.Err(); err != nil {
		return err
	}
	for _, k := range p.parameters() {
		for _, value := range values[k.name] {
			if use := k.instead(value); use != "" {
				return fail.Query(k.name, "%q; %s", cut(value, maxWarning), use)
			}
		}
	}
	return nil
}

// instead says what to use in place of a value that the parameter does not have, "" for one that it may have. Another way to write true or false, such as
// 1, is the handler's to judge.
func (k parameter) instead(value string) string {
	switch {
	case k.filled && value == "":
		return "say what is meant, or leave it out"
	case k.flag:
		if on, err := strconv.ParseBool(value); value == "" || err == nil && on {
			return ""
		}
		return "it needs no value; leave it out where it is not meant"
	case len(k.enum) == 0 || slices.Contains(k.enum, value):
		return ""
	case slices.Equal(k.enum, truths):
		if _, err := strconv.ParseBool(value); err == nil {
			return ""
		}
	case len(k.enum) == 1:
		return "use " + k.enum[0] + ", or leave it out"
	}
	last := len(k.enum) - 1
	return "use " + strings.Join(k.enum[:last], ", ") + " or " + k.enum[last]
}

// truths are the values of a parameter that says yes or no.
var truths = []string{"true", "false"}

// overruled are the parameters of which the last value counts, and another one was given, too.
func (p endpoint) overruled(u *url.URL) (names []string) {
	values := u.Query()
	for _, k := range p.query {
		if of := values[k.name]; k.lastCounts && len(slices.Compact(slices.Clone(of))) > 1 {
			names = append(names, k.name)
		}
	}
	return names
}

// flags are those that a query has, in the order of the endpoint's.
func (p endpoint) flags(u *url.URL) (names []string) {
	values := u.Query()
	for _, k := range p.query {
		if k.flag && values.Has(k.name) {
			names = append(names, k.name)
		}
	}
	return names
}

// idle says which parameters of a query do nothing beside others. Of several flags the first one counts.
func (p endpoint) idle(u *url.URL) (texts []string) {
	values, listed := u.Query(), false
	for _, k := range p.query {
		if !values.Has(k.name) || k.flag && listed {
			continue
		}
		listed = listed || k.flag
		for _, name := range k.ignores {
			if values.Has(name) {
				texts = append(texts, name+" is given; beside "+k.name+" it does nothing")
			}
		}
	}
	return texts
}

// wrong says what is wrong with a parameter, "" for nothing.
func (p endpoint) wrong(name string, values []string) string {
	known := p.parameters()
	at := slices.IndexFunc(known, func(k parameter) bool { return k.name == name })
	if at >= 0 {
		if len(values) > 1 && !known[at].repeats && !known[at].lastCounts {
			return "is given several times; one value is meant"
		}
		for _, value := range values {
			if !utf8.ValidString(value) { // which no store finds, and some cannot even look for
				return fmt.Sprintf("%q is no text in UTF-8", cut(value, maxWarning))
			}
		}
		return ""
	}
	names := namesOf(known)
	slices.Sort(names)
	text := "is no parameter of this request"
	if near := nearest.Name(name, names); near != "" {
		text += ", did you mean " + near + "?"
	}
	if len(names) == 0 {
		return text + ", which has none"
	}
	return text + "; those that it has: " + strings.Join(names, ", ")
}
