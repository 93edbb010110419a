package explore

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
)

// follows are the states that may come after a state in a history, as EMCO's documentation and docs/concepts.md have them; it is
// not the product's own table.
var follows = map[domain.State][]domain.State{
	domain.Created:            {domain.Approved, domain.Terminated},
	domain.Approved:           {domain.Instantiated, domain.Created, domain.Terminated},
	domain.Instantiated:       {domain.Updated, domain.InstantiateStopped, domain.Terminated},
	domain.InstantiateStopped: {domain.Updated, domain.Terminated},
	domain.Terminated:         {domain.TerminateStopped, domain.Instantiated, domain.Approved, domain.Created, domain.Terminated},
	domain.TerminateStopped:   {domain.Terminated, domain.Instantiated, domain.Created},
	domain.Updated:            {domain.Instantiated, domain.Approved, domain.Created},
}

// cloudFollows is follows for logical clouds of level 1.
var cloudFollows = map[domain.State][]domain.State{
	domain.Created:            {domain.Instantiated},
	domain.Instantiated:       {domain.Updated, domain.InstantiateStopped, domain.Terminated},
	domain.Updated:            {domain.Updated, domain.InstantiateStopped, domain.Terminated},
	domain.InstantiateStopped: {domain.Updated, domain.Terminated},
	domain.Terminated:         {domain.TerminateStopped, domain.Instantiated, domain.Terminated},
	domain.TerminateStopped:   {domain.Terminated, domain.Instantiated},
}

// networkFollows is follows for the network intents of a cluster.
var networkFollows = map[domain.State][]domain.State{
	domain.Created:            {domain.Applied},
	domain.Applied:            {domain.InstantiateStopped, domain.Terminated},
	domain.InstantiateStopped: {domain.Terminated},
	domain.Terminated:         {domain.TerminateStopped, domain.Applied, domain.Terminated},
	domain.TerminateStopped:   {domain.Terminated, domain.Applied},
}

// may says whether an operation is to be accepted of a group that nothing goes on with: "yes", "no", or "" where it depends on more.
func may(do string, state domain.State, at domain.ContextStatus, other domain.State) string {
	is := func(states ...domain.State) string {
		if slices.Contains(states, state) {
			return "yes"
		}
		return "no"
	}
	switch do {
	case "approve":
		return is(domain.Created, domain.Approved, domain.Terminated, domain.Updated)
	case "instantiate":
		return is(domain.Approved, domain.Terminated, domain.TerminateStopped)
	case "terminate":
		if at == domain.ContextTerminateFailed && state != domain.Updated {
			return "yes"
		}
		return is(domain.Instantiated, domain.InstantiateStopped)
	case "update", "reapply":
		return is(domain.Instantiated, domain.InstantiateStopped)
	case "stop":
		return "no"
	case "change":
		return "yes"
	case "migrate":
		if other != domain.Approved {
			return "no"
		}
		return is(domain.Instantiated, domain.InstantiateStopped)
	case "rollback":
		if is(domain.Instantiated, domain.InstantiateStopped) == "no" {
			return "no"
		}
	}
	return ""
}

// jobs are the words of sequences for how a Job ends.
var jobs = map[string]string{"": "", "ends": "Complete 100ms", "slow": "Complete 3s", "fails": "Failed 100ms"}

// isHook says whether a resource of a name is a hook.
func isHook(name string) bool {
	last := name[strings.LastIndex(name, "-")+1:]
	return slices.Contains([]string{"before", "after", "job", "gone"}, last)
}

// isOfTerminate says whether a resource of a name is a hook of a terminate. One that was stopped may leave it, until the next one.
func isOfTerminate(name string) bool {
	return strings.HasSuffix(name, "-after") || strings.HasSuffix(name, "-gone")
}

// isKept says whether a resource of a name stays in its cluster when nobody wants it any more.
func isKept(name string) bool { return strings.HasSuffix(name, "-kept") }

// description is what a user has said of a group: how many ConfigMaps the app one has, on which clusters, and what all of them say.
type description struct {
	n    int
	on   string // "13" for the first and the third; "edge" for those that carry the label
	says string
	job  string // how the Job ends that is a hook of the app two, as fleet.JobEnds has it; "" for no Job
	with string // what the app one has, too: "fixed" for a ConfigMap that cannot be changed, "crd" for an object of a kind of its own
}

// places are the clusters of app one, from 0.
func (d description) places() (on []int) {
	for i := range clustersEach {
		if d.on == "edge" || strings.ContainsRune(d.on, rune('1'+i)) {
			on = append(on, i)
		}
	}
	return on
}

// contents is what clusters have: what it says, by "place/name".
type contents map[string]string

// wanted is what is to be in the clusters for a group and nothing else: what a has of the app two, b has of three.
func (d description) wanted(group, release string) contents {
	c := contents{}
	put := func(place int, app, name, says string) {
		c[fmt.Sprintf("%d/%s-%s-%s", place, release, app, name)] = says
	}
	for _, place := range d.places() {
		for i := range d.n {
			put(place, "one", fmt.Sprint(i), d.says)
		}
		switch d.with {
		case "fixed":
			put(place, "one", "fixed", d.says)
		case "crd":
			put(place, "one", "things."+release+".example.com", d.says)
			put(place, "one", "thing", d.says)
		}
	}
	if group == "a" {
		for place := range clustersEach {
			put(place, "two", "0", d.says)
			put(place, "two", "before", "hook")
			if d.job != "" {
				put(place, "two", "job", "hook")
			}
		}
	} else {
		for place := range 2 {
			put(place, "three", "0", d.says)
			put(place, "three", "kept", d.says)
		}
	}
	return c
}

// differs says in what two differ, "" when they do not.
func (c contents) differs(want contents) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if says, ok := c[name]; !ok {
			words = append(words, name+" is missing")
		} else if says != want[name] {
			words = append(words, fmt.Sprintf("%s says %q, not %q", name, says, want[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if _, ok := want[name]; !ok && !isKept(name) && !isOfTerminate(name) {
			words = append(words, name+" is not wanted")
		}
	}
	return strings.Join(words, "; ")
}

// illegal says what is wrong with a history where it is said what may follow each state, "" for nothing.
func illegal(actions []domain.Action, follows map[domain.State][]domain.State) string {
	for i, a := range actions {
		switch {
		case i == 0 && a.State != domain.Created:
			return "it does not begin with Created"
		case i > 0 && !slices.Contains(follows[actions[i-1].State], a.State):
			return fmt.Sprintf("%s follows %s", a.State, actions[i-1].State)
		}
	}
	return ""
}

// extends says whether a history has another one as its beginning.
func extends(later, earlier []domain.Action) bool {
	if len(later) < len(earlier) {
		return false
	}
	for i, a := range earlier {
		if b := later[i]; a.State != b.State || a.ContextID != b.ContextID || !a.Time.Equal(b.Time) {
			return false
		}
	}
	return true
}

func spell(actions []domain.Action) string {
	words := make([]string, len(actions))
	for i, a := range actions {
		words[i] = string(a.State)
	}
	return strings.Join(words, ", ")
}
