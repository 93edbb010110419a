package explain

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/domain"
)

// WriteText writes the explanation for a person, some 40 lines at most.
func (e *Explanation) WriteText(w io.Writer) error {
	t := &text{now: e.now}
	t.line("%s %s: %s", e.Title, e.Resource.Name(), e.Summary)
	t.line("  %s", e.Resource)
	if e.Since.IsZero() {
		t.line("  state %s", e.State)
	} else {
		t.line("  state %s since %s%s", e.State, t.moment(e.Since), context(e))
	}
	if e.Cluster != nil {
		t.cluster(e.Cluster)
	}
	if o := e.Operation; o != nil {
		t.operation(o)
	}
	if len(e.Reasons)+len(e.Warnings)+len(e.Effects)+len(e.Unknown)+len(e.May) > 0 {
		t.line("")
	}
	for i := range e.Reasons {
		t.reason(i+1, &e.Reasons[i])
	}
	if e.MoreReasons > 0 {
		all := "output=detail"
		if e.Cluster != nil {
			all = "view=full"
		}
		t.line("and %s; the status with %s has everything", count(e.MoreReasons, "more reason"), all)
	}
	for _, w := range e.Warnings[:min(len(e.Warnings), maxReasons)] {
		t.line("warning: %s", clip(w))
	}
	if more := len(e.Warnings) - maxReasons; more > 0 {
		t.line("and %s; the status has all of them", count(more, "more warning"))
	}
	for _, effect := range e.Effects[:min(len(e.Effects), maxReasons)] {
		t.line("varied: %s", clip(effect))
	}
	if more := len(e.Effects) - maxReasons; more > 0 {
		t.line("and %s; the status with output=detail has all of them", count(more, "more effect"))
	}
	if e.Cluster != nil {
		t.deployments(e.Cluster)
	}
	t.judged(e)
	for _, u := range e.Unknown {
		t.line("not known: %s", clip(u))
	}
	if len(e.May) > 0 {
		t.line("can be asked for now: %s", strings.Join(e.May, ", "))
	}
	_, err := io.WriteString(w, t.b.String())
	return err
}

func (t *text) cluster(c *Cluster) {
	heard := "heard now"
	switch {
	case c.Heard:
	case c.Unheard != "" && c.LastHeard != nil:
		heard = fmt.Sprintf("not heard since %s: %s", t.moment(*c.LastHeard), clip(c.Unheard))
	case c.Unheard != "":
		heard = "not heard: " + clip(c.Unheard)
	default:
		heard = "nobody listens, as nothing that is watched runs there"
	}
	t.line("  connectivity %s; report %s: %s", c.Connectivity, c.Report, heard)
}

// deployments shows those that are as wished; the others are reasons.
func (t *text) deployments(c *Cluster) {
	for i := range c.Deployments {
		if d := &c.Deployments[i]; d.AsWished {
			t.line("- %s %s: %s", d.Title, d.Resource, clip(d.Summary))
		}
	}
	if c.MoreDeployments > 0 {
		t.line("%d deployments are not shown; the status with view=full has all of them", c.MoreDeployments)
	}
}

// judged shows what rules say of workloads, an expression a line.
func (t *text) judged(e *Explanation) {
	for i := range e.Judged {
		j := &e.Judged[i]
		applies := "does not apply"
		if j.Matches {
			applies = "applies"
		}
		t.line("- rule %s %s to %s%s", j.Rule.Name(), applies, j.Pod, because(j.Why))
		for n, term := range j.Terms {
			for _, s := range term.Expressions {
				mark, seen := "no ", fmt.Sprintf("it is %q", s.Value)
				if s.Holds {
					mark = "yes"
				}
				if s.Absent {
					seen = "there is none"
				}
				t.line("   term %d: %s %s %s %s: %s", n+1, mark, s.Key, s.Operation, strings.Join(s.Values, ", "), clip(seen))
			}
		}
		if j.Reason != "" {
			t.line("   %s: %s", j.State, clip(j.Reason))
		}
	}
	if e.MoreJudged > 0 {
		t.line("and %d more, which are not shown; ask for one by workload or rule", e.MoreJudged)
	}
}

func context(e *Explanation) string {
	if e.ContextID == "" {
		return ""
	}
	return fmt.Sprintf("; app context %s is %s", e.ContextID, e.Status)
}

// text is what is being written.
type text struct {
	b   strings.Builder
	now time.Time
	did string // the last advice, which is not repeated
}

func (t *text) line(format string, args ...any) {
	t.b.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " "))
	t.b.WriteByte('\n')
}

func (t *text) operation(o *Operation) {
	by := ""
	if o.By != "" {
		by = " by " + o.By
	}
	ended := ""
	if o.Ended != nil {
		ended = ", ended " + t.moment(*o.Ended)
	}
	t.line("  %s asked for%s %s%s", o.Operation, by, t.moment(o.Since), ended)
	t.workflow("  ", o.Workflow)
}

// workflow shows a run: by its link where there is one, else by its id.
func (t *text) workflow(indent string, w *Workflow) {
	switch {
	case w == nil:
	case w.Link != "":
		t.line("%s%s", indent, w.Link)
	default:
		t.line("%sworkflow %s", indent, w.ID)
	}
	if w != nil && w.TraceID != "" {
		t.line("%strace %s", indent, w.TraceID)
	}
}

func (t *text) reason(n int, r *Reason) {
	t.line("%d. %s", n, r.Text)
	if r.Error != "" {
		t.line("   %s", r.Error)
	}
	for i := range r.Examples {
		t.example(&r.Examples[i])
	}
	if r.More > 0 {
		t.line("   - and %d more", r.More)
	}
	if r.Do != "" && r.Do != t.did {
		t.did = r.Do
		t.line("   > %s", r.Do)
	}
}

func (t *text) example(e *Example) {
	var where, when []string
	for _, s := range []string{e.App, e.Resource, e.Step} {
		if s != "" {
			where = append(where, s)
		}
	}
	if e.Cluster != "" {
		where = append(where, "on "+e.Cluster)
	}
	if e.Since != nil {
		when = append(when, "since "+t.moment(*e.Since))
	}
	if e.LastSeen != nil {
		when = append(when, "last heard "+t.moment(*e.LastSeen))
	}
	if e.Attempt > 0 {
		when = append(when, fmt.Sprintf("attempt %d", e.Attempt))
	}
	switch {
	case e.Paused:
		when = append(when, "paused")
	case e.Trying:
		when = append(when, "being tried now")
	case e.NextAttempt != nil && e.NextAttempt.Sub(t.now) >= time.Second:
		when = append(when, "next one in "+span(e.NextAttempt.Sub(t.now)))
	case e.NextAttempt != nil:
		when = append(when, "next one now")
	case e.Attempt > 0:
		when = append(when, "waiting for a worker")
	}
	t.line("   - %s%s", strings.Join(where, " "), because(strings.Join(when, ", ")))
	if e.Workflow != nil && e.Workflow.Link != "" {
		t.line("     %s", e.Workflow.Link)
	}
}

// moment is a time, and how long ago that is.
func (t *text) moment(at time.Time) string {
	return fmt.Sprintf("%s (%s ago)", at.Format("2006-01-02 15:04:05 UTC"), span(t.now.Sub(at)))
}

// ago is a time in a sentence.
func (d *decision) ago(t time.Time) string { return span(d.s.Now.Sub(t)) + " ago" }

// span is a duration in its two largest units.
func span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	default:
		return fmt.Sprintf("%ds", d/time.Second)
	}
}

// clip keeps a message on few lines, abridged. Of one that says what rights are missing those are kept, rather than the long name of who lacks them.
func clip(s string) string {
	const most, tail = 300, 100
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= most {
		return s
	}
	if _, rights, ok := strings.Cut(s, domain.BeyondHeld); ok {
		s = "…" + domain.BeyondHeld + rights
	}
	return domain.Abridged(s, most, tail)
}
