package rpc_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/rights"
	"github.com/drover-io/drover/internal/statusnotify"
)

// TestRightsOfCalls: each method, about each sort of owner, as each sort of caller; a stream ends when its right is withdrawn, and
// nobody ends another one's.
func TestRightsOfCalls(t *testing.T) {
	var withdrawn atomic.Bool
	read := func(context.Context) (*rights.Book, error) {
		var bound []*domain.RoleBinding
		for name, in := range map[string]domain.Key{"viewer": "projects/fleet", "other": "projects/other", "all": "", "clusters": "cluster-providers/p"} {
			if name == "viewer" && withdrawn.Load() {
				continue
			}
			bound = append(bound, &domain.RoleBinding{
				Identity: domain.Identity{Parent: in},
				Spec:     domain.RoleBindingSpec{Role: domain.RoleViewer, Subjects: []domain.RightSubject{{Kind: domain.SubjectUser, Name: name}}},
			})
		}
		return rights.NewBook(nil, bound), nil
	}
	prove := func(_ context.Context, s *authn.Shown) (*authn.Proof, error) {
		if len(s.Authorization) == 0 {
			return nil, nil
		}
		return &authn.Proof{Identity: caller.Identity{Kind: caller.User, Name: s.Authorization[0]}}, nil
	}
	w := newWorldBy(t, prove, 1, door.Identified, door.NewRights(read, lease.Now).Authorised)
	as := func(name string) context.Context {
		return metadata.AppendToOutgoingContext(w.ctx, "authorization", name)
	}
	const ready, summary = statusnotify.StatusValue_READY, statusnotify.OutputType_SUMMARY
	group, cloud, cluster := registration("g", ready, summary), registration("l", ready, summary), registration("c", ready, summary)
	cloud.Key = &statusnotify.StatusRegistration_LcKey{LcKey: &statusnotify.LcKey{Project: "fleet", LogicalCloud: "lc"}}
	cluster.Key = &statusnotify.StatusRegistration_ClusterKey{ClusterKey: &statusnotify.ClusterKey{ClusterProvider: "p", Cluster: "c"}}
	register := func(name string, in *statusnotify.StatusRegistration) codes.Code {
		ctx, cancel := context.WithCancel(as(name))
		defer cancel()
		s, err := w.client.StatusRegister(ctx, in)
		require.NoError(t, err)
		header, err := s.Header()
		require.NoError(t, err)
		if header != nil { // it is registered
			cancel()
			for err == nil {
				_, err = s.Recv()
			}
			return codes.OK
		}
		_, err = s.Recv()
		return status.Code(err)
	}
	for name, want := range map[string][3]codes.Code{
		"nobody":   {codes.NotFound, codes.NotFound, codes.NotFound},
		"viewer":   {codes.OK, codes.OK, codes.NotFound},
		"other":    {codes.NotFound, codes.NotFound, codes.NotFound},
		"clusters": {codes.NotFound, codes.NotFound, codes.OK},
		"all":      {codes.OK, codes.OK, codes.OK},
	} {
		for i, in := range []*statusnotify.StatusRegistration{group, cloud, cluster} {
			in.ClientId += name // a client that has gone is known for a moment
			require.Equal(t, want[i], register(name, in), "%s %v", name, in)
		}
	}
	stream, err := w.client.StatusRegister(as("viewer"), registration("mine", ready, summary))
	require.NoError(t, err)
	header, err := stream.Header()
	require.NoError(t, err)
	require.NotNil(t, header)
	_, err = w.client.StatusDeregister(as("all"), &statusnotify.StatusDeregistration{ClientId: "mine"})
	require.NoError(t, err)
	require.Equal(t, codes.AlreadyExists, register("viewer", registration("mine", ready, summary)), "it is still there")
	require.Equal(t, codes.OK, register("all", registration("mine", ready, summary)), "it is nobody else's")
	withdrawn.Store(true)
	for err == nil {
		_, err = stream.Recv()
	}
	require.Equal(t, codes.NotFound, status.Code(err), "%v", err)
}
