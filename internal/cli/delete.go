package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/status"
)

// deleteFlags are those of delete.
type deleteFlags struct {
	where
	sources
	terminate, cascade, missing, dryRun, abandon, unreadable bool
	timeout                                                  time.Duration
	along                                                    *domain.Noun // what is below that the API deletes with it, nil for nothing
	leaving                                                  *leaving     // nil where one document is deleted
}

// leaving is what a command deletes: whether a document is of that, and what was said of groups that are, such as that they are approved no more. It
// is worth a word only where the group stays after all.
type leaving struct {
	has  func(domain.Key) bool
	said map[domain.Key][]string // by group
}

func newLeaving(has func(domain.Key) bool) *leaving {
	return &leaving{has: has, said: map[domain.Key][]string{}}
}

// hold are the warnings of the deletion of a document without those about its group, which are kept; those about the document itself are forgotten when it
// is gone.
func (l *leaving) hold(key domain.Key, warnings []string, gone bool) []string {
	if l == nil {
		return warnings
	}
	if gone {
		delete(l.said, key)
	}
	group, below := domain.DeploymentIntentGroups.Above(key)
	if !below || group == key || !l.has(group) {
		return warnings
	}
	return slices.DeleteFunc(warnings, func(w string) bool {
		about := strings.HasPrefix(w, service.AboutGroup(group.Name()))
		if about {
			l.said[group] = append(l.said[group], w)
		}
		return about
	})
}

// stayed are the warnings about groups that are there still.
func (l *leaving) stayed() (warnings []string) {
	for _, group := range slices.Sorted(maps.Keys(l.said)) {
		warnings = append(warnings, l.said[group]...)
	}
	return warnings
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
	c.Flags().BoolVar(&f.missing, "ignore-not-found", false, "what is not there is no error, as it never is of files")
	c.Flags().BoolVar(&f.abandon, "abandon", false, "delete a cluster or a tenant although the cluster may keep something for ever; with --unreadable whatever may have something in clusters, or what nobody can judge")
	c.Flags().BoolVar(&f.unreadable, "unreadable", false, "delete what the API cannot read, which is lost then: by who is admin of the fleet, and named by its path")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "say what would be deleted, and do nothing")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := timed(c, f.terminate, "--terminate"); err != nil {
			return err
		}
		switch {
		case f.unreadable && (len(f.files) > 0 || f.cascade || f.terminate || f.dryRun):
			return usage("--unreadable goes with names and --abandon alone: nobody knows what such a document says, so delete what is below it first")
		case len(f.files) > 0 && f.cascade:
			return usage("--cascade goes with names: files say themselves what is to be deleted")
		case len(f.files) > 0 && len(args) > 0:
			return usage("either names or -f, not both")
		case len(f.files) > 0 && (f.in != "" || f.all):
			return usage("--in and --all-projects go with names: files say themselves where their documents are")
		case len(f.files) == 0 && (len(f.values) > 0 || f.recursive || c.Flags().Changed("validate")):
			return usage("--values, --recursive and --validate say how files are read, and go with -f")
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
		return usage("delete needs the name of %s", aOf(n))
	}
	if n.New == nil {
		return usage("%s cannot be deleted", n.Kind)
	}
	if f.abandon && !f.unreadable && !n.Abandons && (!f.cascade || !slices.ContainsFunc(domain.Nouns, func(below *domain.Noun) bool {
		return below.Abandons && slices.Contains(below.Lineage(), n)
	})) {
		return usage("--abandon goes with clusters and tenants, with --cascade and what is above them, and with --unreadable: not with %s", n.Kind)
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
	if f.cascade {
		f.leaving = newLeaving(func(key domain.Key) bool {
			return slices.ContainsFunc(keys, func(top domain.Key) bool { return within(key, top) })
		})
		defer func() { s.warn(f.leaving.stayed()) }()
	}
	return s.tasks(keys, func(key domain.Key) (string, error) {
		if f.cascade {
			if err := s.allOut(ctx, api, f, n, key); err != nil {
				return "", err
			}
			return s.deleteTree(ctx, api, f, n, key)
		}
		return s.deleteKey(ctx, api, f, n, key)
	})
}

// allOut refuses to delete a tree in which something may not be deleted as it is in clusters: half of what it was made of would be gone
// before that is refused. Who comes in between is refused by the API.
func (s *session) allOut(ctx context.Context, api *client.API, f *deleteFlags, n *domain.Noun, key domain.Key) error {
	if f.terminate || f.abandon {
		return nil
	}
	names, _ := n.Split(key)
	var still []string
	for _, owner := range domain.Owners {
		if !slices.Contains(owner.Lineage(), n) {
			continue
		}
		found := []item{{key: key}}
		var err error
		if owner != n {
			if found, err = s.find(ctx, api, &selection{noun: owner, fixed: names}); err != nil {
				return err
			}
		}
		for _, one := range found {
			d, err := api.Status(ctx, one.key, summary)
			switch {
			case fail.Is(err, fail.NotFound): // it has none, or is gone
			case err != nil:
				return err
			case !deletable(owner, d):
				still = append(still, string(one.key))
			}
		}
	}
	if len(still) == 0 {
		return nil
	}
	return errHelped{
		fail.New(fail.Conflict, "nothing is deleted, as there is still something in clusters of %s", few(still)),
		"Again with --terminate: what is in clusters is taken out first",
	}
}

// deleteTree deletes what is below a document, the last made first, and then the document. It stops where something is refused. Bindings are left to
// the API, with whose scope they go: the caller's right to the rest may be one of them.
func (s *session) deleteTree(ctx context.Context, api *client.API, f *deleteFlags, n *domain.Noun, key domain.Key) (string, error) {
	if f.terminate && n.Owner != nil { // before anything below it goes
		if done, err := s.takeOut(ctx, api, f, key); err != nil {
			return "", err
		} else if done != "" {
			s.sayf("%s %s", key, done)
		}
	}
	for _, child := range slices.Backward(domain.Nouns) {
		if child.Parent != n || slices.Contains(domain.BindingNouns, child) {
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
	plain.terminate = f.dryRun && f.terminate // otherwise it was done before
	return s.deleteAlone(ctx, api, &plain, n, key)
}

// errHelped is an error with what helps.
type errHelped struct {
	error
	help string
}

func (e errHelped) Unwrap() error { return e.error }

// hinders are the flags without which a document is not deleted, and what they do: something of it is in clusters, or something is below it.
// What cannot be asked hinders nothing.
func (s *session) hinders(ctx context.Context, api *client.API, f *deleteFlags, n *domain.Noun, key domain.Key) (flags, does []string) {
	if n.Owner != nil && !f.terminate {
		if d, err := api.Status(ctx, key, summary); err == nil && !deletable(n, d) {
			flags, does = append(flags, "--terminate"), append(does, "what is in clusters is taken out first")
		}
	}
	if f.cascade {
		return flags, does
	}
	for _, child := range domain.Nouns {
		if child.Parent != n || child == f.along || slices.Contains(domain.BindingNouns, child) { // which go with their scope
			continue
		}
		if found, err := listed(ctx, api, &selection{noun: child, fixed: map[string]string{}}, key); err != nil || len(found) == 0 {
			continue
		}
		does = append(does, "what is below it is deleted, too")
		if n.Owner == nil && slices.ContainsFunc(domain.Owners, func(o *domain.Noun) bool { return slices.Contains(o.Lineage(), n) }) {
			does = append(does, "and with --terminate what is in clusters is taken out first")
		}
		return append(flags, "--cascade"), does
	}
	return flags, does
}

// deletable says whether the state of an owner lets it be deleted, as the API judges it.
func deletable(n *domain.Noun, d *status.Document) bool {
	o := n.New().(domain.Owner)
	*o.Track() = d.States
	_, err := o.Decide(d.Status, domain.OpDelete)
	return err == nil
}

// helped adds to the refusal of a deletion how it would be done, where flags would do it.
func (s *session) helped(ctx context.Context, api *client.API, f *deleteFlags, n *domain.Noun, key domain.Key, refusal error) error {
	var known errHelped
	if !fail.Is(refusal, fail.Conflict) || f.unreadable || f.dryRun || errors.As(refusal, &known) { // a dry run says it itself
		return refusal
	}
	flags, does := s.hinders(ctx, api, f, n, key)
	if len(flags) == 0 {
		return refusal
	}
	again := "Again with " + strings.Join(flags, " ")
	if len(f.files) > 0 && slices.Contains(flags, "--cascade") { // which goes with names
		again = fmt.Sprintf("'%s delete %s %s'", s.Program, key, strings.Join(flags, " "))
	}
	return errHelped{refusal, again + ": " + strings.Join(does, ", ")}
}

// refusable says of what is to be deleted alone that the API would refuse it.
func (s *session) refusable(ctx context.Context, api *client.API, f *deleteFlags, n *domain.Noun, key domain.Key) error {
	flags, does := s.hinders(ctx, api, f, n, key)
	if len(flags) == 0 {
		return nil
	}
	return fail.New(fail.Conflict, "it would be refused (dry run). With %s: %s", strings.Join(flags, " "), strings.Join(does, ", "))
}

// tasks does something with each key, goes on after a failure, says what became of each, and fails if one has.
func (s *session) tasks(keys []domain.Key, do func(domain.Key) (string, error)) error {
	var failed failures
	for _, key := range keys {
		done, err := do(key)
		if err != nil {
			if stops(err) {
				return err
			}
			s.failed(string(key), err)
			failed = append(failed, err)
			continue
		}
		s.sayf("%s %s", key, done)
	}
	if len(failed) == 1 && len(keys) == 1 {
		return errSaid{codeOf(failed[0])}
	}
	return failed.said()
}
