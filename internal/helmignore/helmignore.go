// Package helmignore says which files of a chart's folder are none of the chart: those that its .helmignore and Helm's defaults leave out.
package helmignore

import (
	"bytes"
	"io/fs"
	"path"
	"time"

	"helm.sh/helm/v4/pkg/ignore"
)

// File is the file with the rules, in a chart's folder.
const File = ignore.HelmIgnore

// Rules are those of a chart.
type Rules struct{ rules *ignore.Rules }

// Parse reads the text of the file; that of none has Helm's defaults alone.
func Parse(text []byte) (*Rules, error) {
	rules, err := ignore.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	rules.AddDefaults()
	return &Rules{rules}, nil
}

// Out says whether the rules leave out a file or a folder, by its path in the chart, or a folder above it.
func (r *Rules) Out(name string, dir bool) bool {
	for i := range len(name) {
		if name[i] == '/' && r.rules.Ignore(name[:i], entry{name[:i], true}) {
			return true
		}
	}
	return r.rules.Ignore(name, entry{name, dir})
}

// entry is what rules ask of a file: its name and whether it is a directory.
type entry struct {
	path string
	dir  bool
}

func (e entry) Name() string       { return path.Base(e.path) }
func (e entry) IsDir() bool        { return e.dir }
func (e entry) Size() int64        { return 0 }
func (e entry) ModTime() time.Time { return time.Time{} }
func (e entry) Sys() any           { return nil }
func (e entry) Mode() fs.FileMode {
	if e.dir {
		return fs.ModeDir
	}
	return 0
}
