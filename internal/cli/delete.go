package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// deleteFlags are those of delete.
type deleteFlags struct {
	where
	sources
	terminate, cascade, missing, dryRun, abandon, unreadable bool
	timeout                                                  time.Duration
}

// remove is the command delete.
func (s *session) remove() *cobra.Command {
	f := &deleteFlags{}
	c := &cobra.Command{
		Use: "delete (NOUN NAME... | -f FILE)", Short: "Delete what is named, or what files describe",
		Long: "Delete what is named, or what files describe, in the reverse of the order in which apply makes it.\n\n" + aboutNames + `

As with emcoctl, a document that instantiates something (anchor …/instantiate or …/apply) terminates it. --terminate
waits for that, and terminates what is in clusters although no document says so, before it is deleted.`,
		Example: `  drover delete app sink --in compositevfw/v1
  drover delete composite-app web/v1 --terminate --cascade
  drover delete -f emcoctl/ -v values.yaml --terminate
  drover delete project projects/demo --unreadable`,
		Args: cobra.ArbitraryArgs, ValidArgsFunction: s.completeNames,
	}
	s.placed(c, &f.where)
	f.add(c)
	c.Flags().BoolVar(&f.terminate, "terminate", false, "terminate what is in clusters, and wait for it, before it is deleted")
	c.Flags().BoolVar(&f.cascade, "cascade", false, "of what is named: delete all that is below it, too")
	c.Flags().DurationVar(&f.timeout, "timeout", defaultWait, "how long to wait for a terminate; 0 for as long as it takes")
	c.Flags().BoolVar(&f.missing, "ignore-not-found", false, "what is not there is no error")
	c.Flags().BoolVar(&f.abandon, "abandon", false, "delete a cluster or a tenant although the cluster may keep something for ever; with --unreadable whatever may have something in clusters, or what nobody can judge")
	c.Flags().BoolVar(&f.unreadable, "unreadable", false, "delete what the API cannot read, which is lost then: by who is admin of the fleet, and named by its path")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "say what would be deleted, and do nothing")
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case f.unreadable && (len(f.files) > 0 || f.cascade || f.terminate || f.dryRun):
			return usage("--unreadable goes with names and --abandon alone: nobody knows what such a document says, so delete what is below it first")
		case len(f.files) > 0 && f.cascade:
			return usage("--cascade goes with names: files say themselves what is to be deleted")
		case len(f.files) > 0 && len(args) > 0:
			return usage("either names or -f, not both")
		case len(f.files) > 0:
			return s.deleteFiles(c.Context(), f)
		case len(args) == 0:
			return usage("a noun and a name are needed, or -f")
		}
		return s.deleteNamed(c.Context(), f, args[0], args[1:])
	}
	return c
}

func (s *session) deleteNamed(ctx context.Context, f *deleteFlags, word string, wanted []string) error {
	n, wanted, err := s.meant(word, wanted, &f.where)
	if err != nil {
		return err
	}
	if len(wanted) == 0 {
		return usage("delete needs the name of a %s", n.Title)
	}
	if n.New == nil {
		return usage("%s cannot be deleted", n.Kind)
	}
	api, err := s.api()
	if err != nil {
		return err
	}
	var keys []domain.Key
	for _, name := range wanted { // before the first one goes
		key, err := s.pick(ctx, api, n, name, &f.where)
		if f.missing && fail.Is(err, fail.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		keys = append(keys, key)
	}
	return s.tasks(keys, func(key domain.Key) (string, error) {
		if f.cascade {
			return s.deleteTree(ctx, api, f, n, key)
		}
		return s.deleteKey(ctx, api, f, n, key)
	})
}

// deleteTree deletes what is below a document, the last made first, and then the document. It stops where something is refused.
func (s *session) deleteTree(ctx context.Context, api *client.API, f *deleteFlags, n *domain.Noun, key domain.Key) (string, error) {
	if f.terminate && n.Owner != nil { // before anything below it goes
		if done, err := s.takeOut(ctx, api, f, key); err != nil {
			return "", err
		} else if done != "" {
			s.sayf("%s %s", key, done)
		}
	}
	for _, child := range slices.Backward(domain.Nouns) {
		if child.Parent != n {
			continue
		}
		found, err := listed(ctx, api, &selection{noun: child, fixed: map[string]string{}}, key)
		if err != nil {
			return "", err
		}
		for _, below := range found {
			done, err := s.deleteTree(ctx, api, f, child, below.key)
			if err != nil {
				return "", err
			}
			s.sayf("%s %s", below.key, done)
		}
	}
	plain := *f
	plain.terminate = false
	return s.deleteKey(ctx, api, &plain, n, key)
}

// tasks does something with each key, goes on after a failure, says what became of each, and fails if one has.
func (s *session) tasks(keys []domain.Key, do func(domain.Key) (string, error)) error {
	failed := 0
	var last error
	for _, key := range keys {
		done, err := do(key)
		if err != nil {
			if stops(err) {
				return err
			}
			s.failed(string(key), err)
			last = err
			failed++
			continue
		}
		s.sayf("%s %s", key, done)
	}
	switch {
	case failed == 1 && len(keys) == 1:
		return errSaid{codeOf(last)}
	case failed > 0:
		return errSaid{exitFailed}
	}
	return nil
}
