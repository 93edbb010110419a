// Command sbom says what a binary is made of, as CycloneDX 1.6 in JSON, and fails when a module of it has no licence, or one that the
// product cannot be given away with. What it says is the same each time for the same binary: it goes by what the linker has noted
// in it, not by what the source asks for.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("sbom", flag.ContinueOnError)
	binary := flags.String("binary", "", "`file` of the program")
	source := flags.String("source", ".", "`folder` of its main module")
	out := flags.String("out", "", "`file` to write to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(*binary)
	if err != nil {
		return fmt.Errorf("read what %s is made of: %w", *binary, err)
	}
	folders, err := foldersOf(ctx, *source)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(*binary)
	if err != nil {
		return err
	}
	bom, wrong := describe(info, sha256.Sum256(data), filepath.Base(*binary), folders)
	text, err := json.MarshalIndent(bom, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(*out, append(text, '\n'), 0o600); err != nil {
		return err
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "\n"))
	}
	counts := map[string]int{}
	for _, c := range bom.Components {
		for _, l := range c.Licences {
			counts[l.Licence.ID]++
		}
	}
	var names []string
	for name, n := range counts {
		names = append(names, fmt.Sprintf("%d %s", n, name))
	}
	slices.Sort(names)
	_, err = fmt.Fprintf(stdout, "%s: %d modules: %s\n", *out, len(bom.Components), strings.Join(names, ", "))
	return err
}

// foldersOf are the folders of all modules that a main module may be built of, by path and version.
func foldersOf(ctx context.Context, source string) (map[string]string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-m", "-json=Path,Version,Dir,Replace", "all")
	list.Dir = source
	var wrong bytes.Buffer
	list.Stderr = &wrong
	text, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list modules: %w: %s", err, wrong.String())
	}
	folders := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var m struct{ Path, Version, Dir string }
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return folders, nil
		} else if err != nil {
			return nil, err
		}
		folders[m.Path+"@"+m.Version] = m.Dir
	}
}

// The members of CycloneDX 1.6 that are used here.
type (
	document struct {
		Format     string      `json:"bomFormat"`
		Spec       string      `json:"specVersion"`
		Version    int         `json:"version"`
		Metadata   metadata    `json:"metadata"`
		Components []component `json:"components"`
	}
	metadata struct {
		Component component `json:"component"`
	}
	component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version,omitempty"`
		Hashes     []hash     `json:"hashes,omitempty"`
		Licences   []licensed `json:"licenses,omitempty"`
		URL        string     `json:"purl,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	licensed struct {
		Licence licence `json:"license"`
	}
	licence struct {
		ID string `json:"id"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
)

// describe says what a binary is made of, and what is wrong with the licences of that.
func describe(info *debug.BuildInfo, sum [32]byte, name string, folders map[string]string) (document, []string) {
	main := component{
		Type: "application", Ref: name, Name: name, Version: info.Main.Version,
		Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}}, Properties: []property{{"go:version", info.GoVersion}},
	}
	for _, s := range info.Settings {
		if strings.HasPrefix(s.Key, "vcs") || s.Key == "GOOS" || s.Key == "GOARCH" || s.Key == "CGO_ENABLED" || s.Key == "-trimpath" {
			main.Properties = append(main.Properties, property{"go:" + s.Key, s.Value})
		}
	}
	d := document{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{main}, Components: []component{
		// It is compiled in, too, and its licence is that of its source.
		{Type: "library", Ref: "std", Name: "std", Version: info.GoVersion, URL: "pkg:golang/std@" + info.GoVersion, Licences: []licensed{{licence{"BSD-3-Clause"}}}},
	}}
	var wrong []string
	for _, m := range info.Deps {
		asked := m.Path + "@" + m.Version
		if m.Replace != nil {
			m = m.Replace
		}
		id := m.Path + "@" + m.Version
		folder := folders[asked]
		if folder == "" {
			folder = folders[id]
		}
		c := component{Type: "library", Ref: id, Name: m.Path, Version: m.Version, URL: "pkg:golang/" + id}
		if sum, ok := strings.CutPrefix(m.Sum, "h1:"); ok {
			// The sum of go.sum is a SHA-256 of names and sums of files, no file's: it is no hash of CycloneDX.
			if _, err := base64.StdEncoding.DecodeString(sum); err == nil {
				c.Properties = append(c.Properties, property{"go:sum", m.Sum})
			}
		}
		found, err := licencesOf(folder)
		switch {
		case err != nil && excused[m.Path] != "":
			c.Properties = append(c.Properties, property{"drover:licence", err.Error() + "; " + excused[m.Path]})
		case err != nil:
			wrong = append(wrong, fmt.Sprintf("%s: %s", id, err))
		case !slices.ContainsFunc(found, func(l string) bool { return slices.Contains(allowed, l) }):
			wrong = append(wrong, fmt.Sprintf("%s: none of its licences is one of %s: %s", id, strings.Join(allowed, ", "), strings.Join(found, ", ")))
		}
		for _, l := range found {
			c.Licences = append(c.Licences, licensed{licence{l}})
		}
		d.Components = append(d.Components, c)
	}
	slices.SortFunc(d.Components, func(a, b component) int { return strings.Compare(a.Ref, b.Ref) })
	return d, wrong
}
