package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/service"
)

// diffFlags are those of diff.
type diffFlags struct {
	where
	revision       int
	version, to    string
	apps, clusters []string
	objects        bool
	reapply        bool
	exitCode       bool
	output         string
	rollback       func() bool // says that a revision is given, which may be 0
}

// diff is the command diff.
func (s *session) diff() *cobra.Command {
	f := &diffFlags{}
	c := &cobra.Command{
		Use: "diff NAME", Short: "Show what an update, rollback, migrate or the first instantiate would change in clusters",
		Long: `Show what an operation would change in clusters, by app, by clusters on which the same would be done, by resource and field. Without
flags it is the operation that is due: an update where there is an instance, else an instantiate; --to asks for a rollback,
--version for a migrate. It is the plan that the operation would make, and nothing is done. What others have changed in clusters
is not in it: --reapply shows all that 'update --reapply' would put back. Of Secrets it has digests.

  + created   ~ changed   = applied once more, as nobody knows whether it is there   > a hook that is run   - deleted`,
		Example: `  drover diff web
  drover diff web --to 2
  drover diff v1/web --version v2
  drover diff web --app sink --cluster site+edge01 --objects
  drover diff web --exit-code -q || { [ $? -eq 7 ] && drover update web --wait; }`,
		Args: numbered(1, 2, "the name of a group"), ValidArgsFunction: s.completeOwners(domain.DeploymentIntentGroups),
	}
	s.placed(c, &f.where)
	f.rollback = func() bool { return c.Flags().Changed("to") }
	c.Flags().IntVar(&f.revision, "to", 0, "the `revision` that a rollback would bring back")
	c.Flags().BoolVar(&f.reapply, "reapply", false, "an update that applies all again, and runs the hooks of an update on each cluster")
	c.Flags().StringVar(&f.version, "version", "", "the `version` of the composite app that a migrate would go to")
	c.Flags().StringVar(&f.to, "group", "", "the `group` there (default: one of the same name)")
	c.Flags().StringSliceVar(&f.apps, "app", nil, "only this `app`")
	c.Flags().StringSliceVar(&f.clusters, "cluster", nil, "only this `cluster`, as provider+cluster")
	s.completeFlagBeside(c, "to", s.completeRevisions)
	s.completeFlagBeside(c, "version", s.completeVersions)
	s.completeFlagBeside(c, "group", s.completeGroupsThere)
	s.completeFlagBeside(c, "app", s.completeApps)
	s.completeFlag(c, "cluster", func(ctx context.Context) []string {
		all := s.completeClusters(ctx)
		for i := range all {
			all[i] = strings.Replace(all[i], "/", "+", 1)
		}
		return all
	})
	c.Flags().BoolVar(&f.objects, "objects", false, "show what is created whole")
	c.Flags().BoolVar(&f.exitCode, "exit-code", false, "end with 7 where something would be done, with 0 where not")
	c.Flags().StringVarP(&f.output, "output", "o", "", "the `form`: json, yaml or jsonpath=TEMPLATE; words when missing")
	c.RunE = func(c *cobra.Command, args []string) error { return s.doDiff(c.Context(), f, args) }
	return c
}

func (s *session) doDiff(ctx context.Context, f *diffFlags, args []string) error {
	p, err := newValuePrinter(f.output)
	if err != nil {
		return err
	}
	query := url.Values{"limit": {mostAtOnce}, "app": f.apps, "cluster": f.clusters}
	switch {
	case f.reapply && (f.rollback() || f.version != "" || f.to != ""):
		return usage("--reapply is of an update: leave out --to, --version and --group")
	case f.reapply:
		query.Set("operation", string(domain.OpUpdate))
		query.Set("reapply", "true")
	case f.rollback() && (f.version != "" || f.to != ""):
		return usage("--to and --version ask for different operations: use one of them; --group goes with --version")
	case f.revision < 0:
		return usage("--to %d is no revision: 'drover history' shows them", f.revision)
	case f.rollback():
		query.Set("operation", string(domain.OpRollback))
		query.Set("revision", strconv.Itoa(f.revision))
	case f.version != "":
		query.Set("operation", string(domain.OpMigrate))
		query.Set("version", f.version)
		if f.to != "" {
			query.Set("group", f.to)
		}
	case f.to != "":
		return usage("--group needs --version: that of the composite app to migrate to")
	}
	api, err := s.api()
	if err != nil {
		return err
	}
	key, err := s.owner(ctx, api, args, &f.where)
	if err != nil {
		return err
	}
	if n := domain.OwnerNoun(key); n != domain.DeploymentIntentGroups {
		return usage("diff is of deployment intent groups, and %s is %s", key, aOf(n))
	}
	d, err := api.Diff(ctx, key, query)
	if err != nil {
		return err
	}
	if p.people() {
		s.warn(d.Warnings)
	}
	switch {
	case !p.people():
		err = p.value(s.Out, d)
	case !s.flags.quiet:
		for _, line := range differenceLines(d, f.objects) {
			fmt.Fprintln(s.Out, printable(line))
		}
	}
	if err == nil && f.exitCode && len(d.Items) > 0 {
		return errSaid{exitDiffers}
	}
	return err
}

// mostAtOnce is how many items of a difference are asked for at a time: the API makes the plans anew for each answer.
const mostAtOnce = "1000"

// quantityOf is a summary in words: "2 to create, 3 to change on 4 clusters".
func quantityOf(d *service.GroupDiff) string {
	var parts []string
	for _, x := range []struct {
		n    int
		what string
	}{
		{d.Changes.Create, "to create"}, {d.Changes.Change, "to change"}, {d.Changes.Again, "to apply once more"}, {d.Changes.Run, "hooks to run"}, {d.Changes.Delete, "to delete"},
	} {
		if x.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", x.n, x.what))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ", ") + " on " + clustersOf(d.Clusters)
}

// staying says how many resources an operation does not touch.
func staying(n int) string {
	if n == 1 {
		return "1 resource stays as it is"
	}
	return fmt.Sprintf("%d resources stay as they are", n)
}

// signs stand before resources, by what would be done.
var signs = map[string]string{"create": "+", "change": "~", "again": "=", "run": ">", "delete": "-"}

// differenceLines are a difference for people; objects says whether what is created is shown whole.
func differenceLines(d *service.GroupDiff, objects bool) []string {
	quantity := quantityOf(d)
	if quantity == "" {
		return []string{fmt.Sprintf("%s: nothing to do, %s", d.Operation, staying(d.Unchanged))}
	}
	lines := []string{fmt.Sprintf("%s: %s; %s", d.Operation, quantity, staying(d.Unchanged))}
	for _, item := range d.Items {
		head := fmt.Sprintf("%s on %s", item.App, few(item.Clusters))
		switch {
		case item.Arrives:
			head += " (new there)"
		case item.Leaves:
			head += " (leaves)"
		}
		lines = append(lines, head)
		for _, r := range item.Resources {
			line := fmt.Sprintf("  %s %s", signs[string(r.Action)], r.Resource)
			if r.Replace {
				line += " (deleted and made anew where its cluster refuses to change it)"
			}
			lines = append(lines, line)
			for _, field := range r.Fields {
				lines = append(lines, fieldLines(field)...)
			}
			if r.More > 0 {
				lines = append(lines, "      and "+counted(r.More, "more field"))
			}
			if objects && r.Object != nil {
				for _, l := range linesOf(r.Object) {
					lines = append(lines, "      + "+l)
				}
			}
			switch {
			case r.Action == "change" && !r.Cut && len(r.Fields) == 0 && r.More == 0:
				lines = append(lines, "      (it says the same, otherwise written)")
			case r.Cut && r.Action == "change":
				lines = append(lines, "      … (too large to be shown)")
			case r.Cut && objects:
				lines = append(lines, "      + … (too large to be shown)")
			}
		}
	}
	return lines
}

// fieldLines are a member for people: on one line where both values are short, else what is not the same of their lines.
func fieldLines(f service.DiffField) []string {
	const indent = "      "
	before, after := linesOf(f.Before), linesOf(f.After)
	cut := ""
	if f.Cut {
		cut = " (too large to be shown whole)"
	}
	switch {
	case f.Before == nil && len(after) == 1:
		return []string{fmt.Sprintf("%s+ %s: %s%s", indent, f.Path, after[0], cut)}
	case f.After == nil && len(before) == 1:
		return []string{fmt.Sprintf("%s- %s: %s%s", indent, f.Path, before[0], cut)}
	case len(before) == 1 && len(after) == 1:
		return []string{fmt.Sprintf("%s%s: %s -> %s%s", indent, f.Path, before[0], after[0], cut)}
	}
	lines := []string{indent + f.Path + ":" + cut}
	for _, l := range lineDiff(before, after) {
		lines = append(lines, indent+"  "+l)
	}
	return lines
}

// linesOf is a value as YAML, texts as they are; none for nothing.
func linesOf(v any) []string {
	if v == nil {
		return nil
	}
	text, ok := v.(string)
	if !ok {
		data, err := yaml.Marshal(v)
		if err != nil {
			return []string{fmt.Sprint(v)}
		}
		text = string(data)
	}
	if text == "" {
		return []string{`""`}
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

const (
	lineContext = 2         // lines that are the same, around those that are not
	mostPairs   = 1_000_000 // of lines that are compared; of longer texts all between the first and the last difference is shown
)

// lineDiff is how lines become others, with - and + as diff -u has them.
func lineDiff(before, after []string) []string {
	first := 0
	for first < len(before) && first < len(after) && before[first] == after[first] {
		first++
	}
	last := 0
	for last < len(before)-first && last < len(after)-first && before[len(before)-1-last] == after[len(after)-1-last] {
		last++
	}
	x, y := before[first:len(before)-last], after[first:len(after)-last]
	var lines []string
	add := func(sign string, more ...string) {
		for _, l := range more {
			lines = append(lines, sign+l)
		}
	}
	if from := first - lineContext; from > 0 {
		add("", "…")
		add("  ", before[from:first]...)
	} else {
		add("  ", before[:first]...)
	}
	common := longestCommon(x, y)
	i, j := 0, 0
	for _, c := range common {
		add("- ", x[i:c[0]]...)
		add("+ ", y[j:c[1]]...)
		add("  ", x[c[0]])
		i, j = c[0]+1, c[1]+1
	}
	add("- ", x[i:]...)
	add("+ ", y[j:]...)
	rest := before[len(before)-last:]
	add("  ", rest[:min(lineContext, len(rest))]...)
	if len(rest) > lineContext {
		add("", "…")
	}
	return lines
}

// longestCommon are the places of a longest common subsequence; none where that would take too long.
func longestCommon(x, y []string) (places [][2]int) {
	if len(x)*len(y) > mostPairs {
		return nil
	}
	length := make([][]int, len(x)+1) // of the longest one from a place on
	for i := range length {
		length[i] = make([]int, len(y)+1)
	}
	for i := len(x) - 1; i >= 0; i-- {
		for j := len(y) - 1; j >= 0; j-- {
			if x[i] == y[j] {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	for i, j := 0, 0; i < len(x) && j < len(y); {
		switch {
		case x[i] == y[j]:
			places = append(places, [2]int{i, j})
			i, j = i+1, j+1
		case length[i+1][j] >= length[i][j+1]:
			i++
		default:
			j++
		}
	}
	return places
}

// showDue shows people what the operation that is due would change, before it is asked for. Why it would be refused is for the
// operation to say.
func (s *session) showDue(ctx context.Context, api *client.API, key domain.Key) error {
	if s.flags.quiet {
		return nil
	}
	d, err := api.Diff(ctx, key, url.Values{"limit": {mostAtOnce}})
	if err != nil {
		if transient(err) {
			return err
		}
		s.note("What would change cannot be shown: %s", s.text(err))
		return nil
	}
	if len(d.Items) > 0 {
		writeLines(s.Out, differenceLines(d, false))
	}
	return nil
}

func writeLines(out io.Writer, lines []string) {
	for _, line := range lines {
		fmt.Fprintln(out, printable(line))
	}
}
