package workflows

import (
	"cmp"
	"slices"

	"github.com/drover-io/drover/internal/domain"
)

// WatchManyInput is WatchInput with each claim once. Temporal takes 2 MiB: a claim that is there again for each cluster of a shard of 625 would
// fill them with 43 contexts.
type WatchManyInput struct {
	Shard      int                  `json:"shard"`
	Generation int                  `json:"generation,omitempty"`
	Term       int                  `json:"term,omitempty"`
	Clusters   []domain.ClusterName `json:"clusters"` // sorted
	Claims     []ClaimOnMany        `json:"claims"`   // sorted
}

// ClaimOnMany is a claim with the clusters that it is on.
type ClaimOnMany struct {
	Claim
	// On has their places in WatchManyInput.Clusters as runs: the first place of each, and how many clusters it has. A context that is on all
	// has one.
	On []int `json:"on"`
}

// claims counts them, each as often as it is there.
func (in *WatchInput) claims() (n int) {
	for i := range in.Watched {
		n += len(in.Watched[i].Contexts)
	}
	return n
}

// fold says the same with each claim once.
func (in *WatchInput) fold() WatchManyInput {
	many := WatchManyInput{Shard: in.Shard, Generation: in.Generation, Term: in.Term}
	known := map[Claim]int{} // places in many.Claims
	for place, watched := range in.Watched {
		many.Clusters = append(many.Clusters, watched.Cluster)
		for _, claim := range watched.Contexts {
			claim.Began = claim.Began.UTC() // of which equal ones are one key
			at, found := known[claim]
			if !found {
				at = len(many.Claims)
				known[claim] = at
				many.Claims = append(many.Claims, ClaimOnMany{Claim: claim})
			}
			many.Claims[at].put(place)
		}
	}
	slices.SortFunc(many.Claims, func(a, b ClaimOnMany) int {
		return cmp.Or(cmp.Compare(a.ContextID, b.ContextID), a.Began.Compare(b.Began))
	})
	return many
}

// put adds a place behind all others.
func (c *ClaimOnMany) put(place int) {
	if last := len(c.On) - 1; last > 0 && c.On[last-1]+c.On[last] == place {
		c.On[last]++
		return
	}
	c.On = append(c.On, place, 1)
}

// unfold is what fold was made of.
func (in *WatchManyInput) unfold() WatchInput {
	out := WatchInput{Shard: in.Shard, Generation: in.Generation, Term: in.Term, Watched: make([]Watched, len(in.Clusters))}
	for place, c := range in.Clusters {
		out.Watched[place].Cluster = c
	}
	for _, claim := range in.Claims { // by context, so that those of a cluster are sorted, too
		for run := range slices.Chunk(claim.On, 2) {
			for place := run[0]; place < run[0]+run[1]; place++ {
				out.Watched[place].Contexts = append(out.Watched[place].Contexts, claim.Claim)
			}
		}
	}
	return out
}
