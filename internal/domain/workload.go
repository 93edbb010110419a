package domain

import (
	"slices"
	"time"
)

// Workload is something that runs in a tenant's cluster, as that cluster last said it: a Pod, say. It is no document of the
// API: its id is any text that is not empty. It is never logged, and never in a workflow's history.
type Workload struct {
	Tenant string `json:"-" bson:"tenant"` // the name of the tenant
	ID     string `json:"id" bson:"id"`    // as the tenant's cluster has it, such as the UID of a Pod

	Orchestrator      Orchestrator `json:"orchestrator" bson:"orch,omitempty"`              // what runs it
	ResourceType      string       `json:"resourceType" bson:"type,omitempty"`              // such as v1/Pod
	ResourceNamespace string       `json:"resourceNamespace,omitempty" bson:"ns,omitempty"` // where it is there, such as its namespace
	ResourceName      string       `json:"resourceName,omitempty" bson:"name,omitempty"`    // what it is called there

	NodeName string `json:"nodeName,omitempty" bson:"node,omitempty"` // "" as long as it has none
	Ready    bool   `json:"ready" bson:"ready,omitempty"`             // whether it does its work
	// Extra is what else is said of it: "labels" and "annotations", for Kubernetes.
	Extra map[string]map[string]string `json:"extra,omitempty" bson:"extra,omitempty"`

	// Held says that the last sync did not have it, and that it stays since TenantSpec.DeleteGuard holds its deletion.
	Held bool `json:"held,omitempty" bson:"held,omitempty"`
	// Gone is since when its cluster has not got it any more, zero as long as it has: it stays for TenantSpec.DeleteAfter.
	Gone time.Time `json:"gone,omitzero" bson:"gone,omitempty"`

	// Bare says of one that is written that nothing was said of its state: one that is stored stays as it is.
	Bare bool `json:"-" bson:"-"`
}

// Orchestrator is what runs workloads. One that has no word here is the number that the protocol has for it, such as "7".
type Orchestrator string

// Kubernetes is the only orchestrator.
const Kubernetes Orchestrator = "kubernetes"

// The members of Workload.Extra for Kubernetes.
const (
	ExtraLabels      = "labels"
	ExtraAnnotations = "annotations"
)

// WorkloadTypes are the types of workloads that are taken.
var WorkloadTypes = []string{KindPod}

// Supported says whether workloads of its type are taken; others are left out, and counted.
func (w *Workload) Supported() bool {
	return w.Orchestrator == Kubernetes && slices.Contains(WorkloadTypes, w.ResourceType)
}

// Workloads is the noun of workloads, which are no documents: the streams of tenants write them.
var Workloads = &Noun{Kind: "workloads", Title: "workload", Collection: "workloads", Names: []string{"workload"}, Parent: Tenants}
