package view

import (
	"cmp"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/plan"
)

// Order is one of resources of an app.
type Order int

// The orders.
const (
	// ByName is by name, then kind; what the plan does not know follows what it does.
	ByName Order = iota
	// AsPlanned is that of the bundle; what the plan does not know follows it.
	AsPlanned
	// ByKind is by kind, as a ResourceBundleState has them, then all others; what the plan does not know is in between.
	ByKind
)

func (o Order) compare(a, b *plan.ResourceID) int {
	switch o {
	case ByKind:
		return byKind(a, b)
	case AsPlanned:
		return 0
	default:
		return byName(a, b)
	}
}

// byName is stable from one version of a chart to the next: what shares name and kind is told apart by the rest.
func byName(a, b *plan.ResourceID) int {
	return cmp.Or(
		cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Namespace, b.Namespace),
	)
}

func byKind(a, b *plan.ResourceID) int {
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Kind, b.Kind), byName(a, b))
}

// bundleKinds are the kinds that a ResourceBundleState has arrays for, in the order of the seeds' examples.
var bundleKinds = []schema.GroupKind{
	{Kind: "Pod"},
	{Kind: "Service"},
	{Group: "apps", Kind: "Deployment"},
	{Kind: "ConfigMap"},
	{Kind: "Secret"},
	{Group: "apps", Kind: "DaemonSet"},
	{Group: "networking.k8s.io", Kind: "Ingress"},
	{Group: "batch", Kind: "Job"},
	{Group: "apps", Kind: "StatefulSet"},
	requestKind,
}

var requestKind = schema.GroupKind{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}

var bundleRanks = func() map[schema.GroupKind]int {
	m := make(map[schema.GroupKind]int, len(bundleKinds))
	for i, k := range bundleKinds {
		m[k] = i
	}
	return m
}()

func rank(id *plan.ResourceID) int {
	if n, ok := bundleRanks[kindOf(id)]; ok {
		return n
	}
	return len(bundleKinds)
}

func kindOf(id *plan.ResourceID) schema.GroupKind {
	return schema.GroupKind{Group: id.Group, Kind: id.Kind}
}

// known is what is to be known of a kind to judge a resource of it that is not reported.
type known struct {
	kind schema.GroupKind
	// reported says that EMCO's first agents, which do not say what they watch, report the kind, and still that those of
	// 22.x do: they have given up Secrets and Ingresses.
	reported, still bool
}

func knownOf(id *plan.ResourceID) known {
	kind := kindOf(id)
	_, reported := bundleRanks[kind]
	gone := kind == schema.GroupKind{Kind: "Secret"} || kind == schema.GroupKind{Group: "networking.k8s.io", Kind: "Ingress"}
	return known{kind: kind, reported: reported, still: reported && !gone}
}
