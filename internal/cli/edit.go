package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// edit is the command edit.
func (s *session) edit() *cobra.Command {
	w, dryRun := &where{}, false
	c := &cobra.Command{
		Use: "edit NOUN NAME", Short: "Change a document in your editor (DROVER_EDITOR, VISUAL, EDITOR)",
		Long: "Change a document in your editor (DROVER_EDITOR, VISUAL, EDITOR; vi otherwise). What is not saved, or saved as it was, changes nothing.\n" +
			"What is refused stays in a file, which apply -f takes.\n\n" + aboutNames,
		Example: "  drover edit group web",
		Args:    numbered(1, 2, "a noun and a name"), ValidArgsFunction: s.completeNames,
	}
	s.placed(c, w)
	c.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be changed, and change nothing; what you wrote stays in a file, which apply -f takes")
	c.RunE = func(c *cobra.Command, args []string) error {
		n, wanted, err := s.meant(args[0], args[1:], w)
		if err != nil {
			return err
		}
		if len(wanted) != 1 || n.New == nil {
			return usage("edit needs a noun and a name")
		}
		api, err := s.api()
		if err != nil {
			return err
		}
		key, err := s.pick(c.Context(), api, n, wanted[0], w)
		if err != nil {
			return err
		}
		return s.doEdit(c.Context(), api, n, key, dryRun)
	}
	return c
}

func (s *session) doEdit(ctx context.Context, api *client.API, n *domain.Noun, key domain.Key, dryRun bool) error {
	o, err := api.Get(ctx, n, key)
	if err != nil {
		return err
	}
	was := mustJSON(o)
	before, err := yaml.Marshal(document(n, item{key: key, object: o}))
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	folder, err := os.MkdirTemp("", "drover-edit-") // which nobody else can enter
	if err != nil {
		return errUsage{err}
	}
	file := filepath.Join(folder, strings.ReplaceAll(o.LocalName(), "/", "-")+".yaml")
	keep := false
	defer func() {
		if !keep {
			_ = os.RemoveAll(folder)
		}
	}()
	becomes := "It is written when you save it and leave the editor."
	if dryRun {
		becomes = "Nothing is written (dry run): it is said what would be."
	}
	head := fmt.Sprintf("# %s\n# %s\n", key, becomes)
	if err := os.WriteFile(file, append([]byte(head), before...), 0o600); err != nil {
		return errUsage{err}
	}
	editor := or(s.Getenv("DROVER_EDITOR"), s.Getenv("VISUAL"), s.Getenv("EDITOR"), "vi")
	command := exec.CommandContext(ctx, "sh", "-c", editor+` "$0"`, file) // an editor may have arguments, as kubectl takes it
	command.Stdin, command.Stdout, command.Stderr = bareIn(s.In), bare(s.Out), bare(s.Err)
	edited := command.Run
	if s.Lend != nil {
		edited = func() error { return s.Lend(command.Run) }
	}
	failed := edited()
	after, err := os.ReadFile(file)
	if err != nil {
		return errUsage{errors.Join(failed, err)}
	}
	same := bytes.Equal(bytes.TrimPrefix(after, []byte(head)), before)
	if failed != nil {
		if keep = !same; keep {
			return usage("%s: %w\nNothing is changed; what you wrote is in %s", editor, failed, file)
		}
		return usage("%s: %w", editor, failed)
	}
	if same {
		s.sayf("%s %s", key, unchanged)
		return nil
	}
	keep = true
	papers, err := s.parse(file, folder, after, nil, false)
	if err != nil {
		return fmt.Errorf("%w\nWhat you wrote is in %s", err, file)
	}
	if len(papers) != 1 || papers[0].object == nil || papers[0].key != key {
		return usage("edit changes %s, and cannot rename it or add others; what you wrote is in %s", key, file)
	}
	if p := papers[0]; p.file != nil || len(p.files) > 0 {
		return usage("edit changes the document alone, and what comes with it stays: 'apply -f' reads the files that are named; what you wrote is in %s", file)
	}
	if err := s.judge(&sources{validate: "strict"}, papers); err != nil { // what would be left out stays nowhere else
		return fmt.Errorf("%w\nWhat you wrote is in %s", err, file)
	}
	// Who wrote meanwhile is not overruled. Between this look and the write there is a moment, which the API could close alone.
	now, err := api.Get(ctx, n, key)
	if err == nil && !bytes.Equal(mustJSON(now), was) {
		err = fail.New(fail.Conflict, "%s has been changed meanwhile: edit it again", key)
	}
	if err != nil {
		s.note("What you wrote is in %s", file)
		return err
	}
	done, err := s.applier(api, dryRun).put(ctx, papers[0].object, papers[0].written, nil, nil)
	if err != nil {
		s.note("What you wrote is in %s", file)
		return err
	}
	if dryRun {
		s.sayf("%s %s (dry run)", key, done)
		s.note("What you wrote is in %s", file)
		return nil
	}
	keep = false
	s.sayf("%s %s", key, done)
	return nil
}
