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

func (c *change) apps(before, after *Image) {
	was := before.at()
	app, begun, clusters := "", false, 0
	for i := range after.places {
		p := &after.places[i]
		resources, changed := since(before, was[p.placeID], after, p)
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
		c.place(after, p, resources)
	}
	if begun {
		c.out.text("]}]")
	}
}

func (c *change) app(name string) {
	c.out.open(bodyApp{name})
	c.out.text(`,"clusters":[`)
}

func (c *change) place(after *Image, p *place, resources [][]byte) {
	c.out.bytes(after.part(p.own()))
	c.out.text(`,"resources":[`)
	for i, r := range resources {
		c.out.comma(i)
		c.out.bytes(r)
	}
	c.out.text("]}")
}

// own is what a place says of itself.
func (p *place) own() span { return span{p.from, p.head} }

// since says whether a place has changed, and gives those of its resources that have; old is nil when there was none.
func since(before *Image, old *place, after *Image, p *place) (resources [][]byte, changed bool) {
	if old != nil && bytes.Equal(before.part(old.span), after.part(p.span)) {
		return nil, false
	}
	var was map[resourceID][][]byte
	if old != nil {
		_, was = before.kindred(old)
	}
	ids, is := after.kindred(p)
	for _, id := range ids {
		if !slices.EqualFunc(is[id], was[id], bytes.Equal) {
			resources = append(resources, is[id]...)
		}
	}
	return resources, old == nil || len(resources) > 0 || !bytes.Equal(before.part(old.own()), after.part(p.own()))
}

// removals lists what is gone: resources of clusters, and apps from clusters.
func (c *change) removals(before, after *Image) {
	is := after.at()
	gone := 0
	remove := func(p *place, r *resourceID) {
		if gone == 0 {
			c.member("removed")
			c.out.text("[")
		}
		c.out.comma(gone)
		gone++
		c.removal(before, p, r)
	}
	for i := range before.places {
		old := &before.places[i]
		p := is[old.placeID]
		if p == nil {
			remove(old, nil)
			continue
		}
		if bytes.Equal(before.part(old.span), after.part(p.span)) {
			continue
		}
		ids, _ := before.kindred(old)
		_, there := after.kindred(p)
		for _, id := range ids {
			if there[id] == nil {
				remove(old, &id)
			}
		}
	}
	if gone > 0 {
		c.out.text("]")
	}
}

// removal names an app on a cluster as its document does, and a resource there if it is not all of it.
func (c *change) removal(before *Image, p *place, r *resourceID) {
	c.out.open(listedApp{p.app})
	target, err := opened(before.target(p.cluster))
	if err != nil {
		c.out.fail(err)
		return
	}
	c.out.text(",")
	c.out.bytes(target[1:])
	if r != nil {
		c.out.text(`,"resource":`)
		c.out.value(resource{GVK: r.gvk, Name: r.name})
	}
	c.out.text("}")
}
