package app

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/logicalcloud"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/pause"
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
	if fail.Is(err, fail.NotFound) {
		r.reports.Delete(name)
	}
	if err != nil {
		return nil, "", err
	}
	c := o.(*domain.Cluster)
	if len(c.Kubeconfig.Data) == 0 {
		return nil, "", fail.New(fail.Precondition, "cluster %s has no kubeconfig", name)
	}
	kubeconfig, err := r.parts.inner.Open(string(name.Key()), c.Kubeconfig)
	if err == nil {
		r.reports.Store(name, c.Reporting())
	}
	// One that reports in another way is watched anew, as one with other credentials is.
	return kubeconfig, c.KubeconfigDigest + domain.Digest("-"+c.Reporting()), err
}

// How often it is asked which registrations were replaced, and for how long one that was is looked at each time: the word
// comes before the write.
const (
	renewEvery = 2 * time.Second
	renewing   = time.Minute
)

// follow keeps clients up with registrations that are replaced, until ctx ends. A store that does not answer is asked
// again.
func (r *registrations) follow(ctx context.Context, clusters *kube.Clusters, users *kube.Users) {
	var replaced renewals
	for pause.For(ctx, renewEvery) == nil {
		// Whoever works with a client whose credentials cannot be read finds that out as well.
		_ = panics.Do(ctx, func() error {
			said, err := r.parts.store.Renewals(ctx)
			if err != nil {
				return err
			}
			due := replaced.due(said, time.Now())
			if len(due) == 0 {
				return nil
			}
			return errors.Join(clusters.Renew(ctx, func(name domain.ClusterName) bool { return due[name] }),
				users.Renew(ctx, func(u kube.User) bool { return due[u.ClusterName] }))
		})
	}
}

// renewals decides which registrations are looked at. The zero value has seen none.
type renewals struct {
	known map[domain.ClusterName]string // the words
	looks map[domain.ClusterName]*renewalLook
}

// renewalLook is one that was replaced a while ago.
type renewalLook struct {
	next, end time.Time
	wait      pause.Backoff
}

// due are the clusters to be looked at now: those of which there is a new word, and for a while those of which there was
// one, the less often the longer ago.
func (r *renewals) due(said map[domain.ClusterName]string, now time.Time) map[domain.ClusterName]bool {
	if r.looks == nil {
		r.looks = map[domain.ClusterName]*renewalLook{}
	}
	for c, token := range said {
		if r.known[c] != token {
			r.looks[c] = &renewalLook{next: now, end: now.Add(renewing), wait: pause.Backoff{First: renewEvery, Most: renewing}}
		}
	}
	r.known = said
	due := map[domain.ClusterName]bool{}
	for c, look := range r.looks {
		if look.next.After(now) {
			continue
		}
		due[c] = true
		if look.end.Before(now) {
			delete(r.looks, c)
			continue
		}
		look.next = now.Add(look.wait.Next())
	}
	return due
}

// user gives the kubeconfig of a logical cloud's user in a cluster. One whose certificate is not there yet can be
// tried again.
func (r *registrations) user(ctx context.Context, u kube.User) ([]byte, domain.Digest, error) {
	references, err := r.parts.store.List(ctx, domain.ClusterReferences, u.Cloud)
	if err != nil {
		return nil, "", err
	}
	for _, o := range references {
		ref := o.(*domain.ClusterReference)
		if ref.ClusterName() != u.ClusterName || ref.Spec.Certificate == "" {
			continue
		}
		kubeconfig, err := r.userKubeconfig(ctx, ref, false)
		if fail.Is(err, fail.Conflict) {
			continue
		}
		sum := sha256.Sum256(kubeconfig)
		return kubeconfig, domain.Digest(hex.EncodeToString(sum[:])), err
	}
	return nil, "", fail.New(fail.Unavailable, "logical cloud %q has no certificate for cluster %s yet; update the logical cloud if its reference is new",
		u.Cloud.Name(), u.ClusterName)
}

// givenUserKubeconfig is userKubeconfig as it is given out.
func (r *registrations) givenUserKubeconfig(ctx context.Context, ref *domain.ClusterReference) ([]byte, error) {
	return r.userKubeconfig(ctx, ref, true)
}

// userKubeconfig is the kubeconfig of a logical cloud's user in the cluster of a reference that has a certificate, for whom it is
// given out to or for Drover itself; Conflict when the certificate is an earlier user's.
func (r *registrations) userKubeconfig(ctx context.Context, ref *domain.ClusterReference, given bool) ([]byte, error) {
	o, err := r.parts.store.Get(ctx, domain.LogicalClouds, ref.Parent)
	if err != nil {
		return nil, err
	}
	cloud := o.(*domain.LogicalCloud)
	certificate, err := base64.StdEncoding.DecodeString(ref.Spec.Certificate)
	if err != nil {
		return nil, fail.Wrap(err, fail.Internal, "the certificate of cluster reference %q cannot be read", ref.Name)
	}
	if _, err := logicalcloud.Read(certificate, cloud.Request); err != nil {
		return nil, fail.Wrap(err, fail.Conflict, "cluster %s has not issued the certificate of logical cloud %q yet: %s", ref.ClusterName(), cloud.Name, fail.TextOf(err))
	}
	key, err := r.parts.inner.Open(string(ref.Parent), cloud.Key)
	if err != nil {
		return nil, err
	}
	admin, _, err := r.credentials(ctx, ref.ClusterName())
	if err != nil {
		return nil, err
	}
	return kube.UserKubeconfig(admin, kube.Credentials{
		Cluster: ref.Name, User: cloud.Spec.User.UserName, Namespace: cloud.Spec.Namespace, Certificate: certificate, Key: key,
		GivenOut: given,
	})
}

// Report implements activities.Reports, of clusters whose credentials have been asked for.
func (r *registrations) Report(name domain.ClusterName) domain.Report {
	if how, ok := r.reports.Load(name); ok {
		return how.(domain.Report)
	}
	return domain.ReportAuto
}

// rehearsedClusters is how many clients the API keeps of clusters that it asks for their nodes, when a group is approved.
const rehearsedClusters = 200

// nodesOf is activities.Nodes.
type nodesOf struct{ clusters *kube.Clusters }

// Nodes asks a cluster.
func (n nodesOf) Nodes(ctx context.Context, name domain.ClusterName, amounts bool, left kube.LeftOut) ([]kube.Node, error) {
	c, err := n.clusters.Since(ctx, name, time.Now()) // a plan is for the cluster that is registered now
	if err != nil {
		return nil, err
	}
	return c.Nodes(ctx, amounts, left)
}
