package status

import "github.com/drover-io/drover/internal/domain"

// camelCloud is the form of logical clouds: that of EMCO 22.x without a composite app, and as there is one app,
// with its clusters in the place of apps.
var camelCloud = func() form {
	f, report := camel, camelReport
	f.head = func(s *Source) any { return cloudHeadOf(s) }
	f.overview = cloudOverviewOf
	f.body = (*body).flat
	report.overview = cloudReportOf
	report.flat = true
	f.report = &report
	return f
}()

// flat writes the clusters of the one section.
func (b *body) flat(secs []section) {
	for i := range secs {
		b.out.text(`,"clusters":[`)
		b.clusters(&secs[i])
		b.out.text("]")
	}
}

type cloudHead struct {
	Project string `json:"project"`
	Name    string `json:"name"`
}

func cloudHeadOf(s *Source) cloudHead { return cloudHead{Project: s.Project, Name: s.Name} }

type cloudOverview struct {
	cloudHead
	States      domain.History               `json:"states"`
	Status      domain.ContextStatus         `json:"deployedStatus,omitempty"`
	Ready       ClusterState                 `json:"readyStatus,omitempty"`
	Deployed    map[domain.ResourceState]int `json:"deployedCounts,omitempty"`
	Counts      map[ClusterState]int         `json:"readyCounts,omitempty"`
	Unconfirmed int                          `json:"unconfirmedClusters,omitempty"`
}

func cloudOverviewOf(s *Source, counts map[domain.ResourceState]int) any {
	return cloudOverview{cloudHead: cloudHeadOf(s), States: camelStatesOf(s), Status: s.Status, Deployed: counts}
}

func cloudReportOf(s *Source, t *tally) any {
	o := cloudOverview{
		cloudHead: cloudHeadOf(s), States: camelStatesOf(s), Status: s.Status, Counts: t.counts, Unconfirmed: len(t.unconfirmed),
	}
	switch {
	case s.ContextID == "":
	case !s.bare():
		o.Ready = t.ready()
	case s.Status == domain.ContextInstantiated: // an admin cloud has nothing in its clusters
		o.Ready = ClusterReady
	}
	return o
}
