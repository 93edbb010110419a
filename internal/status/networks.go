package status

import (
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/view"
)

// The forms of the network intents of a cluster differ from those of a deployment intent group in the members
// at the top, and in that one cluster object stands for apps and clusters (seeds, 21.03): empty in a summary, and
// where there is no resource to show.
var (
	kebabNetworks = networksForm(kebab, kebabNetworksOf, kebabNetworksReportOf)
	camelNetworks = networksForm(camel, camelNetworksOf, camelNetworksReportOf)
)

func networksForm(f form, overview func(*Source, map[domain.ResourceState]int) any, reported func(*Source, *view.Tally) any) form {
	f.head, f.overview, f.reported, f.layout = networksHeadOf, overview, reported, inOne
	return f
}

type networksHead struct {
	Name string `json:"name"`
}

func networksHeadOf(s *Source) any { return networksHead{s.Name} }

// kebabNetworksHead has the states in 21.03's spelling.
type kebabNetworksHead struct {
	networksHead
	States networksStates       `json:"states"`
	Status domain.ContextStatus `json:"status,omitempty"`
}

type networksStates struct {
	Actions []networksAction `json:"actions"`
}

type networksAction struct {
	State     domain.State `json:"state"`
	ContextID string       `json:"instance"`
	Time      time.Time    `json:"time"`
	// Of Drover's own, where there is something to say.
	Operation   string `json:"operation,omitempty"`
	RequestedBy string `json:"requestedBy,omitempty"`
}

func kebabNetworksHeadOf(s *Source) kebabNetworksHead {
	actions := make([]networksAction, 0, len(s.History.Actions))
	for _, a := range s.History.Actions {
		actions = append(actions, networksAction{State: a.State, ContextID: a.ContextID, Time: stamp(a.Time), Operation: a.Operation, RequestedBy: a.RequestedBy})
	}
	return kebabNetworksHead{networksHead: networksHead{s.Name}, States: networksStates{actions}, Status: s.Status}
}

func kebabNetworksOf(s *Source, counts map[domain.ResourceState]int) any {
	return struct {
		kebabNetworksHead
		Counts map[domain.ResourceState]int `json:"rsync-status,omitempty"`
	}{kebabNetworksHeadOf(s), counts}
}

func kebabNetworksReportOf(s *Source, t *view.Tally) any {
	return struct {
		kebabNetworksHead
		Counts      map[clusterState]int `json:"cluster-status,omitempty"`
		Unconfirmed int                  `json:"unconfirmed-clusters,omitempty"`
	}{kebabNetworksHeadOf(s), kebabCounts(t), t.Unconfirmed()}
}

type camelNetworksHead struct {
	networksHead
	States domain.History       `json:"states"`
	Status domain.ContextStatus `json:"deployedStatus,omitempty"`
}

func camelNetworksHeadOf(s *Source) camelNetworksHead {
	return camelNetworksHead{networksHead: networksHead{s.Name}, States: camelStatesOf(s), Status: s.Status}
}

func camelNetworksOf(s *Source, counts map[domain.ResourceState]int) any {
	return struct {
		camelNetworksHead
		Counts map[domain.ResourceState]int `json:"deployedCounts,omitempty"`
	}{camelNetworksHeadOf(s), counts}
}

func camelNetworksReportOf(s *Source, t *view.Tally) any {
	var ready clusterState
	if s.ContextID != "" {
		ready = camelReady(s.Ready(t))
	}
	return struct {
		camelNetworksHead
		Ready       clusterState         `json:"readyStatus,omitempty"`
		Counts      map[clusterState]int `json:"readyCounts,omitempty"`
		Unconfirmed int                  `json:"unconfirmedClusters,omitempty"`
	}{camelNetworksHeadOf(s), ready, camelCounts(t), t.Unconfirmed()}
}
