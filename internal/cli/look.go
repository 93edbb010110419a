package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/operations"
	"github.com/drover-io/drover/internal/rights"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/status"
)

// project is that whose groups are looked at, "" for the fleet.
func (s *session) project(all bool) (domain.Key, error) {
	c, err := s.current()
	if err != nil || c.Project == "" || all {
		return "", err
	}
	return domain.Join(domain.Projects.Collection, c.Project), nil
}

// top is the command top.
func (s *session) top() *cobra.Command {
	c := &cobra.Command{
		Use: "top", Short: "Show what is slow or fails: groups that are not as wished or not ready, and operations that go on, the longest first",
		Example: "  drover top\n  drover top -A -o json", Args: noArguments,
	}
	all := c.Flags().BoolP("all-projects", "A", false, "of all projects, whatever the context says")
	output := c.Flags().StringP("output", "o", "", "the `form`: json, yaml or jsonpath=TEMPLATE; tables when missing")
	c.RunE = func(c *cobra.Command, _ []string) error {
		p, err := newValuePrinter(*output)
		if err != nil {
			return err
		}
		return s.doTop(c.Context(), *all, p)
	}
	return c
}

// slow is what top shows, for programs.
type slow struct {
	Of         int                    `json:"of"`         // how many groups there are
	Groups     []service.Group        `json:"groups"`     // those that are not as wished, or not ready
	Operations []operations.Operation `json:"operations"` // that go on
}

func (s *session) doTop(ctx context.Context, all bool, p *printer) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	project, err := s.project(all)
	if err != nil {
		return err
	}
	now := time.Now()
	total := 0
	bad := []service.Group{}
	for g, err := range api.Groups(ctx, project) {
		if err != nil {
			return err
		}
		total++
		if c := g.Status.Context; c.InProgress() || c == domain.ContextInstantiateFailed || c == domain.ContextTerminateFailed || ill(g.Status.Health) {
			bad = append(bad, g)
		}
	}
	slices.SortStableFunc(bad, func(a, b service.Group) int { return a.Status.Since.Compare(b.Status.Since) })
	filter := url.Values{"state": {string(operations.Running)}}
	if project != "" {
		filter.Set("project", project.Name())
	}
	running := []operations.Operation{}
	for o, err := range api.Operations(ctx, filter) {
		if err != nil {
			return err
		}
		running = append(running, o)
	}
	slices.SortStableFunc(running, func(a, b operations.Operation) int { return a.Started.Compare(b.Started) })
	if !p.people() {
		return p.value(s.Out, slow{total, bad, running})
	}
	fmt.Fprintf(s.Out, "Not as wished, or not ready: %d of %s\n", len(bad), counted(total, "group"))
	if len(bad) > 0 {
		t := newTable(s.Out, "GROUP", "STATUS", "SINCE", "RESOURCES", "READY", "REASON")
		for _, g := range bad {
			t.row(string(g.Resource), string(g.Status.Context), age(now, g.Status.Since), dash(tally(g.Status.Counts)), healthText(g.Status.Health), g.Status.Reason)
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	fmt.Fprintf(s.Out, "\nOperations that go on: %d\n", len(running))
	if len(running) == 0 {
		return nil
	}
	return s.printOperations(p, running, false)
}

// ill says whether clusters report of a group that something is not ready, or not there.
func ill(h *service.GroupHealth) bool {
	return h != nil && h.Counts[status.NotReady]+h.Counts[status.NotPresent] > 0
}

// healthText is how many resources of a group are ready, of how many of which something is reported; - where that is not known.
func healthText(h *service.GroupHealth) string {
	if h == nil {
		return "-"
	}
	all := sum(h.Counts)
	text := fmt.Sprintf("%d/%d", h.Counts[status.Ready], all)
	if !h.Ready && h.Counts[status.Ready] == all {
		text += ", not heard"
	}
	return text
}

// events is the command events.
func (s *session) events() *cobra.Command {
	c := &cobra.Command{
		Use: "events", Short: "Tell what changes: a line whenever a group stands otherwise than before",
		Long:    "Tell what changes: where each group stands, then a line whenever that is otherwise than before. It goes on after the API was away.",
		Example: "  drover events --follow\n  drover events --follow -o json", Args: noArguments,
	}
	all := c.Flags().BoolP("all-projects", "A", false, "of all projects, whatever the context says")
	follow := c.Flags().BoolP("follow", "f", false, "go on with what changes")
	output := c.Flags().StringP("output", "o", "", "the `form`: json (one object a line), yaml (one document each) or jsonpath=TEMPLATE; lines of words when missing")
	c.RunE = func(c *cobra.Command, _ []string) error {
		p, err := newValuePrinter(*output)
		if err != nil {
			return err
		}
		return s.doEvents(c.Context(), *all, *follow, p)
	}
	return c
}

func (s *session) doEvents(ctx context.Context, all, follow bool, p *printer) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	project, err := s.project(all)
	if err != nil {
		return err
	}
	known := map[string]string{}
	read := func(after string) (string, error) {
		for e, err := range api.StreamGroups(ctx, project, after) {
			if err != nil {
				return after, err
			}
			if !e.Tells() {
				continue
			}
			after = e.ID
			if err := s.tell(known, e, p); err != nil {
				return after, err
			}
			if !follow {
				return after, nil
			}
		}
		return after, nil
	}
	if !follow {
		_, err := read("")
		return err
	}
	return s.follow(ctx, read)
}

// tell prints what an event of the stream of groups says that was not known.
func (s *session) tell(known map[string]string, e client.Event, p *printer) error {
	groups, err := e.Groups()
	if err != nil {
		return err
	}
	now := time.Now().UTC().Format(time.RFC3339)
	const gone = "null"
	if e.Kind == "status" { // all there is: what else was known has gone, while nobody heard of it
		for path := range known {
			if _, there := groups[path]; !there {
				groups[path] = client.GroupEvent{JSON: json.RawMessage(gone)}
			}
		}
	}
	for _, path := range sortedKeys(groups) {
		g := groups[path]
		was, heard := known[path]
		switch is := string(g.JSON); {
		case is == was, is == gone && !heard:
			continue
		case is == gone:
			delete(known, path)
		default:
			known[path] = is
		}
		if !p.people() {
			if err := p.next(s.Out, map[string]any{"time": now, "resource": path, "status": g.JSON}); err != nil {
				return err
			}
			continue
		}
		text := "deleted"
		if g.GroupStatus != nil {
			text = or(string(g.Context), string(g.State))
			if t := tally(g.Counts); t != "" {
				text += ": " + t
			}
			if g.Reason != "" {
				text += ": " + g.Reason
			}
		}
		if _, err := fmt.Fprintf(s.Out, "%s  %s  %s\n", now, path, printable(text)); err != nil {
			return err
		}
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

// combines is the command combined.
func (s *session) combines() *cobra.Command {
	c := &cobra.Command{
		Use: "combined", Short: "Show the tables that status collectors make of what clusters report of a group's objects",
		Example: "  drover combined web\n  drover combined web --collector fleet/availability",
	}
	collectors := c.Flags().StringSlice("collector", nil, "only results of this `collector`: NAME of the project's, fleet/NAME of the fleet's")
	apps := c.Flags().StringSlice("app", nil, "only objects of this `app`")
	kinds := c.Flags().StringSlice("kind", nil, "only objects of this `kind`")
	resources := c.Flags().StringSlice("resource", nil, "only objects of this `name`")
	s.completeFlagBeside(c, "app", s.completeApps)
	s.completeFlagBeside(c, "collector", s.completeCollectors)
	s.owned(c, "tables", func(ctx context.Context, api *client.API, key domain.Key, p *printer) error {
		if n := domain.OwnerNoun(key); n != domain.DeploymentIntentGroups {
			return usage("combined is of deployment intent groups, and %s is %s", key, aOf(n))
		}
		filter := url.Values{}
		for name, values := range map[string][]string{"collector": *collectors, "app": *apps, "kind": *kinds, "resource": *resources} {
			if len(values) > 0 {
				filter[name] = values
			}
		}
		list, err := api.CombinedStatus(ctx, key, filter)
		if err != nil {
			return err
		}
		if p.people() && len(list.Items) == 0 {
			s.note("%s", whyNoTables(ctx, api, key, len(filter) > 0))
		}
		return s.showCombined(p, list)
	})
	c.ValidArgsFunction = s.completeOwners(domain.DeploymentIntentGroups)
	c.Use, c.Long = "combined NAME", c.Short+".\n\n"+aboutGroup+`

A value that could not be told is "-" in its table, or its row is not there where it is one of the filter or of groupBy. It is listed below
with its cluster and the reason, of each column 20 at the most. A table that cannot be made says why in its place, with -o json, yaml or
jsonpath also on stderr, and the exit code is then 1.`
	return c
}

// completeCollectors are the status collectors that a group may have, as its status intents name them.
func (s *session) completeCollectors(c *cobra.Command, args []string) (all []string) {
	for _, name := range s.completeOf(c.Context(), domain.StatusCollectors, &where{}) {
		all = append(all, domain.FleetCollector+name)
	}
	if _, _, names := s.group(c, args); names != nil {
		in, _ := domain.Projects.Key(names)
		all = append(all, s.completeOf(c.Context(), domain.ProjectCollectors, &where{in: string(in), all: true})...)
	}
	return all
}

// audits is the command audit.
func (s *session) audits() *cobra.Command {
	c := &cobra.Command{
		Use: "audit", Short: "List who did what, the newest first",
		Example: "  drover audit --verb terminate --limit 20\n  drover audit -p demo -o json\n  drover audit verify records.ndjson --keys keys.json",
		Args:    noArguments,
	}
	filters := map[string]*string{}
	for _, f := range [][2]string{
		{"who", "only of this user or service account"}, {"verb", "only this, such as create or instantiate"},
		{"noun", "only of these, such as apps"}, {"resource", "only of this path, and what is below it"},
		{"outcome", "only with this outcome, such as done or Forbidden"}, {"from", "only since this time"}, {"to", "only until this time"},
	} {
		filters[f[0]] = c.Flags().String(f[0], "", f[1])
	}
	s.completeFlag(c, "verb", func(context.Context) []string {
		return slices.DeleteFunc(rights.Verbs(), func(verb string) bool { return verb == rights.Use }) // which no request has
	})
	s.completeFlag(c, "noun", func(context.Context) []string { return completeRightNouns() })
	limit := c.Flags().Int("limit", 50, "how many at the most; 0 for all")
	all := c.Flags().BoolP("all-projects", "A", false, "of all projects, whatever the context says")
	output := c.Flags().StringP("output", "o", "", "the `form`: table (or nothing), json, yaml or jsonpath=TEMPLATE")
	c.RunE = func(c *cobra.Command, _ []string) error {
		p, err := newPrinter(*output)
		switch {
		case err != nil:
			return err
		case p.form == "name" || p.form == "wide":
			return usage("-o %s is none of table, json, yaml and jsonpath=TEMPLATE", p.form)
		case *limit < 0:
			return usage("--limit %d is less than none", *limit)
		}
		api, err := s.api()
		if err != nil {
			return err
		}
		project, err := s.project(*all)
		if err != nil {
			return err
		}
		query := url.Values{}
		for name, value := range filters {
			if *value != "" {
				query.Set(name, *value)
			}
		}
		found := []audit.Record{}
		for r, err := range api.AuditRecords(c.Context(), project, query) {
			if err != nil {
				return err
			}
			if found = append(found, r); *limit > 0 && len(found) == *limit {
				break
			}
		}
		if !p.people() {
			return p.value(s.Out, map[string]any{"items": found})
		}
		t := newTable(s.Out, "TIME", "WHO", "VERB", "NOUN", "KEY", "EVENT", "OUTCOME")
		for _, r := range found {
			t.row(r.Time.UTC().Format(time.RFC3339), r.Who.Text(), dash(r.Verb), dash(r.Noun), dash(r.Key), string(r.Event), dash(r.Result))
		}
		return t.flush()
	}
	return c
}

// tenants is the command tenants.
func (s *session) tenants() *cobra.Command {
	c := &cobra.Command{
		Use: "tenants [NAME]", Short: "List tenants with where each of them stands, or say why one is not as wanted",
		Example: "  drover tenants\n  drover tenants t1\n  drover tenants t1 --release", Args: numbered(0, 1, "the name of a tenant"),
		ValidArgsFunction: func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return s.completeOf(c.Context(), domain.Tenants, &where{}), cobra.ShellCompDirectiveNoFileComp
		},
	}
	output := c.Flags().StringP("output", "o", "", "the `form`: json, yaml or jsonpath=TEMPLATE; words when missing")
	release := c.Flags().Bool("release", false, "let the workloads go that its delete guard holds, with what was made for them")
	dryRun := c.Flags().Bool("dry-run", false, "say how many --release would let go, and let none go")
	c.RunE = func(c *cobra.Command, args []string) error {
		p, err := newValuePrinter(*output)
		if err != nil {
			return err
		}
		if *release && (len(args) == 0 || !p.people()) {
			return usage("--release is of one tenant, and needs its name alone")
		}
		if *dryRun && !*release {
			return usage("--dry-run is for --release")
		}
		api, err := s.api()
		if err != nil {
			return err
		}
		if len(args) == 1 {
			key := domain.Join(domain.Tenants.Collection, strings.TrimPrefix(args[0], domain.Tenants.Collection+"/"))
			if *dryRun {
				status, err := api.TenantStatus(c.Context(), key)
				if err != nil {
					return err
				}
				s.sayf("%s of %s that its delete guard holds would be let go (dry run)", counted(status.Held, "workload"), key)
				return nil
			}
			if *release {
				if err := api.Release(c.Context(), key); err != nil {
					return err
				}
				s.sayf("%s released", key)
				return nil
			}
			if !p.people() {
				status, err := api.TenantStatus(c.Context(), key)
				if err != nil {
					return err
				}
				return p.value(s.Out, status)
			}
			text, err := s.explanation(c.Context(), api, key)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(s.Out, text)
			return err
		}
		list, err := api.List(c.Context(), domain.Tenants, "")
		if err != nil {
			return err
		}
		return s.listTenants(c.Context(), api, p, list)
	}
	return c
}
