package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/nearest"
	"github.com/drover-io/drover/internal/yamltext"
)

// sources are the flags of what files describe.
type sources struct {
	files, values []string
	recursive     bool
	validate      string
}

func (f *sources) add(c *cobra.Command) {
	c.Flags().StringSliceVarP(&f.files, "filename", "f", nil, "a `file` or folder with documents, - for the standard input")
	c.Flags().StringSliceVarP(&f.values, "values", "v", nil, "a `file` with the values that documents are filled with as Go templates; later files win")
	c.Flags().BoolVarP(&f.recursive, "recursive", "R", false, "folders with all that is below them")
	c.Flags().StringVar(&f.validate, "validate", "warn", "what is done about fields that nobody knows: strict refuses them before anything is asked, warn names them, ignore says nothing")
	_ = c.RegisterFlagCompletionFunc("validate", cobra.FixedCompletions([]string{"strict", "warn", "ignore"}, cobra.ShellCompDirectiveNoFileComp)) // it has just been added
}

// paper is one document of a file: something to be made, or an operation.
type paper struct {
	from    string // file and line
	key     domain.Key
	noun    *domain.Noun
	object  domain.Object // nil for an operation
	written any           // the object as the document has it
	file    *string       // its path, nil for none
	files   []string
	folder  string // of the document

	operation domain.OwnerOperation
	spec      map[string]any // of an operation

	unknown []string // members that nobody knows, and where they are
}

// what names it for people.
func (p *paper) what() string {
	if p.object == nil {
		return string(p.key) + "/" + p.operation.Called()
	}
	return string(p.key)
}

// readPapers reads all documents, in the order of the files.
func (s *session) readPapers(f *sources) ([]*paper, error) {
	values, err := readValues(f.values)
	if err != nil {
		return nil, err
	}
	var all []*paper
	for _, name := range f.files {
		found, err := s.readSource(f, name, values)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, usage("there is no document in %s", strings.Join(f.files, ", "))
	}
	return all, s.judge(f, all)
}

// judge refuses fields that nobody knows, names all of them or lets them be, as is asked for.
func (s *session) judge(f *sources, papers []*paper) error {
	var unknown []string
	for _, p := range papers {
		unknown = append(unknown, p.unknown...)
	}
	switch f.validate {
	case "strict", "true": // kubectl's other word
		if len(unknown) > 0 {
			return usage("%s", strings.Join(unknown, "\n"))
		}
	case "warn", "":
		for _, u := range unknown {
			s.warn([]string{u + "; it is left out"})
		}
	case "ignore", "false":
	default:
		return usage("--validate %s is none of strict, warn and ignore", f.validate)
	}
	return nil
}

// readValues is what templates are filled with, nil when nothing is given: documents are no templates then.
func readValues(files []string) (map[string]any, error) {
	if len(files) == 0 {
		return nil, nil
	}
	values := map[string]any{}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, errUsage{err}
		}
		more := map[string]any{}
		if err := yaml.Unmarshal(data, &more); err != nil {
			return nil, usage("values of %s: %w", name, err)
		}
		merge(values, more)
	}
	return values, nil
}

func (s *session) readSource(f *sources, name string, values map[string]any) ([]*paper, error) {
	if name == "-" {
		data, err := readWhole(s.In, "the standard input")
		if err != nil {
			return nil, err
		}
		return s.parse("standard input", ".", data, values, false)
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, errUsage{err}
	}
	if !info.IsDir() {
		return s.readFile(name, values, false)
	}
	var files []string
	root := filepath.Clean(name) + string(filepath.Separator) // which leads through a link to the folder
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && !f.recursive:
			return fs.SkipDir
		case d.IsDir() && path != root && isChart(path):
			s.note("%s is left out: it is a chart, which a document names as its file", path)
			return fs.SkipDir
		case !d.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) && !slices.Contains(cleaned(f.values), filepath.Clean(path)):
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return nil, errUsage{err}
	}
	var all []*paper
	for _, path := range files { // sorted, as they were walked
		found, err := s.readFile(path, values, true)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// isChart says whether a folder is an unpacked chart, whose files are templates and values, and no documents.
func isChart(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "Chart.yaml"))
	return err == nil
}

func cleaned(paths []string) []string {
	all := make([]string, len(paths))
	for i, p := range paths {
		all[i] = filepath.Clean(p)
	}
	return all
}

func (s *session) readFile(name string, values map[string]any, inFolder bool) ([]*paper, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, errUsage{err}
	}
	return s.parse(name, filepath.Dir(name), data, values, inFolder)
}

// parse reads the documents of one text. A file of a folder that has none, such as a chart's values, is left out and named.
func (s *session) parse(name, folder string, data []byte, values map[string]any, inFolder bool) ([]*paper, error) {
	filled := "" // of lines, which are then those of no file
	if values != nil {
		text, err := fill(filepath.Base(name), data, values)
		if err != nil {
			return nil, usage("%s: %w", name, err)
		}
		if !bytes.Equal(text, data) {
			data, filled = text, " (as it is filled by -v)"
		}
	}
	var all []*paper
	var foreign []int // lines at which something else is
	decoder := yaml.NewDecoder(bytes.NewReader(paired(data)))
	for {
		var node yaml.Node
		err := decoder.Decode(&node)
		if errors.Is(err, io.EOF) {
			break
		}
		hint := filled
		if values == nil && bytes.Contains(data, []byte("{{")) {
			hint = " (it is a template: -v FILE says what it is filled with)"
		}
		if err != nil {
			return nil, usage("%s: %w%s", name, err, hint)
		}
		plainly(node.Content)
		var m map[string]any
		for _, top := range node.Content {
			if top.Kind == yaml.SequenceNode || top.Kind == yaml.ScalarNode && top.Tag != "!!null" {
				return nil, usage("%s: line %d: this is no document, which has members such as resourceContext and metadata%s", name, top.Line, hint)
			}
		}
		if err := node.Decode(&m); err != nil {
			return nil, usage("%s: line %d: %w%s", name, node.Line, err, hint)
		}
		if m == nil {
			continue // comments alone
		}
		list, lines := []any{m}, []int{node.Content[0].Line}
		if items, ok := m["items"].([]any); ok && m["resourceContext"] == nil {
			list, lines = items, placesOf(node.Content[0], "items", len(items)) // what get -o json prints
		}
		for i, one := range list {
			document, ok := one.(map[string]any)
			if !ok {
				return nil, usage("%s: line %d: an item is no document%s", name, lines[i], filled)
			}
			if inFolder && document["resourceContext"] == nil && document["version"] != emco && !isCollector(document) {
				foreign = append(foreign, lines[i])
				continue
			}
			p, err := s.paperOf(fmt.Sprintf("%s:%d%s", name, lines[i], filled), folder, document)
			if err != nil {
				return nil, err
			}
			all = append(all, p)
		}
	}
	switch {
	case len(foreign) > 0 && len(all) > 0:
		return nil, usage("%s: line %d: resourceContext.anchor is missing, which the other documents of the file have%s", name, foreign[0], filled)
	case len(foreign) > 0:
		s.note("%s is left out: it has no documents (version: %s, resourceContext.anchor)", name, emco)
	}
	return all, nil
}

// paired has the characters that JSON writes as two escapes, as JSON's encoders do beyond 0xffff, as they are: to YAML half a pair is no character. What is
// not JSON is as it was.
func paired(data []byte) []byte {
	if !bytes.Contains(data, []byte(`\u`)) || !json.Valid(data) {
		return data
	}
	unit := func(at int) rune { // the UTF-16 unit that is escaped there, 0 for none
		if at+6 > len(data) || data[at] != '\\' || data[at+1] != 'u' {
			return 0
		}
		n, _ := strconv.ParseUint(string(data[at+2:at+6]), 16, 16) // four hexadecimal digits, as it is JSON
		return rune(n)
	}
	out := make([]byte, 0, len(data))
	for i := 0; i < len(data); {
		if whole := utf16.DecodeRune(unit(i), unit(i+6)); whole != utf8.RuneError {
			out, i = utf8.AppendRune(out, whole), i+12
			continue
		}
		n := 1
		if data[i] == '\\' { // with what it escapes, which may be another one
			n = 2
		}
		out, i = append(out, data[i:i+n]...), i+n
	}
	return out
}

// plainly has what documents are called and described by be texts, as it is to emcoctl: a name may be a number, and what somebody has noted a date.
func plainly(documents []*yaml.Node) {
	for _, document := range documents {
		yamltext.KeepDates(document)
		for i := 0; document.Kind == yaml.MappingNode && i+1 < len(document.Content); i += 2 {
			switch value := document.Content[i+1]; document.Content[i].Value {
			case "metadata", "clusterLabel":
				yamltext.Keep(value)
			case "items":
				plainly(value.Content)
			}
		}
	}
}

// noValues are what a template writes for a value that is missing: by itself, and by functions such as printf.
var noValues = []string{"<no value>", "<nil>"}

// fill fills a template with values. One that is missing is refused where it would be written, and is false in a condition: EMCO's examples ask for
// values that are there for some of their users alone, as in {{if .KubeConfig2}}.
func fill(name string, text []byte, values map[string]any) ([]byte, error) {
	t, err := template.New(name).Option("missingkey=error").Parse(string(text))
	if err != nil {
		return nil, err
	}
	var filled bytes.Buffer
	missing := t.Execute(&filled, values)
	if missing == nil {
		return filled.Bytes(), written(filled.Bytes(), text)
	}
	filled.Reset()
	if t.Option("missingkey=default").Execute(&filled, values) != nil {
		return nil, missing
	}
	if written(filled.Bytes(), nil) != nil {
		return nil, missing
	}
	return filled.Bytes(), nil
}

// written refuses what has been filled with no value: with one that is null, or that index has not found, which is no error of the template's. What the
// text itself has is let through.
func written(filled, text []byte) error {
	for _, no := range noValues {
		if at := bytes.Index(filled, []byte(no)); at >= 0 && !bytes.Contains(text, []byte(no)) {
			return fmt.Errorf("line %d of what it is filled to has %s: a value is null, or missing", bytes.Count(filled[:at], []byte("\n"))+1, no)
		}
	}
	return nil
}

// placesOf are the lines at which the items of a member begin. Where that is written in another way, such as an alias, it is the line of the whole.
func placesOf(whole *yaml.Node, member string, items int) []int {
	lines := slices.Repeat([]int{whole.Line}, items)
	for i := 0; whole.Kind == yaml.MappingNode && i+1 < len(whole.Content); i += 2 {
		if list := whole.Content[i+1]; whole.Content[i].Value == member && len(list.Content) == items {
			for k, item := range list.Content {
				lines[k] = item.Line
			}
		}
	}
	return lines
}

// paperOf reads one document.
func (s *session) paperOf(from, folder string, m map[string]any) (*paper, error) {
	place, _ := m["resourceContext"].(map[string]any)
	anchor, _ := place["anchor"].(string)
	if anchor = strings.Trim(anchor, "/"); anchor == "" && isCollector(m) {
		anchor = s.collectorAnchor()
	}
	if anchor == "" {
		return nil, usage("%s: resourceContext.anchor is missing: the path below /v2 to which the document goes, such as projects", from)
	}
	p := &paper{from: from, folder: folder}
	switch file := m["file"].(type) {
	case nil:
	case string:
		if p.file = &file; file == "" {
			return nil, usage("%s: file is empty: it is to be a path", from)
		}
	default:
		return nil, usage("%s: file is to be one path", from)
	}
	files, list := m["files"].([]any)
	if m["files"] != nil && !list {
		return nil, usage("%s: files are to be a list of paths", from)
	}
	for _, f := range files {
		name, ok := f.(string)
		if !ok || name == "" {
			return nil, usage("%s: files are to be paths", from)
		}
		p.files = append(p.files, name)
	}
	// What says where a document goes, and where it stands, is not of it.
	body := map[string]any{}
	for name, value := range m {
		if !slices.Contains([]string{"version", "resourceContext", "file", "files", "status"}, name) {
			body[name] = value
		}
	}
	if owner, operation := operationAt(domain.Key(anchor)); owner != "" {
		p.key, p.operation, p.noun = owner, operation, domain.OwnerNoun(owner)
		if p.file != nil || len(p.files) > 0 {
			return nil, usage("%s: no file comes with %s", from, operation.Called())
		}
		for _, name := range slices.Sorted(maps.Keys(body)) {
			if name != "metadata" && name != "spec" {
				p.unknown = append(p.unknown, fmt.Sprintf("%s: %s: unknown field %q", from, operation.Called(), name))
			}
		}
		p.spec, _ = body["spec"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(p.spec)) {
			if !slices.Contains(specOf[operation.Operation], name) {
				p.unknown = append(p.unknown, fmt.Sprintf("%s: %s: unknown field %q", from, operation.Called(), "spec."+name))
			}
		}
		if err := checkSpec(operation.Operation, p.spec); err != nil {
			return nil, usage("%s: %w", from, err)
		}
		return p, nil
	}
	noun, parent := collectionAt(domain.Key(anchor))
	if noun == nil {
		return nil, usage("%s: resourceContext.anchor: %q is the place of nothing that Drover has", from, anchor)
	}
	if (p.file != nil || len(p.files) > 0) && !noun.File {
		return nil, usage("%s: no file comes with %s", from, aOf(noun))
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, usage("%s: %w", from, err)
	}
	o := noun.New()
	if err := json.Unmarshal(data, o); err != nil {
		return nil, usage("%s: %s: %w", from, noun.Title, err)
	}
	if path, again, found := nearest.Twice(o, data); found { // by names that differ by case: others are no YAML
		return nil, usage("%s: %s: %s is there twice, once as %q", from, noun.Title, path, again)
	}
	for _, m := range nearest.Unknown(o, plainJSON(data)) {
		p.unknown = append(p.unknown, fmt.Sprintf("%s: %s: unknown field %q%s", from, noun.Title, m.Path, m.Meant()))
	}
	o.Base().Parent = parent
	if strings.Trim(o.LocalName(), "/") == "" {
		return nil, usage("%s: %s: metadata.name is missing", from, noun.Title)
	}
	if _, ok := noun.Split(domain.KeyOf(o)); !ok { // the rest is the API's to judge, which fills in what is missing
		return nil, usage("%s: %q is no name of %s", from, o.LocalName(), aOf(noun))
	}
	p.noun, p.object, p.written, p.key = noun, o, plainJSON(data), domain.KeyOf(o)
	return p, nil
}

// isCollector says whether a document is a manifest of KubeStellar's that Drover has a place for.
func isCollector(m map[string]any) bool {
	return m["apiVersion"] == domain.CollectorAPIVersion && m["kind"] == domain.CollectorKind
}

// collectorAnchor is where a collector goes that does not say it: as in KubeStellar, where it is of no namespace, to what all may use, and to a
// project's own where --project says so.
func (s *session) collectorAnchor() string {
	if s.flags.project == "" {
		return domain.StatusCollectors.Collection
	}
	return string(domain.Join(domain.Projects.Collection, s.flags.project).Child(domain.ProjectCollectors.Collection))
}

// specOf are the members that the spec of an operation has.
var specOf = map[domain.Operation][]string{
	domain.OpUpdate:   {"reapply"},
	domain.OpRollback: {"revision"}, domain.OpMigrate: {"targetCompositeAppVersion", "targetDeploymentIntentGroup"},
}

// plainJSON is JSON as it is decoded without a type.
func plainJSON(data []byte) (v any) {
	_ = json.Unmarshal(data, &v) // it was encoded here
	return v
}

// operationAt is the owner and the operation that an anchor names, "" for none: projects/p/logical-clouds/c/instantiate.
func operationAt(anchor domain.Key) (domain.Key, domain.OwnerOperation) {
	parts := anchor.Segments()
	owner := domain.Join(parts[:len(parts)-1]...)
	if !domain.IsOwner(owner) {
		return "", domain.OwnerOperation{}
	}
	for _, o := range domain.OwnerNoun(owner).Owner.Operations {
		if o.Called() == anchor.Name() {
			return owner, o
		}
	}
	return "", domain.OwnerOperation{}
}

// collectionAt is the noun whose documents are created at an anchor, nil for none, and the key of their parent.
func collectionAt(anchor domain.Key) (*domain.Noun, domain.Key) {
	if parent, ok := strings.CutSuffix(string(anchor), "/"+domain.NetControllerIntents.Kind); ok { // as the API takes it too
		anchor = domain.Key(parent).Child(domain.NetControllerIntents.Collection)
	}
	for _, n := range domain.Nouns {
		if n.Parent == nil {
			if string(anchor) == n.Collection {
				return n, ""
			}
			continue
		}
		parent, ok := strings.CutSuffix(string(anchor), "/"+n.Collection)
		if !ok {
			continue
		}
		if _, ok := n.Parent.Split(domain.Key(parent)); ok {
			return n, domain.Key(parent)
		}
	}
	return nil, ""
}

// ordered puts documents into the order in which they can be made: parents and what others refer to first, then the operations,
// those of clusters, logical clouds and groups in this order. Otherwise they stay as they are.
func ordered(papers []*paper) []*paper {
	byKey := map[domain.Key][]int{}
	for i, p := range papers {
		if p.object != nil {
			byKey[p.key] = append(byKey[p.key], i)
		}
	}
	var out []*paper
	visited := make([]bool, len(papers))
	var visit func(i int)
	visit = func(i int) {
		if visited[i] {
			return
		}
		visited[i] = true
		p := papers[i]
		needs := []domain.Key{p.object.Base().Parent}
		if r, ok := p.object.(domain.Referrer); ok {
			for _, ref := range r.References() {
				needs = append(needs, ref.Key)
			}
		}
		for _, key := range needs {
			for _, on := range byKey[key] {
				visit(on)
			}
		}
		for _, same := range byKey[p.key] { // the later one of two of a key is what stays
			if same < i {
				visit(same)
			}
		}
		out = append(out, p)
	}
	for i, p := range papers {
		if p.object != nil {
			visit(i)
		}
	}
	for _, noun := range []*domain.Noun{domain.ClustersNoun, domain.LogicalClouds, domain.DeploymentIntentGroups} {
		for _, p := range papers {
			if p.object == nil && p.noun == noun {
				out = append(out, p)
			}
		}
	}
	return out
}

// attached reads what comes with a document. A path is from where the command was started, as emcoctl has it, or else from the
// document's folder; a folder is packed. A document may be somebody else's, who is not to say which files of this machine go to the API:
// unless outside allows it, a file is in one of these two folders, also where links lead.
func (p *paper) attached(outside bool) (file []byte, files []domain.Upload, err error) {
	if p.file != nil {
		data, err := p.open(*p.file, outside)
		if err != nil {
			return nil, nil, err
		}
		if !p.noun.Files {
			return data, nil, nil
		}
		files = append(files, domain.Upload{Name: filepath.Base(*p.file), Data: data})
	}
	for _, name := range p.files {
		data, err := p.open(name, outside)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, domain.Upload{Name: filepath.Base(name), Data: data})
	}
	if !p.noun.Files && len(files) > 0 { // of which there is one: check has refused more
		return files[0].Data, nil, nil
	}
	return nil, files, nil
}

// check says of what comes with a document whether it can be read, as attached will. It keeps none of it: all charts of a folder may be more than
// the memory of this machine. What is no file, such as a pipe, can be read once alone, and is left for then.
func (p *paper) check(outside bool) error {
	names := p.files
	if p.file != nil {
		names = append([]string{*p.file}, names...)
	}
	if !p.noun.Files && len(names) > 1 {
		return usage("%s: one file comes with %s, not %d", p.from, aOf(p.noun), len(names))
	}
	for _, name := range names {
		path, info, err := p.find(name, outside)
		switch {
		case err != nil:
			return err
		case info.IsDir():
			_, err = pack(path, p.noun == domain.Profiles)
		case info.Mode().IsRegular():
			var f *os.File
			if f, err = os.Open(path); err == nil {
				err = f.Close()
			}
		}
		if err != nil {
			return usage("%s: %w", p.from, err)
		}
	}
	return nil
}

func (p *paper) open(name string, outside bool) ([]byte, error) {
	path, info, err := p.find(name, outside)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return pack(path, p.noun == domain.Profiles)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, usage("%s: %w", p.from, err)
	}
	return data, nil
}

// find is where a file is that a document names.
func (p *paper) find(name string, outside bool) (string, fs.FileInfo, error) {
	path := name
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && !filepath.IsAbs(name) {
		beside := filepath.Join(p.folder, name)
		if found, beErr := os.Stat(beside); beErr == nil {
			path, info, err = beside, found, nil
		}
	}
	if err != nil {
		return "", nil, usage("%s: %w", p.from, err)
	}
	if !outside {
		if err := p.within(path); err != nil {
			return "", nil, err
		}
	}
	return path, info, nil
}

// within refuses a path that leads out of the working directory and the document's folder.
func (p *paper) within(path string) error {
	for _, folder := range []string{".", p.folder} {
		from, err := resolved(folder)
		if err != nil {
			return usage("%s: %w", p.from, err)
		}
		to, err := resolved(path)
		if err != nil {
			return usage("%s: %w", p.from, err)
		}
		if rel, err := filepath.Rel(from, to); err == nil && filepath.IsLocal(rel) {
			return nil
		}
	}
	return usage("%s: %s is outside of the document's folder and of the one in which the command was started; --allow-outside sends it", p.from, path)
}

// resolved is a path from the root, without links.
func resolved(path string) (string, error) {
	whole, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(whole)
}
