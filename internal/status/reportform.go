package status

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

// reportForm is one way to write what clusters report, as form is for rsync resources. Of its own Drover
// says of a cluster whose reports are not confirmed when it was last heard of and why, of a resource
// there what was last reported if that is not vouched for any more, and at the top how many such clusters
// there are. Of a kind that cannot be heard in a cluster that is, each resource says when and why. In detail a resource that is not ready has a message.
type reportForm struct {
	overview func(*Source, *tally) any
	cluster  func(*report) any
	place    func(app string, r *report) any // an entry of the list of resources

	states map[ClusterState]string // the member that says a resource's state, encoded
	last   map[ClusterState]string // the member that says what was last reported of a stale one, encoded
	seen   string                  // the name of the member that says when a resource's kind was last heard

	// judged says that resources which are there are Ready or NotReady; else they are Present.
	judged bool
	// missing is the state of a resource that is not in an observation.
	missing func(*Observation, schema.GroupKind) ClusterState
	// unproven replaces states of which a report is no proof when it is not confirmed.
	unproven map[ClusterState]ClusterState

	// flat writes the clusters of the one app in place of apps.
	flat bool
	// single writes one cluster in place of apps.
	single bool

	order func(a, b *plan.ResourceID) int
	// merged puts what only the cluster knows among the planned resources; else it follows them.
	merged bool
}

// kebabReport is the seeds' form of what clusters report. A resource that is there has no state of its
// own ("any resource shown is inherently Present"); the others have.
var kebabReport = reportForm{
	overview: func(s *Source, t *tally) any {
		return kebabReportOverview{
			kebabHead: kebabHeadOf(s), State: kebabStateOf(s), Status: s.Status,
			Counts: t.counts, Unconfirmed: len(t.unconfirmed), warned: warned{s.Warnings},
		}
	},
	cluster: func(r *report) any { return kebabReporterOf(r) },
	place: func(app string, r *report) any {
		return kebabReportPlace{listedApp{app}, kebabReporterOf(r)}
	},
	states: map[ClusterState]string{
		ClusterNotPresent: `,"cluster-status":"NotPresent"`,
		ClusterUnknown:    `,"cluster-status":"Unknown"`,
	},
	last: map[ClusterState]string{
		ClusterPresent:    `,"last-cluster-status":"Present"`,
		ClusterNotPresent: `,"last-cluster-status":"NotPresent"`,
	},
	seen: "last-seen",
	missing: func(o *Observation, kind schema.GroupKind) ClusterState {
		if o.Seen && o.watches(kind, bundleRanks) {
			return ClusterNotPresent
		}
		return ClusterUnknown
	},
	unproven: map[ClusterState]ClusterState{
		ClusterPresent: ClusterUnknown, ClusterNotPresent: ClusterUnknown,
	},
	order:  byKind,
	merged: true,
}

type kebabReportOverview struct {
	kebabHead
	State       kebabState           `json:"state"`
	Status      domain.ContextStatus `json:"status,omitempty"`
	Counts      map[ClusterState]int `json:"cluster-status,omitempty"`
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

func kebabReporterOf(r *report) kebabReporter {
	k := kebabReporter{
		kebabTarget: kebabTarget{r.cluster.Provider, r.cluster.Name},
		Stale:       r.from.stale(), LastSeen: r.from.lastSeen(), Reason: r.from.reason(),
	}
	if !r.from.confirmed() {
		k.Connectivity = r.from.connectivity(r.cluster)
	}
	return k
}

type kebabReportPlace struct {
	listedApp
	kebabReporter
}

// camelReport is the form of EMCO 22.x, status=ready. It knows no Unknown: what nobody has confirmed is
// NotReady, or NotPresent when it never was reported. The members of camelReporter that EMCO does not
// have are there only when reports are not confirmed.
var camelReport = reportForm{
	overview: func(s *Source, t *tally) any {
		o := camelReportOverview{
			camelHead: camelHeadOf(s), States: camelStatesOf(s), Status: s.Status,
			Counts: t.counts, Unconfirmed: len(t.unconfirmed), warned: warned{s.Warnings},
		}
		if s.ContextID != "" {
			o.Ready = t.ready()
		}
		return o
	},
	cluster: func(r *report) any { return camelReporterOf(r) },
	place: func(app string, r *report) any {
		place := camelReportPlace{listedApp{app}, camelReporterOf(r)}
		if r.from.confirmed() { // EMCO's lists do not say it
			place.Connectivity = ""
		}
		return place
	},
	states: map[ClusterState]string{
		ClusterReady:      `,"readyStatus":"Ready"`,
		ClusterNotReady:   `,"readyStatus":"NotReady"`,
		ClusterNotPresent: `,"readyStatus":"NotPresent"`,
	},
	last:   map[ClusterState]string{ClusterReady: `,"lastReadyStatus":"Ready"`},
	seen:   "lastSeen",
	judged: true,
	missing: func(o *Observation, kind schema.GroupKind) ClusterState {
		// Certificate requests go by themselves when they are answered: that one is missing says nothing.
		if kind != requestKind && (o.watches(kind, camelRanks) || o.unheard(kind) != nil) {
			return ClusterNotPresent
		}
		return ""
	},
	unproven: map[ClusterState]ClusterState{ClusterReady: ClusterNotReady},
	order:    byResource,
}

var requestKind = schema.GroupKind{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}

// camelRanks has the kinds that an agent of EMCO 22.x reports: it has given up Secrets and Ingresses.
var camelRanks = func() map[schema.GroupKind]int {
	m := ranks(bundleKinds)
	delete(m, schema.GroupKind{Kind: "Secret"})
	delete(m, schema.GroupKind{Group: "networking.k8s.io", Kind: "Ingress"})
	return m
}()

type camelReportOverview struct {
	camelHead
	States      domain.History       `json:"states"`
	Status      domain.ContextStatus `json:"deployedStatus,omitempty"`
	Ready       ClusterState         `json:"readyStatus,omitempty"`
	Counts      map[ClusterState]int `json:"readyCounts,omitempty"`
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

func camelReporterOf(r *report) camelReporter {
	return camelReporter{
		camelTarget: camelTarget{r.cluster.Provider, r.cluster.Name}, Connectivity: r.from.connectivity(r.cluster),
		Stale: r.from.stale(), LastSeen: r.from.lastSeen(), Reason: r.from.reason(),
	}
}

type camelReportPlace struct {
	listedApp
	camelReporter
}
