package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	helmarchive "helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"

	"github.com/drover-io/drover/internal/archive"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/helmignore"
)

// CheckChart says whether the archive holds a chart that can be rendered as the app: it loads, it is an
// application chart whose dependencies are complete, and its templates, its schemas and the objects in its
// crds directory can be parsed. Nothing is rendered, so a chart that needs values passes, as does one with a dependency that
// cannot be rendered and that values may switch off. Errors are as of Render.
func CheckChart(app string, tgz []byte) error { return checkChartIn(context.Background(), app, tgz) }

func checkChartIn(ctx context.Context, app string, tgz []byte) error {
	_, err := guarded(ctx, app, Limits{}, func(ctx context.Context, l Limits) (*chart.Chart, error) {
		at(ctx, "chart: unpacking it")
		ch, err := loadChart(app, tgz, nil)
		if err != nil {
			return nil, err
		}
		leaveOptional(ch)
		e := engine{ctx: ctx, limits: l}
		sources, err := templatesOf(ch, common.Values{})
		if err != nil {
			return nil, err
		}
		if _, err := e.parse(sources); err != nil {
			return nil, err
		}
		if _, err := crds(ctx, ch); err != nil {
			return nil, err
		}
		return ch, compileSchemas(ctx, ch)
	})
	return err
}

func compileSchemas(ctx context.Context, ch *chart.Chart) error {
	if ch.Schema != nil {
		if _, err := compileSchema(ctx, ch); err != nil {
			return err
		}
	}
	for _, dependency := range ch.Dependencies() {
		if err := compileSchemas(ctx, dependency); err != nil {
			return err
		}
	}
	return nil
}

// loadChart loads the chart in the archive's directory app, after putting the extra files, whose paths
// start at the root of the archive, into it.
func loadChart(app string, tgz []byte, extra map[string][]byte) (*chart.Chart, error) {
	files, err := unpack("chart", tgz)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		if !strings.HasPrefix(name, app+"/") {
			return nil, fmt.Errorf("profile: chartpath %q is not in the chart's directory %q", name, app)
		}
		files[name] = extra[name]
	}
	if _, ok := files[app+"/"+chartutil.ChartfileName]; !ok {
		return nil, fmt.Errorf("chart: there is no %s/%s in the archive; the chart's directory must have the app's name",
			app, chartutil.ChartfileName)
	}
	kept, err := withoutIgnored(app, files, extra)
	if err != nil {
		return nil, err
	}
	room := archive.DefaultLimits.Expanded
	if kept, err = unpackDependencies(kept, &room, 0); err != nil {
		return nil, err
	}
	ch, err := loader.LoadFiles(kept)
	if err != nil {
		return nil, fmt.Errorf("chart: %s", yamlText(err))
	}
	sortDependencies(ch)
	return ch, checkMetadata(ch)
}

func checkMetadata(ch *chart.Chart) error {
	if t := ch.Metadata.Type; t != "" && t != "application" {
		return fmt.Errorf("chart %s is of type %s; only application charts can be deployed", ch.Name(), t)
	}
	if want := ch.Metadata.KubeVersion; want != "" && !chartutil.IsCompatibleRange(want, kubeVersion.Version) {
		return fmt.Errorf("chart %s requires kubeVersion %s, and charts are rendered for Kubernetes %s, whatever the clusters have",
			ch.Name(), want, kubeVersion.Version)
	}
	if missing := missingDependencies(ch); len(missing) > 0 {
		return fmt.Errorf("chart %s: dependencies found in Chart.yaml, but missing in charts/: %s",
			ch.Name(), strings.Join(missing, ", "))
	}
	return nil
}

// utf8BOM is dropped from files, as Helm's loaders do; YAML would take it for a part of the first key.
var utf8BOM = []byte{0xEF, 0xBB, 0xBF}

// withoutIgnored gives the files below dir, without those of the chart itself that .helmignore and Helm's defaults name: archives
// made with plain tar still carry them (editors' backups, "._" files of macOS, a README beside the dependencies, which Helm takes for one of them). Those of
// dependencies are not asked for: Helm packs unpacked what it had as an archive, and the rules were not made for that. What a profile names by its path is
// wanted.
func withoutIgnored(dir string, files, named map[string][]byte) ([]*helmarchive.BufferedFile, error) {
	rules, err := helmignore.Parse(files[dir+"/"+helmignore.File])
	if err != nil {
		return nil, fmt.Errorf("%s/%s: %w", dir, helmignore.File, err)
	}
	var kept []*helmarchive.BufferedFile
	for _, full := range slices.Sorted(maps.Keys(files)) {
		name, below := strings.CutPrefix(full, dir+"/")
		if !below {
			continue
		}
		_, wanted := named[full]
		if !wanted && !ofDependency(name) && rules.Out(name, false) {
			continue
		}
		kept = append(kept, &helmarchive.BufferedFile{Name: name, Data: bytes.TrimPrefix(files[full], utf8BOM)})
	}
	return kept, nil
}

// ofDependency says whether a file of a chart is one of a dependency, or is one that is packed.
func ofDependency(name string) bool {
	file, is := strings.CutPrefix(name, chartutil.ChartsDir+"/")
	return is && (strings.Contains(file, "/") || strings.HasSuffix(file, ".tgz"))
}

// unpack reads an archive into files by path.
func unpack(what string, tgz []byte) (map[string][]byte, error) {
	entries, err := archive.Read(tgz, archive.Limits{})
	if err != nil {
		return nil, within(what, err)
	}
	files := make(map[string][]byte, len(entries))
	for _, f := range entries {
		files[f.Name] = f.Data
	}
	return files, nil
}

// within says where an error of the archive belongs, keeping its kind.
func within(what string, err error) error {
	return fail.Wrap(errors.Unwrap(err), fail.KindOf(err), "%s: %s", what, fail.TextOf(err))
}
