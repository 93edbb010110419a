package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/operations"
	"github.com/drover-io/drover/internal/pause"
)

// lookAgain is how often --watch asks.
const lookAgain = 2 * time.Second

const aboutNames = `NAME is the name, or with slashes the last parts of its path: sink, v1/sink, vfw/v1/sink. A whole path below /v2 is good too.
What is not given of the path is looked for in all that there is; --in says where, and --project (or the context's) in which
project, unless -A is given.`

// getFlags are those of get.
type getFlags struct {
	where
	output string
	watch  bool
	// of operations
	cluster, state, since, kind, owner string
}

// get is the command get.
func (s *session) get() *cobra.Command {
	f := &getFlags{}
	c := &cobra.Command{
		Use: "get NOUN [NAME...]", Short: "List what there is, or show what is named",
		Long: "List what there is, or show what is named. \"drover nouns\" lists the nouns; short names (dig, lc) and the ends of their titles\n" +
			"(group, cloud) will do.\n\n" + aboutNames + "\n\nWhat -o json and -o yaml print, apply -f reads; not so of operations, workloads and matches,\nwhich are no documents. One NAME is one document there, and is refused where it\nmay be any of several; with -A it is a list.",
		Example: `  drover get clusters
  drover get groups -A -o wide
  drover get apps --in compositevfw/v1
  drover get group web -p demo -o yaml
  drover get group web -o jsonpath='{.status.contextStatus}'
  drover get operations --cluster edge02 --state Running`,
		Args: numbered(1, -1, "a noun, such as clusters; \"drover nouns\" lists them"),
	}
	s.placed(c, &f.where)
	c.Flags().StringVarP(&f.output, "output", "o", "", aboutOutput)
	c.Flags().BoolVarP(&f.watch, "watch", "w", false, "go on, and print what changes")
	c.Flags().StringVar(&f.cluster, "cluster", "", "of operations: those with something to do on this `cluster`, by its name or as provider+cluster")
	s.completeFlag(c, "cluster", s.completeClusters)
	c.Flags().StringVar(&f.state, "state", "", "of operations: those in this `state`, such as Running")
	s.completeFlag(c, "state", func(context.Context) []string { return wordsOf(operations.States) })
	c.Flags().StringVar(&f.since, "since", "", "of operations: leave out what had ended before this `time`, such as 2h30m")
	c.Flags().StringVar(&f.kind, "kind", "", "of operations: only this `operation`, such as update")
	s.completeFlag(c, "kind", func(context.Context) []string { return wordsOf(slices.Sorted(maps.Keys(shortOf))) })
	c.Flags().StringVar(&f.owner, "owner", "", "of operations: only those of this group, logical cloud or cluster, by its `path`")
	s.completeFlag(c, "owner", s.completeOwnerPaths)
	c.ValidArgsFunction = s.completeNames
	c.RunE = func(c *cobra.Command, args []string) error { return s.doGet(c.Context(), f, args[0], args[1:]) }
	return c
}

// placed adds the flags that say where to look.
func (s *session) placed(c *cobra.Command, w *where) {
	c.Flags().StringVar(&w.in, "in", "", "look below this `parent`: compositevfw/v1, or a path")
	s.completeFlagBeside(c, "in", s.completeParents)
	c.Flags().BoolVarP(&w.all, "all-projects", "A", false, "look in all projects, whatever the context says")
}

func (s *session) doGet(ctx context.Context, f *getFlags, word string, wanted []string) error {
	p, err := newPrinter(f.output)
	if err != nil {
		return err
	}
	n, wanted, err := s.meant(word, wanted, &f.where)
	if err != nil {
		return err
	}
	if n == domain.Operations {
		if f.in != "" {
			return usage("--in says nothing of operations: --owner chooses those of a group, logical cloud or cluster")
		}
		return s.getOperations(ctx, f, p, wanted)
	}
	if f.cluster+f.state+f.since+f.kind+f.owner != "" {
		return usage("--cluster, --state, --since, --kind and --owner choose operations, not %s", n.Kind)
	}
	var chosen []*selection
	for _, name := range wanted {
		x, err := s.choose(n, name, &f.where)
		if err != nil {
			return err
		}
		chosen = append(chosen, x)
	}
	if len(wanted) == 0 {
		x, err := s.choose(n, "", &f.where)
		if err != nil {
			return err
		}
		chosen = append(chosen, x)
	}
	api, err := s.api()
	if err != nil {
		return err
	}
	read := func(gone bool) ([]item, error) { // gone: what is not there was, and the others still are
		var all []item
		var left leftOut
		for _, x := range chosen {
			found, err := s.find(ctx, api, x)
			if gone && fail.Is(err, fail.NotFound) {
				continue
			}
			if err = left.keep(err); err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
		return all, left.first
	}
	// Columns are of what no selection says.
	shape := chosen[0]
	if len(chosen) > 1 {
		shape, _ = s.choose(n, "", &f.where)
	}
	if f.watch {
		return s.watchItems(ctx, p, shape, read)
	}
	found, err := read(false)
	var left leftOut
	if err = left.keep(err); err != nil {
		return err
	}
	single := len(wanted) == 1 && !f.all
	if single && len(found) > 1 && !p.people() && p.form != "name" {
		return ambiguous(wanted[0], found) // the shape of one document is what a script reads, whatever others have made since
	}
	return cmp.Or(s.print(p, shape, found, single && len(found) == 1), left.first)
}

// meant is the noun that a word means; a word that is a path says the name as well.
func (s *session) meant(word string, wanted []string, w *where) (*domain.Noun, []string, error) {
	if strings.Contains(strings.Trim(word, "/"), "/") {
		path := domain.Key(strings.Trim(strings.TrimPrefix(word, "/v2"), "/"))
		for _, n := range domain.Nouns {
			if _, ok := n.Split(path); ok {
				return n, append([]string{string(path)}, wanted...), unnamed(n, wanted...)
			}
		}
		if noun, name, ok := strings.Cut(word, "/"); ok { // cluster/edge01, as kubectl has it
			if n, err := nounOf(noun, s.given(w)); err == nil {
				return n, append([]string{name}, wanted...), unnamed(n, wanted...)
			}
		}
		return nil, nil, usage("%q is the path of nothing that there is", word)
	}
	n, err := nounOf(word, s.given(w))
	if err != nil {
		return nil, nil, err
	}
	return n, wanted, unnamed(n, wanted...)
}

// print prints items in a form.
func (s *session) print(p *printer, x *selection, found []item, single bool) error {
	switch {
	case p.form == "name":
		for _, one := range found {
			fmt.Fprintln(s.Out, one.key)
		}
		return nil
	case p.people():
		if len(found) == 0 {
			s.note("There is no %s.", x.noun.Title)
			return nil
		}
		t, cells := s.tableOf(p, x)
		for _, one := range found {
			t.row(cells(one)...)
		}
		return t.flush()
	case single:
		return p.value(s.Out, document(x.noun, found[0]))
	case p.form == "yaml":
		for i, one := range found {
			if i > 0 {
				fmt.Fprintln(s.Out, "---")
			}
			if err := p.value(s.Out, document(x.noun, one)); err != nil {
				return err
			}
		}
		return nil
	}
	list := map[string]any{"items": []any{}}
	all := make([]any, 0, len(found))
	for _, one := range found {
		all = append(all, document(x.noun, one))
	}
	list["items"] = all
	return p.value(s.Out, list)
}

// tableOf is an empty table of a selection, and what makes a row of an item.
func (s *session) tableOf(p *printer, x *selection) (*table, func(item) []string) {
	columns := slices.DeleteFunc(columnsOf(x, time.Now), func(c column) bool { return c.wide && p.form != "wide" })
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i] = c.head
	}
	return newTable(s.Out, heads...), func(one item) []string {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = c.cell(one)
		}
		return cells
	}
}

// emco is what the files of EMCO's command line client say of their version.
const emco = "emco/v2"

// document is an item as a file has it, see apply, with where it stands.
func document(n *domain.Noun, one item) map[string]any {
	d := members(one.object)
	if n.New == nil || d == nil {
		return d
	}
	parent, _ := domain.Cut(n, one.key)
	d["version"] = emco
	d["resourceContext"] = map[string]any{"anchor": string(parent.Child(n.Collection))}
	if one.status != nil {
		d["status"] = one.status
	}
	return d
}

// watchItems prints what there is and then what has changed.
func (s *session) watchItems(ctx context.Context, p *printer, x *selection, read func(gone bool) ([]item, error)) error {
	t, cells := s.tableOf(p, x)
	before := map[domain.Key]string{}
	first, said := true, ""
	return s.again(ctx, func() error {
		found, err := read(!first)
		var left leftOut
		if err = left.keep(err); err != nil {
			return err
		}
		first = false
		if err := s.printChanged(p, x, t, cells, before, found, left.first == nil); err != nil {
			return err
		}
		text := ""
		if left.first != nil {
			text = left.first.Error()
		}
		if text != "" && text != said {
			s.note("%s", text)
		}
		said = text
		return nil
	})
}

// again does something again and again, until the user has seen enough. Where the API does not answer for a while, after it has, that is
// said once.
func (s *session) again(ctx context.Context, do func() error) error {
	first, away := true, false
	for {
		err := do()
		switch {
		case err != nil && (first || !transient(err)):
			return err
		case err != nil && !away:
			s.note("%s; it is asked again", s.text(err))
		}
		first, away = false, err != nil
		if err := pause.For(ctx, lookAgain); err != nil {
			return err
		}
	}
}

// printChanged prints the items that are new or show something else than before, and says of those that are gone that they are, where all could be read.
func (s *session) printChanged(p *printer, x *selection, t *table, cells func(item) []string, before map[domain.Key]string, found []item, all bool) error {
	seen := map[domain.Key]bool{}
	for _, one := range found {
		seen[one.key] = true
		d := document(x.noun, one)
		state, err := json.Marshal(d)
		if err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		if string(state) == before[one.key] {
			continue
		}
		before[one.key] = string(state)
		switch {
		case p.people():
			t.row(cells(one)...)
		case p.form == "name":
			fmt.Fprintln(s.Out, one.key)
		default:
			if p.form == "yaml" {
				fmt.Fprintln(s.Out, "---")
			}
			if err := p.value(s.Out, d); err != nil {
				return err
			}
		}
	}
	for key := range before {
		if !seen[key] && all {
			delete(before, key)
			s.note("%s is deleted", key)
		}
	}
	if p.people() && (len(t.rows) > 0 || !t.begun) {
		return t.flush()
	}
	return nil
}

// transient says whether asking again may help.
func transient(err error) bool { return fail.IsUnanswered(err) || fail.Is(err, fail.Exhausted) }
