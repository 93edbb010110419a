package bundle

import (
	"encoding/json"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
)

// Part is one ResourceBundleState as it was read.
type Part struct {
	Name, Namespace, UID string
	DeploymentID         string // of the label; "" when it has none
	Number               int    // from 1
	OwnerUID             string // of the first part; "" for that itself

	Filled  bool // an agent has written its status
	Ready   bool // of the whole bundle; only the first part says it, as what follows
	Kinds   []schema.GroupKind
	Unheard []Unheard
	Parts   int // 1 where the status does not say, as EMCO's agent
	Count   int // of objects in all parts; only the first part's counts
	Lease   string
	Error   string // why the agent cannot write it
	Objects []Object
}

// written is the status but for the lists.
type written struct {
	Ready         bool      `json:"ready"`
	ResourceCount int       `json:"resourceCount"`
	ObservedKinds *[]string `json:"observedKinds"`
	UnheardKinds  []unheard `json:"unheardKinds,omitempty"`
	Parts         int       `json:"parts"`
	Lease         string    `json:"lease,omitempty"`
	Error         string    `json:"error,omitempty"`
	Generic       []generic `json:"resourceStatuses,omitempty"`
}

// Decode reads a ResourceBundleState as the API server returns it, whether this program's agent or EMCO's wrote its
// status. The error is Invalid: it is not one.
func Decode(data []byte) (*Part, error) {
	var r resource
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fail.Wrap(err, fail.Invalid, "the resource cannot be read")
	}
	if r.Kind != Kind {
		return nil, fail.New(fail.Invalid, "the resource is a %q, not a %s", r.Kind, Kind)
	}
	p := &Part{
		Name: r.Metadata.Name, Namespace: r.Metadata.Namespace, UID: r.Metadata.UID,
		DeploymentID: r.Metadata.Labels[plan.DeploymentLabel], Number: 1, Parts: 1,
	}
	if label, ok := r.Metadata.Labels[PartLabel]; ok {
		n, err := strconv.Atoi(label)
		if err != nil || n < 2 || len(r.Metadata.Owners) != 1 {
			return nil, fail.New(fail.Invalid, "%s is not a part of a bundle", r.Metadata.Name)
		}
		p.Number, p.OwnerUID = n, r.Metadata.Owners[0].UID
	}
	if len(r.Status) == 0 {
		return p, nil
	}
	if err := p.decodeStatus(r.Status); err != nil {
		return nil, fail.Wrap(err, fail.Invalid, "the status of %s cannot be read", p.Name)
	}
	return p, nil
}

func (p *Part) decodeStatus(data []byte) error {
	var w written
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return err
	}
	for _, l := range lists {
		var objects []json.RawMessage
		if m, ok := members[l.member]; ok {
			if err := json.Unmarshal(m, &objects); err != nil {
				return err
			}
		}
		for _, o := range objects {
			if err := p.add(plan.ResourceID{Group: l.group, Version: l.version, Kind: l.kind}, o); err != nil {
				return err
			}
		}
	}
	for _, g := range w.Generic {
		if err := p.add(plan.ResourceID{Group: g.Group, Version: g.Version, Kind: g.Kind, Namespace: g.Namespace, Name: g.Name}, g.Res); err != nil {
			return err
		}
	}
	p.Ready, p.Count, p.Parts, p.Lease, p.Error = w.Ready, w.ResourceCount, max(w.Parts, 1), w.Lease, w.Error
	p.Filled = w.ObservedKinds != nil || p.Number > 1 || len(p.Objects) > 0
	if w.ObservedKinds != nil {
		p.Kinds = make([]schema.GroupKind, 0, len(*w.ObservedKinds))
		for _, name := range *w.ObservedKinds {
			p.Kinds = append(p.Kinds, schema.ParseGroupKind(name))
		}
	} else {
		p.Count = len(p.Objects) // EMCO's agent never counts
	}
	for _, u := range w.UnheardKinds {
		heard := Unheard{GroupKind: schema.ParseGroupKind(u.Kind), Reason: u.Reason}
		if u.Since != nil {
			heard.Since = *u.Since
		}
		p.Unheard = append(p.Unheard, heard)
	}
	return nil
}

// add adds an object. What it says of itself goes before id.
func (p *Part) add(id plan.ResourceID, data []byte) error {
	var o struct {
		APIVersion string `json:"apiVersion"`
		Metadata   struct {
			Name        string            `json:"name"`
			Namespace   string            `json:"namespace"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(data, &o); err != nil {
		return err
	}
	if o.APIVersion != "" {
		id.Group, id.Version = groupOf(o.APIVersion)
	}
	if o.Metadata.Name != "" {
		id.Name, id.Namespace = o.Metadata.Name, o.Metadata.Namespace
	}
	p.Objects = append(p.Objects, Object{ResourceID: id, JSON: data, Summarised: o.Metadata.Annotations[SummarisedAnnotation] == "true"})
	return nil
}

// Bundle is what a cluster says of one app of one app context.
type Bundle struct {
	Name, Namespace, DeploymentID string

	Filled   bool // an agent has written it; else nothing is known
	Complete bool // all its parts were there and belong together; else a newer state is on its way
	Ready    bool
	Kinds    []schema.GroupKind // that the agent observes; nil where it does not say (EMCO's)
	Unheard  []Unheard          // see Head
	Lease    string             // see Head
	Error    string             // why the agent cannot write it: nothing is known
	Objects  []Object           // sorted by group, kind, namespace, name
}

// Join joins the parts of bundles, in any order and of any number of bundles; parts without their first are left
// out. The bundles are sorted by namespace and name.
func Join(parts []*Part) []Bundle {
	rest := map[string][]*Part{}
	var first []*Part
	for _, p := range parts {
		if p.Number == 1 {
			first = append(first, p)
		} else {
			rest[p.OwnerUID] = append(rest[p.OwnerUID], p)
		}
	}
	bundles := make([]Bundle, 0, len(first))
	for _, p := range first {
		bundles = append(bundles, join(p, rest[p.UID]))
	}
	slices.SortFunc(bundles, func(a, b Bundle) int {
		return byID(&Object{ResourceID: plan.ResourceID{Namespace: a.Namespace, Name: a.Name}},
			&Object{ResourceID: plan.ResourceID{Namespace: b.Namespace, Name: b.Name}})
	})
	return bundles
}

// join takes from every part what belongs into it: after the number of parts has changed, and before all of them
// are written, an object may stand in two of them.
func join(first *Part, rest []*Part) Bundle {
	b := Bundle{
		Name: first.Name, Namespace: first.Namespace, DeploymentID: first.DeploymentID,
		Filled: first.Filled, Ready: first.Ready, Kinds: first.Kinds, Unheard: first.Unheard, Lease: first.Lease, Error: first.Error,
	}
	seen := map[plan.ResourceID]bool{}
	for _, p := range append([]*Part{first}, rest...) {
		for _, o := range p.Objects {
			unversioned := o.ResourceID
			unversioned.Version = ""
			if seen[unversioned] || first.Parts > 1 && partOf(o.ResourceID, first.Parts) != p.Number-1 {
				continue
			}
			seen[unversioned] = true
			b.Objects = append(b.Objects, o)
		}
	}
	slices.SortFunc(b.Objects, func(x, y Object) int { return byID(&x, &y) })
	b.Complete = b.Filled && len(b.Objects) == first.Count
	return b
}
