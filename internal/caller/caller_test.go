package caller_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/caller"
)

// TestOf: what was only said does not read as if it were proven, whatever it says.
func TestOf(t *testing.T) {
	open := caller.WithIdentity(t.Context(), caller.Identity{Kind: caller.Open}, nil)
	alice := caller.WithIdentity(t.Context(), caller.Identity{Kind: caller.User, Name: "alice"}, nil)
	for _, c := range []struct {
		ctx        context.Context
		said, want string
		who        audit.Who
	}{
		{open, "alice", "alice", audit.Who{Kind: "open", Name: "alice"}},
		{open, "Alice Liddell", "Alice Liddell", audit.Who{Kind: "open", Name: "Alice Liddell"}},
		{open, "user alice", `"user alice"`, audit.Who{Kind: "open", Name: `"user alice"`}},
		{open, "service-account service-accounts/admin", `"service-account service-accounts/admin"`, audit.Who{Kind: "open", Name: `"service-account service-accounts/admin"`}},
		{open, "tenant t", `"tenant t"`, audit.Who{Kind: "open", Name: `"tenant t"`}},
		{alice, "user bob", "user alice", audit.Who{Kind: "user", Name: "alice"}},
	} {
		got := caller.Of(caller.With(c.ctx, c.said))
		require.Equal(t, c.want, got)
		require.Equal(t, c.who, *audit.WhoOf(got))
	}
	require.Empty(t, caller.Of(open))
}
