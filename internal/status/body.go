package status

import (
	"encoding/json"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

// body writes what follows the overview of a status document: apps, in them clusters, in them resources.
type body struct {
	out      *stream
	form     *form
	output   Output
	manifest func(app string, index int) json.RawMessage
}

type gvk struct {
	Group   string `json:"Group"`
	Version string `json:"Version"`
	Kind    string `json:"Kind"`
}

func gvkOf(id *plan.ResourceID) gvk { return gvk{id.Group, id.Version, id.Kind} }

// resource is what is the same on every cluster; the state follows it.
type resource struct {
	GVK    gvk             `json:"GVK"`
	Name   string          `json:"name"`
	Detail json.RawMessage `json:"detail,omitempty"`
}

type bodyApp struct {
	Name string `json:"name"`
}

func (b *body) apps(secs []section) {
	if len(secs) == 0 {
		return
	}
	b.out.text(`,"apps":[`)
	for i := range secs {
		b.out.comma(i)
		b.app(&secs[i])
	}
	b.out.text("]")
}

func (b *body) app(sec *section) {
	b.out.open(bodyApp{sec.app.Name})
	b.out.text(`,"clusters":[`)
	b.clusters(sec)
	b.out.text("]}")
}

func (b *body) clusters(sec *section) {
	resources := b.resources(sec)
	for i, c := range sec.clusters {
		if b.out.err != nil {
			return // the reader has gone: the other clusters would be encoded for nobody
		}
		b.out.comma(i)
		b.cluster(sec, c, resources)
	}
}

// resources encodes the resources of a section once for all its clusters, in their order, each without
// its closing brace.
func (b *body) resources(sec *section) [][]byte {
	encoded := make([][]byte, 0, len(sec.order))
	for _, i := range sec.order {
		id := &sec.app.Resources[i]
		r := resource{GVK: gvkOf(id), Name: id.Name}
		if b.output == OutputDetail && b.manifest != nil {
			r.Detail = bundle.Mask(b.manifest(sec.app.Name, i))
		}
		e, err := opened(r)
		if err != nil {
			b.out.fail(err)
			return nil
		}
		encoded = append(encoded, e)
	}
	return encoded
}

func (b *body) cluster(sec *section, c *Cluster, resources [][]byte) {
	b.out.open(b.form.cluster(c, b.output))
	b.out.text(`,"resources":[`)
	messages, warnings := b.messages(c), b.warnings(c)
	last, state := domain.Mark(0), domain.ResourceState("")
	written := 0
	for n, i := range sec.order {
		m := c.mark(i)
		if m == domain.MarkGone {
			continue
		}
		if m != last { // neighbours mostly share a mark
			last, state = m, b.form.shown(c.state(m))
		}
		b.out.comma(written)
		written++
		b.out.bytes(resources[n])
		b.out.text(b.form.states[state])
		if m := messages[i]; m != "" && state != domain.ResourceApplied && state != domain.ResourceDeleted {
			b.out.text(`,"message":`)
			b.out.value(m)
		}
		if w := warnings[i]; len(w) > 0 && state != domain.ResourceDeleted {
			b.out.text(`,"warnings":`)
			b.out.value(w)
		}
		b.out.text("}")
	}
	b.out.text("]}")
}

// messages is what the cluster said of its resources, by their index; nil but for detail.
func (b *body) messages(c *Cluster) map[int]string {
	if b.output != OutputDetail || len(c.Notes) == 0 {
		return nil
	}
	m := make(map[int]string, len(c.Notes))
	for _, n := range c.Notes {
		m[n.Index] = n.Message
	}
	return m
}

// warnings are those about resources, by their index; nil but for detail.
func (b *body) warnings(c *Cluster) map[int][]string {
	if b.output != OutputDetail || len(c.Warnings) == 0 {
		return nil
	}
	m := make(map[int][]string, len(c.Warnings))
	for _, n := range c.Warnings {
		m[n.Index] = append(m[n.Index], n.Message)
	}
	return m
}
