package status

import (
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/view"
)

// kebab is the form of EMCO's "Resource Lifecycle and Status Operations" up to 21.03. Of its own Drover
// adds, in detail only: to a cluster its connectivity and, if there are any, its last-error and the reason why it waits; to a resource
// that is neither Applied nor Deleted the message that the cluster gave, if there is one.
//
// Of what clusters report a resource that is there has no state of its own ("any resource shown is inherently
// Present"); the others have.
var kebab = form{
	head:   func(s *Source) any { return kebabHeadOf(s) },
	target: func(c domain.ClusterName) any { return kebabTarget{c.Provider, c.Name} },
	seen:   "last-seen",

	overview: kebabOverviewOf,
	cluster:  kebabClusterOf,
	states:   stateMembers("rsync-status", asItIs),
	shown:    asItIs,

	reported: func(s *Source, t *view.Tally) any {
		return kebabReportOverview{
			kebabHead: kebabHeadOf(s), State: kebabStateOf(s), Status: s.Status,
			Counts: kebabCounts(t), Unconfirmed: t.Unconfirmed(), warned: warned{s.Warnings},
		}
	},
	reporter: func(p *view.Place) any { return kebabReporterOf(p) },
	report:   func(r *view.Row) string { return kebabPresences[r.Presence] + kebabLast[r.LastPresence] },
	listed:   func(app string, p *view.Place) any { return kebabReportPlace{listedApp{app}, kebabReporterOf(p)} },

	resourcesByApp: "resources-by-app",
	clustersByApp:  "clusters-by-app",
}

func asItIs(s domain.ResourceState) domain.ResourceState { return s }

// The members that say whether a resource is there, and what was last reported of it where that is not vouched for.
var (
	kebabPresences = [...]string{
		view.Missing: `,"cluster-status":"NotPresent"`, view.Unknown: `,"cluster-status":"Unknown"`,
	}
	kebabLast = [...]string{
		view.Present: `,"last-cluster-status":"Present"`, view.Missing: `,"last-cluster-status":"NotPresent"`,
	}
)

func kebabCounts(t *view.Tally) map[clusterState]int {
	return counted(map[clusterState]int{
		clusterPresent: t.Presences(view.Present), clusterNotPresent: t.Presences(view.Missing), clusterUnknown: t.Presences(view.Unknown),
	})
}

type kebabHead struct {
	Project          string `json:"project"`
	CompositeApp     string `json:"composite-app-name"`
	Version          string `json:"composite-app-version"`
	CompositeProfile string `json:"composite-profile-name"`
	Name             string `json:"name"`
}

func kebabHeadOf(s *Source) kebabHead {
	return kebabHead{
		Project: s.Project, CompositeApp: s.CompositeApp, Version: s.Version,
		CompositeProfile: s.CompositeProfile, Name: s.Name,
	}
}

type kebabOverview struct {
	kebabHead
	State  kebabState                   `json:"state"`
	Status domain.ContextStatus         `json:"status,omitempty"`
	Counts map[domain.ResourceState]int `json:"rsync-status,omitempty"`
	warned
}

type kebabState struct {
	Actions []kebabAction `json:"Actions"`
}

type kebabAction struct {
	State     domain.State `json:"State"`
	ContextID string       `json:"ContextId"`
	TimeStamp time.Time    `json:"TimeStamp"`
	// Of Drover's own, where there is something to say.
	Operation   string `json:"Operation,omitempty"`
	RequestedBy string `json:"RequestedBy,omitempty"`
}

func kebabOverviewOf(s *Source, counts map[domain.ResourceState]int) any {
	return kebabOverview{kebabHead: kebabHeadOf(s), State: kebabStateOf(s), Status: s.Status, Counts: counts, warned: warned{s.Warnings}}
}

func kebabStateOf(s *Source) kebabState {
	actions := make([]kebabAction, 0, len(s.History.Actions))
	for _, a := range s.History.Actions {
		actions = append(actions, kebabAction{State: a.State, ContextID: a.ContextID, TimeStamp: stamp(a.Time), Operation: a.Operation, RequestedBy: a.RequestedBy})
	}
	return kebabState{Actions: actions}
}

type kebabTarget struct {
	Provider string `json:"cluster-provider"`
	Cluster  string `json:"cluster"`
}

type kebabCluster struct {
	kebabTarget
	Placement    string              `json:"placement,omitempty"`
	Connectivity domain.Connectivity `json:"connectivity,omitempty"`
	LastError    string              `json:"last-error,omitempty"`
	Reason       string              `json:"reason,omitempty"`
	warned
}

func kebabClusterOf(p *view.Place, o Output) any {
	c := p.Cluster
	k := kebabCluster{kebabTarget: kebabTarget{c.Provider, c.Name}, LastError: lastError(c, o), Reason: reason(c, o), warned: warnedOf(c, o)}
	if o == OutputDetail {
		k.Placement, k.Connectivity = c.Placement, p.Connectivity
	}
	return k
}

type kebabReportOverview struct {
	kebabHead
	State       kebabState           `json:"state"`
	Status      domain.ContextStatus `json:"status,omitempty"`
	Counts      map[clusterState]int `json:"cluster-status,omitempty"`
	Unconfirmed int                  `json:"unconfirmed-clusters,omitempty"`
	warned
}

// kebabReporter is a cluster; what follows its name is there only when its reports are not confirmed.
type kebabReporter struct {
	kebabTarget
	Connectivity domain.Connectivity `json:"connectivity,omitempty"`
	Stale        bool                `json:"stale,omitempty"`
	LastSeen     *time.Time          `json:"last-seen,omitempty"`
	Reason       string              `json:"reason,omitempty"`
}

func kebabReporterOf(p *view.Place) kebabReporter {
	k := kebabReporter{kebabTarget: kebabTarget{p.Cluster.Provider, p.Cluster.Name}}
	k.Stale, k.LastSeen, k.Reason = doubted(p.Doubt)
	if p.Doubt != nil {
		k.Connectivity = p.Connectivity
	}
	return k
}

type kebabReportPlace struct {
	listedApp
	kebabReporter
}
