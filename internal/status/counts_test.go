package status_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/status"
)

// TestCountsAreThoseOfTheResources: of each example the counts of each cluster are what its resources come to, clusters say why they wait as
// in detail, and all else is as in the document with resources; but for Retrying, which that form has no word for.
func TestCountsAreThoseOfTheResources(t *testing.T) {
	for _, query := range []string{"?status=deployed", "?status=ready"} {
		for _, name := range slices.Sorted(maps.Keys(sources)) {
			t.Run(name+query, func(t *testing.T) {
				read := func(query string) (d status.Document) {
					require.NoError(t, json.Unmarshal([]byte(write(t, parseQuery(t, query), newSource(t, name))), &d))
					return d
				}
				all, counts := read(query), read(query+"&output=counts")
				detail := read(query + "&output=detail")
				for i, c := range clustersOf(&detail) {
					of := clustersOf(&all)[i]
					of.LastError, of.Reason = c.LastError, c.Reason
				}
				for _, d := range []*status.Document{&all, &counts} {
					for _, c := range clustersOf(d) {
						summed(t, c, d == &counts, query == "?status=ready")
					}
				}
				require.Equal(t, all, counts)
			})
		}
	}
}

// clustersOf are those of the document of a group, a logical cloud or the networks of a cluster.
func clustersOf(d *status.Document) (found []*status.DocumentCluster) {
	for i := range d.Apps {
		for k := range d.Apps[i].Clusters {
			found = append(found, &d.Apps[i].Clusters[k])
		}
	}
	for k := range d.Clusters {
		found = append(found, &d.Clusters[k])
	}
	if d.Cluster != nil {
		found = append(found, d.Cluster)
	}
	return found
}

// summed puts the counts of a cluster in place of its resources. What was done is left out where the document with resources does not
// say it.
func summed(t *testing.T, c *status.DocumentCluster, counted, ready bool) {
	t.Helper()
	if counted {
		require.Empty(t, c.Resources)
		if n := c.Deployed[domain.ResourceRetrying]; n > 0 {
			c.Deployed[domain.ResourcePending] += n
			delete(c.Deployed, domain.ResourceRetrying)
		}
	} else {
		c.Deployed, c.Readiness = map[domain.ResourceState]int{}, map[string]int{}
		for _, r := range c.Resources {
			if r.Status != "" {
				c.Deployed[r.Status]++
			}
			if r.Ready != "" {
				c.Readiness[r.Ready]++
			}
		}
	}
	if c.Resources = nil; ready {
		c.Deployed = nil
	}
	if len(c.Deployed) == 0 {
		c.Deployed = nil
	}
	if len(c.Readiness) == 0 {
		c.Readiness = nil
	}
}
