package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/status"
)

const (
	defaultWait = 10 * time.Minute
	waitLook    = time.Second // between two looks, or what ten of them take, but waitMost at the most
	waitMost    = 10 * time.Second
)

var (
	summary = url.Values{"output": {"summary"}}
	whole   = url.Values{"output": {"all"}}
	counts  = url.Values{"status": {"deployed"}, "output": {"counts"}}
)

// standingOf is what is asked to see how far an owner is: of a group counts by cluster, with what each waits for, as its resources may be
// many thousands. Others have no such form.
func standingOf(key domain.Key) url.Values {
	if domain.OwnerNoun(key) == domain.DeploymentIntentGroups {
		return counts
	}
	return whole
}

// deployedOf are the resources of a cluster by what was done.
func deployedOf(c status.DocumentCluster) map[domain.ResourceState]int {
	if c.Deployed != nil {
		return c.Deployed
	}
	found := map[domain.ResourceState]int{}
	for _, r := range c.Resources {
		found[r.Status]++
	}
	return found
}

// sum adds up counts.
func sum[K comparable](counts map[K]int) (all int) {
	for _, n := range counts {
		all += n
	}
	return all
}

// waits is the command wait.
func (s *session) waits() *cobra.Command {
	w := &where{}
	c := &cobra.Command{
		Use: "wait [NOUN] NAME", Short: "Wait until something is deployed, ready or terminated",
		Long: "Wait until something is deployed, ready or terminated.\n\n" + aboutOwner + `

It waits for what was asked for already. Where nothing goes on and NAME is not as it is to be, it ends with 1 at once and says how it stands:
"wait web --for=terminated" of a group that is Instantiated, and of which nobody has asked the terminate.`,
		Example: "  drover wait web --for=ready --timeout 5m",
		Args:    numbered(1, 2, "the name of a group, or a noun and a name"), ValidArgsFunction: s.completeOwners(domain.Owners...),
	}
	s.placed(c, w)
	what := c.Flags().String("for", "ready", "what to wait for: deployed, ready or terminated")
	s.completeFlag(c, "for", func(context.Context) []string { return []string{"deployed", "ready", "terminated"} })
	timeout := c.Flags().Duration("timeout", defaultWait, "how long to wait; 0 for as long as it takes")
	c.RunE = func(c *cobra.Command, args []string) error {
		op, ok := map[string]domain.Operation{"deployed": domain.OpInstantiate, "ready": domain.OpInstantiate, "terminated": domain.OpTerminate}[*what]
		if !ok {
			return usage("--for %s is none of deployed, ready and terminated", *what)
		}
		if err := timed(c, true, ""); err != nil {
			return err
		}
		api, err := s.api()
		if err != nil {
			return err
		}
		key, err := s.owner(c.Context(), api, args, w)
		if err != nil {
			return err
		}
		begun := time.Now()
		if err := s.awaitStanding(c.Context(), api, key, op, *timeout, false); err != nil || *what != "ready" {
			return err
		}
		left := *timeout
		if left > 0 {
			left = max(left-time.Since(begun), time.Millisecond)
		}
		return s.awaitReady(c.Context(), api, key, left)
	}
	return c
}

// timed refuses a time for a wait that nobody has asked for: who gives it takes the end of the command for that of the operation. It also refuses one that is
// less than none, as a script may have left over, which would be without end.
func timed(c *cobra.Command, waits bool, flag string) error {
	timeout, err := c.Flags().GetDuration("timeout")
	switch {
	case err != nil:
		return err
	case timeout < 0:
		return usage("--timeout %s is less than no time; 0 waits as long as it takes", timeout)
	case c.Flags().Changed("timeout") && !waits:
		return usage("--timeout says how long %s waits, which is not given", flag)
	}
	return nil
}

// bounded is ctx with a timeout, none when it is 0.
func bounded(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}

// await waits for the end of an operation that was accepted, as awaitStanding does.
func (s *session) await(ctx context.Context, api *client.API, key domain.Key, op domain.Operation, timeout time.Duration) error {
	return s.awaitStanding(ctx, api, key, op, timeout, true)
}

// awaitStanding waits for the end of the last operation of an owner, and shows meanwhile what is going on. When it ends otherwise than op
// is to, the reasons are said. Unless the owner is known to be there, it ends where the API does not say so at first.
func (s *session) awaitStanding(ctx context.Context, api *client.API, key domain.Key, op domain.Operation, timeout time.Duration, known bool) error {
	waiting, cancel := bounded(ctx, timeout)
	defer cancel()
	p := s.picture()
	away := false
	again := pause.Backoff{First: waitLook, Most: waitMost} // after an error: how long that took says nothing of what a look costs
	var last *status.Document
	for {
		begun := time.Now()
		d, err := api.Status(waiting, key, standingOf(key))
		switch {
		case waiting.Err() != nil:
			return s.overtime(ctx, api, key, last, timeout)
		case err != nil && !known:
			return err
		case err != nil && op == domain.OpTerminate && fail.Is(err, fail.NotFound):
			return nil // and deleted
		case err != nil && mayPass(err):
			if !away {
				s.note("%s; it is asked again", s.text(err))
			}
			away = true
		case err != nil:
			s.goesOn(key)
			return err
		default:
			away, known, last = false, true, d
			p.show(d, op)
			if over, why := ended(d, op); over {
				if why == "" {
					s.tellStays(ctx, api, key, d, op)
					return nil
				}
				return s.otherwise(ctx, api, key, why)
			}
		}
		next := min(max(waitLook, 10*time.Since(begun)), waitMost)
		if err != nil {
			next = again.Next()
		} else {
			again.Reset()
		}
		if err := pause.For(waiting, next); err != nil {
			return s.overtime(ctx, api, key, last, timeout)
		}
	}
}

// tellStays names what a terminate that has ended as it was to has left on purpose. Counts do not have names: the explanation does. It is
// asked for beyond the time to wait, so for a little time of its own.
func (s *session) tellStays(ctx context.Context, api *client.API, key domain.Key, d *status.Document, op domain.Operation) {
	if done, all := doneOf(d, op); op != domain.OpTerminate || done == all || s.flags.quiet {
		return
	}
	asking, cancel := context.WithTimeout(ctx, waitMost)
	defer cancel()
	if x, err := api.Explain(asking, key); err == nil && x.Status == domain.ContextTerminated && x.AsWished {
		s.sayf("%s", x.Summary)
	}
}

// mayPass says whether asking again may help who waits: also after a fault of the API's own, as the operation goes on.
func mayPass(err error) bool {
	var answered *client.Error
	return transient(err) || errors.As(err, &answered) && answered.Code >= http.StatusInternalServerError
}

// goesOn says that the end of a command is not that of the operation.
func (s *session) goesOn(key domain.Key) {
	s.note("The operation goes on: %s status %s", s.Program, key)
}

// ended says whether what op asks for has come to its end, and in other words than "" why it is not the wanted one.
func ended(d *status.Document, op domain.Operation) (over bool, why string) {
	state, stands := d.States.State(), d.Status
	switch {
	case stands.InProgress():
		return false, ""
	case op == domain.OpStop:
		return true, ""
	case state == domain.Updated && stands == domain.ContextUpdated: // which it stays until it is approved anew
		return true, fmt.Sprintf("it is %s: its instance went to the deployment intent group that it was migrated to", state)
	case op == domain.OpTerminate:
		switch {
		case stands == domain.ContextTerminated, stands == domain.ContextNone && (state == domain.Terminated || state == domain.Created || state == domain.Approved):
			return true, ""
		case stands == domain.ContextTerminateFailed:
			return true, "the terminate has failed"
		case state == domain.TerminateStopped:
			return true, "the terminate was stopped"
		case state != domain.Terminated:
			return true, fmt.Sprintf("it is %s", state)
		}
		return false, ""
	case stands == domain.ContextInstantiated && (state == domain.Instantiated || state == domain.Applied || state == domain.Updated):
		return true, ""
	case stands == domain.ContextInstantiateFailed:
		return true, "it could not be deployed"
	case state == domain.InstantiateStopped:
		return true, "it was stopped"
	case state != domain.Instantiated && state != domain.Applied && state != domain.Updated:
		return true, fmt.Sprintf("it is %s", state)
	}
	return false, ""
}

// gone says why something that was deployed is so no more, "" for what is, or is at work to be.
func gone(d *status.Document) string {
	_, why := ended(d, domain.OpInstantiate)
	return why
}

// otherwise says why an operation has ended otherwise than it was to.
func (s *session) otherwise(ctx context.Context, api *client.API, key domain.Key, why string) error {
	fmt.Fprintf(s.Err, "%s: %s\n", key, why)
	if text, err := s.explanation(ctx, api, key); err == nil {
		fmt.Fprintf(s.Err, "%s", text)
	}
	return errSaid{exitFailed}
}

// overtime says that the user has had enough, or that time is over, and that the work goes on.
func (s *session) overtime(ctx context.Context, api *client.API, key domain.Key, last *status.Document, timeout time.Duration) error {
	if ctx.Err() != nil {
		s.goesOn(key)
		return context.Canceled
	}
	stands := "nothing is known of it"
	if last != nil {
		stands = fmt.Sprintf("it is %s", or(string(last.Status), string(last.States.State())))
	}
	fmt.Fprintf(s.Err, "%s: %s after %s, and goes on\n", key, stands, timeout)
	if text, err := s.explanation(ctx, api, key); err == nil {
		fmt.Fprintf(s.Err, "%s", text)
	}
	return errSaid{exitTimeout}
}

// awaitReady waits until all that is deployed is reported to be ready. What another operation takes away meanwhile is waited for no longer.
func (s *session) awaitReady(ctx context.Context, api *client.API, key domain.Key, timeout time.Duration) error {
	waiting, cancel := bounded(ctx, timeout)
	defer cancel()
	said, away := "", false
	for {
		d, err := api.Status(waiting, key, url.Values{"status": {"ready"}, "output": {"summary"}})
		switch {
		case waiting.Err() != nil:
		case err != nil && !mayPass(err):
			return err
		case err != nil:
			if !away {
				s.note("%s; it is asked again", s.text(err))
			}
			away = true
		case gone(d) != "":
			return s.otherwise(ctx, api, key, gone(d))
		case d.Ready == status.Ready:
			s.sayf("%s is ready", key)
			return nil
		default:
			away = false
			if text := or(status.ReadyCounts(d.Readiness), "nothing is reported yet"); text != said {
				said = text
				s.sayf("%s", text)
			}
		}
		if err := pause.For(waiting, waitLook); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				fmt.Fprintf(s.Err, "%s is not ready after %s: %s\n", key, timeout, or(said, "the API has not said how it stands"))
				if text, err := s.explanation(ctx, api, key); err == nil {
					fmt.Fprintf(s.Err, "%s", text)
				}
				return errSaid{exitTimeout}
			}
			return context.Canceled
		}
	}
}

// mostLines are what a picture has on a terminal, whose height is not known.
const mostLines = 20

// picture shows what is going on: lines that stay in their places on a terminal, else a line for each change.
type picture struct {
	*session
	lines []string
	pace  pace
	notes int64 // that were said before it was drawn last
}

// pace is how fast work goes on.
type pace struct {
	begun time.Time
	first int // resources that were done then
}

// say is how many resources a second are done, since they were looked at first, and how long the rest takes at that. It is nothing as long as
// that would be a guess.
func (p *pace) say(done, all int, now time.Time) string {
	if p.begun.IsZero() || done < p.first { // another operation
		p.begun, p.first = now, done
	}
	took := now.Sub(p.begun).Seconds()
	if took < leastPace.Seconds() || done == p.first || done >= all {
		return ""
	}
	rate := float64(done-p.first) / took
	left := time.Duration(float64(all-done) / rate * float64(time.Second))
	return fmt.Sprintf("  %.3g/s, about %s left", rate, left.Round(time.Second))
}

// leastPace is how long is looked before a pace is said.
const leastPace = 3 * time.Second

func (s *session) picture() *picture { return &picture{session: s} }

// show shows a document.
func (p *picture) show(d *status.Document, op domain.Operation) {
	if p.flags.quiet {
		return
	}
	lines := progress(d, op)
	if p.Terminal {
		out := bare(p.Out)
		if d.Status.InProgress() { // what stays, and hooks of other operations, are left for ever
			done, all := doneOf(d, op)
			lines[0] += p.pace.say(done, all, time.Now())
		}
		if len(lines) > mostLines {
			lines = append(lines[:mostLines:mostLines], fmt.Sprintf("  and %d more", len(lines)-mostLines))
		}
		if said := p.session.notes.Load(); said != p.notes { // which have moved the place of the lines
			p.lines, p.notes = nil, said
		}
		if len(p.lines) > 0 {
			fmt.Fprintf(out, "\x1b[%dA", len(p.lines))
		}
		for _, l := range lines { // without a break, which would be a line more
			fmt.Fprintf(out, "\x1b[2K\x1b[?7l%s\x1b[?7h\n", p.fitting(printable(l)))
		}
		for range len(p.lines) - len(lines) { // what is left of before
			fmt.Fprintln(out, "\x1b[2K")
		}
		for len(lines) < len(p.lines) {
			lines = append(lines, "")
		}
		p.lines = lines
		return
	}
	before := map[string]bool{}
	for _, l := range p.lines {
		before[l] = true
	}
	for _, l := range lines {
		if !before[l] {
			fmt.Fprintln(p.Out, l)
		}
	}
	p.lines = lines
}

// fitting is a line cut to what the terminal shows of it. Without that its last character stands at the end, and nobody sees that there is more.
func (s *session) fitting(line string) string {
	if s.Width == nil {
		return line
	}
	width := s.Width()
	if width <= 0 || cellsOf(line) <= width {
		return line
	}
	left := width - 1
	for i, r := range line {
		if left -= cellsOfRune(r); left < 0 {
			return line[:i] + "…"
		}
	}
	return line
}

// part is an app, or what else has clusters, in the picture.
type part struct {
	name     string
	clusters []status.DocumentCluster
}

func partsOf(d *status.Document) []part {
	var all []part
	for _, a := range d.Apps {
		all = append(all, part{a.Name, a.Clusters})
	}
	if len(d.Clusters) > 0 {
		all = append(all, part{d.Name, d.Clusters})
	}
	if d.Cluster != nil && d.Cluster.Name != "" {
		all = append(all, part{"networks", []status.DocumentCluster{*d.Cluster}})
	}
	return all
}

// wantedOf is the state that an operation brings resources to.
func wantedOf(op domain.Operation) domain.ResourceState {
	if op == domain.OpTerminate {
		return domain.ResourceDeleted
	}
	return domain.ResourceApplied
}

// doneOf is how many resources are where they are to be, of how many.
func doneOf(d *status.Document, op domain.Operation) (done, all int) {
	for _, p := range partsOf(d) {
		for _, c := range p.clusters {
			of := deployedOf(c)
			done, all = done+of[wantedOf(op)], all+sum(of)
		}
	}
	return done, all
}

// waitingFor are reasons for which work stands still, the one of most clusters first.
func waitingFor(clusters []status.DocumentCluster) string {
	count := map[string]int{}
	best := ""
	for _, c := range clusters {
		if c.Reason == "" || c.Stale || c.Connectivity == domain.ConnectivityRetrying {
			continue
		}
		if count[c.Reason]++; count[c.Reason] > count[best] || best == "" {
			best = c.Reason
		}
	}
	if more := len(count) - 1; more > 0 {
		best += fmt.Sprintf(" (and %s)", counted(more, "other reason"))
	}
	return best
}

// asWished says whether an operation is over and has done all that it was to do.
func asWished(at domain.ContextStatus, op domain.Operation) bool {
	if op == domain.OpTerminate {
		return at == domain.ContextTerminated
	}
	return at == domain.ContextInstantiated
}

// otherwise says what n resources are that are, on purpose, not what an operation brings resources to.
func otherwise(n int, op domain.Operation) string {
	switch terminates := op == domain.OpTerminate; {
	case terminates && n == 1:
		return "1 is meant to stay"
	case terminates:
		return fmt.Sprintf("%d are meant to stay", n)
	case n == 1:
		return "the other one is a hook: of another operation, or tidied up"
	default:
		return fmt.Sprintf("the other %d are hooks: of other operations, or tidied up", n)
	}
}

// waits says for what work stands still, of which some reasons begin with just that word.
func waits(why string) string {
	if strings.HasPrefix(why, "waits ") {
		return why
	}
	return "waits: " + why
}

// progress is a line for the whole and one for each app: how many of its resources are where they are to be, on how many clusters, how many of these are
// done, or what the others are once all is as it is to be, and which of them do not answer or refuse something.
func progress(d *status.Document, op domain.Operation) []string {
	wanted := wantedOf(op)
	lines := []string{or(string(d.Status), string(d.States.State()))}
	parts := partsOf(d)
	width := 0
	for _, p := range parts {
		width = max(width, len(p.name))
	}
	for _, p := range parts {
		var done, all, whole int
		var away, failed []string
		gone, refused := "", "" // what the first of them has said last
		for _, c := range p.clusters {
			of := deployedOf(c)
			there, name := of[wanted], c.Provider+"+"+c.Name
			switch {
			case of[domain.ResourceFailed] > 0:
				failed, refused = append(failed, name), or(refused, c.LastError)
			case c.Connectivity == domain.ConnectivityRetrying && there < sum(of):
				away, gone = append(away, name), or(gone, c.LastError)
			}
			if there == sum(of) {
				whole++
			}
			done, all = done+there, all+sum(of)
		}
		line := fmt.Sprintf("  %-*s  %d of %d %s on %s", width, printable(p.name), done, all, wanted, clustersOf(len(p.clusters)))
		switch {
		case done < all && asWished(d.Status, op):
			line += ", " + otherwise(all-done, op)
		case done < all && len(p.clusters) > 1:
			line += fmt.Sprintf(", %d of which done", whole)
		}
		if len(away) > 0 {
			line += fmt.Sprintf("; %s retried: %s", clustersOf(len(away)), few(away)) + inParentheses(gone)
		}
		if why := waitingFor(p.clusters); why != "" && done < all {
			line += "; " + waits(why)
		}
		if len(failed) > 0 {
			line += fmt.Sprintf("; %s failed: %s", clustersOf(len(failed)), few(failed)) + inParentheses(refused)
		}
		lines = append(lines, line)
	}
	return lines
}

func inParentheses(text string) string {
	if text == "" {
		return ""
	}
	return " (" + printable(text) + ")"
}

func clustersOf(n int) string { return counted(n, "cluster") }

// counted is a number with its noun: 1 cluster, 2 clusters.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %s", n, many(noun))
}

// few are the first of many names.
func few(names []string) string {
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	}
	return strings.Join(names, ", ")
}
