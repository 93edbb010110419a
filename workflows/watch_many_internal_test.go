package workflows

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// TestFoldedClaims say the same when they are unfolded, by whatever worker.
func TestFoldedClaims(t *testing.T) {
	began := time.Date(2026, 11, 27, 10, 0, 0, 1, time.UTC)
	claims := func(ids ...string) (all []Claim) {
		for _, id := range ids {
			all = append(all, Claim{ContextID: id, Began: began})
		}
		return all
	}
	later := Claim{ContextID: "2", Began: began.Add(time.Second)}
	in := WatchInput{Shard: 3, Generation: 9, Term: 5}
	for i, contexts := range [][]Claim{
		claims("1", "2", "3"), claims("1", "3"), claims("1", "2"), {claims("1")[0], later}, {later, {ContextID: "3"}}, claims("1"),
	} {
		in.Watched = append(in.Watched, Watched{Cluster: domain.ClusterName{Provider: "p", Name: fmt.Sprint(i)}, Contexts: contexts})
	}
	many := in.fold()
	require.Equal(t, []ClaimOnMany{
		{Claim{ContextID: "1", Began: began}, []int{0, 4, 5, 1}},
		{Claim{ContextID: "2", Began: began}, []int{0, 1, 2, 1}},
		{later, []int{3, 2}},
		{Claim{ContextID: "3"}, []int{4, 1}},
		{Claim{ContextID: "3", Began: began}, []int{0, 2}},
	}, many.Claims)
	data, err := json.Marshal(many)
	require.NoError(t, err)
	var read WatchManyInput
	require.NoError(t, json.Unmarshal(data, &read))
	require.Equal(t, in, read.unfold())
	require.Equal(t, 12, in.claims())
}
