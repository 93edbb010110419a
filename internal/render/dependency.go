package render

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	helmarchive "helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"

	"github.com/drover-io/drover/internal/archive"
)

// maxPacked is how deep dependencies may be packed into each other.
const maxPacked = 8

// packedChart matches the file of a packed dependency; as in Helm, names that begin with "_" or "." are none.
var packedChart = regexp.MustCompile(`^(charts/[^/]+/)*charts/[^/_.][^/]*\.tgz$`)

// unpackDependencies replaces packed dependencies by their files, so that the limits hold for all of them
// together; Helm would read each under a limit of its own, and one that contains itself without end. Files
// are named from the chart's directory; room is how many bytes may still come.
func unpackDependencies(files []*helmarchive.BufferedFile, room *int64, depth int) ([]*helmarchive.BufferedFile, error) {
	taken := make(map[string]bool, len(files))
	for _, f := range files {
		taken[f.Name] = true
	}
	var all []*helmarchive.BufferedFile
	for _, f := range files {
		if !packedChart.MatchString(f.Name) {
			all = append(all, f)
			continue
		}
		if depth == maxPacked {
			return nil, fmt.Errorf("chart: dependencies are packed more than %d levels deep", maxPacked)
		}
		inner, err := unpackDependency(f, room, depth)
		if err != nil {
			return nil, err
		}
		for _, i := range inner {
			i.Name = strings.TrimSuffix(f.Name, ".tgz") + "/" + i.Name
			if taken[i.Name] {
				return nil, fmt.Errorf("chart: %s: %s is in the archive too", f.Name, i.Name)
			}
		}
		all = append(all, inner...)
	}
	return all, nil
}

// unpackDependency gives the files of one packed dependency, named from its own directory.
func unpackDependency(f *helmarchive.BufferedFile, room *int64, depth int) ([]*helmarchive.BufferedFile, error) {
	entries, err := archive.Read(f.Data, archive.Limits{Expanded: max(1, *room)})
	if err != nil {
		return nil, within("chart: "+f.Name, err)
	}
	var files []*helmarchive.BufferedFile
	for _, entry := range entries {
		*room -= int64(len(entry.Data))
		if _, name, below := strings.Cut(entry.Name, "/"); below {
			files = append(files, &helmarchive.BufferedFile{Name: name, Data: bytes.TrimPrefix(entry.Data, utf8BOM)})
		}
	}
	return unpackDependencies(files, room, depth+1)
}

// sortDependencies undoes the loader's random order, which messages and the order of objects would show.
func sortDependencies(ch *chart.Chart) {
	sorted := slices.SortedFunc(slices.Values(ch.Dependencies()), func(a, b *chart.Chart) int {
		return cmp.Or(cmp.Compare(a.Name(), b.Name()), cmp.Compare(a.Metadata.Version, b.Metadata.Version))
	})
	ch.SetDependencies(sorted...)
	for _, dependency := range sorted {
		sortDependencies(dependency)
	}
}

// missingDependencies names what Chart.yaml requires and charts/ does not have.
func missingDependencies(ch *chart.Chart) []string {
	have := map[string]bool{}
	for _, dependency := range ch.Dependencies() {
		have[dependency.Name()] = true
	}
	var missing []string
	for _, required := range ch.Metadata.Dependencies {
		if !have[required.Name] {
			missing = append(missing, required.Name)
		}
	}
	return missing
}

// leaveOptional takes the dependencies away that values can switch off, by a condition or by tags.
func leaveOptional(ch *chart.Chart) {
	ch.SetDependencies(slices.DeleteFunc(slices.Clone(ch.Dependencies()), func(d *chart.Chart) bool { return optional(ch, d) })...)
	for _, dependency := range ch.Dependencies() {
		leaveOptional(dependency)
	}
}

// optional says whether values can switch a dependency off, under each name under which it is required.
func optional(ch, dependency *chart.Chart) (can bool) {
	for _, r := range ch.Metadata.Dependencies {
		if r == nil || r.Name != dependency.Name() || !chartutil.IsCompatibleRange(r.Version, dependency.Metadata.Version) {
			continue
		}
		if can = r.Condition != "" || len(r.Tags) > 0; !can {
			return false
		}
	}
	return can
}
