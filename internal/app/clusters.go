package app

import (
	"context"
	"sync"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// registrations reads the documents of clusters: the kubeconfig for their clients, which ask often enough, and by
// the way how they report.
type registrations struct {
	parts   *Parts
	reports sync.Map // domain.ClusterName to domain.Report
}

// credentials gives the kubeconfig of a cluster, opened.
func (r *registrations) credentials(ctx context.Context, name domain.ClusterName) ([]byte, domain.Digest, error) {
	o, err := r.parts.store.Get(ctx, domain.ClustersNoun, name.Key())
	if err != nil {
		return nil, "", err
	}
	c := o.(*domain.Cluster)
	if len(c.Kubeconfig.Data) == 0 {
		return nil, "", fail.New(fail.Precondition, "cluster %s has no kubeconfig", name)
	}
	kubeconfig, err := r.parts.sealer.Open(string(name.Key()), c.Kubeconfig)
	if err == nil {
		r.reports.Store(name, c.Reporting())
	}
	return kubeconfig, c.KubeconfigDigest, err
}

// Report implements activities.Reports, of clusters whose credentials have been asked for.
func (r *registrations) Report(name domain.ClusterName) domain.Report {
	if how, ok := r.reports.Load(name); ok {
		return how.(domain.Report)
	}
	return domain.ReportAgent
}
