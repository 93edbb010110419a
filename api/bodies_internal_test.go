package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/fail"
)

func TestACallerHasHalfOfTheMemoryForBodies(t *testing.T) {
	b := newBodies(100)
	alice, bob, open := caller.Identity{Kind: caller.User, Name: "alice"}, caller.Identity{Kind: caller.User, Name: "bob"}, caller.Identity{}
	open.Kind = caller.Open
	require.NoError(t, b.take(alice, 50))
	require.True(t, fail.Is(b.take(alice, 1), fail.Unavailable))
	require.NoError(t, b.take(bob, 40))
	require.NoError(t, b.take(open, 10))
	require.True(t, fail.Is(b.take(bob, 1), fail.Unavailable), "nobody has more than there is")
	b.give(alice, 50)
	b.give(bob, 40)
	require.NoError(t, b.take(open, 90), "who may be many has all that is free")
	b.give(open, 100)
	require.Zero(t, b.used)
	require.Empty(t, b.of)
}
