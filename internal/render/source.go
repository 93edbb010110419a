package render

import (
	"path"
	"slices"
	"strings"

	helmchart "helm.sh/helm/v4/pkg/chart"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
)

// source is one template file.
type source struct {
	text     string
	scope    map[string]any // what "." is; all templates of a chart share and may change it
	basePath string
}

// templatesOf collects the templates of the chart and its dependencies by path, each with its scope:
// a dependency sees its own part of the values, and global.
func templatesOf(ch *chart.Chart, scope common.Values) (map[string]source, error) {
	sources := map[string]source{}
	_, err := collect(sources, ch, scope)
	return sources, err
}

func collect(sources map[string]source, ch *chart.Chart, above common.Values) (map[string]any, error) {
	about, err := helmchart.NewAccessor(ch)
	if err != nil {
		return nil, err
	}
	metadata := about.MetadataAsMap()
	metadata["IsRoot"] = ch.IsRoot()
	dependencies := map[string]any{}
	scope := map[string]any{
		"Chart":        metadata,
		"Files":        filesOf(ch),
		"Release":      above["Release"],
		"Capabilities": above["Capabilities"],
		"Values":       common.Values{},
		"Subcharts":    dependencies,
	}
	if ch.IsRoot() {
		scope["Values"] = above["Values"]
	} else if values, err := above.Table("Values." + ch.Name()); err == nil {
		scope["Values"] = values
	}
	for _, dependency := range ch.Dependencies() {
		if dependencies[dependency.Name()], err = collect(sources, dependency, scope); err != nil {
			return nil, err
		}
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
	return scope, nil
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
