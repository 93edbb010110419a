package render

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/nearest"
)

// profileManifest is manifest.yaml at the root of a profile archive (EMCO's profile format v1).
type profileManifest struct {
	Version any `json:"version"` // v1; nothing depends on it
	Type    struct {
		Values         string `json:"values"` // Helm values file, relative to the root
		ConfigResource []struct {
			FilePath  string `json:"filepath"`  // in the profile
			ChartPath string `json:"chartpath"` // in the chart archive, relative to its root
		} `json:"configresource"`
	} `json:"type"`
}

const manifestFile = "manifest.yaml"

// profile is what a profile archive adds to a chart.
type profile struct {
	values    map[string]any
	resources map[string][]byte // files by their path in the chart archive
	twice     string            // a path for which there are two files, "" for none
	text      []byte            // the manifest as it was sent
	manifest  profileManifest
}

// CheckProfile says whether the archive can serve as a profile, as far as that can be said without a chart:
// manifest.yaml can be read, the files it names are there, each for a place of its own, and the values are YAML. It warns of what
// manifest.yaml says in vain. Errors are as of Render.
func CheckProfile(tgz []byte) (warnings []string, err error) {
	return checkProfileIn(context.Background(), tgz)
}

func checkProfileIn(ctx context.Context, tgz []byte) (warnings []string, err error) {
	return guarded(ctx, "", Limits{}, func(ctx context.Context, _ Limits) ([]string, error) {
		at(ctx, "profile: reading it")
		if len(tgz) == 0 {
			return nil, errors.New("profile: the archive is empty")
		}
		p, err := readProfile(tgz)
		if err != nil {
			return nil, err
		}
		if p.twice != "" { // a profile that was stored before is rendered: the last file counts
			return nil, fmt.Errorf("profile: %s: two files of type.configresource are for chartpath %q", manifestFile, p.twice)
		}
		return p.vain(), nil
	})
}

// maxStrays bounds how many members are named that a manifest has in vain.
const maxStrays = 16

// vain says what of the manifest does nothing.
func (p *profile) vain() (warnings []string) {
	var document any
	_ = yaml.Unmarshal(p.text, &document) // it was read before
	strays := nearest.Unknown(&p.manifest, document)
	for _, m := range strays[:min(len(strays), maxStrays)] {
		warnings = append(warnings, fmt.Sprintf("profile: %s: unknown field %q%s", manifestFile, m.Path, m.Meant()))
	}
	if more := len(strays) - maxStrays; more > 0 {
		warnings = append(warnings, fmt.Sprintf("profile: %s: %d more unknown fields", manifestFile, more))
	}
	if t := &p.manifest.Type; t.Values == "" && len(t.ConfigResource) == 0 {
		warnings = append(warnings, fmt.Sprintf("profile: %s names neither type.values nor type.configresource: the profile changes nothing", manifestFile))
	}
	return warnings
}

// readProfile reads a profile archive; no archive is a profile that changes nothing.
func readProfile(tgz []byte) (*profile, error) {
	p := &profile{values: map[string]any{}, resources: map[string][]byte{}}
	if len(tgz) == 0 {
		return p, nil
	}
	files, err := unpack("profile", tgz)
	if err != nil {
		return nil, err
	}
	text, ok := files[manifestFile]
	if !ok {
		return nil, fmt.Errorf("profile: there is no %s at the root of the archive", manifestFile)
	}
	p.text = text
	manifest := &p.manifest
	if err := yaml.Unmarshal(text, manifest); err != nil {
		return nil, fmt.Errorf("profile: %s: %s", manifestFile, yamlText(err))
	}
	if name := manifest.Type.Values; name != "" {
		text, err := named(files, "type.values", name)
		if err != nil {
			return nil, err
		}
		if p.values, err = parseValues("profile: "+name, text); err != nil {
			return nil, err
		}
	}
	for i, r := range manifest.Type.ConfigResource {
		field := fmt.Sprintf("type.configresource[%d]", i)
		content, err := named(files, field+".filepath", r.FilePath)
		if err != nil {
			return nil, err
		}
		target := path.Clean(r.ChartPath)
		if target == "." || !fs.ValidPath(target) {
			return nil, fmt.Errorf("profile: %s: %s.chartpath: %q is not a path inside the chart archive",
				manifestFile, field, r.ChartPath)
		}
		if _, ok := p.resources[target]; ok {
			p.twice = target
		}
		p.resources[target] = content
	}
	return p, nil
}

// named finds the file that a field of manifest.yaml names.
func named(files map[string][]byte, field, name string) ([]byte, error) {
	content, ok := files[path.Clean(name)]
	if !ok {
		return nil, fmt.Errorf("profile: %s: %s: %q is not in the archive", manifestFile, field, name)
	}
	return content, nil
}
