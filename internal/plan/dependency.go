package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/drover-io/drover/internal/domain"
)

// Dependency is an app that another one waits for.
type Dependency struct {
	App   string        `json:"app"`
	Ready bool          `json:"ready,omitempty"` // until it is Ready, rather than Deployed
	Wait  time.Duration `json:"wait,omitempty"`  // and that much longer
}

// Until names what is waited for, for people.
func (d Dependency) Until() string {
	if d.Ready {
		return domain.UntilReady
	}
	return domain.UntilDeployed
}

// Cycle finds apps that wait for one another, directly or not: the way from an app back to itself, which is
// first and last; nil when there is none. needs are the apps that each one waits for. The answer is the same
// for the same needs.
func Cycle(needs map[string][]string) []string {
	done := map[string]bool{}
	for _, app := range slices.Sorted(maps.Keys(needs)) {
		if way := walk(app, needs, done, nil); way != nil {
			return way
		}
	}
	return nil
}

// walk follows the needs of an app at the end of a way until they are done, or an app is met that is on the
// way already.
func walk(app string, needs map[string][]string, done map[string]bool, way []string) []string {
	if i := slices.Index(way, app); i >= 0 {
		return append(slices.Clone(way[i:]), app)
	}
	if done[app] {
		return nil
	}
	way = append(way, app)
	for _, next := range slices.Sorted(slices.Values(needs[app])) {
		if found := walk(next, needs, done, way); found != nil {
			return found
		}
	}
	done[app] = true
	return nil
}
