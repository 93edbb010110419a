package status

import "github.com/drover-io/drover/internal/domain"

// camel is the form of EMCO 22.x, which the parameter status asks for. It has no state Retrying: such
// resources are Pending and their cluster's connectivity says Retrying. Of its own Drover adds, in detail
// only, lastError and reason to a cluster and message to a resource as the other form does.
var camel = form{
	head:           func(s *Source) any { return camelHeadOf(s) },
	overview:       camelOverviewOf,
	cluster:        camelClusterOf,
	target:         func(c domain.ClusterName) any { return camelTarget{c.Provider, c.Name} },
	places:         camelPlaces,
	clustersByApp:  "clustersByApp",
	resourcesByApp: "resourcesByApp",
	states:         stateMembers("deployedStatus"),
	body:           (*body).apps,
	report:         &camelReport,
	shown:          retryingIsPending,
	sorted:         true,
}

func retryingIsPending(s domain.ResourceState) domain.ResourceState {
	if s == domain.ResourceRetrying {
		return domain.ResourcePending
	}
	return s
}

type camelHead struct {
	Project          string `json:"project"`
	CompositeApp     string `json:"compositeApp"`
	Version          string `json:"compositeAppVersion"`
	CompositeProfile string `json:"compositeProfile"`
	Name             string `json:"name"`
}

func camelHeadOf(s *Source) camelHead {
	return camelHead{
		Project: s.Project, CompositeApp: s.CompositeApp, Version: s.Version,
		CompositeProfile: s.CompositeProfile, Name: s.Name,
	}
}

type camelOverview struct {
	camelHead
	States domain.History               `json:"states"`
	Status domain.ContextStatus         `json:"deployedStatus,omitempty"`
	Counts map[domain.ResourceState]int `json:"deployedCounts,omitempty"`
	warned
}

func camelOverviewOf(s *Source, counts map[domain.ResourceState]int) any {
	return camelOverview{camelHead: camelHeadOf(s), States: camelStatesOf(s), Status: s.Status, Counts: counts, warned: warned{s.Warnings}}
}

func camelStatesOf(s *Source) domain.History {
	states := domain.History{
		StatusContextID: s.History.StatusContextID,
		Actions:         make([]domain.Action, 0, len(s.History.Actions)),
	}
	for _, a := range s.History.Actions {
		a.Time = stamp(a.Time)
		states.Actions = append(states.Actions, a)
	}
	return states
}

type camelTarget struct {
	Provider string `json:"clusterProvider"`
	Cluster  string `json:"cluster"`
}

type camelPlace struct {
	listedApp
	camelTarget
}

func camelPlaces(sec *section) []listing {
	places := make([]listing, 0, len(sec.clusters))
	for i, c := range sec.clusters {
		places = append(places, listing{camelPlace{listedApp{sec.app.Name}, camelTarget{c.Provider, c.Name}}, sec.clusters[i : i+1]})
	}
	return places
}

type camelCluster struct {
	camelTarget
	Placement    string              `json:"placement,omitempty"`
	Connectivity domain.Connectivity `json:"connectivity"`
	LastError    string              `json:"lastError,omitempty"`
	Reason       string              `json:"reason,omitempty"`
	warned
}

func camelClusterOf(c *Cluster, o Output) any {
	k := camelCluster{
		camelTarget: camelTarget{c.Provider, c.Name}, Connectivity: c.connectivity(), LastError: lastError(c, o), Reason: reason(c, o),
		warned: warnedOf(c, o),
	}
	if o == OutputDetail {
		k.Placement = c.Placement
	}
	return k
}
