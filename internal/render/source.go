package render

import (
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// source is one template file.
type source struct {
	text     string
	scope    map[string]any // what "." is; all templates of a chart share and may change it
	basePath string
}

// templatesOf collects the templates of the chart and its dependencies by path, each with its scope:
// a dependency sees its own part of the values, and global.
func templatesOf(ch *chart.Chart, scope chartutil.Values) map[string]source {
	sources := map[string]source{}
	collect(sources, ch, scope)
	return sources
}

func collect(sources map[string]source, ch *chart.Chart, above chartutil.Values) map[string]any {
	dependencies := map[string]any{}
	scope := map[string]any{
		"Chart": struct {
			chart.Metadata
			IsRoot bool
		}{*ch.Metadata, ch.IsRoot()},
		"Files":        filesOf(ch),
		"Release":      above["Release"],
		"Capabilities": above["Capabilities"],
		"Values":       chartutil.Values{},
		"Subcharts":    dependencies,
	}
	if ch.IsRoot() {
		scope["Values"] = above["Values"]
	} else if values, err := above.Table("Values." + ch.Name()); err == nil {
		scope["Values"] = values
	}
	for _, dependency := range ch.Dependencies() {
		dependencies[dependency.Name()] = collect(sources, dependency, scope)
	}
	root := ch.ChartFullPath()
	library := strings.EqualFold(ch.Metadata.Type, "library")
	for _, t := range ch.Templates {
		if library && !isPartial(t.Name) {
			continue
		}
		sources[path.Join(root, t.Name)] = source{
			text: string(t.Data), scope: scope, basePath: path.Join(root, "templates"),
		}
	}
	return scope
}

func isPartial(name string) bool { return strings.HasPrefix(path.Base(name), "_") }

// parseOrder has the deepest files first, so that the chart's own definitions replace its dependencies'.
func parseOrder(sources map[string]source) []string {
	names := make([]string, 0, len(sources))
	for name := range sources {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if deeper := strings.Count(b, "/") - strings.Count(a, "/"); deeper != 0 {
			return deeper
		}
		return strings.Compare(b, a)
	})
	return names
}
