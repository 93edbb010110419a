package service

import (
	"context"
	"fmt"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/rights"
)

// Drover writes what a logical cloud has in its clusters with the rights of their kubeconfigs. Who writes the cloud would have those
// of anybody there, if a cloud could have more than a namespace of its own.

// beyond says in what a cloud has more in its clusters than a namespace of its own; "" in nothing.
func beyond(cloud *domain.LogicalCloud, permissions []domain.Object) string {
	switch {
	case cloud.Admin():
		return "is of level 0, which has the rights of the kubeconfigs of its clusters"
	case strings.HasPrefix(cloud.Spec.User.UserName, "system:"):
		return fmt.Sprintf("has a user of Kubernetes itself, %q", cloud.Spec.User.UserName)
	case strings.HasPrefix(cloud.Spec.Namespace, "kube-"):
		return fmt.Sprintf("has a namespace of Kubernetes itself, %q", cloud.Spec.Namespace)
	}
	for _, o := range permissions {
		switch p := o.(*domain.UserPermission); {
		case p.Spec.Namespace == "":
			return fmt.Sprintf("has rights in the whole of each cluster by the user permission %q", p.Name)
		case p.Spec.Namespace != cloud.Spec.Namespace:
			return fmt.Sprintf("has rights in namespace %q, which is not its own, by the user permission %q", p.Spec.Namespace, p.Name)
		}
	}
	return ""
}

// mayReach refuses a cloud that has more than a namespace of its own in clusters, unless the caller may write these: by their
// kubeconfigs he has all that the cloud gets.
func mayReach(ctx context.Context, cloud *domain.LogicalCloud, permissions, references []domain.Object) error {
	granted := rights.Of(ctx)
	if granted.Everything() {
		return nil
	}
	more := beyond(cloud, permissions)
	if more == "" {
		return nil
	}
	for _, o := range references {
		cluster := o.(*domain.ClusterReference).ClusterName()
		err := granted.Refusal(rights.Request{Verb: "put", Noun: domain.ClustersNoun, Key: cluster.Key()})
		if err == nil {
			continue
		}
		lacks := fmt.Sprintf("you have no right to put clusters of cluster provider %q", cluster.Provider) // and may know no more of it
		if fail.Is(err, fail.Forbidden) {
			lacks = fail.TextOf(err)
		}
		return fail.New(fail.Forbidden, "logical cloud %q %s; for cluster %s that is given by who may write it alone: %s", cloud.Name, more, cluster, lacks)
	}
	return nil
}

// cloudReaches is mayReach for a cloud with all that is below it.
func (s *Service) cloudReaches(ctx context.Context, cloud *domain.LogicalCloud) error {
	permissions, err := s.store.List(ctx, domain.UserPermissions, domain.KeyOf(cloud))
	if err != nil {
		return err
	}
	references, err := s.store.List(ctx, domain.ClusterReferences, domain.KeyOf(cloud))
	if err != nil {
		return err
	}
	return mayReach(ctx, cloud, permissions, references)
}

// wroteCloud looks once more when a cloud is written that has become another one for its clusters.
func (s *Service) wroteCloud(ctx context.Context, c change) error {
	if c.from == nil || c.to == nil || sameInClusters(c.from.(*domain.LogicalCloud), c.to.(*domain.LogicalCloud)) {
		return nil
	}
	return s.cloudReaches(ctx, c.to.(*domain.LogicalCloud))
}

// sameInClusters says whether two versions of a cloud are one level, namespace and user.
func sameInClusters(a, b *domain.LogicalCloud) bool {
	return a.Spec.Level == b.Spec.Level && a.Spec.Namespace == b.Spec.Namespace && a.Spec.User.UserName == b.Spec.User.UserName
}

// changePermission guards the permissions of a cloud's user.
func (s *Service) changePermission(ctx context.Context, c change) error {
	if c.to == nil || rights.Of(ctx).Everything() {
		return nil
	}
	cloud, err := s.cloudOf(ctx, c.to)
	if err != nil {
		return err
	}
	references, err := s.store.List(ctx, domain.ClusterReferences, domain.KeyOf(cloud))
	if err != nil {
		return err
	}
	return mayReach(ctx, cloud, []domain.Object{c.to}, references)
}

// changedPermission looks once more when a permission is written.
func (s *Service) changedPermission(ctx context.Context, c change) error {
	if err := s.changePermission(ctx, c); err != nil {
		return err
	}
	return s.changedCloud(ctx, c)
}

// changeReach guards a reference by which a cloud comes to a cluster.
func (s *Service) changeReach(ctx context.Context, cloud *domain.LogicalCloud, c change) error {
	to := c.to.(*domain.ClusterReference)
	if c.from != nil && c.from.(*domain.ClusterReference).ClusterName() == to.ClusterName() || rights.Of(ctx).Everything() {
		return nil
	}
	permissions, err := s.store.List(ctx, domain.UserPermissions, domain.KeyOf(cloud))
	if err != nil {
		return err
	}
	return mayReach(ctx, cloud, permissions, []domain.Object{to})
}
