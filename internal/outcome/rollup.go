package outcome

import "github.com/drover-io/drover/internal/domain"

// Rollup adds up counts by state; states without resources are absent.
func Rollup(parts ...map[domain.ResourceState]int) map[domain.ResourceState]int {
	total := map[domain.ResourceState]int{}
	for _, part := range parts {
		for _, s := range domain.ResourceStates {
			if part[s] != 0 {
				total[s] += part[s]
			}
		}
	}
	return total
}
