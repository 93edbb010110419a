package status

import (
	"time"

	"github.com/drover-io/drover/internal/domain"
)

// kebab is the form of EMCO's "Resource Lifecycle and Status Operations" up to 21.03. Of its own Drover
// adds, in detail only: to a cluster its connectivity and, if there are any, its last-error and the reason why it waits; to a resource
// that is neither Applied nor Deleted the message that the cluster gave, if there is one.
var kebab = form{
	head:           func(s *Source) any { return kebabHeadOf(s) },
	overview:       kebabOverviewOf,
	cluster:        kebabClusterOf,
	target:         func(c domain.ClusterName) any { return kebabTarget{c.Provider, c.Name} },
	places:         func(sec *section) []listing { return []listing{{listedApp{sec.app.Name}, sec.clusters}} },
	clustersByApp:  "clusters-by-app",
	resourcesByApp: "resources-by-app",
	states:         stateMembers("rsync-status"),
	body:           (*body).apps,
	report:         &kebabReport,
	shown:          func(s domain.ResourceState) domain.ResourceState { return s },
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

func kebabClusterOf(c *Cluster, o Output) any {
	k := kebabCluster{kebabTarget: kebabTarget{c.Provider, c.Name}, LastError: lastError(c, o), Reason: reason(c, o), warned: warnedOf(c, o)}
	if o == OutputDetail {
		k.Placement, k.Connectivity = c.Placement, c.connectivity()
	}
	return k
}
