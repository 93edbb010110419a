package kube

import (
	"context"
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

// Served is a kind whose objects can be listed and watched, in the version that the cluster prefers.
type Served struct {
	schema.GroupVersionKind
	Path string // of a Collection
}

// Served asks the cluster for the kinds whose objects can be listed and watched, sorted by group and kind. Groups
// whose servers do not answer are in down: of their kinds nothing is known. Errors are as Apply's Outcome.Retry has
// them; a cluster that serves more than anybody has made is one, as all of it is to be known by heart.
func (c *Cluster) Served(ctx context.Context) (kinds []Served, down map[string]bool, err error) {
	groups, err := c.preferred(ctx)
	if err != nil {
		return nil, nil, kindOf(err)
	}
	if len(groups) > limits.ServedGroups {
		return nil, nil, fail.New(fail.Unavailable, "the cluster serves more than %d groups", limits.ServedGroups)
	}
	lists, errs := make([][]Served, len(groups)), make([]error, len(groups))
	var all atomic.Int64
	g, within := panics.WithContext(ctx)
	g.SetLimit(c.config.Parallel)
	for i, gv := range groups {
		g.Go(func() error {
			lists[i], errs[i] = c.servedIn(within, gv)
			if all.Add(int64(len(lists[i]))) > limits.ServedKinds {
				return fail.New(fail.Unavailable, "the cluster serves more than %d kinds", limits.ServedKinds)
			}
			return nil // what one group says does not end what others say
		})
	}
	if err := g.Wait(); err != nil {
		return nil, nil, kindOf(err)
	}
	down = map[string]bool{}
	for i, gv := range groups {
		switch {
		case errs[i] == nil:
			kinds = append(kinds, lists[i]...)
		case answerOf(errs[i]) != nil && !isOfCluster(errs[i]):
			down[gv.Group] = true
		default:
			return nil, nil, kindOf(errs[i])
		}
	}
	slices.SortFunc(kinds, func(a, b Served) int { return strings.Compare(a.Group+"/"+a.Kind, b.Group+"/"+b.Kind) })
	return kinds, down, nil
}

// preferred are the group versions, one a group.
func (c *Cluster) preferred(ctx context.Context) ([]schema.GroupVersion, error) {
	var list metav1.APIGroupList
	if err := c.kinds.root(ctx, "/apis", "APIGroupList", &list); err != nil {
		return nil, err
	}
	groups := []schema.GroupVersion{{Version: "v1"}}
	for _, g := range list.Groups {
		groups = append(groups, schema.GroupVersion{Group: g.Name, Version: g.PreferredVersion.Version})
	}
	return groups, nil
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
