package cli

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/rights"
)

// auth is the command auth.
func (s *session) auth() *cobra.Command {
	c := &cobra.Command{
		Use: "auth", Short: "Say who you are, and what you may do",
		Example: "  drover auth whoami\n  drover auth can-i approve group -p demo\n  drover auth can-i --list -p demo",
		Args:    noCommand, RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(s.whoami(), s.canI())
	return c
}

// whoami is the command auth whoami.
func (s *session) whoami() *cobra.Command {
	c := &cobra.Command{
		Use: "whoami", Short: "Say who the API takes you for, by what, and until when", Args: noArguments,
		Example: "  drover auth whoami\n  drover auth whoami -o jsonpath='{.name}'",
	}
	output := c.Flags().StringP("output", "o", "", "the `form`: json, yaml or jsonpath=TEMPLATE; words when missing")
	c.RunE = func(c *cobra.Command, _ []string) error {
		p, err := newValuePrinter(*output)
		if err != nil {
			return err
		}
		api, err := s.api()
		if err != nil {
			return err
		}
		who, err := api.Whoami(c.Context(), nil)
		if err != nil {
			return err
		}
		if !p.people() {
			return p.value(s.Out, who)
		}
		until := ""
		if who.Expires != nil {
			until = who.Expires.UTC().Format(time.RFC3339)
		}
		t := newTable(s.Out, "KIND", "NAME", "GROUPS", "BY", "UNTIL")
		t.row(who.Kind, dash(who.Name), dash(strings.Join(who.Groups, ",")), dash(who.By), dash(until))
		return t.flush()
	}
	return c
}

// canI is the command auth can-i.
func (s *session) canI() *cobra.Command {
	c := &cobra.Command{
		Use: "can-i VERB NOUN | can-i --list [NOUN]", Short: "Say whether you may do something, or list what you may",
		Long: `Say whether you may do something, or list what you may. The answer is yes, or no with what is missing; no ends with exit code 1.

It is asked of the project (-p, or the context's), of a cluster provider (--provider), or else of everywhere: yes then means in all
projects and providers. It is the API's own decision, but what a request names may still not be yours, such as a role with more rights
than you have.`,
		Example: `  drover auth can-i instantiate group -p demo
  drover auth can-i put clusters --provider edge
  drover auth can-i --list -p demo
  drover auth can-i terminate group -q || echo "ask somebody else"`,
		Args: numbered(0, 2, "a verb and a noun, or --list"),
	}
	f := &canIFlags{}
	c.Flags().BoolVar(&f.list, "list", false, "list what you may do")
	c.Flags().BoolVarP(&f.all, "all-projects", "A", false, "everywhere, whatever project the context says")
	c.Flags().StringVar(&f.provider, "provider", "", "in this cluster `provider`")
	s.completeFlag(c, "provider", func(ctx context.Context) []string { return s.completeOf(ctx, domain.ClusterProviders, &where{}) })
	c.Flags().StringVarP(&f.output, "output", "o", "", "the `form`: json, yaml or jsonpath=TEMPLATE; words when missing")
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case f.list && len(args) > 1:
			return usage("--list takes a noun at the most")
		case !f.list && len(args) != 2:
			return usage("a verb and a noun are needed, or --list\nSee '%s --help'", c.CommandPath())
		}
		return s.doCanI(c.Context(), f, args)
	}
	c.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 && !f.list {
			return rights.Verbs(), cobra.ShellCompDirectiveNoFileComp
		}
		return completeRightNouns(), cobra.ShellCompDirectiveNoFileComp
	}
	return c
}

type canIFlags struct {
	list, all        bool
	provider, output string
}

// asked is the query that a command line means.
func (s *session) asked(f *canIFlags, args []string) (url.Values, error) {
	query := url.Values{"noun": {"*"}}
	if len(args) > 0 {
		n, err := s.anyNoun(args[len(args)-1])
		if err != nil {
			return nil, err
		}
		query.Set("noun", n.Kind)
		if len(args) == 2 {
			query.Set("verb", args[0])
		}
		if top := n.Lineage()[0]; f.provider == "" && top != domain.Projects && top != domain.AuditRecords {
			return query, nil // it lies in no project: the context's says nothing of it
		}
	}
	if f.provider != "" {
		query.Set("clusterProvider", f.provider)
		return query, nil
	}
	project, err := s.project(f.all)
	if project != "" {
		query.Set("project", project.Name())
	}
	return query, err
}

// anyNoun is nounOf for nouns, too, that have nothing to show.
func (s *session) anyNoun(word string) (*domain.Noun, error) {
	if i := slices.IndexFunc(rights.Nouns(), func(n *domain.Noun) bool { return n.Kind == word }); i >= 0 {
		return rights.Nouns()[i], nil
	}
	return nounOf(word, s.given(&where{}))
}

func (s *session) doCanI(ctx context.Context, f *canIFlags, args []string) error {
	p, err := newValuePrinter(f.output)
	if err != nil {
		return err
	}
	query, err := s.asked(f, args)
	if err != nil {
		return err
	}
	api, err := s.api()
	if err != nil {
		return err
	}
	who, err := api.Whoami(ctx, query)
	if err != nil {
		return err
	}
	denied := !f.list && len(who.Rights) == 1 && len(who.Rights[0].MayNot) > 0
	switch {
	case !p.people():
		err = p.value(s.Out, who)
	case f.list:
		t := newTable(s.Out, "NOUN", "VERBS")
		for _, r := range who.Rights {
			t.row(r.Noun, strings.Join(r.May, " "))
		}
		return t.flush()
	case denied:
		s.sayf("no: %s", who.Rights[0].MayNot[0].Why)
	default:
		s.sayf("yes")
	}
	if err == nil && denied {
		return errSaid{exitFailed}
	}
	return err
}
