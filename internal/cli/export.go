package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// export is the command export.
func (s *session) export() *cobra.Command {
	w := &where{}
	c := &cobra.Command{
		Use: "export NOUN NAME", Short: "Write something with all that is below it as files that apply again",
		Long: `Write something, such as a project, with all that is below it as files that apply again: one with the documents and, with --to, those
that come with them (charts, profiles). A file that is there already is not written over. Secrets are not given away, so kubeconfigs and tokens are left out; operations are too.`,
		Example: "  drover export project demo --to demo/\n  drover apply -f demo/",
		Args:    numbered(1, 2, "a noun and a name"), ValidArgsFunction: s.completeNames,
	}
	s.placed(c, w)
	to := c.Flags().String("to", "", "a `folder` to write to; without it the documents are printed, and what comes with them is not")
	c.RunE = func(c *cobra.Command, args []string) error {
		n, wanted, err := s.meant(args[0], args[1:], w)
		if err != nil {
			return err
		}
		if len(wanted) != 1 || n.New == nil {
			return usage("export needs a noun and a name")
		}
		api, err := s.api()
		if err != nil {
			return err
		}
		key, err := s.pick(c.Context(), api, n, wanted[0], w)
		if err != nil {
			return err
		}
		return s.doExport(c.Context(), api, n, key, *to)
	}
	return c
}

func (s *session) doExport(ctx context.Context, api *client.API, n *domain.Noun, key domain.Key, to string) error {
	o, err := api.Get(ctx, n, key)
	if err != nil {
		return err
	}
	if to == "" {
		return s.exportTree(ctx, api, n, item{key: key, object: o}, nil, forPrograms(s.Out))
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return errUsage{err}
	}
	root, err := os.OpenRoot(to) // what the API names cannot lead out of it
	if err != nil {
		return errUsage{err}
	}
	f, err := root.OpenFile("documents.yaml", newFile, 0o600)
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%s is there already, and is not written over: take it away, or choose another folder", filepath.Join(to, "documents.yaml"))
	}
	if err != nil {
		return errUsage{errors.Join(err, root.Close())}
	}
	if err := errors.Join(s.exportTree(ctx, api, n, item{key: key, object: o}, root, f), f.Close(), root.Close()); err != nil {
		return err
	}
	s.note("%s is in %s", key, to)
	return nil
}

// newFile is how a file is opened that must not be there yet.
const newFile = os.O_CREATE | os.O_EXCL | os.O_WRONLY

// exportTree writes a document and then what is below it; files that come with them go to a folder, nil for nowhere.
func (s *session) exportTree(ctx context.Context, api *client.API, n *domain.Noun, one item, to *os.Root, out io.Writer) error {
	if _, secret := one.object.(domain.Bearer); secret {
		return nil
	}
	d := document(n, item{key: one.key, object: one.object})
	if n.File && to != nil {
		if err := s.exportFiles(ctx, api, n, one.key, to, d); err != nil {
			return err
		}
	}
	text, err := yaml.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if _, err := fmt.Fprintf(out, "---\n%s", text); err != nil {
		return err
	}
	for _, child := range domain.Nouns {
		if child.Parent != n {
			continue
		}
		found, err := listed(ctx, api, &selection{noun: child, fixed: map[string]string{}}, one.key)
		if fail.Is(err, fail.Forbidden) {
			s.warn([]string{fmt.Sprintf("%s of %s may not be read, and are left out", child.Kind, one.key)})
			continue
		}
		if err != nil {
			return err
		}
		for _, below := range found {
			if err := s.exportTree(ctx, api, child, below, to, out); err != nil {
				return err
			}
		}
	}
	return nil
}

// exportFiles writes what comes with a document, and names it there.
func (s *session) exportFiles(ctx context.Context, api *client.API, n *domain.Noun, key domain.Key, to *os.Root, d map[string]any) error {
	var files []domain.Upload
	if n.Files {
		var err error
		if files, err = api.Files(ctx, key); err != nil {
			return err
		}
	} else {
		data, err := api.File(ctx, key)
		if fail.Is(err, fail.Forbidden) {
			s.warn([]string{fmt.Sprintf("the file of %s is not given away, and is left out", key)})
			return nil
		}
		if err != nil {
			return err
		}
		if len(data) > 0 {
			name := key.Name()
			if n == domain.Apps || n == domain.Profiles {
				name += ".tgz"
			}
			files = append(files, domain.Upload{Name: name, Data: data})
		}
	}
	// A folder of its own keeps files of one name apart, and the names as they are. It is of the whole path: what is below two composite apps, or
	// below two versions of one, may have the same last parts.
	folder := filepath.Join(slices.Concat([]string{"files"}, key.Segments())...)
	var names []string
	for i, f := range files {
		if f.Name == "" {
			f.Name = fmt.Sprintf("file%d", i+1)
		}
		name := filepath.Join(folder, filepath.Base(f.Name))
		if err := to.MkdirAll(folder, 0o700); err != nil {
			return errUsage{err}
		}
		if err := writeNew(to, name, f.Data); err != nil {
			return errUsage{err}
		}
		names = append(names, strings.ReplaceAll(name, string(filepath.Separator), "/"))
	}
	switch {
	case len(names) == 1 && !n.Files:
		d["file"] = names[0]
	case len(names) > 0:
		d["files"] = names
	}
	return nil
}

// writeNew writes a file that is not there yet, for nobody else to read.
func writeNew(to *os.Root, name string, data []byte) error {
	f, err := to.OpenFile(name, newFile, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
