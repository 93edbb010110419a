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
	"strconv"
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
that come with them (charts, profiles). A file that is there already is not written over. Secrets are not given away: kubeconfigs and tokens
are left out, and ******** stands for a private key. Operations are left out, too.`,
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
	e, err := openExport(to)
	if err != nil {
		return errUsage{err}
	}
	if err := s.exportAll(ctx, api, n, item{key: key, object: o}, e); err != nil { // half of it would apply, and bar the next run
		return errors.Join(err, e.undo())
	}
	if err := e.root.Close(); err != nil {
		return errUsage{err}
	}
	s.note("%s is in %s", key, to)
	return nil
}

const (
	documentsFile = "documents.yaml"
	partFile      = documentsFile + ".part" // until all of it is there: what applies is whole
)

// exportAll writes what is below a document, and the document, to a folder.
func (s *session) exportAll(ctx context.Context, api *client.API, n *domain.Noun, one item, e *exported) error {
	f, err := e.create(partFile)
	if err != nil {
		return errUsage{err}
	}
	if err := errors.Join(s.exportTree(ctx, api, n, one, e, f), f.Close()); err != nil {
		return err
	}
	if err := e.root.Rename(partFile, documentsFile); err != nil {
		return errUsage{err}
	}
	return nil
}

// exported is a folder that is written to, and what this run has made of it.
type exported struct {
	path string
	root *os.Root // what the API names cannot lead out of it
	made []string // files and folders in it, in their order; "" for itself
	// taken are the folders of files, as a file system sees them to which a and A are one.
	taken map[string]bool
}

// folder is that of the files of a document, of which there is one such name: where another document's differs by case alone, as of the apps web and Web,
// a number is behind it.
func (e *exported) folder(key domain.Key) string {
	wanted := filepath.Join(slices.Concat([]string{"files"}, key.Segments())...)
	folder := wanted
	for n := 2; e.taken[strings.ToLower(folder)]; n++ {
		folder = fmt.Sprintf("%s~%d", wanted, n)
	}
	if e.taken == nil {
		e.taken = map[string]bool{}
	}
	e.taken[strings.ToLower(folder)] = true
	return folder
}

// openExport opens a folder that has no export yet.
func openExport(path string) (*exported, error) {
	e := &exported{path: path}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		e.made = append(e.made, "")
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	var err error
	if e.root, err = os.OpenRoot(path); err != nil {
		return nil, err
	}
	for _, name := range []string{documentsFile, partFile} {
		if _, err := e.root.Lstat(name); err == nil {
			err = fmt.Errorf("%s is there already, and is not written over: take it away, or choose another folder", filepath.Join(path, name))
			return nil, errors.Join(err, e.root.Close())
		}
	}
	return e, nil
}

// create makes a file that is not there yet, for nobody else to read, and the folders that it lies in.
func (e *exported) create(name string) (*os.File, error) {
	var above []string
	for folder := filepath.Dir(name); folder != "."; folder = filepath.Dir(folder) {
		above = append(above, folder)
	}
	for _, folder := range slices.Backward(above) {
		switch err := e.root.Mkdir(folder, 0o700); {
		case err == nil:
			e.made = append(e.made, folder)
		case !errors.Is(err, fs.ErrExist):
			return nil, err
		}
	}
	f, err := e.root.OpenFile(name, newFile, 0o600)
	if err == nil {
		e.made = append(e.made, name)
	}
	return f, err
}

// undo takes away what this run has made. A folder in which somebody has put something meanwhile stays.
func (e *exported) undo() error {
	for _, name := range slices.Backward(e.made) {
		if name != "" {
			_ = e.root.Remove(name)
		}
	}
	err := e.root.Close()
	if len(e.made) > 0 && e.made[0] == "" {
		_ = os.Remove(e.path)
	}
	return err
}

// newFile is how a file is opened that must not be there yet.
const newFile = os.O_CREATE | os.O_EXCL | os.O_WRONLY

// exportTree writes a document and then what is below it; files that come with them go to a folder, nil for nowhere.
func (s *session) exportTree(ctx context.Context, api *client.API, n *domain.Noun, one item, to *exported, out io.Writer) error {
	if _, secret := one.object.(domain.Bearer); secret {
		return nil
	}
	if i, ok := one.object.(*domain.InboundServerIntent); ok && i.Spec.External.Certificates.ServicePrivateKey == domain.MaskedKey {
		s.warn([]string{fmt.Sprintf("the private key of %s is not given away: an API that has it keeps it by the %s that stands for it, and another one refuses that until the key is in its place",
			one.key, domain.MaskedKey)})
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
func (s *session) exportFiles(ctx context.Context, api *client.API, n *domain.Noun, key domain.Key, to *exported, d map[string]any) error {
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
	folder := to.folder(key)
	// Of files that come with one document several may have one name, and each has a folder of its own then. Where letters do not count, two
	// names may be one, too.
	apart, known := false, map[string]bool{}
	for i := range files {
		f := &files[i]
		if stored := f.Name; !writable(stored) {
			f.Name = fmt.Sprintf("file%d", i+1)
			if stored != "" {
				s.warn([]string{fmt.Sprintf("a file of %s has a name that no file can have here, and is called %s: %.64q", key, f.Name, stored)})
			}
		}
		f.Name = filepath.Base(f.Name)
		apart = apart || known[strings.ToLower(f.Name)]
		known[strings.ToLower(f.Name)] = true
	}
	var names []string
	for i, f := range files {
		name := filepath.Join(folder, f.Name)
		if apart {
			name = filepath.Join(folder, strconv.Itoa(i+1), f.Name)
		}
		if err := to.write(name, f.Data); err != nil {
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

// writable says whether a name is one for a file: what was stored by an earlier Drover may be none.
func writable(name string) bool {
	const longest = 255 // of most file systems, in bytes
	base := filepath.Base(name)
	return name != "" && base != "." && base != ".." && base != string(filepath.Separator) && len(base) <= longest && !strings.ContainsRune(base, 0)
}

// write writes a file that is not there yet.
func (e *exported) write(name string, data []byte) error {
	f, err := e.create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
