package plan

import (
	"slices"

	"github.com/drover-io/drover/internal/domain"
)

// Collision is a resource that two plans put on the same cluster.
type Collision struct {
	App, OtherApp string
	Resource      ResourceID
	Cluster       domain.ClusterName
	Held          bool // the other plan holds it, and no app of it wants it any more
}

// clusterScoped are the built-in kinds without a namespace, by API group. A CRD may call a kind of its own Node.
var clusterScoped = map[string][]string{
	"": {"ComponentStatus", "Namespace", "Node", "PersistentVolume"},
	"admissionregistration.k8s.io": {
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
	},
	"apiextensions.k8s.io":         {"CustomResourceDefinition"},
	"apiregistration.k8s.io":       {"APIService"},
	"certificates.k8s.io":          {"CertificateSigningRequest", "ClusterTrustBundle"},
	"flowcontrol.apiserver.k8s.io": {"FlowSchema", "PriorityLevelConfiguration"},
	"networking.k8s.io":            {"IngressClass", "IPAddress", "ServiceCIDR"},
	"node.k8s.io":                  {"RuntimeClass"},
	"rbac.authorization.k8s.io":    {"ClusterRole", "ClusterRoleBinding"},
	"resource.k8s.io":              {"DeviceClass", "ResourceSlice"},
	"scheduling.k8s.io":            {"PriorityClass"},
	"storage.k8s.io":               {"CSIDriver", "CSINode", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"},
}

// ClusterScoped says whether objects of a built-in kind have no namespace; false for a kind that is not built in.
func ClusterScoped(group, kind string) bool { return slices.Contains(clusterScoped[group], kind) }

// Collide finds the first resource of a that b also has on the same cluster. All versions of an API group name the same resource.
// A CRD may be shared as long as no terminate deletes it, so that every user of it may have a copy in the chart. A CRD that is deleted
// may not be shared, since it takes the objects of its kind with it that others have. Nor may two have an object of the same name
// of a kind that a CRD of theirs makes cluster-wide. If a already has such a CRD or object on the cluster, an update of a is not
// refused for it, as the update may mend it; for a CRD the update has to keep it. What b holds counts as what it has, and a CRD that
// it holds as one that it keeps. Only the plans are looked at:
// CollideNow says whether what is found counts.
func Collide(a, b *Plan) (Collision, bool) {
	return (&collisions{a: a, b: b, scopes: scopesOf(a, b)}).find()
}

// CollideNow is Collide when the records of b's leaves are known, as their marks (domain.Leaf.Marks) by their ids: what was to be pruned and is gone does not collide any more. Of plans of
// different scopes each has what it may have alone, by the permissions of the cloud with whose user's rights it is applied, and what the cluster is
// known to have of it: else who may have one namespace would keep a name anywhere in the cluster from all others, by a chart that the cluster refuses.
// From is the plan from which a takes over, nil for none: a CRD that a terminate deletes by that one, too, is no worse than it was.
func CollideNow(a, b, from *Plan, recorded map[string]string, permissions map[domain.Key][]*domain.UserPermission) (Collision, bool) {
	c := &collisions{a: a, b: b, from: from, scopes: scopesOf(a, b), recorded: recorded, permissions: permissions}
	c.apart = Apart(a, b)
	return c.find()
}

// Apart says whether two plans are of different scopes, so that nobody has to know of both.
func Apart(a, b *Plan) bool { return domain.ScopeOf(a.Owner) != domain.ScopeOf(b.Owner) }

// collisions are looked for between two plans.
type collisions struct {
	a, b        *Plan
	from        *Plan // of a, nil for none
	scopes      scopes
	recorded    map[string]string                       // the marks of b's leaves, by their ids
	permissions map[domain.Key][]*domain.UserPermission // by logical cloud; for plans that are apart
	apart       bool
}

func (c *collisions) find() (Collision, bool) {
	for i := range c.a.Apps {
		for j := range c.b.Apps {
			if found, ok := c.between(&c.a.Apps[i], &c.b.Apps[j]); ok {
				return found, true
			}
		}
		if found, ok := c.takes(&c.a.Apps[i]); ok {
			return found, true
		}
	}
	return Collision{}, false
}

// takes finds what an app of a would take, and delete, that b has given up, and that holds something of b's. What a has already is no reason to
// refuse it an update.
func (c *collisions) takes(x *App) (Collision, bool) {
	known := map[string]domain.Marks{}
	for _, h := range c.b.Held {
		at := c.scopes.place(h.Resource, c.b.Namespace)
		i := slices.IndexFunc(x.Resources, func(r ResourceID) bool { return c.scopes.place(r, c.a.Namespace) == at })
		if i < 0 || at.IsDefinition() && x.keeps(i) || !c.has(c.a, at, false) || !c.has(c.b, at, false) {
			continue
		}
		for j := range x.Targets {
			t := &x.Targets[j]
			mine := x.begins(t, known)
			if had := i < len(mine) && mine[i].MayBeThere(); !had && !(lacking{mine}).lacks(i) && slices.Contains(h.Clusters, t.ClusterName) {
				return Collision{x.Name, h.App, x.Resources[i], t.ClusterName, true}, true
			}
		}
	}
	return Collision{}, false
}

// between finds what an app of a and one of b both have.
func (c *collisions) between(x, y *App) (Collision, bool) {
	a, b, s := c.a, c.b, c.scopes
	clusters := shared(x.Targets, y.Targets)
	if len(clusters) == 0 {
		return Collision{}, false
	}
	taken := make(map[ResourceID]int, len(y.Resources))
	for i, r := range y.Resources {
		taken[s.place(r, b.Namespace)] = i
	}
	var both [][2]int // places of what both have on some cluster
	for i, r := range x.Resources {
		if n, ok := taken[s.place(r, a.Namespace)]; ok && (!r.IsDefinition() || !x.keeps(i) || !y.keeps(n)) {
			both = append(both, [2]int{i, n})
		}
	}
	if len(both) == 0 {
		return Collision{}, false
	}
	known := map[string]domain.Marks{}
	for _, on := range clusters {
		mine, others, now := x.begins(on[0], known), y.begins(on[1], known), domain.Marks(nil)
		if marks, found := c.recorded[domain.LeafID(b.ContextID, y.Name, on[1].ClusterName)]; found {
			now = domain.DecodeMarks(marks)
		}
		for _, r := range both {
			n := r[1]
			pruned := n < len(now) && n < len(others) && others[n].ToDelete() && !now[n].MayBeThere()
			id := x.Resources[r[0]]
			had := r[0] < len(mine) && mine[r[0]].MayBeThere() && (id.IsDefinition() && (x.keeps(r[0]) || c.deleted(id, on[0].ClusterName)) || s.has(id))
			has := c.has(a, id, there(r[0], mine, nil)) && c.has(b, y.Resources[n], there(n, others, now))
			if !(lacking{mine}).lacks(r[0]) && !(lacking{others}).lacks(n) && !pruned && !had && has {
				return Collision{App: x.Name, OtherApp: y.Name, Resource: id, Cluster: on[0].ClusterName}, true
			}
		}
	}
	return Collision{}, false
}

// deleted says whether the plan from which a takes over has a CRD on a cluster that does not outlive it there.
func (c *collisions) deleted(definition ResourceID, on domain.ClusterName) bool {
	if c.from == nil {
		return false
	}
	at, known := Place(definition, ""), map[string]domain.Marks{}
	return slices.ContainsFunc(c.from.Apps, func(app App) bool {
		i := slices.IndexFunc(app.Resources, func(r ResourceID) bool { return Place(r, "") == at })
		return i >= 0 && !app.keeps(i) && slices.ContainsFunc(app.Targets, func(t Target) bool {
			return t.ClusterName == on && !(lacking{app.begins(&t, known)}).lacks(i)
		})
	})
}

// has says whether a plan has a resource, so that one of another scope may not. What it says of a resource that its user may write counts, and
// of one that is applied with the rights of a cluster's registration. Of any other one it says nothing but a wish, until the cluster is known to have it.
func (c *collisions) has(p *Plan, r ResourceID, there bool) bool {
	return !c.apart || there || p.User == "" || c.mayHave(p, r)
}

// there says whether a cluster is known to have the resource with an index, by the marks with which its target began and those of its record, nil for
// none. What was there and may be so still counts; what is left as it is, as somebody else has made it, does not.
func there(i int, begun, now domain.Marks) bool {
	has := func(m domain.Mark) bool { return m.There() && m != domain.MarkKept }
	was := i < len(begun) && has(begun[i])
	if i < len(now) {
		return has(now[i]) || was && now[i].MayBeThere()
	}
	return was
}

// mayHave says whether the user with whose rights a plan is applied may write a resource, as far as its permissions say: in the plan's own
// namespace, and where one of them lets it.
func (c *collisions) mayHave(p *Plan, r ResourceID) bool {
	in := c.scopes.place(r, p.Namespace).Namespace
	return in != "" && in == p.Namespace || slices.ContainsFunc(c.permissions[p.User], func(by *domain.UserPermission) bool {
		return (by.Spec.Namespace == "" || by.Spec.Namespace == in) && by.Spec.Writes(r.Group, r.Kind)
	})
}

// begins are the marks with which a target begins, nil for one of which nothing is known. What it does not get may be there yet,
// to be pruned. Targets have few marks between them, so known keeps those that were decoded.
func (a *App) begins(t *Target, known map[string]domain.Marks) domain.Marks {
	encoded := a.LacksOn(t)
	if t.Inherited != nil {
		encoded = t.Inherited.Marks
	}
	marks, decoded := known[encoded]
	if !decoded {
		marks = domain.DecodeMarks(encoded)
		known[encoded] = marks
	}
	return marks
}

// Place is what the names of a resource have in common that is one in a cluster of which the namespace is that of resources
// that name none: versions of an API group are views of one object, and some kinds have no namespace.
func Place(r ResourceID, namespace string) ResourceID {
	r.Version = ""
	switch {
	case ClusterScoped(r.Group, r.Kind):
		r.Namespace = ""
	case r.Namespace == "":
		r.Namespace = namespace
	}
	return r
}

// shared finds the clusters that both lists have.
func shared(a, b []Target) (clusters [][2]*Target) {
	in := make(map[domain.ClusterName]*Target, len(b))
	for i := range b {
		in[b[i].ClusterName] = &b[i]
	}
	for i := range a {
		if other := in[a[i].ClusterName]; other != nil {
			clusters = append(clusters, [2]*Target{&a[i], other})
		}
	}
	return clusters
}
