package service

import (
	"context"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// LabelledCluster is a cluster with its labels, sorted.
type LabelledCluster struct {
	domain.Metadata `json:"metadata"`
	Labels          []*domain.ClusterLabel `json:"labels"`
}

// ClustersWithLabels lists the clusters of a provider with the labels of each.
func (s *Service) ClustersWithLabels(ctx context.Context, provider domain.Key) ([]LabelledCluster, error) {
	clusters, err := s.List(ctx, domain.ClustersNoun, provider)
	if err != nil {
		return nil, err
	}
	// One range for all of them: a fleet has thousands.
	labels, err := s.store.ListUnder(ctx, domain.ClusterLabels, provider)
	if err != nil {
		return nil, err
	}
	of := map[domain.Key][]*domain.ClusterLabel{}
	for _, o := range labels {
		of[o.Base().Parent] = append(of[o.Base().Parent], o.(*domain.ClusterLabel))
	}
	list := make([]LabelledCluster, 0, len(clusters))
	for _, o := range clusters {
		c := LabelledCluster{Metadata: o.(*domain.Cluster).Metadata, Labels: of[domain.KeyOf(o)]}
		if c.Labels == nil {
			c.Labels = []*domain.ClusterLabel{}
		}
		list = append(list, c)
	}
	return list, nil
}

// ClustersByLabel names the clusters of a provider that carry the label, sorted.
func (s *Service) ClustersByLabel(ctx context.Context, provider domain.Key, label string) ([]string, error) {
	clusters, err := s.ClustersWithLabels(ctx, provider)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, c := range clusters {
		if slices.ContainsFunc(c.Labels, func(l *domain.ClusterLabel) bool { return l.Label == label }) {
			names = append(names, c.Name)
		}
	}
	return names, nil
}

// Value reads one value of a set of key-value pairs; NotFound when the key is not there. The noun must be one of
// domain.KeyValues.
func (s *Service) Value(ctx context.Context, noun *domain.Noun, pairs domain.Key, key string) (string, error) {
	o, err := s.store.Get(ctx, noun, pairs)
	if err != nil {
		return "", err
	}
	value, ok := o.(domain.KeyValues).Pairs().Value(key)
	if !ok {
		return "", fail.New(fail.NotFound, "%s key value not found: %q is not in %q",
			strings.ToUpper(noun.Title[:1])+noun.Title[1:], key, pairs.Name())
	}
	return value, nil
}

// changeCluster begins the history of a cluster, and refuses to delete one that may still hold something: nobody
// could clean it up.
func (s *Service) changeCluster(ctx context.Context, c change) error {
	if c.to != nil {
		c.to.(*domain.Cluster).History = domain.NewHistory(s.now())
		return nil
	}
	return s.keepUsedCluster(ctx, c)
}

func (s *Service) keepUsedCluster(ctx context.Context, c change) error {
	if c.to != nil {
		return nil
	}
	cluster := c.from.(*domain.Cluster)
	if _, err := s.decide(ctx, cluster, domain.OpDelete); err != nil {
		return err
	}
	owner, found, err := s.instances.User(ctx, cluster.ClusterName())
	if err != nil || !found {
		return err
	}
	return fail.New(fail.Conflict, "cluster %q is used by %s; terminate that first", cluster.Name, owner)
}
