// Package version knows what the running binary was built from.
package version

import "runtime/debug"

// Info is what a binary was built from, as far as it knows.
type Info struct {
	Version  string `json:"version"`            // such as v0.1.0, "devel" when it is of no release
	Revision string `json:"revision,omitempty"` // the commit
	Modified bool   `json:"modified,omitempty"` // the sources were not those of the commit
	Go       string `json:"go"`                 // the compiler
}

// release is set by the linker (-X) where a release is built.
var release string

// Of is that of the running binary.
func Of() Info {
	i := Info{Version: "devel"}
	b, ok := debug.ReadBuildInfo()
	if ok {
		i.Go = b.GoVersion
		if v := b.Main.Version; v != "" && v != "(devel)" {
			i.Version = v
		}
		for _, s := range b.Settings {
			switch s.Key {
			case "vcs.revision":
				i.Revision = s.Value
			case "vcs.modified":
				i.Modified = s.Value == "true"
			}
		}
	}
	if release != "" {
		i.Version = release
	}
	return i
}
