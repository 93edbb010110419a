package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/operations"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/status"
)

// owned makes a command that shows something of one owner in the form that -o asks for; otherwise is what it shows without -o.
func (s *session) owned(c *cobra.Command, otherwise string, do func(ctx context.Context, api *client.API, key domain.Key, p *printer) error) *cobra.Command {
	return s.shows(c, otherwise, s.owner, do)
}

// shows is owned for what arguments mean by another rule.
func (s *session) shows(c *cobra.Command, otherwise string, means func(ctx context.Context, api *client.API, args []string, w *where) (domain.Key, error),
	do func(ctx context.Context, api *client.API, key domain.Key, p *printer) error,
) *cobra.Command {
	w := &where{}
	output := c.Flags().StringP("output", "o", "", "the `form`: json, yaml or jsonpath=TEMPLATE; "+otherwise+" when missing")
	c.Use += " [NOUN] NAME"
	c.Long = or(c.Long, c.Short+".") + "\n\n" + aboutOwner
	c.Args, c.ValidArgsFunction = numbered(1, 2, "the name of a group, or a noun and a name"), s.completeOwners(domain.Owners...)
	s.placed(c, w)
	c.RunE = func(c *cobra.Command, args []string) error {
		p, err := newValuePrinter(*output) // before anything is asked
		if err != nil {
			return err
		}
		api, err := s.api()
		if err != nil {
			return err
		}
		key, err := means(c.Context(), api, args, w)
		if err != nil {
			return err
		}
		return do(c.Context(), api, key, p)
	}
	return c
}

// status is the command status.
func (s *session) status() *cobra.Command {
	c := &cobra.Command{
		Use: "status", Short: "Show where something stands: what was done, and what became of it",
		Example: "  drover status web\n  drover status web --tree\n  drover status cloud lcadmin\n  drover status web --watch",
	}
	watch := c.Flags().BoolP("watch", "w", false, "go on, and show what changes")
	tree := c.Flags().Bool("tree", false, "show each resource, by app and cluster")
	c.PreRunE = func(c *cobra.Command, _ []string) error { // before anything is asked
		form := c.Flags().Lookup("output").Value.String()
		switch {
		case *watch && form != "":
			return usage("--watch shows words, and no -o %s; 'events --follow -o json' is a stream for programs", form)
		case *watch && *tree:
			return usage("--watch shows a line for each app, and no --tree")
		case *watch && s.flags.quiet:
			return usage("--watch shows what goes on, and --quiet says nothing of it: 'wait -q' ends when something has come to its end")
		case *tree && form != "":
			return usage("--tree shows words, and no -o %s, which has each resource in any case", form)
		}
		return nil
	}
	return s.owned(c, "words", func(ctx context.Context, api *client.API, key domain.Key, p *printer) error {
		if *watch {
			return s.watchStatus(ctx, api, key)
		}
		asked := standingOf(key)
		if *tree || !p.people() {
			asked = whole
		}
		d, err := api.Status(ctx, key, asked)
		if err != nil {
			return err
		}
		if !p.people() {
			return p.value(s.Out, d)
		}
		if *tree { // with why clusters wait, which a document of all resources does not say
			why, err := api.Status(ctx, key, standingOf(key))
			if err != nil {
				return err
			}
			explained(d, why)
		}
		ready, err := api.Status(ctx, key, url.Values{"status": {"ready"}, "output": {"all"}})
		if err != nil {
			return err
		}
		return s.printStatus(key, d, ready, *tree)
	})
}

// printStatus prints what was done and what became of it.
func (s *session) printStatus(key domain.Key, d, ready *status.Document, tree bool) error {
	now := time.Now()
	fmt.Fprintf(s.Out, "Path:      %s\n", key)
	last := d.States.Last()
	fmt.Fprintf(s.Out, "State:     %s, for %s%s\n", d.States.State(), age(now, last.Time), by(last.RequestedBy))
	if d.Status != "" {
		text := string(d.Status)
		if t := tally(d.Deployed); t != "" {
			text += ": " + t
		}
		fmt.Fprintf(s.Out, "Deployed:  %s\n", text)
	}
	if ready.Ready != "" {
		fmt.Fprintf(s.Out, "Ready:     %s\n", strings.TrimSuffix(ready.Ready+": "+status.ReadyCounts(ready.Readiness), ": "))
	}
	if all := d.States.Revisions(); len(all) > 0 {
		fmt.Fprintf(s.Out, "Revision:  %d\n", all[0].Revision)
	}
	for _, w := range slices.Concat(d.Warnings, ready.Warnings) {
		fmt.Fprintf(s.Out, "Warning:   %s\n", printable(w))
	}
	parts := partsOf(d)
	if len(parts) == 0 {
		return nil
	}
	fmt.Fprintln(s.Out)
	if tree {
		return s.printTree(parts, partsOf(ready))
	}
	wanted := domain.ResourceApplied
	if d.Status.Deleting() {
		wanted = domain.ResourceDeleted
	}
	reported := clustersIn(partsOf(ready))
	t := newTable(s.Out, "APP", "CLUSTER", "CONNECTIVITY", strings.ToUpper(string(wanted)), "READY", "REASON")
	for _, p := range parts {
		for _, c := range p.clusters {
			deployed, said := deployedOf(c), reported[spot(p.name, c)]
			good, reason := 0, or(c.LastError, c.Reason, said.Reason)
			for _, r := range said.Resources {
				if r.Ready == status.Ready {
					good++
				}
				reason = or(reason, r.Message, r.Reason)
			}
			t.row(p.name, c.Provider+"+"+c.Name, dash(string(c.Connectivity)), fmt.Sprintf("%d/%d", deployed[wanted], sum(deployed)),
				fmt.Sprintf("%d/%d", good, len(said.Resources)), reason)
		}
	}
	return t.flush()
}

// explained says in a document of its clusters what another one says of why they wait.
func explained(d, why *status.Document) {
	said := clustersIn(partsOf(why))
	for _, p := range partsOf(d) {
		for i := range p.clusters {
			c := &p.clusters[i]
			of := said[spot(p.name, *c)]
			c.LastError, c.Reason = or(c.LastError, of.LastError), or(c.Reason, of.Reason)
		}
	}
}

// spot names a cluster of a part.
func spot(part string, c status.DocumentCluster) string {
	return part + "\x00" + c.Provider + "+" + c.Name
}

// clustersIn are the clusters of parts by spot.
func clustersIn(parts []part) map[string]status.DocumentCluster {
	found := map[string]status.DocumentCluster{}
	for _, p := range parts {
		for _, c := range p.clusters {
			found[spot(p.name, c)] = c
		}
	}
	return found
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return ", asked for by " + who
}

// place names a resource of a document.
func place(app string, c status.DocumentCluster, r status.DocumentResource) string {
	return strings.Join([]string{app, c.Provider, c.Name, r.GVK.Group, r.GVK.Kind, r.Name}, "\x00")
}

// readyOf is what is reported of each resource.
func readyOf(parts []part) map[string]status.DocumentResource {
	found := map[string]status.DocumentResource{}
	for _, p := range parts {
		for _, c := range p.clusters {
			for _, r := range c.Resources {
				found[place(p.name, c, r)] = r
			}
		}
	}
	return found
}

// printTree prints apps, in them clusters, in them resources.
func (s *session) printTree(parts, ready []part) error {
	reported := readyOf(ready)
	for _, p := range parts {
		fmt.Fprintln(s.Out, printable(p.name))
		for i, c := range p.clusters {
			branch, stem := "├─ ", "│  "
			if i == len(p.clusters)-1 {
				branch, stem = "└─ ", "   "
			}
			line := c.Provider + "+" + c.Name
			if c.Connectivity != "" {
				line += " (" + string(c.Connectivity) + ")"
			}
			if why := or(c.LastError, c.Reason); why != "" {
				line += ": " + why
			}
			fmt.Fprintln(s.Out, branch+printable(line))
			for k, r := range c.Resources {
				twig := "├─ "
				if k == len(c.Resources)-1 {
					twig = "└─ "
				}
				said := reported[place(p.name, c, r)]
				text := fmt.Sprintf("%s/%s  %s", r.GVK.Kind, r.Name, r.Status)
				if said.Ready != "" {
					text += ", " + said.Ready
				}
				if why := or(r.Message, r.Reason, said.Message, said.Reason); why != "" {
					text += ": " + why
				}
				fmt.Fprintln(s.Out, stem+twig+printable(text))
			}
		}
	}
	return nil
}

// watchStatus shows the picture of an owner until the user has seen enough, by the stream of its status: it looks when the stream
// says that something has changed.
func (s *session) watchStatus(ctx context.Context, api *client.API, key domain.Key) error {
	p := s.picture()
	show := func() error {
		d, err := api.Status(ctx, key, standingOf(key))
		if err != nil {
			return err
		}
		op := domain.OpInstantiate
		if d.Status.Deleting() {
			op = domain.OpTerminate
		}
		p.show(d, op)
		return nil
	}
	return s.follow(ctx, func(after string) (string, error) {
		for e, err := range api.StreamStatus(ctx, key, summary, after) {
			if err == nil && e.Tells() {
				err = show()
			}
			if err != nil { // what it told of is not shown: it is told again
				return after, err
			}
			if e.Tells() {
				after = e.ID
			}
		}
		return after, nil
	})
}

// follow reads a stream again and again, from where it had ended, until ctx ends. Where the API does not answer for a while, after it has, that is
// said once.
func (s *session) follow(ctx context.Context, read func(after string) (string, error)) error {
	after, away, first := "", false, true
	for {
		last := after
		var err error
		after, err = read(after)
		first = first && err != nil && after == last
		switch {
		case ctx.Err() != nil:
			return context.Canceled
		case err != nil && (first || !transient(err)):
			return err
		case err != nil && (!away || after != last):
			s.note("%s; it is asked again", s.text(err))
			away = true
		}
		if err := pause.For(ctx, waitLook); err != nil {
			return context.Canceled
		}
	}
}

// explains is the command explain.
func (s *session) explains() *cobra.Command {
	c := &cobra.Command{
		Use: "explain", Short: "Say why something is not as it was asked to be, and what can be done",
		Example: "  drover explain web\n  drover explain cluster edge01\n  drover explain tenant t1\n  drover explain tenants/t1/workload-rules/side",
	}
	s.shows(c, "words", s.explainable, func(ctx context.Context, api *client.API, key domain.Key, p *printer) error {
		if !p.people() {
			x, err := api.Explain(ctx, key)
			if err != nil {
				return err
			}
			return p.value(s.Out, x)
		}
		text, err := s.explanation(ctx, api, key)
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(s.Out, text)
		return err
	})
	c.ValidArgsFunction = s.completeOwners(append(slices.Clone(domain.Owners), alsoExplained...)...)
	return c
}

// alsoExplained are the nouns beside owners of which the API says why something is not made.
var alsoExplained = []*domain.Noun{domain.Tenants, domain.WorkloadRules, domain.OperatorRules}

// explainable is an owner as arguments name it, or a tenant or a workload rule, of which the API says why something is not made, too.
func (s *session) explainable(ctx context.Context, api *client.API, args []string, w *where) (domain.Key, error) {
	n, names, err := s.meant(args[0], args[1:], w)
	if err == nil && len(names) == 1 && slices.Contains(alsoExplained, n) {
		return s.pick(ctx, api, n, names[0], w)
	}
	return s.owner(ctx, api, args, w)
}

// inAdvice are requests as the API says in explanations what can be done, and the commands that do the same.
var inAdvice = []struct {
	request *regexp.Regexp
	command string // of the program; $1 and so on are what the request says there
}{
	{regexp.MustCompile(`POST /v2/(\S+)/apply\b`), "instantiate $1"}, // of a cluster's network intents
	{regexp.MustCompile(`POST /v2/(\S+)/update\?reapply=true`), "update $1 --reapply"},
	{regexp.MustCompile(`POST /v2/(\S+)/rollback with spec\.revision "(\d+)"`), "rollback $1 --to $2"},
	{regexp.MustCompile(`POST /v2/(\S+)/(approve|instantiate|update|rollback|migrate|stop|terminate)\b`), "$2 $1"},
	{regexp.MustCompile(`DELETE /v2/cluster-providers/([^/\s]+)/clusters/([^/\s?]+)\?abandon=true(&labels=true)?`), "cluster remove $1/$2 --abandon"},
	{regexp.MustCompile(`(replace its kubeconfig): PUT /v2/cluster-providers/([^/\s]+)/clusters/([^/\s;]+)`), "cluster add $2/$3 --kubeconfig FILE"},
	{regexp.MustCompile(`(give the host of the workload nodes): PUT /v2/tenants/\{tenant\}/hosts/\{host\}`), "apply -f FILE"},
	{regexp.MustCompile(`PUT /v2/([^\s;]+)`), "edit $1"},
	{regexp.MustCompile(`POST /v2/tenants/\{tenant\}/release`), "tenants NAME --release"},
	{regexp.MustCompile(`GET /v2/(\S+)/explain`), "explain $1"},
}

// explanation is why something is not as it was asked to be, in words. What can be done is said by commands, where the API names its requests.
func (s *session) explanation(ctx context.Context, api *client.API, key domain.Key) (string, error) {
	text, err := api.ExplainText(ctx, key)
	return s.byCommands(text), err
}

// byCommands has a text name commands in place of requests.
func (s *session) byCommands(text string) string {
	for _, a := range inAdvice {
		text = a.request.ReplaceAllStringFunc(text, func(request string) string {
			command := fmt.Sprintf("'%s %s'", s.Program, a.request.ReplaceAllString(request, a.command))
			if what, _, ok := strings.Cut(request, ": PUT "); ok {
				return what + ": " + command
			}
			return command
		})
	}
	return text
}

// history is the command history.
func (s *session) history() *cobra.Command {
	c := &cobra.Command{
		Use: "history", Short: "Show what was asked of something, when and by whom, and what came of it", Example: "  drover history web",
		Long: `Show what was asked of something, when and by whom, and what came of it: DEPLOYED is where each operation has left it, such as
InstantiateFailed, or Running. A dash means that it changes nothing in clusters, or that the result is not known.`,
	}
	return s.owned(c, "a table", func(ctx context.Context, api *client.API, key domain.Key, p *printer) error {
		d, err := api.Status(ctx, key, summary)
		if err != nil {
			return err
		}
		asking, cancel := context.WithTimeout(ctx, waitMost) // what was asked for can be shown without it
		defer cancel()
		actions, err := cameOf(asking, api, key, d.States.Actions)
		switch {
		case ctx.Err() != nil:
			return err
		case err != nil:
			s.warn([]string{"what came of some of it is not known: " + s.text(err)})
		}
		if !p.people() {
			return p.value(s.Out, map[string]any{"items": actions})
		}
		t := newTable(s.Out, "TIME", "STATE", "OPERATION", "REVISION", "DEPLOYED", "CONTEXT", "BY")
		for _, a := range actions {
			revision := "-"
			if a.Revision > 0 || a.ContextID != "" && (a.State == domain.Instantiated || a.State == domain.Updated) { // 0 is what a migrate has made
				revision = fmt.Sprint(a.Revision)
			}
			t.row(a.Time.UTC().Format(time.RFC3339), string(a.State), dash(a.Operation), revision, dash(a.Deployed), dash(a.ContextID), dash(a.RequestedBy))
		}
		return t.flush()
	})
}

// action is one of a history, and what came of it.
type action struct {
	domain.Action
	// Deployed is a domain.ContextStatus, or the operations.State of an operation that has brought its context nowhere; "" where nothing was to come of the
	// action in clusters, and where that is not known.
	Deployed string `json:"deployed,omitempty"`
}

// cameOf says of actions what came of them: by the list of operations, which has those of the last days, and else by what is recorded of each, which the API
// knows without Temporal. An error is of the API: what came of some of the actions is missing.
func cameOf(ctx context.Context, api *client.API, key domain.Key, history []domain.Action) ([]action, error) {
	all := make([]action, len(history))
	runs, err := runsOf(ctx, api, key)
	known := map[string]bool{}
	var records errgroup.Group // each may wait for Temporal, so that one after the other would take too long
	records.SetLimit(at)
	var missing error
	for i := len(all) - 1; i >= 0; i-- {
		all[i].Action = history[i]
		id := broughtBy(&history[i])
		switch of := runs[id]; {
		case id == "":
		case len(of) > 0: // a terminate that has failed may have been asked for again
			all[i].Deployed, runs[id] = cameOfRun(&of[0]), of[1:]
		case known[id]: // its run before the last, which the list alone may have
			missing = err
		default:
			records.Go(func() error {
				o, err := api.Operation(ctx, id)
				switch {
				case fail.Is(err, fail.NotFound):
					return nil
				case err == nil:
					all[i].Deployed = cameOfRun(o)
				}
				return err
			})
		}
		known[id] = true
	}
	return all, cmp.Or(records.Wait(), missing)
}

// runsOf are the runs of a resource's operations that are listed, those of each operation the last one first. With an error the oldest are missing.
func runsOf(ctx context.Context, api *client.API, key domain.Key) (map[string][]operations.Operation, error) {
	ctx, cancel := context.WithTimeout(ctx, waitMost/3) // the rest is for the records
	defer cancel()
	runs := map[string][]operations.Operation{}
	for o, err := range api.Operations(ctx, url.Values{"owner": {string(key)}}) {
		if err != nil {
			return runs, err
		}
		if o.State != operations.Refused {
			runs[o.ID] = append(runs[o.ID], o)
		}
	}
	return runs, nil
}

// cameOfRun is action.Deployed of a run of an operation.
func cameOfRun(o *operations.Operation) string { return or(string(o.Status), string(o.State)) }

// broughtBy is the id of the operation that an action tells of, "" for what changes nothing in clusters.
func broughtBy(a *domain.Action) string {
	op := domain.OpTerminate
	switch a.State {
	case domain.Terminated:
	case domain.Instantiated, domain.Applied:
		op = domain.OpInstantiate
		for _, other := range []domain.Operation{domain.OpUpdate, domain.OpRollback, domain.OpMigrate} {
			if strings.HasPrefix(a.Operation, string(other)) { // as in "rollback to 3"
				op = other
			}
		}
	default:
		return ""
	}
	if a.ContextID == "" {
		return ""
	}
	return operations.ID(domain.Scope{ContextID: a.ContextID, Operation: op})
}
