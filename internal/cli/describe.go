package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// describe is the command describe.
func (s *session) describe() *cobra.Command {
	w := &where{}
	c := &cobra.Command{
		Use: "describe NOUN NAME...", Short: "Show what there is about something: what it says, what is below it, where it stands and why",
		Long:    "Show what there is about something: what it says, what is below it, where it stands and why.\n\n" + aboutNames,
		Example: "  drover describe group web\n  drover describe cluster edge01",
		Args:    numbered(1, -1, "a noun and a name"), ValidArgsFunction: s.completeNames,
	}
	s.placed(c, w)
	c.RunE = func(c *cobra.Command, args []string) error { return s.doDescribe(c.Context(), w, args[0], args[1:]) }
	return c
}

func (s *session) doDescribe(ctx context.Context, w *where, word string, wanted []string) error {
	n, wanted, err := s.meant(word, wanted, w)
	if err != nil {
		return err
	}
	if len(wanted) == 0 {
		return usage("describe needs the name of %s", aOf(n))
	}
	if n.New == nil {
		return usage("%s cannot be described; see 'get %s -o yaml'", n.Kind, n.Kind)
	}
	api, err := s.api()
	if err != nil {
		return err
	}
	for i, name := range wanted {
		key, err := s.pick(ctx, api, n, name, w)
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprintln(s.Out)
		}
		if err := s.describeOne(ctx, api, n, key); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) describeOne(ctx context.Context, api *client.API, n *domain.Noun, key domain.Key) error {
	o, err := api.Get(ctx, n, key)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "%s %s\n", strings.ToUpper(n.Title[:1])+n.Title[1:], o.LocalName())
	fmt.Fprintf(s.Out, "Path:  %s\n", key)
	for _, part := range []string{"metadata", "spec"} {
		value, ok := members(o)[part]
		if !ok {
			continue
		}
		text, err := yaml.Marshal(value)
		if err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		fmt.Fprintf(s.Out, "%s:\n%s\n", strings.ToUpper(part[:1])+part[1:], indented(string(text)))
	}
	if err := s.describeChildren(ctx, api, n, key); err != nil {
		return err
	}
	explained := n.Owner != nil || n == domain.Tenants || n == domain.WorkloadRules || n == domain.OperatorRules
	if !explained {
		return nil
	}
	text, err := s.explanation(ctx, api, key)
	if fail.Is(err, fail.Forbidden) {
		s.note("Where it stands may not be seen: %s", s.text(err))
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "Stands:\n%s\n", indented(text))
	return nil
}

// describeChildren lists what is directly below.
func (s *session) describeChildren(ctx context.Context, api *client.API, n *domain.Noun, key domain.Key) error {
	head := true
	for _, child := range domain.Nouns {
		if child.Parent != n {
			continue
		}
		found, err := listed(ctx, api, &selection{noun: child, fixed: map[string]string{}}, key)
		if fail.Is(err, fail.Forbidden) {
			continue
		}
		if err != nil {
			return err
		}
		if len(found) == 0 {
			continue
		}
		var all []string
		for _, one := range found {
			_, local := domain.Cut(child, one.key)
			all = append(all, local)
		}
		if head {
			fmt.Fprintln(s.Out, "Below it:")
		}
		head = false
		more := ""
		if len(all) > 20 {
			more = fmt.Sprintf(" and %d more", len(all)-20)
			all = all[:20]
		}
		fmt.Fprintf(s.Out, "  %s: %s%s\n", child.Kind, strings.Join(all, ", "), more)
	}
	return nil
}

func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ")
}
