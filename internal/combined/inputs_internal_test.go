package combined

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/domain"
)

// counted is what inputs are to show of some rows, found by going through all of them.
func counted(rows map[combine.Key]heard) (shown Inputs) {
	clusters := map[domain.ClusterName][]combine.Key{}
	for k := range rows {
		clusters[k.Cluster] = append(clusters[k.Cluster], k)
	}
	for _, c := range slices.SortedFunc(maps.Keys(clusters), domain.ClusterName.Compare) {
		keys := slices.SortedFunc(slices.Values(clusters[c]), func(a, b combine.Key) int { return cmp.Compare(a.Object, b.Object) })
		shown.Clusters++
		if !slices.ContainsFunc(keys, func(k combine.Key) bool { return !rows[k].reported }) {
			shown.Reported++
		}
		at := slices.IndexFunc(keys, func(k combine.Key) bool { return rows[k].stale })
		if at < 0 {
			continue
		}
		if shown.Stale++; len(shown.Unconfirmed) < maxUnconfirmed {
			h := rows[keys[at]]
			shown.Unconfirmed = append(shown.Unconfirmed, Unconfirmed{c.String(), h.since, h.reason})
		}
	}
	return shown
}

// TestInputsAreCounted: after any changes they are what somebody finds who goes through all rows.
func TestInputsAreCounted(t *testing.T) {
	since := time.Unix(1, 0)
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 40))
		clusters, objects, quiet := 1+r.IntN(60), 1+r.IntN(3), r.IntN(10)
		in, rows := newInputs(), map[combine.Key]heard{}
		for range 400 {
			key := combine.Key{Cluster: domain.ClusterName{Provider: fmt.Sprint("p", r.IntN(2)), Name: fmt.Sprint("c", r.IntN(clusters))}}
			if objects > 1 {
				key.Object = fmt.Sprint("o", r.IntN(objects))
			}
			before, there := rows[key]
			if r.IntN(5) == 0 {
				delete(rows, key)
				require.Equal(t, there, in.drop(key))
			} else {
				now := heard{reported: r.IntN(3) > 0}
				if r.IntN(10) >= quiet {
					now.stale, now.reason = true, fmt.Sprint("reason ", r.IntN(3))
					if now.reported {
						now.since = &since
					}
				}
				rows[key] = now
				require.Equal(t, !there || !before.same(now), in.put(key, now))
			}
			if r.IntN(4) == 0 {
				require.Equal(t, counted(rows), in.shown(), "seed %d", seed)
				require.ElementsMatch(t, slices.Collect(maps.Keys(rows)), slices.Collect(in.keys()))
			}
		}
	}
}
