package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/status"
)

// diff is the command diff.
func (s *session) diff() *cobra.Command {
	c := &cobra.Command{
		Use: "diff", Short: "Show where an instantiate or update would put apps, beside where they are",
		Long: `Show where an instantiate or update would put apps, beside where they are: clusters that an app would come to (+) or leave (-),
resources by number, and what intents make otherwise on some clusters. It is rendered and placed as approve does it; nothing is done.
What changes inside resources is not shown.`,
		Example: "  drover diff web\n  drover diff web -o json",
	}
	output := c.Flags().StringP("output", "o", "", "the `form`: json, yaml or jsonpath=TEMPLATE of the preview; words when missing")
	return s.owned(c, func(ctx context.Context, api *client.API, key domain.Key) error {
		p, err := newPrinter(*output)
		if err != nil {
			return err
		}
		if domain.OwnerNoun(key) != domain.DeploymentIntentGroups {
			return usage("diff is of deployment intent groups")
		}
		preview, err := api.PreviewGroup(ctx, key)
		if err != nil {
			return err
		}
		if !p.people() {
			return p.value(s.Out, preview)
		}
		now, err := api.Status(ctx, key, whole)
		if err != nil {
			return err
		}
		s.warn(preview.Warnings)
		for _, line := range difference(preview, now) {
			fmt.Fprintln(s.Out, printable(line))
		}
		return nil
	})
}

// difference are lines about what a preview has that is not there, the other way round, and what stays.
func difference(preview *service.GroupPreview, d *status.Document) []string {
	there := map[string]map[string]int{} // by app and cluster, how many resources
	if d.Status != domain.ContextTerminated && d.Status != domain.ContextNone && d.Status != domain.ContextUpdated {
		for _, a := range d.Apps {
			there[a.Name] = map[string]int{}
			for _, c := range a.Clusters {
				there[a.Name][c.Provider+"+"+c.Name] = len(c.Resources)
			}
		}
	}
	var lines []string
	for _, a := range preview.Apps {
		stay := 0
		for _, c := range a.Clusters {
			if _, ok := there[a.App][c.Cluster]; ok {
				stay++
				delete(there[a.App], c.Cluster)
				continue
			}
			lines = append(lines, fmt.Sprintf("+ %s on %s: %d resources (%s)", a.App, c.Cluster, a.Resources, c.Placement))
		}
		for _, cluster := range slices.Sorted(maps.Keys(there[a.App])) {
			lines = append(lines, fmt.Sprintf("- %s on %s: %d resources", a.App, cluster, there[a.App][cluster]))
		}
		delete(there, a.App)
		if stay > 0 {
			lines = append(lines, fmt.Sprintf("  %s on %s as now: %d resources, as they are rendered now", a.App, clustersOf(stay), a.Resources))
		}
		for _, x := range a.Differences {
			for _, r := range x.Resources {
				what := strings.Join(r.Effects, "; ")
				if r.Absent {
					what = "is not there"
				}
				lines = append(lines, fmt.Sprintf("    %s on %s: %s", r.Resource, few(x.Clusters), what))
			}
		}
	}
	for _, app := range slices.Sorted(maps.Keys(there)) { // which the composite app has no more
		for _, cluster := range slices.Sorted(maps.Keys(there[app])) {
			lines = append(lines, fmt.Sprintf("- %s on %s: %d resources", app, cluster, there[app][cluster]))
		}
	}
	return lines
}

// previewed reads a preview.
func (s *session) previewed(ctx context.Context, api *client.API, key domain.Key) (*service.GroupPreview, *status.Document, error) {
	preview, err := api.PreviewGroup(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	now, err := api.Status(ctx, key, whole)
	return preview, now, err
}
