package status

import (
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/view"
)

// camelCloud is the form of logical clouds: that of EMCO 22.x without a composite app, and as there is one app,
// with its clusters in the place of apps.
var camelCloud = func() form {
	f := camel
	f.head = func(s *Source) any { return cloudHeadOf(s) }
	f.overview, f.reported, f.layout = cloudOverviewOf, cloudReportOf, inClusters
	return f
}()

type cloudHead struct {
	Project string `json:"project"`
	Name    string `json:"name"`
}

func cloudHeadOf(s *Source) cloudHead { return cloudHead{Project: s.Project, Name: s.Name} }

type cloudOverview struct {
	cloudHead
	States      domain.History               `json:"states"`
	Status      domain.ContextStatus         `json:"deployedStatus,omitempty"`
	Ready       clusterState                 `json:"readyStatus,omitempty"`
	Deployed    map[domain.ResourceState]int `json:"deployedCounts,omitempty"`
	Counts      map[clusterState]int         `json:"readyCounts,omitempty"`
	Unconfirmed int                          `json:"unconfirmedClusters,omitempty"`
}

func cloudOverviewOf(s *Source, counts map[domain.ResourceState]int) any {
	return cloudOverview{cloudHead: cloudHeadOf(s), States: camelStatesOf(s), Status: s.Status, Deployed: counts}
}

func cloudReportOf(s *Source, t *view.Tally) any {
	o := cloudOverview{
		cloudHead: cloudHeadOf(s), States: camelStatesOf(s), Status: s.Status, Counts: camelCounts(t), Unconfirmed: t.Unconfirmed(),
	}
	switch ready := s.Ready(t); {
	case s.ContextID == "", s.Bare() && !ready:
	default:
		o.Ready = camelReady(ready)
	}
	return o
}
