package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/view"
)

// ClusterSituation is all that is known of a cluster and of what runs there.
type ClusterSituation struct {
	// Networks is the situation of the cluster's own network intents, and Intends says that it has any.
	Networks *Situation
	Intends  bool
	// Deployments are the situations of whatever else has something there, in the order of their keys, each with what it
	// has in this cluster alone.
	Deployments []*Situation

	// Left is what tenants that are gone may have there still.
	Left []domain.TenantLeft

	Report domain.Report
	// Contact is whether the cluster is heard; the zero value when nobody watches it.
	Contact view.Contact
	Tried   domain.Trial
	Expires time.Time // of its credentials; zero for never
	// Expiring says that they have expired or are about to; "" for no.
	Expiring string
}

// Cluster is what runs in a cluster, and whether it can be reached. Its times are UTC.
type Cluster struct {
	Name   string        `json:"name"`   // the cluster, as provider+cluster
	Report domain.Report `json:"report"` // how the cluster reports what becomes of resources
	// Connectivity is what was last seen of the cluster: by the work on it, by who hears it, or when its registration was
	// last tried.
	Connectivity domain.Connectivity `json:"connectivity"`
	Heard        bool                `json:"heard"`               // what changes there would be known
	LastHeard    *time.Time          `json:"lastHeard,omitempty"` // when it was last heard
	Unheard      string              `json:"unheard,omitempty"`   // why it is not heard
	Tried        *Tried              `json:"tried,omitempty"`
	// CredentialsExpire is when the first credential of the cluster's kubeconfig does, as far as that can be told.
	CredentialsExpire *time.Time `json:"credentialsExpire,omitempty"`
	// Warning is told 14 days before that, and from then on.
	Warning string `json:"warning,omitempty"`
	// Deployments are those that have something there, or may have; those that are not as wished come first. MoreDeployments
	// is how many were left out.
	Deployments     []Deployment `json:"deployments"`
	MoreDeployments int          `json:"moreDeployments,omitempty"` // how many deployments were left out
}

// Tried is the last look whether the cluster can be used with its kubeconfig, when that was registered or replaced.
type Tried struct {
	At      time.Time `json:"at"`                // when that was
	Error   string    `json:"error,omitempty"`   // why it cannot, "" when it can
	Version string    `json:"version,omitempty"` // that of the cluster's Kubernetes then, as far as the cluster tells
}

// Deployment is what a deployment intent group, a logical cloud or the cluster's own network intents have in the cluster.
type Deployment struct {
	Resource  domain.Key           `json:"resource"`           // its path below /v2
	Title     string               `json:"kind"`               // what it is, such as deployment intent group
	AsWished  bool                 `json:"asWished"`           // whether all that it has here is as the user asked for
	Summary   string               `json:"summary"`            // the whole in one sentence
	State     domain.State         `json:"state"`              // the last thing that a user asked for
	Since     time.Time            `json:"since"`              // when that was
	Status    domain.ContextStatus `json:"status,omitempty"`   // where the app context stands
	ContextID string               `json:"instance,omitempty"` // the id of the app context
	Operation *Operation           `json:"operation,omitempty"`
	Apps      []AppThere           `json:"apps,omitempty"` // the apps that it has here
	// Reasons, and what comes with them, are as in an explanation of the resource, of this cluster alone. An explanation of the
	// cluster has them among its own, and of what is not as wished nothing else but the summary.
	Reasons     []Reason `json:"reasons,omitempty"`
	MoreReasons int      `json:"moreReasons,omitempty"` // how many reasons were left out
	Unknown     []string `json:"unknown,omitempty"`     // what could not be found out
}

// AppThere is one app in the cluster.
type AppThere struct {
	App          string                       `json:"app"`                  // the app
	Resources    map[domain.ResourceState]int `json:"resources"`            // how many resources are in each state
	Connectivity domain.Connectivity          `json:"connectivity"`         // what work last saw of the cluster
	InProgress   bool                         `json:"inProgress,omitempty"` // whether work on it goes on
	Error        string                       `json:"error,omitempty"`      // the last error
	Reason       string                       `json:"reason,omitempty"`     // why the work failed
}

// maxDeployments is how many an explanation shows, by their summaries.
const maxDeployments = 6

// OfCluster explains a cluster: its own network intents and whatever else is to run there.
func OfCluster(s *ClusterSituation) *Explanation {
	e := Of(s.Networks)
	e.Cluster = ClusterOf(s)
	if s.Expiring != "" {
		e.Warnings = slices.Insert(e.Warnings, 0, s.Expiring)
	}
	wished := 0
	e.Reasons, e.MoreReasons = []Reason{}, 0
	for i := range e.Cluster.Deployments {
		d := &e.Cluster.Deployments[i]
		if d.AsWished {
			wished++
			continue
		}
		r := Reason{Kind: NotAsked, Text: fmt.Sprintf("%s %s: %s", d.Title, d.Resource.Name(), d.Summary)}
		if len(d.Reasons) > 0 {
			gravest := d.Reasons[0]
			r.Kind, r.Error, r.Resources, r.More, r.Do = gravest.Kind, gravest.Error, gravest.Resources, gravest.More, gravest.Do
			if n := len(gravest.Examples); n > 0 { // one for each deployment
				r.Examples, r.More = gravest.Examples[:1], r.More+n-1
			}
		}
		e.Reasons = append(e.Reasons, r)
		d.Operation, d.Apps, d.Reasons, d.MoreReasons, d.Unknown = nil, nil, nil, 0, nil
	}
	for _, one := range s.Left {
		e.Reasons = append(e.Reasons, Reason{
			Kind: Leftover, Text: one.String() + ", which is gone from here; they are deleted when the cluster answers",
			Do: "if the cluster does not come back: DELETE /v2/" + string(s.Networks.Key) + "?abandon=true&labels=true",
		})
	}
	if c := e.Cluster; c.Connectivity == domain.ConnectivityRetrying && s.Tried.Error != "" {
		e.Reasons = append(e.Reasons, Reason{
			Kind: ClusterUnreached, Error: clip(s.Tried.Error), Do: "mend the cluster, or replace its kubeconfig: PUT /v2/" + string(s.Networks.Key),
			Text: fmt.Sprintf("it could not be reached when its registration was tried, %s ago", span(s.Networks.Now.Sub(s.Tried.At))),
		})
	}
	slices.SortStableFunc(e.Reasons, func(a, b Reason) int { return cmp.Compare(a.Kind.rank(), b.Kind.rank()) })
	all := len(e.Cluster.Deployments)
	e.Summary, e.AsWished = e.Cluster.summary(e.Reasons, all, wished), len(e.Reasons) == 0
	if n := len(e.Reasons) - maxReasons; n > 0 {
		e.Reasons, e.MoreReasons = e.Reasons[:maxReasons], n
	}
	if n := all - maxDeployments; n > 0 {
		e.Cluster.Deployments, e.Cluster.MoreDeployments = e.Cluster.Deployments[:maxDeployments], n
	}
	return e
}

// summary says it in one sentence.
func (c *Cluster) summary(reasons []Reason, all, wished int) string {
	unheard := ""
	if c.Unheard != "" && all > 0 {
		unheard = "; it is not heard: " + clip(c.Unheard)
	}
	switch {
	case all == 0 && len(reasons) > 0:
		return "nothing runs here, and " + reasons[0].Text
	case all == 0:
		return "nothing runs here"
	case wished == all && len(reasons) == 0:
		return fmt.Sprintf("everything is as wished: %s here%s", count(all, "deployment"), unheard)
	case wished == all:
		return reasons[0].Text
	default:
		return fmt.Sprintf("%d of %s here %s not as wished: %s", all-wished, count(all, "deployment"), is(all-wished), reasons[0].Text)
	}
}

// ClusterOf says what runs in a cluster, with every deployment.
func ClusterOf(s *ClusterSituation) *Cluster {
	c := &Cluster{Name: nameOf(s.Networks.Key), Report: s.Report, Deployments: []Deployment{}}
	if s.Networks.Instance != nil || s.Intends || s.Networks.Starting != nil {
		c.Deployments = append(c.Deployments, deploymentOf(s.Networks))
	}
	for _, d := range s.Deployments {
		c.Deployments = append(c.Deployments, deploymentOf(d))
	}
	slices.SortStableFunc(c.Deployments, func(a, b Deployment) int {
		switch {
		case a.AsWished == b.AsWished:
			return 0
		case b.AsWished:
			return -1
		default:
			return 1
		}
	})
	c.Heard, c.LastHeard = s.Contact.Heard, at(s.Contact.LastSeen)
	if !c.Heard {
		c.Unheard = s.Contact.Reason
	}
	if !s.Tried.At.IsZero() {
		c.Tried = &Tried{At: s.Tried.At.UTC(), Error: s.Tried.Error, Version: s.Tried.Version}
	}
	c.CredentialsExpire, c.Warning = at(s.Expires), s.Expiring
	c.Connectivity = c.connectivity()
	return c
}

// nameOf is provider+cluster of a cluster's key.
func nameOf(key domain.Key) string {
	name, _ := domain.ClustersNoun.Fill("{clusterProvider}+{cluster}", key)
	return name
}

// connectivity is what was last seen of the cluster, as far as anybody knows. Watches may go on with credentials that no
// request is accepted with any more: the work knows better.
func (c *Cluster) connectivity() domain.Connectivity {
	worked := domain.ConnectivityUnknown
	for _, d := range c.Deployments {
		for _, a := range d.Apps {
			switch {
			case a.InProgress && a.Connectivity == domain.ConnectivityRetrying:
				return domain.ConnectivityRetrying
			case a.Connectivity == domain.ConnectivityAvailable:
				worked = a.Connectivity
			}
		}
	}
	switch {
	case c.Heard:
		return domain.ConnectivityAvailable
	case worked != domain.ConnectivityUnknown, c.Tried == nil:
		return worked
	case c.Tried.Error != "":
		return domain.ConnectivityRetrying
	default:
		return domain.ConnectivityAvailable
	}
}

// deploymentOf explains what an owner has in one cluster, which is all that the situation has of it.
func deploymentOf(s *Situation) Deployment {
	e := Of(s)
	d := Deployment{
		Resource: e.Resource, Title: e.Title, AsWished: e.AsWished, Summary: e.Summary, State: e.State, Since: e.Since,
		Status: e.Status, ContextID: e.ContextID, Operation: e.Operation, Reasons: e.Reasons, MoreReasons: e.MoreReasons, Unknown: e.Unknown,
	}
	if s.Noun == domain.ClustersNoun {
		d.Title = "network intents"
	}
	if s.Only != nil && len(e.Reasons) > 0 && e.Reasons[0].Kind == Finishing { // it goes on, if anywhere, elsewhere
		d.AsWished, d.Reasons = true, nil
		d.Summary = fmt.Sprintf("what %s has to do here is done", cmp.Or(string(s.Run.Operation), "the operation"))
	}
	for p := range s.View.Places(view.Ask{}) {
		d.Apps = append(d.Apps, appThere(p))
	}
	return d
}

func appThere(p *view.Place) AppThere {
	var t view.Tally
	for r := range p.Rows() {
		t.Add(r)
	}
	c := p.Cluster
	return AppThere{
		App: p.App.Name, Resources: t.States(), Connectivity: p.Connectivity,
		InProgress: c.InProgress, Error: clip(c.LastError), Reason: clip(c.Reason),
	}
}
