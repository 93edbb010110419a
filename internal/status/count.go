package status

import "github.com/drover-io/drover/internal/domain"

// counts is what a status document counts, by state as the form shows it: the sections, or the whole
// context where the source has counted that already.
func counts(f *form, q Query, s *Source, secs []section) map[domain.ResourceState]int {
	total := map[domain.ResourceState]int{}
	if s.Counts != nil && q.CountsSuffice() {
		for _, state := range domain.ResourceStates {
			if n := s.Counts[state]; n > 0 {
				total[f.shown(state)] += n
			}
		}
		return total
	}
	for i := range secs {
		for _, c := range secs[i].clusters {
			countCluster(total, f, c, secs[i].order)
		}
	}
	return total
}

// countCluster counts runs of equal marks: neighbours mostly share one, and the map stays out of the loop
// over resources.
func countCluster(total map[domain.ResourceState]int, f *form, c *Cluster, order []int) {
	for i := 0; i < len(order); {
		m, j := c.mark(order[i]), i+1
		for j < len(order) && c.mark(order[j]) == m {
			j++
		}
		if m != domain.MarkGone {
			total[f.shown(c.state(m))] += j - i
		}
		i = j
	}
}
