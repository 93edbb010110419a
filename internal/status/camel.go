package status

import (
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/view"
)

// camel is the form of EMCO 22.x, which the parameter status asks for. It has no state Retrying: such
// resources are Pending and their cluster's connectivity says Retrying. Of its own Drover adds, in detail
// only, lastError and reason to a cluster and message to a resource as the other form does; those of a cluster are in output=counts, too.
//
// Of what clusters report it knows no Unknown: what nobody has confirmed is NotReady, or NotPresent when it never was
// reported. The members of camelReporter that EMCO does not have are there only when reports are not confirmed.
var camel = form{
	head:   func(s *Source) any { return camelHeadOf(s) },
	target: func(c domain.ClusterName) any { return camelTarget{c.Provider, c.Name} },
	seen:   "lastSeen",

	overview: camelOverviewOf,
	cluster:  camelClusterOf,
	states:   stateMembers("deployedStatus", retryingIsPending),
	shown:    retryingIsPending,

	reported: func(s *Source, t *view.Tally) any {
		o := camelReportOverview{
			camelHead: camelHeadOf(s), States: camelStatesOf(s), Status: s.Status,
			Counts: camelCounts(t), Unconfirmed: t.Unconfirmed(), warned: warned{s.Warnings},
		}
		if s.ContextID != "" {
			o.Ready = camelReady(s.Ready(t))
		}
		return o
	},
	reporter: func(p *view.Place) any { return camelReporterOf(p) },
	report:   func(r *view.Row) string { return camelReadinesses[r.Readiness] + camelLast[r.LastReadiness] },
	listed: func(app string, p *view.Place) any {
		place := camelReportPlace{listedApp{app}, camelReporterOf(p)}
		if p.Doubt == nil { // EMCO's lists do not say it
			place.Connectivity = ""
		}
		return place
	},

	resourcesByApp: "resourcesByApp",
	clustersByApp:  "clustersByApp",
	places:         camelPlaceOf,
}

// The members that say whether a resource is ready, and what was last reported of it where that is not vouched for.
var (
	camelReadinesses = [...]string{
		view.Ready: readyStatus(view.Ready), view.NotReady: readyStatus(view.NotReady), view.NotThere: readyStatus(view.NotThere),
	}
	camelLast = [...]string{view.Ready: `,"lastReadyStatus":"Ready"`}
)

func readyStatus(r view.Readiness) string { return `,"readyStatus":"` + Readiness(r) + `"` }

func camelReady(ready bool) clusterState {
	if ready {
		return clusterReady
	}
	return clusterNotReady
}

func camelCounts(t *view.Tally) map[clusterState]int {
	return counted(map[clusterState]int{
		clusterReady: t.Readinesses(view.Ready), clusterNotReady: t.Readinesses(view.NotReady), clusterNotPresent: t.Readinesses(view.NotThere),
	})
}

// Readiness is what a document of status=ready says of the whole: whether it is ready, and how many resources are what.
func (s Source) Readiness() (ready bool, counts map[string]int, err error) {
	shown := s.shown()
	var t view.Tally
	for row, err := range shown.Rows(Query{Type: TypeReady, Output: OutputSummary}.For(s.Subject).Ask()) {
		if err != nil {
			return false, nil, err
		}
		t.Add(row)
	}
	counts = map[string]int{}
	for state, n := range camelCounts(&t) {
		counts[string(state)] = n
	}
	return shown.Ready(&t), counts, nil
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

func camelPlaceOf(p *view.Place) any {
	return camelPlace{listedApp{p.App.Name}, camelTarget{p.Cluster.Provider, p.Cluster.Name}}
}

type camelCluster struct {
	camelTarget
	Placement    string              `json:"placement,omitempty"`
	Connectivity domain.Connectivity `json:"connectivity"`
	LastError    string              `json:"lastError,omitempty"`
	Reason       string              `json:"reason,omitempty"`
	warned
}

func camelClusterOf(p *view.Place, o Output) any {
	c := p.Cluster
	k := camelCluster{
		camelTarget: camelTarget{c.Provider, c.Name}, Connectivity: p.Connectivity, LastError: lastError(c, o), Reason: reason(c, o),
		warned: warnedOf(c, o),
	}
	if o == OutputDetail {
		k.Placement = c.Placement
	}
	return k
}

type camelReportOverview struct {
	camelHead
	States      domain.History       `json:"states"`
	Status      domain.ContextStatus `json:"deployedStatus,omitempty"`
	Ready       clusterState         `json:"readyStatus,omitempty"`
	Counts      map[clusterState]int `json:"readyCounts,omitempty"`
	Unconfirmed int                  `json:"unconfirmedClusters,omitempty"`
	warned
}

type camelReporter struct {
	camelTarget
	Connectivity domain.Connectivity `json:"connectivity,omitempty"`
	Stale        bool                `json:"stale,omitempty"`
	LastSeen     *time.Time          `json:"lastSeen,omitempty"`
	Reason       string              `json:"reason,omitempty"`
}

func camelReporterOf(p *view.Place) camelReporter {
	k := camelReporter{camelTarget: camelTarget{p.Cluster.Provider, p.Cluster.Name}, Connectivity: p.Connectivity}
	k.Stale, k.LastSeen, k.Reason = doubted(p.Doubt)
	return k
}

type camelReportPlace struct {
	listedApp
	camelReporter
}
