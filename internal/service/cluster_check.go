package service

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/drover-io/drover/internal/access"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// ClusterCheck is what a cluster is like to who works on it: it was asked with the credential that is registered.
type ClusterCheck struct {
	Cluster   domain.Key `json:"cluster"`          // its path below /v2
	Reachable bool       `json:"reachable"`        // whether it answers, and accepts the credential
	Reason    string     `json:"reason,omitempty"` // why it is not
	// Version is that of its Kubernetes; missing where the cluster does not tell.
	Version string `json:"version,omitempty"`
	// LatencySeconds is the time of a small request and its answer, the middle one of three.
	LatencySeconds float64       `json:"latencySeconds,omitempty"`
	Report         domain.Report `json:"report"` // how it reports, the default too
	// CredentialsExpire is when the first credential of its kubeconfig does, as far as that can be told.
	CredentialsExpire *time.Time `json:"credentialsExpire,omitempty"`
	// Rights are those of the credential; missing where the cluster does not answer.
	Rights *CheckedRights `json:"rights,omitempty"`
}

// CheckedRights are the rights that a credential has, beside those that are needed for the way in which the cluster reports.
type CheckedRights struct {
	Needed  int      `json:"needed"`            // how many are needed
	Missing []string `json:"missing"`           // those that it does not have, such as "delete apps/*"
	Unknown string   `json:"unknown,omitempty"` // why the cluster does not say it
}

// Needs is what a cluster is to be used for beside what any is.
type Needs struct {
	Users  bool     // logical clouds of level 1, with certificates of their users
	Groups []string // further API groups whose kinds charts have
}

// mostGroups bounds the groups of Needs: each has seven rights, and each of these may be a question to the cluster.
const mostGroups = 8

// CheckCluster asks a cluster what it is like. That it does not answer is an answer. Who may see the cluster may ask: no more is told than how
// it is, which its status tells too when work meets it, and what it takes is bounded. A cluster is asked one thing at a time, those that ask the
// same meanwhile share the answer, and what nobody waits for any more ends; how many ask at a time is the door's.
func (s *Service) CheckCluster(ctx context.Context, key domain.Key, n Needs) (*ClusterCheck, error) {
	o, err := s.store.Get(ctx, domain.ClustersNoun, key)
	if err != nil {
		return nil, err
	}
	c := o.(*domain.Cluster)
	if len(n.Groups) > mostGroups {
		return nil, fail.Query("group", "it is given %d times, and may be %d times", len(n.Groups), mostGroups)
	}
	role, err := access.ClusterRole("drover", c.Reporting(), n.Users, n.Groups...)
	if err != nil {
		return nil, fail.Query("group", "%s", fail.TextOf(err))
	}
	out := &ClusterCheck{Cluster: key, Report: c.Reporting()}
	if !c.Expires.IsZero() {
		expires := c.Expires.UTC()
		out.CredentialsExpire = &expires
	}
	kubeconfig, err := s.kubeconfig(ctx, c)
	if err != nil {
		return nil, err
	}
	if s.checks.See == nil {
		return nil, fail.New(fail.Internal, "nobody here can ask clusters")
	}
	if len(kubeconfig) == 0 {
		out.Reason = "it is registered without a kubeconfig"
		return out, nil
	}
	digest := sha256.New()
	for _, part := range [][]byte{kubeconfig, role} {
		sum := sha256.Sum256(part)
		digest.Write(sum[:])
	}
	seen, err := s.looks.share(ctx, key, string(digest.Sum(nil)), func(ctx context.Context) (*access.Seen, error) {
		return s.checks.See(ctx, kubeconfig, role)
	})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		out.Reason = fail.TextOf(err)
		return out, nil
	}
	out.Reachable, out.Version, out.LatencySeconds = true, seen.Version, seen.Latency.Seconds()
	out.Rights = &CheckedRights{Needed: seen.Needed, Missing: append([]string{}, seen.Lacks...), Unknown: seen.Unknown}
	return out, nil
}
