package audit

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/when"
)

// Filter is which records are asked for; a zero member lets everything pass.
type Filter struct {
	Who      string // the name of who asked, or its kind and its name: "user alice@example.org"
	Noun     string
	Verb     string
	Outcome  string
	Event    Event
	Key      string // of what it is about; what is below it passes, too
	Workflow string
	From, To time.Time

	scope string    // what was made
	made  time.Time // at this time
}

// Since leaves out what was before a document was made, whose records alone are asked for: that is of another one of its name. What its own
// making began with stays, which was within some time before.
func (f *Filter) Since(key string, made time.Time, within time.Duration) {
	f.scope, f.made = key, made
	if earliest := made.Add(-within); f.From.Before(earliest) {
		f.From = earliest
	}
}

// Parameters are the names of the query's parameters.
var Parameters = []string{"who", "noun", "verb", "outcome", "event", "project", "resource", "operation", "from", "to"}

// ParseFilter reads the parameters of a query; scope is the key of a project whose records alone are asked for, or "". Errors are
// Invalid and name the parameter.
func ParseFilter(v url.Values, scope string, now time.Time) (Filter, error) {
	var p fail.Problems
	f := Filter{
		Who: v.Get("who"), Noun: v.Get("noun"), Verb: v.Get("verb"), Outcome: v.Get("outcome"), Event: Event(v.Get("event")),
		Workflow: v.Get("operation"), Key: scope,
	}
	if f.Event != "" && !slices.Contains(Events, f.Event) {
		p.Add("event", "%q is none of %s", f.Event, join(Events))
	}
	if f.Outcome != "" && !slices.Contains([]string{Done, Canceled, Failed, Stopped}, f.Outcome) && !fail.Kind(f.Outcome).Known() {
		p.Add("outcome", "%q is neither %s nor a kind of failure, such as Forbidden", f.Outcome, Done)
	}
	if project := v.Get("project"); project != "" {
		f.Key = narrow(&p, "project", f.Key, "projects/"+project)
	}
	if resource := strings.Trim(v.Get("resource"), "/"); resource != "" {
		f.Key = plain(narrow(&p, "resource", f.Key, resource))
	}
	f.From, f.To = moment(&p, "from", v, now), moment(&p, "to", v, now)
	if !f.To.IsZero() && f.To.Before(f.From) {
		p.Add("to", "is before from")
	}
	return f, p.Err()
}

// narrow is the key of which both are asked for.
func narrow(p *fail.Problems, parameter, within, key string) string {
	if within != "" && key != within && !strings.HasPrefix(key, within+"/") {
		p.Add(parameter, "%q is not in %s", key, within)
	}
	return key
}

// moment reads a time, or how long ago.
func moment(p *fail.Problems, parameter string, v url.Values, now time.Time) time.Time {
	text := v.Get(parameter)
	if text == "" {
		return time.Time{}
	}
	at, ok := when.Read(text, now)
	if !ok {
		p.Add(parameter, "%q is neither a time such as 2026-11-21T05:29:07Z nor how long ago, such as 2h30m", text)
	}
	return at
}

// Matches says whether a record is asked for; its time is for who reads it.
func (f Filter) Matches(r *Record) bool {
	return (f.Who == "" || f.Who == r.Who.Text() || r.Who != nil && f.Who == r.Who.Name) &&
		(f.Noun == "" || f.Noun == r.Noun) && (f.Verb == "" || f.Verb == r.Verb) && (f.Outcome == "" || f.Outcome == r.Result) &&
		(f.Event == "" || f.Event == r.Event) && (f.Workflow == "" || f.Workflow == r.Workflow) &&
		(f.Key == "" || f.Key == r.Key || strings.HasPrefix(r.Key, f.Key+"/")) &&
		(!r.Time.Before(f.made) || f.begins(r))
}

// begins says whether a record from before the document was made is of its making.
func (f Filter) begins(r *Record) bool {
	return r.Event == Begun && r.Key == f.scope && (r.Verb == "create" || r.Verb == "put")
}

// All says whether every record of the time passes, checkpoints too: what can be verified.
func (f Filter) All() bool {
	f.From, f.To = time.Time{}, time.Time{}
	return f == Filter{}
}

func join(events []Event) string {
	words := make([]string, len(events))
	for i, e := range events {
		words[i] = string(e)
	}
	return strings.Join(words, ", ")
}
