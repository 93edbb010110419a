package service_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/internal/service"
)

// TestAClusterThatAnswersIsNotAway: that a cluster did not answer is forgotten when it is tried with what a PUT brings and answers, and when
// its registration goes, with what was heard of it. Nothing may ever be at work there again to find it out.
func TestAClusterThatAnswersIsNotAway(t *testing.T) {
	const key = domain.Key("cluster-providers/p/clusters/c")
	name := domain.ClusterName{Provider: "p", Name: "c"}
	for what, c := range map[string]struct {
		do      func(s *service.Service, c *domain.Cluster) error
		answers bool
		away    bool
		heard   bool // what was heard of it is known still
	}{
		"a PUT, and it answers": {answers: true, heard: true, do: func(s *service.Service, c *domain.Cluster) error {
			_, err := s.Put(t.Context(), c)
			return err
		}},
		"a PUT, and it does not answer": {away: true, heard: true, do: func(s *service.Service, c *domain.Cluster) error {
			_, err := s.Put(t.Context(), c)
			return err
		}},
		"a DELETE": {do: func(s *service.Service, _ *domain.Cluster) error {
			_, err := s.RemoveCluster(t.Context(), key, false)
			return err
		}},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFixture(t)
			sealer, err := secret.Parse("test:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
			require.NoError(t, err)
			answers := c.answers
			s := service.New(service.Deps{
				Store: f.store, Sealer: sealer, Instances: f.instances, Now: time.Now,
				Renewing: func(context.Context, domain.ClusterName) error { return nil },
				Checks: service.Checks{
					Kubeconfig: func([]byte) error { return nil },
					Reach: func(context.Context, []byte) (string, error) {
						if answers {
							return "v1.34.1", nil
						}
						return "", fail.New(fail.Unavailable, "nobody answers")
					},
				},
			})
			cluster := func() *domain.Cluster {
				made := &domain.Cluster{Identity: identity("cluster-providers/p"), Metadata: domain.Metadata{Name: "c"}}
				require.NoError(t, s.Attach(t.Context(), made, []byte("open sesame")))
				return made
			}
			require.NoError(t, s.Create(t.Context(), &domain.ClusterProvider{Metadata: domain.Metadata{Name: "p"}}))
			require.NoError(t, s.Create(t.Context(), cluster()))
			require.NoError(t, f.store.SetReachable(t.Context(), name, false))
			require.NoError(t, f.store.PutWatch(t.Context(), "watcher", &domain.Watch{Cluster: name, LastSeen: time.Now(), Reason: "it does not answer"}))
			require.NoError(t, c.do(s, cluster()))
			watches, err := f.store.Watches(t.Context(), nil)
			require.NoError(t, err)
			_, heard := watches[name]
			require.Equal(t, c.heard, heard)
			down, err := f.store.Unreachable(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.away, down[name])
		})
	}
}

// TestThatAClusterIsReplacedIsSaidBeforeAndAfterTheWrite: the write may take longer than workers look after the first word.
func TestThatAClusterIsReplacedIsSaidBeforeAndAfterTheWrite(t *testing.T) {
	f := newFixture(t)
	sealer, err := secret.Parse("test:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	require.NoError(t, err)
	var stored []domain.Digest // when it was said
	s := service.New(service.Deps{
		Store: f.store, Sealer: sealer, Instances: f.instances, Now: time.Now, Checks: service.Checks{Kubeconfig: func([]byte) error { return nil }},
		Renewing: func(ctx context.Context, c domain.ClusterName) error {
			o, err := f.store.Get(ctx, domain.ClustersNoun, c.Key())
			if fail.Is(err, fail.NotFound) {
				stored = append(stored, "")
				return nil
			}
			stored = append(stored, o.(*domain.Cluster).KubeconfigDigest)
			return err
		},
	})
	cluster := func(kubeconfig string) *domain.Cluster {
		made := &domain.Cluster{Identity: identity("cluster-providers/p"), Metadata: domain.Metadata{Name: "c"}}
		require.NoError(t, s.Attach(t.Context(), made, []byte(kubeconfig)))
		return made
	}
	require.NoError(t, s.Create(t.Context(), &domain.ClusterProvider{Metadata: domain.Metadata{Name: "p"}}))
	old, next := cluster("old"), cluster("next")
	require.NoError(t, s.Create(t.Context(), old))
	_, err = s.Put(t.Context(), cluster("old"))
	require.NoError(t, err)
	require.Empty(t, stored)
	_, err = s.Put(t.Context(), next)
	require.NoError(t, err)
	require.Equal(t, []domain.Digest{old.KubeconfigDigest, next.KubeconfigDigest}, stored)
	require.NoError(t, s.Delete(t.Context(), domain.ClustersNoun, domain.KeyOf(next)))
	require.Equal(t, []domain.Digest{next.KubeconfigDigest, ""}, stored[2:], "one that is deleted may come again as another one")
}
