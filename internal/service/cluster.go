package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/rights"
)

// LabelledCluster is a cluster with its labels, sorted.
type LabelledCluster struct {
	domain.Metadata `json:"metadata"`
	Labels          []*domain.ClusterLabel `json:"labels"` // those that placements select it by
}

// ClustersWithLabels lists the clusters of a provider with the labels of each, as far as the caller may see them.
func (s *Service) ClustersWithLabels(ctx context.Context, provider domain.Key) ([]LabelledCluster, error) {
	clusters, unreadable := s.List(ctx, domain.ClustersNoun, provider)
	if _, err := domain.UnreadableOf(unreadable); err != nil {
		return nil, err
	}
	// One range for all of them: a fleet has thousands.
	labels, err := s.store.ListUnder(ctx, domain.ClusterLabels, provider)
	labels, err = shownTo(rights.Of(ctx), domain.ClusterLabels, labels, err)
	if _, err := domain.UnreadableOf(err); err != nil {
		return nil, err
	}
	unreadable = domain.And(unreadable, err)
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
	return list, unreadable
}

// ClustersByLabel names the clusters of a provider that carry the label, sorted, as far as the caller may see that.
func (s *Service) ClustersByLabel(ctx context.Context, provider domain.Key, label string) ([]string, error) {
	clusters, unreadable := s.ClustersWithLabels(ctx, provider)
	if _, err := domain.UnreadableOf(unreadable); err != nil {
		return nil, err
	}
	names := []string{}
	for _, c := range clusters {
		if slices.ContainsFunc(c.Labels, func(l *domain.ClusterLabel) bool { return l.Label == label }) {
			names = append(names, c.Name)
		}
	}
	return names, unreadable
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

// remarkPairs says which values of a set of key-value pairs nobody finds.
func (s *Service) remarkPairs(_ context.Context, o domain.Object) ([]string, error) {
	return o.(domain.KeyValues).Pairs().Hidden(), nil
}

// changeCluster begins the history of a cluster, or goes on with it, and refuses to delete one that may still hold
// something: nobody could clean it up.
func (s *Service) changeCluster(ctx context.Context, c change) error {
	if c.to == nil {
		if err := s.keepUsedCluster(ctx, c); err != nil {
			return err
		}
		return s.renewing(ctx, c.from.(*domain.Cluster).ClusterName()) // as for one that is replaced
	}
	to := c.to.(*domain.Cluster)
	if c.from == nil {
		if to.KeepKubeconfig {
			return errNoFile("the kubeconfig")
		}
		to.History = domain.NewHistory(s.now())
		if err := s.try(ctx, to); err != nil {
			return err
		}
		if err := s.forgetNamesake(ctx, domain.KeyOf(to)); err != nil {
			return err
		}
		return s.orphaned(ctx, domain.ClustersNoun, domain.KeyOf(to))
	}
	from := c.from.(*domain.Cluster)
	to.History = from.History
	if to.KeepKubeconfig {
		to.Kubeconfig, to.KubeconfigDigest, to.Expires = from.Kubeconfig, from.KubeconfigDigest, from.Expires
	}
	to.SameKubeconfig = to.KubeconfigDigest == from.KubeconfigDigest
	if err := s.try(ctx, to); err != nil || !renews(from, to) {
		return err
	}
	if err := s.remarkAgent(ctx, from, to); err != nil {
		return err
	}
	// Before the write: whoever dies between the two has told of what did not come, which costs a look. changedCluster tells again.
	return s.renewing(ctx, to.ClusterName())
}

// renews says whether clients of a cluster, and watches, are to be made anew.
func renews(from, to *domain.Cluster) bool {
	return to.KubeconfigDigest != from.KubeconfigDigest || to.Reporting() != from.Reporting()
}

// remarkAgent says that an agent alone is to be heard of a cluster where things run that it knows nothing of.
func (s *Service) remarkAgent(ctx context.Context, from, to *domain.Cluster) error {
	if from.Reporting() == to.Reporting() || to.Reporting() != domain.ReportAgent && to.Reporting() != domain.ReportInstall {
		return nil
	}
	_, found, err := s.instances.User(ctx, to.ClusterName())
	if err == nil && found {
		to.Remarks = []string{fmt.Sprintf("cluster %q: with spec.report %s the agent reports on what runs there after the next operation on it, "+
			"an update for example; until then nothing is known of it; with auto it would be", to.Name, to.Reporting())}
	}
	return err
}

// try notes whether the cluster can be reached with its kubeconfig. That it cannot is no refusal, as clusters are registered
// before they are up; Precondition where it must answer.
func (s *Service) try(ctx context.Context, c *domain.Cluster) error {
	if s.checks.Reach == nil {
		return nil
	}
	version := ""
	kubeconfig, err := s.kubeconfig(ctx, c)
	if err == nil {
		trying, cancel := context.WithTimeout(ctx, policy.ClusterTry)
		defer cancel()
		version, err = s.checks.Reach(trying, kubeconfig)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.Tried = domain.Trial{At: s.now().UTC(), Version: version}
	if err == nil {
		return nil
	}
	c.Tried.Error, c.Tried.Version = fail.TextOf(err), ""
	if c.MustAnswer {
		return fail.New(fail.Precondition, "%s; nothing is changed", unusable(c))
	}
	return nil
}

// unreached says what the user should know of a registration, such as that the cluster cannot be reached with it.
func (s *Service) unreached(_ context.Context, o domain.Object) ([]string, error) {
	c := o.(*domain.Cluster)
	remarks := slices.Clone(c.Remarks)
	if text := c.Expiring(s.now()); text != "" {
		remarks = append(remarks, text)
	}
	if c.Tried.Error == "" {
		return remarks, nil
	}
	return append(remarks, unusable(c)+"; what is to be done there waits until it can, or until the kubeconfig is replaced (PUT)"), nil
}

func unusable(c *domain.Cluster) string {
	return fmt.Sprintf("cluster %q cannot be used with its kubeconfig at the moment: %s", c.Name, c.Tried.Error)
}

// changedCluster looks once more when a cluster is deleted. That a registration was replaced is said again: workers look for a while after each word, and
// the write may have come later than that. One that has answered with the kubeconfig that is stored now is not taken any
// more for one that does not answer: where nothing is at work on it, nobody else would find out.
func (s *Service) changedCluster(ctx context.Context, c change) error {
	if c.to == nil {
		return s.keepUsedCluster(ctx, c)
	}
	cluster := c.to.(*domain.Cluster)
	if c.from != nil && renews(c.from.(*domain.Cluster), cluster) {
		if err := s.renewing(ctx, cluster.ClusterName()); err != nil {
			return err
		}
	}
	if cluster.Tried.At.IsZero() || cluster.Tried.Error != "" {
		return nil
	}
	return s.store.SetReachable(ctx, cluster.ClusterName(), true)
}

// forgetCluster forgets what is recorded of a cluster that is gone, and has clients of it ended: another one that comes in its name may be
// another cluster. That this one did not answer, or was heard, says nothing of that.
func (s *Service) forgetCluster(ctx context.Context, key domain.Key) error {
	provider, local := domain.Cut(domain.ClustersNoun, key)
	name := domain.ClusterName{Provider: provider.Name(), Name: local}
	return errors.Join(s.renewing(ctx, name), s.store.SetReachable(ctx, name, true), s.store.ForgetWatch(ctx, name), s.forgetInstances(ctx, key))
}

func (s *Service) keepUsedCluster(ctx context.Context, c change) error {
	cluster := c.from.(*domain.Cluster)
	if _, err := s.decide(ctx, cluster, domain.OpDelete); err != nil {
		return err
	}
	owner, found, err := s.instances.User(ctx, cluster.ClusterName())
	if err != nil {
		return err
	}
	may := rights.Of(ctx)
	switch {
	case found && !may.Shows(domain.OwnerNoun(owner), owner):
		return fail.New(fail.Conflict, "cluster %q is used by something that you may not see, which has to be terminated first", cluster.Name)
	case found:
		return fail.New(fail.Conflict, "cluster %q is used by %s; terminate that first", cluster.Name, owner)
	}
	left, err := s.matching.LeftIn(ctx, cluster.ClusterName())
	if err != nil || len(left) == 0 {
		return err
	}
	said := make([]string, len(left))
	for i, one := range left {
		if said[i] = one.String(); !may.Shows(domain.Tenants, domain.TenantKey(one.Tenant)) {
			said[i] = fmt.Sprintf("cluster %s may still have %d objects of a tenant that you may not see", one.Cluster, one.Objects)
		}
	}
	if !c.abandon {
		return fail.New(fail.Conflict, "%s; wait until it is deleted; if the cluster does not come back, delete its registration with abandon=true", said[0])
	}
	if len(*c.left) == 0 { // what was seen before stands: when the registration is gone, a worker forgets what nobody can look at any more
		*c.left = said
	}
	return nil
}
