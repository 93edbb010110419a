package status

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/domain"
)

// The words of Document.Ready (the first two), of DocumentResource.Ready, and of the counts by them, in the order in which they are told.
const (
	Ready      = string(clusterReady)
	NotReady   = string(clusterNotReady)
	NotPresent = string(clusterNotPresent)
)

// ReadyCounts are the counts of a Document's Readiness, for people: "3 Ready, 1 NotPresent".
func ReadyCounts(counts map[string]int) string {
	var parts []string
	for _, word := range []string{Ready, NotReady, NotPresent} {
		if n := counts[word]; n > 0 {
			parts = append(parts, strconv.Itoa(n)+" "+word)
		}
	}
	return strings.Join(parts, ", ")
}

// Document is a status document in the form of EMCO 22, as whoever asks for it reads it: what the encoders of that form write
// (camel.go, networks.go, cloud.go), in one type. Members that a query does not ask for are zero.
type Document struct {
	Project          string `json:"project,omitempty"`
	CompositeApp     string `json:"compositeApp,omitempty"`
	Version          string `json:"compositeAppVersion,omitempty"` // of the composite app
	CompositeProfile string `json:"compositeProfile,omitempty"`
	Name             string `json:"name"`

	States      domain.History               `json:"states"`
	Status      domain.ContextStatus         `json:"deployedStatus,omitempty"`
	Ready       string                       `json:"readyStatus,omitempty"`    // Ready or NotReady
	Deployed    map[domain.ResourceState]int `json:"deployedCounts,omitempty"` // resources by what was done
	Readiness   map[string]int               `json:"readyCounts,omitempty"`    // resources by what became of them
	Unconfirmed int                          `json:"unconfirmedClusters,omitempty"`
	Warnings    []string                     `json:"warnings,omitempty"`

	Apps     []DocumentApp     `json:"apps,omitempty"`     // of a deployment intent group
	Clusters []DocumentCluster `json:"clusters,omitempty"` // of a logical cloud
	Cluster  *DocumentCluster  `json:"cluster,omitempty"`  // of the network intents of one; its name is "" while there are none
}

// DocumentApp is an app of a Document.
type DocumentApp struct {
	Name     string            `json:"name"`
	Clusters []DocumentCluster `json:"clusters"`
}

// DocumentCluster is a cluster of a Document.
type DocumentCluster struct {
	Provider     string              `json:"clusterProvider"`
	Name         string              `json:"cluster"`
	Placement    string              `json:"placement,omitempty"`
	Connectivity domain.Connectivity `json:"connectivity,omitempty"`
	LastError    string              `json:"lastError,omitempty"`
	Reason       string              `json:"reason,omitempty"`   // why it waits, or why what it reports is not confirmed
	Stale        bool                `json:"stale,omitempty"`    // what it reports is not confirmed
	LastSeen     *time.Time          `json:"lastSeen,omitempty"` // when it was
	Warnings     []string            `json:"warnings,omitempty"`
	Resources    []DocumentResource  `json:"resources,omitempty"`
	// With OutputCounts: its resources by what was done, Retrying a state of its own, and by what became of them.
	Deployed  map[domain.ResourceState]int `json:"deployedCounts,omitempty"`
	Readiness map[string]int               `json:"readyCounts,omitempty"`
}

// DocumentResource is a resource of a Document.
type DocumentResource struct {
	GVK struct {
		Group   string `json:"Group"`
		Version string `json:"Version"`
		Kind    string `json:"Kind"`
	} `json:"GVK"`
	Name      string               `json:"name"`
	Detail    json.RawMessage      `json:"detail,omitempty"`  // the manifest, or the object
	Effects   []string             `json:"effects,omitempty"` // in detail: what intents have made of it
	Status    domain.ResourceState `json:"deployedStatus,omitempty"`
	Ready     string               `json:"readyStatus,omitempty"`     // Ready, NotReady or NotPresent
	LastReady string               `json:"lastReadyStatus,omitempty"` // where it was Ready when it was heard of last
	Stale     bool                 `json:"stale,omitempty"`           // what was reported is not confirmed
	LastSeen  *time.Time           `json:"lastSeen,omitempty"`        // when it was
	Reason    string               `json:"reason,omitempty"`          // why it is not
	Message   string               `json:"message,omitempty"`
	Warnings  []string             `json:"warnings,omitempty"`
}
