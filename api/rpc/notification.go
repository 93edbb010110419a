package rpc

import (
	"encoding/json"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/statusnotify"
)

// readyWord is how documents spell it.
const readyWord = "Ready"

// document is what notifications need of a status document in the form of EMCO 22.x.
type document struct {
	Status domain.ContextStatus `json:"deployedStatus"`
	Ready  string               `json:"readyStatus"`
	Apps   []struct {
		Name     string    `json:"name"`
		Clusters []cluster `json:"clusters"`
	} `json:"apps"`
	Clusters []cluster `json:"clusters"` // of a logical cloud
	Cluster  cluster   `json:"cluster"`  // of the networks of one; without a name while there are none
}

type cluster struct {
	Provider  string     `json:"clusterProvider"`
	Name      string     `json:"cluster"`
	Reason    string     `json:"reason"` // why the cluster's reports are not confirmed
	Resources []resource `json:"resources"`
}

type resource struct {
	GVK struct {
		Group, Version, Kind string
	} `json:"GVK"`
	Name     string               `json:"name"`
	Deployed domain.ResourceState `json:"deployedStatus"`
	Ready    string               `json:"readyStatus"`
}

// notification is what a registered client is told of a document. READY is a context that is instantiated, or
// updated, and ready; DEPLOYED one that is instantiated or updated. An app or a cluster is what all its resources are.
// Left out are resources of which nobody says whether they are ready, and hooks that are not in clusters of a context
// that is instantiated, as they are not to be: those of other operations, and those that were deleted when they had
// done their work.
func notification(in *statusnotify.StatusRegistration, encoded []byte) (*statusnotify.StatusNotification, error) {
	var d document
	if err := json.Unmarshal(encoded, &d); err != nil {
		return nil, fail.Wrap(err, fail.Internal, "status document cannot be read")
	}
	ready := in.GetStatusType() == statusnotify.StatusValue_READY
	there := d.Status == domain.ContextInstantiated || d.Status == domain.ContextUpdated
	n := &statusnotify.StatusNotification{StatusValue: value(ready, there && (!ready || d.Ready == readyWord))}
	if in.GetOutput() != statusnotify.OutputType_ALL {
		return n, nil
	}
	for _, a := range d.Apps {
		app, good := &statusnotify.AppStatus{App: a.Name}, true
		for i := range a.Clusters {
			c, ok := a.Clusters[i].status(ready, there)
			good = good && ok
			app.Clusters = append(app.Clusters, c)
		}
		app.StatusValue = value(ready, good)
		n.Details = append(n.Details, &statusnotify.StatusDetail{StatusDetail: &statusnotify.StatusDetail_App{App: app}})
	}
	if d.Cluster.Name != "" {
		d.Clusters = append(d.Clusters, d.Cluster)
	}
	for i := range d.Clusters {
		c, _ := d.Clusters[i].status(ready, there)
		n.Details = append(n.Details, &statusnotify.StatusDetail{StatusDetail: &statusnotify.StatusDetail_Cluster{Cluster: c}})
	}
	return n, nil
}

func (c *cluster) status(ready, there bool) (told *statusnotify.ClusterStatus, good bool) {
	told, good = &statusnotify.ClusterStatus{ClusterProvider: c.Provider, Cluster: c.Name}, c.Reason == ""
	for i := range c.Resources {
		r := &c.Resources[i]
		ok := r.Deployed == domain.ResourceApplied
		if ready {
			ok = r.Ready == readyWord
		}
		if ready && r.Ready == "" || there && (r.Deployed == domain.ResourcePending || r.Deployed == domain.ResourceDeleted) {
			continue
		}
		good = good && ok
		told.Resources = append(told.Resources, &statusnotify.ResourceStatus{
			Name: r.Name, Gvk: &statusnotify.GVK{Group: r.GVK.Group, Version: r.GVK.Version, Kind: r.GVK.Kind}, StatusValue: value(ready, ok),
		})
	}
	told.StatusValue = value(ready, good)
	return told, good
}

func value(ready, good bool) statusnotify.StatusValue {
	switch {
	case ready && good:
		return statusnotify.StatusValue_READY
	case ready:
		return statusnotify.StatusValue_NOT_READY
	case good:
		return statusnotify.StatusValue_DEPLOYED
	default:
		return statusnotify.StatusValue_NOT_DEPLOYED
	}
}
