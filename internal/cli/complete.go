package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/rights"
)

// What a shell proposes. Names come from the server, which has completeTime for that.

// placeOf is where the flags of a command say to look.
func placeOf(c *cobra.Command) *where {
	w := &where{}
	if in, err := c.Flags().GetString("in"); err == nil {
		w.in = in
	}
	if all, err := c.Flags().GetBool("all-projects"); err == nil {
		w.all = all
	}
	return w
}

// completeNames completes a noun, then the names of its documents on the server.
func (s *session) completeNames(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return s.completeNouns(), cobra.ShellCompDirectiveNoFileComp
	}
	w := placeOf(c)
	n, err := nounOf(args[0], s.given(w))
	switch {
	case err != nil:
		return nil, cobra.ShellCompDirectiveNoFileComp
	case n == domain.Operations:
		return s.completeOperations(c.Context(), w), cobra.ShellCompDirectiveNoFileComp
	}
	return s.completeOf(c.Context(), n, w), cobra.ShellCompDirectiveNoFileComp
}

// mostProposed bounds how many operations are proposed, the newest ones.
const mostProposed = 100

// completeOperations are the ids of operations, each with what was done and to what.
func (s *session) completeOperations(ctx context.Context, w *where) (ids []string) {
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	api, err := s.api()
	if err != nil {
		return nil
	}
	filter := url.Values{}
	if project, err := s.project(w.all); err == nil && project != "" {
		filter.Set("project", project.Name())
	}
	for o, err := range api.Operations(ctx, filter) {
		if err != nil || len(ids) == mostProposed {
			break
		}
		ids = append(ids, fmt.Sprintf("%s\t%s of %s", o.ID, or(o.Detail, o.Operation), o.Resource))
	}
	return ids
}

// completeOwners completes the names of groups, or the noun of what a command is of beside them, and after a noun those of its owners.
func (s *session) completeOwners(of ...*domain.Noun) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		w := placeOf(c)
		var all []string
		switch len(args) {
		case 0:
			for _, n := range of {
				if n != domain.DeploymentIntentGroups {
					all = append(all, spoken(n)+"\t"+n.Title)
				}
			}
			all = append(all, s.completeOf(c.Context(), domain.DeploymentIntentGroups, w)...)
		case 1:
			if n, err := nounOf(args[0], s.given(w)); err == nil && slices.Contains(of, n) {
				all = s.completeOf(c.Context(), n, w)
			}
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}

// spoken is a noun as it is said before a name: cloud, where nothing else is called so.
func spoken(n *domain.Noun) string {
	parts := strings.Fields(n.Title)
	word := parts[len(parts)-1]
	if found, err := nounOf(word, func(string) bool { return false }); err == nil && found == n {
		return word
	}
	return slug(n.Title)
}

// offering are the owners that an operation can be asked of.
func offering(op domain.Operation) []*domain.Noun {
	return slices.DeleteFunc(slices.Clone(domain.Owners), func(n *domain.Noun) bool { return !offers(n, op) })
}

// completeParents are what --in may say: the parents of the noun that is named, or of groups.
func (s *session) completeParents(c *cobra.Command, args []string) []string {
	w := placeOf(c)
	w.in = ""
	n := domain.DeploymentIntentGroups
	if len(args) > 0 {
		if found, err := nounOf(args[0], s.given(w)); err == nil {
			n = found
		}
	}
	if n.Parent == nil {
		return nil
	}
	return s.completeOf(c.Context(), n.Parent, w)
}

// completeOwnerPaths are the paths of all owners.
func (s *session) completeOwnerPaths(ctx context.Context) (paths []string) {
	for _, n := range domain.Owners {
		for _, one := range s.completed(ctx, n, &where{}) {
			paths = append(paths, string(one.key))
		}
	}
	return paths
}

// group is the group that the arguments of a command name, as far as they have come.
func (s *session) group(c *cobra.Command, args []string) (*client.API, domain.Key, map[string]string) {
	if len(args) == 0 {
		return nil, "", nil
	}
	api, err := s.api()
	if err != nil {
		return nil, "", nil
	}
	key, err := s.owner(c.Context(), api, args, placeOf(c))
	if err != nil {
		return nil, "", nil
	}
	names, _ := domain.DeploymentIntentGroups.Split(key)
	return api, key, names
}

// completeApps are the apps of the group that is named.
func (s *session) completeApps(c *cobra.Command, args []string) []string {
	_, _, names := s.group(c, args)
	if names == nil {
		return nil
	}
	in, _ := domain.CompositeApps.Key(names)
	return s.completeOf(c.Context(), domain.Apps, &where{in: string(in), all: true})
}

// completeRevisions are the revisions of the group that is named, each with what has made it.
func (s *session) completeRevisions(c *cobra.Command, args []string) (all []string) {
	api, key, _ := s.group(c, args)
	if api == nil {
		return nil
	}
	d, err := api.Status(c.Context(), key, summary)
	if err != nil {
		return nil
	}
	for _, a := range d.States.Revisions() {
		all = append(all, fmt.Sprintf("%d\t%s, %s", a.Revision, or(a.Operation, string(a.State)), a.Time.Local().Format(time.DateTime)))
	}
	return all
}

// completeVersions are the other versions of the composite app of the group that is named.
func (s *session) completeVersions(c *cobra.Command, args []string) (versions []string) {
	_, _, names := s.group(c, args)
	if names == nil {
		return nil
	}
	for _, one := range s.completed(c.Context(), domain.CompositeApps, &where{in: names["project"], all: true}) {
		if has, _ := domain.CompositeApps.Split(one.key); has["compositeApp"] == names["compositeApp"] && has["compositeAppVersion"] != names["compositeAppVersion"] {
			versions = append(versions, has["compositeAppVersion"])
		}
	}
	return versions
}

// completeGroupsThere are the groups of the version that --version names.
func (s *session) completeGroupsThere(c *cobra.Command, args []string) []string {
	_, _, names := s.group(c, args)
	version, err := c.Flags().GetString("version")
	if names == nil || err != nil || version == "" {
		return nil
	}
	names["compositeAppVersion"] = version
	in, _ := domain.CompositeApps.Key(names)
	return s.completeOf(c.Context(), domain.DeploymentIntentGroups, &where{in: string(in), all: true})
}

// completeRightNouns are the nouns that rights are of.
func completeRightNouns() (kinds []string) {
	for _, n := range rights.Nouns() {
		kinds = append(kinds, n.Kind+"\t"+n.Title)
	}
	return kinds
}

// completeTime bounds how long a shell waits for names.
const completeTime = 3 * time.Second

// completeFlag completes the value of a flag, which has just been added.
func (s *session) completeFlag(c *cobra.Command, name string, values func(ctx context.Context) []string) {
	s.completeFlagBeside(c, name, func(c *cobra.Command, _ []string) []string { return values(c.Context()) })
}

// completeFlagBeside is completeFlag where the other flags and the arguments say what the value may be.
func (s *session) completeFlagBeside(c *cobra.Command, name string, values func(c *cobra.Command, args []string) []string) {
	_ = c.RegisterFlagCompletionFunc(name, func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx := c.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completeTime)
		defer cancel()
		c.SetContext(ctx)
		return values(c, args), cobra.ShellCompDirectiveNoFileComp
	})
}

// completeNothingElse has no files proposed where a flag, or an argument, is none.
func completeNothingElse(c *cobra.Command) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if what, _ := pflag.UnquoteUsage(f); what != "file" && what != "folder" {
			_ = c.RegisterFlagCompletionFunc(f.Name, cobra.NoFileCompletions) // but for what has something to propose
		}
	})
	if c.ValidArgsFunction == nil && !c.HasSubCommands() && !c.DisableFlagParsing && !strings.Contains(c.Use, "FOLDER") && !strings.Contains(c.Use, "CHART") {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
}

// wordsOf are values as texts.
func wordsOf[T ~string](values []T) []string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = string(v)
	}
	return all
}

// completeClusters are the clusters that there are.
func (s *session) completeClusters(ctx context.Context) []string {
	return s.completeOf(ctx, domain.ClustersNoun, &where{})
}

// completeWhich are what a choice of clusters may say: clusters, and labels that some have.
func (s *session) completeWhich(ctx context.Context) []string {
	all := s.completeClusters(ctx)
	for _, label := range s.completeOf(ctx, domain.ClusterLabels, &where{}) {
		parts := strings.Split(label, "/")
		if which := parts[0] + "/label=" + parts[len(parts)-1]; !slices.Contains(all, which) {
			all = append(all, which)
		}
	}
	return all
}

// completeOf are the names of a noun's documents on the server, none when it does not answer soon.
func (s *session) completeOf(ctx context.Context, n *domain.Noun, w *where) (all []string) {
	x, err := s.choose(n, "", w)
	if err != nil {
		return nil
	}
	for _, one := range s.completed(ctx, n, w) {
		has, ok := n.Split(one.key)
		if !ok {
			continue
		}
		var parts []string
		for _, called := range x.free() {
			parts = append(parts, has[called])
		}
		all = append(all, strings.Join(parts, "/"))
	}
	return all
}

// completed are a noun's documents on the server, none when it does not answer soon.
func (s *session) completed(ctx context.Context, n *domain.Noun, w *where) []item {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	x, err := s.choose(n, "", w)
	if err != nil {
		return nil
	}
	api, err := s.api()
	if err != nil {
		return nil
	}
	found, _ := s.find(ctx, api, x) // what can be read
	return found
}
