package domain

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/fnv"
	"time"
)

// Report is how what became of deployed resources in a cluster gets to the control plane.
type Report string

// Ways to report.
const (
	ReportAuto      Report = "auto"      // by an agent where one lives, else agentless; the default
	ReportAgent     Report = "agent"     // an agent in the cluster writes ResourceBundleStates
	ReportInstall   Report = "install"   // the same, and the control plane installs the agent
	ReportAgentless Report = "agentless" // the control plane watches the resources themselves
	ReportNone      Report = "none"      // nothing is watched
)

// Unreported is the reason of a cluster that nobody watches.
const Unreported = "the cluster is registered with spec.report none"

// Reports are all of them.
var Reports = []Report{ReportAuto, ReportAgent, ReportInstall, ReportAgentless, ReportNone}

// ByAgent says whether an agent is to be heard, or may be: then each leaf has a ResourceBundleState for it to fill.
func (r Report) ByAgent() bool { return r == ReportAuto || r == ReportAgent || r == ReportInstall }

// ObservedApp names what an observation is of. App may be as the cluster has it, in a label, where the end of a
// long name is a hash (plan.DeploymentID): both name the same observation.
type ObservedApp struct {
	ContextID string
	App       string
	Cluster   ClusterName
}

// Observation is what a cluster last reported of one app of a context.
type Observation struct {
	ObservedApp
	// Kinds are the group kinds, as "Deployment.apps", that are watched; nil where the reporter does not say.
	Kinds []string
	// Unheard are kinds that are to be watched and cannot be: what is said of their resources may be old.
	Unheard   []UnheardKind
	Resources []ObservedResource
	// Error is why the cluster cannot report, and Since when it could for the last time, as far as the store knows, which sets it.
	// Who reports says nothing else then; what is stored is what was reported before.
	Error string
	Since time.Time
	// Gone are resources that an earlier report had and this one has not, the last MaxGone of them. What has an owner in the cluster,
	// as the Pods of a Deployment, is not among them. The store knows them, and sets them.
	Gone []GoneResource
	// Turn is that of who reports it. The store keeps it, and what it reads does not have it.
	Turn Turn
}

// MaxGone is how many resources that are gone are known of an app in a cluster.
const MaxGone = 500

// GoneResource is a resource that was reported and is not any more.
type GoneResource struct {
	Identity uint64    // IdentityOf it
	Since    time.Time // when the control plane stored the first report that did not have it
}

// IdentityOf is a short identity of a resource in any version.
func IdentityOf(group, kind, namespace, name string) uint64 {
	h := fnv.New64a()
	for _, part := range []string{group, kind, namespace, name} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	return h.Sum64()
}

// UnheardKind is a kind, as in Observation.Kinds, that cannot be watched: since when, zero for ever, and why.
type UnheardKind struct {
	Kind   string
	Since  time.Time
	Reason string
}

// ObservedResource is one resource as it was received. Status and Message are readiness.Of's; JSON is
// metadata, spec and status without managed fields and without the data of secrets.
type ObservedResource struct {
	Group, Version, Kind, Namespace, Name string
	Status, Message                       string
	JSON                                  []byte

	// What the store knows of it, and sets.

	// Stored is when the control plane stored the JSON as it is, in UTC and whole milliseconds. It stays as long as the JSON
	// does, whoever reports it; a resource that was gone and has come back is a new one.
	Stored time.Time
	// Sum tells the JSON from what it was before.
	Sum uint64
	// Size is that of the JSON as it is stored; 0 where that is not known.
	Size int
}

// Digest is the same for observations of an app that say the same, in the same order. When that was stored is no part of it.
func (o *Observation) Digest() Digest {
	h := sha256.New()
	part := func(b []byte) {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	if o.Kinds != nil {
		part([]byte("kinds"))
	}
	for _, k := range o.Kinds {
		part([]byte(k))
	}
	for _, u := range o.Unheard {
		part([]byte("unheard"))
		for _, s := range []string{u.Kind, u.Since.UTC().Format(time.RFC3339Nano), u.Reason} {
			part([]byte(s))
		}
	}
	if o.Error != "" {
		part([]byte("error"))
		part([]byte(o.Error))
	}
	part([]byte("resources"))
	for i := range o.Resources {
		r := &o.Resources[i]
		for _, s := range []string{r.Group, r.Version, r.Kind, r.Namespace, r.Name, r.Status, r.Message} {
			part([]byte(s))
		}
		part(r.JSON)
	}
	return Digest(hex.EncodeToString(h.Sum(nil)))
}

// ObservedChanges is what has changed of what clusters say of an app context.
type ObservedChanges struct {
	Version string // the newer one
	// Known says that all that has changed since the version that was asked for is in Of. Else anything may have.
	Known bool
	Of    []ObservedApp // apps are named as in labels; each once, in any order
}

// Watch is what whoever watches a cluster has last said of it. Whether it still holds is decided by view.ContactAt.
type Watch struct {
	Cluster   ClusterName
	Connected bool      // what changes there would be heard of
	LastSeen  time.Time // when that was so for the last time; zero for never
	Reason    string    // why it is not so
	Pulse     time.Time // when who says it gave its last pulse; zero for never, and while it is being said
	Turn      Turn      // that of who says it; what is read does not have it
}

// PulseLife is how long a pulse proves that whoever gave it is alive, and its watches are; it gives one every
// PulseEvery.
const (
	PulseEvery = 5 * time.Second
	PulseLife  = 15 * time.Second
)

// Stands says whether the pulse of who says it proves that it holds at a time.
func (w *Watch) Stands(at time.Time) bool { return !at.After(w.Until()) }

// Until is how long the pulse of who says it proves that it holds.
func (w *Watch) Until() time.Time { return w.Pulse.Add(PulseLife) }
