package render

import (
	"encoding/base64"
	"path"
	"strings"

	"github.com/gobwas/glob"
	chart "helm.sh/helm/v4/pkg/chart/v2"
)

// files is .Files of a template: the chart's files that are neither templates nor values, by path. Its
// methods are Helm's; a file that is not there is empty.
type files map[string][]byte

func filesOf(ch *chart.Chart) files {
	all := files{}
	for _, f := range ch.Files {
		all[f.Name] = f.Data
	}
	return all
}

// GetBytes gives a file.
func (f files) GetBytes(name string) []byte {
	if data, ok := f[name]; ok {
		return data
	}
	return []byte{}
}

// Get gives a file as text.
func (f files) Get(name string) string { return string(f[name]) }

// Glob gives the files whose paths match; all of them when the pattern cannot be read.
func (f files) Glob(pattern string) files {
	matcher, err := glob.Compile(pattern, '/')
	if err != nil {
		matcher = glob.MustCompile("**")
	}
	matching := files{}
	for name, data := range f {
		if matcher.Match(name) {
			matching[name] = data
		}
	}
	return matching
}

// AsConfig gives the files as YAML for a ConfigMap's data, by base name.
func (f files) AsConfig() string {
	return f.flat(func(data []byte) string { return string(data) })
}

// AsSecrets gives the files as YAML for a Secret's data, by base name.
func (f files) AsSecrets() string { return f.flat(base64.StdEncoding.EncodeToString) }

func (f files) flat(encode func([]byte) string) string {
	if f == nil {
		return ""
	}
	flat := make(map[string]string, len(f))
	for name, data := range f {
		flat[path.Base(name)] = encode(data)
	}
	return toYAML(flat)
}

// Lines gives a file's lines.
func (f files) Lines(name string) []string {
	if len(f[name]) == 0 {
		return []string{}
	}
	return strings.Split(strings.TrimSuffix(string(f[name]), "\n"), "\n")
}
