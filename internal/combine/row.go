package combine

import (
	"cmp"
	"time"

	"github.com/drover-io/drover/internal/domain"
)

// Key names a row of the input.
type Key struct {
	// Object is "" in a table of one object. In a table of several (together) it names the row's object, and is the first thing
	// by which rows are ordered.
	Object  string
	Cluster domain.ClusterName
}

// Compare is the order of rows: by object, provider, name.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Object, other.Object), k.Cluster.Compare(other.Cluster))
}

// ClusterID is "provider+name"; the name alone where there is no provider.
func (k Key) ClusterID() string {
	if k.Cluster.Provider == "" {
		return k.Cluster.Name
	}
	return k.Cluster.String()
}

// Row is what is known of an object on one target: the input of the expressions. Tables keep what the expressions gave, never
// the row, and change nothing in it: maps may be shared between rows, and with others who read them.
type Row struct {
	Key
	Labels []string // inventory.labels: those of the cluster, in the order in which they are to be seen
	// Object is obj: the manifest as it was sent, with its namespace, as Decode reads it. What bundle.Strip takes out of Secrets
	// must be gone. A status in it is not seen.
	Object map[string]any
	// Returned is what the cluster has, as Decode reads it: its metadata, spec and status are seen. Nil where the cluster has not
	// reported the object.
	Returned    map[string]any
	Propagation Propagation
}

// Propagation is the variable propagation.
type Propagation struct {
	// LastReturnedUpdate is when the control plane stored what is returned now; zero (year 1) before the first.
	LastReturnedUpdate time.Time
	Reported           bool // the cluster has reported the object
	Present            bool // and it is there
	// Stale says that nothing was ever reported, or that the cluster, or the object's kind there, is not heard now.
	Stale      bool
	StaleSince *time.Time // nil, which is null, where it is not stale or was never heard
	Ready      string     // Ready, NotReady or NotPresent, as status.Readiness; "" where that is not known
	State      string     // as type=rsync shows the object, such as Applied
	Message    string     // why, as type=rsync shows it
	// Summarised says that the agent may have cut members (bundle.SummarisedAnnotation): one that is missing is an error then.
	Summarised bool
}
