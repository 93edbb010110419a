package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/panics"
)

// Served is a kind whose objects can be listed and watched, in the version that the cluster prefers of those that have it.
type Served struct {
	schema.GroupVersionKind
	Path string // of a Collection
}

// Served asks the cluster for the kinds whose objects can be listed and watched, sorted by group and kind. Groups
// of which a version is not answered for are in down: they may have more kinds, and those that they have may be in another
// version. Errors are as Apply's Outcome.Retry has them; a cluster that serves more than anybody has made is one, as all of
// it is to be known by heart.
func (c *Cluster) Served(ctx context.Context) (kinds []Served, down map[string]bool, err error) {
	groups, err := c.groups(ctx)
	if err != nil {
		return nil, nil, kindOf(err)
	}
	lists, downs := make([][]Served, len(groups)), make([]bool, len(groups))
	counted := atMost(limits.ServedKinds, "kinds")
	g, within := panics.WithContext(ctx)
	g.SetLimit(c.config.Parallel)
	for i, of := range groups {
		g.Go(func() (err error) { // what one group says does not end what others say
			lists[i], downs[i], err = c.servedOf(within, of, counted)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, nil, kindOf(err)
	}
	down = map[string]bool{}
	for i, of := range groups {
		kinds = append(kinds, lists[i]...)
		if downs[i] {
			down[of.name] = true
		}
	}
	slices.SortFunc(kinds, func(a, b Served) int { return strings.Compare(a.Group+"/"+a.Kind, b.Group+"/"+b.Kind) })
	return kinds, down, nil
}

// atMost counts what a cluster serves: more than most is an error.
func atMost(most int64, what string) func(more int) error {
	var all atomic.Int64
	return func(more int) error {
		if all.Add(int64(more)) > most {
			return fail.New(fail.Unavailable, "the cluster serves more than %d %s", most, what)
		}
		return nil
	}
}

// group is one that is served, its preferred version first.
type group struct {
	name     string
	versions []string
}

func (c *Cluster) groups(ctx context.Context) ([]group, error) {
	var list metav1.APIGroupList
	if err := c.kinds.root(ctx, "/apis", "APIGroupList", &list); err != nil {
		return nil, err
	}
	all, counted := []group{{versions: []string{"v1"}}}, atMost(limits.ServedGroups, "versions of groups")
	for _, g := range list.Groups {
		versions, err := versionsOf(g)
		if err == nil {
			err = counted(len(versions))
		}
		if err != nil {
			return nil, err
		}
		all = append(all, group{g.Name, versions})
	}
	return all, nil
}

// servedOf asks for the kinds of all versions of a group: some have kinds that the preferred one does not have. Each kind is taken in the first one.
func (c *Cluster) servedOf(ctx context.Context, g group, counted func(int) error) (kinds []Served, down bool, err error) {
	seen := map[string]bool{}
	for _, version := range g.versions {
		list, err := c.servedIn(ctx, schema.GroupVersion{Group: g.name, Version: version})
		switch {
		case err == nil:
		case !c.isOfGroup(ctx, g.name, err):
			return nil, false, err
		case answerOf(err) == nil: // it would be waited for once more
			return kinds, true, nil
		default:
			down = true
		}
		before := len(kinds)
		for _, s := range list {
			if !seen[s.Kind] {
				seen[s.Kind] = true
				kinds = append(kinds, s)
			}
		}
		if err := counted(len(kinds) - before); err != nil {
			return nil, false, err
		}
	}
	return kinds, down, nil
}

// isOfGroup says whether err, of a question about the group, says nothing of others. An API server passes the question on for an aggregated API, and
// the answer back, whatever it is: so that what reads as the whole cluster's is the group's where the API server itself answers.
func (c *Cluster) isOfGroup(ctx context.Context, group string, err error) bool {
	switch {
	case errors.Is(err, ErrReplaced) || isNoWay(err) || ctx.Err() != nil:
		return false
	case answerOf(err) != nil && !isOfCluster(err):
		return true
	}
	return group != "" && c.Ping(ctx) == nil
}

func (c *Cluster) servedIn(ctx context.Context, gv schema.GroupVersion) ([]Served, error) {
	release, err := c.slot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	var list metav1.APIResourceList
	if err := c.kinds.document(ctx, groupVersionPath(gv), "APIResourceList", &list); err != nil {
		return nil, err
	}
	var kinds []Served
	for _, r := range list.APIResources {
		if len(r.Name)+len(r.Kind) > 2*limits.ObjectName {
			return nil, notAnAPIServer(fmt.Errorf("%s has a kind whose name is too long", groupVersionPath(gv)))
		}
		if !strings.Contains(r.Name, "/") && slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch") {
			kinds = append(kinds, Served{gv.WithKind(r.Kind), groupVersionPath(gv) + escape(r.Name)})
		}
	}
	return kinds, nil
}
