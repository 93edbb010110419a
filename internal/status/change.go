package status

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Change encodes what a reader who has the document of before needs to have that of after; nil when they say the same.
// It has the form of the document, with what has changed only:
//
//   - a member of the document as it is now, or null when it is gone;
//   - in apps, the clusters that have changed, each with all its members, of its resources those that have changed;
//     of resources of one kind and name all are given, in place of all that there were;
//   - in removed, the clusters of apps that are gone, and the resources that are gone from clusters that are not. An
//     app is gone with its last cluster.
//
// The order of what is new is not told.
func Change(before, after *Image) ([]byte, error) {
	var b bytes.Buffer
	out := newStream(&b)
	c := change{out: out}
	out.text("{")
	c.members(before.members, after.members)
	c.apps(before, after)
	c.removals(before, after)
	out.text("}")
	if err := out.close(); err != nil || c.written == 0 {
		return nil, err
	}
	return b.Bytes(), nil
}

// change writes a change.
type change struct {
	out     *stream
	written int // members of it
}

// member begins one.
func (c *change) member(name string) {
	c.out.comma(c.written)
	c.written++
	c.out.value(name)
	c.out.text(":")
}

func (c *change) encoded(m member) {
	c.out.value(m.name)
	c.out.text(":")
	c.out.bytes(m.value)
}

func (c *change) members(before, after []member) {
	was := make(map[string]json.RawMessage, len(before)) // a list has thousands
	for _, m := range before {
		was[m.name] = m.value
	}
	for _, m := range after {
		value, known := was[m.name]
		delete(was, m.name)
		if !known || !bytes.Equal(value, m.value) {
			c.member(m.name)
			c.out.bytes(m.value)
		}
	}
	for _, m := range before {
		if _, gone := was[m.name]; gone {
			c.member(m.name)
			c.out.text("null")
		}
	}
}

func (m member) same(other member) bool {
	return m.name == other.name && bytes.Equal(m.value, other.value)
}

func (c *change) apps(before, after *Image) {
	app, begun, clusters := "", false, 0
	for i := range after.places {
		p := &after.places[i]
		resources, changed := p.since(before)
		if !changed {
			continue
		}
		switch {
		case !begun:
			begun = true
			c.member("apps")
			c.out.text("[")
			c.app(p.app)
			clusters = 0
		case p.app != app:
			c.out.text("]},")
			c.app(p.app)
			clusters = 0
		}
		app = p.app
		c.out.comma(clusters)
		clusters++
		c.place(p, resources)
	}
	if begun {
		c.out.text("]}]")
	}
}

func (c *change) app(name string) {
	c.out.open(bodyApp{name})
	c.out.text(`,"clusters":[`)
}

func (c *change) place(p *place, resources []json.RawMessage) {
	c.out.text("{")
	for _, m := range p.members {
		c.encoded(m)
		c.out.text(",")
	}
	c.out.text(`"resources":[`)
	for i, r := range resources {
		c.out.comma(i)
		c.out.bytes(r)
	}
	c.out.text("]}")
}

// since says whether a place has changed, and gives those of its resources that have.
func (p *place) since(before *Image) (resources []json.RawMessage, changed bool) {
	n, known := before.index[p.placeID]
	if !known {
		for _, k := range p.resources {
			resources = append(resources, k.entries...)
		}
		return resources, true
	}
	old := &before.places[n]
	if bytes.Equal(p.encoded, old.encoded) {
		return nil, false
	}
	for _, k := range p.resources {
		at, known := old.index[k.resourceID]
		if !known || !slices.EqualFunc(k.entries, old.resources[at].entries, equal) {
			resources = append(resources, k.entries...)
		}
	}
	return resources, len(resources) > 0 || !slices.EqualFunc(p.members, old.members, member.same)
}

func equal(a, b json.RawMessage) bool { return bytes.Equal(a, b) }

// removals lists what is gone: resources of clusters, and apps from clusters.
func (c *change) removals(before, after *Image) {
	gone := 0
	remove := func(p *place, resource *resourceID) {
		if gone == 0 {
			c.member("removed")
			c.out.text("[")
		}
		c.out.comma(gone)
		gone++
		c.removal(p, resource)
	}
	for i := range before.places {
		old := &before.places[i]
		n, known := after.index[old.placeID]
		if !known {
			remove(old, nil)
			continue
		}
		for _, k := range old.resources {
			if _, known := after.places[n].index[k.resourceID]; !known {
				remove(old, &k.resourceID)
			}
		}
	}
	if gone > 0 {
		c.out.text("]")
	}
}

// removal names an app on a cluster as its document does, and a resource there if it is not all of it.
func (c *change) removal(p *place, resource *resourceID) {
	c.out.open(listedApp{p.app})
	for _, m := range p.members {
		if m.identifies() {
			c.out.text(",")
			c.encoded(m)
		}
	}
	if resource != nil {
		c.out.text(`,"resource":`)
		c.out.value(resource)
	}
	c.out.text("}")
}
