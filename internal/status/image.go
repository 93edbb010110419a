package status

import (
	"bytes"
	"encoding/json"

	"github.com/drover-io/drover/internal/fail"
)

// Image is a status document taken apart, to be compared with a later one of the same query: its own members, and
// the clusters of its apps as places, each with its own members and its resources.
type Image struct {
	members []member
	places  []place
	index   map[placeID]int // into places
}

// member is one of an object, as it is encoded.
type member struct {
	name  string
	value json.RawMessage
}

// The members of kebabTarget and camelTarget.
const (
	clusterMember       = "cluster"
	kebabProviderMember = "cluster-provider"
	camelProviderMember = "clusterProvider"
)

// identifies says whether the member of a cluster is a part of its name.
func (m member) identifies() bool {
	return m.name == clusterMember || m.name == kebabProviderMember || m.name == camelProviderMember
}

// placeID is an app on a cluster, whose names are encoded.
type placeID struct{ app, provider, cluster string }

// place is an app on a cluster as the document has it.
type place struct {
	placeID
	encoded   json.RawMessage
	members   []member // of the cluster, without its resources
	resources []kindred
	index     map[resourceID]int // into resources
}

// resourceID is what a document tells resources of a cluster apart by.
type resourceID struct {
	GVK  gvk    `json:"GVK"`
	Name string `json:"name"`
}

// kindred are the resources of a cluster that a document does not tell apart: those of one kind and name, in
// several namespaces. There is mostly one.
type kindred struct {
	resourceID
	entries []json.RawMessage
}

// NewImage takes apart what Write wrote for q. What is as in an image from before, nil for none, is taken from that: most
// clusters of a large document are the same from one to the next.
func NewImage(q Query, document []byte, before *Image) (*Image, error) {
	if before == nil {
		before = &Image{}
	}
	i := &Image{index: map[placeID]int{}}
	var apps json.RawMessage
	err := members(document, func(m member) {
		if m.name == "apps" && q.List == ListNone {
			apps = m.value
			return
		}
		i.members = append(i.members, m)
	})
	if err == nil && apps != nil {
		err = i.addApps(apps, before)
	}
	if err != nil {
		return nil, fail.Wrap(err, fail.Internal, "status document cannot be taken apart")
	}
	return i, nil
}

func (i *Image) addApps(encoded json.RawMessage, before *Image) error {
	var apps []struct {
		Name     string            `json:"name"`
		Clusters []json.RawMessage `json:"clusters"`
	}
	if err := json.Unmarshal(encoded, &apps); err != nil {
		return err
	}
	for _, a := range apps {
		for _, c := range a.Clusters {
			p, same := before.at(len(i.places), a.Name, c)
			if !same {
				var err error
				if p, err = newPlace(a.Name, c); err != nil {
					return err
				}
			}
			i.index[p.placeID] = len(i.places)
			i.places = append(i.places, p)
		}
	}
	return nil
}

// at is the place with a number, if it is the app's and is encoded so.
func (i *Image) at(n int, app string, encoded json.RawMessage) (place, bool) {
	if n >= len(i.places) || i.places[n].app != app || !bytes.Equal(i.places[n].encoded, encoded) {
		return place{}, false
	}
	return i.places[n], true
}

func newPlace(app string, encoded json.RawMessage) (place, error) {
	p := place{placeID: placeID{app: app}, encoded: encoded, index: map[resourceID]int{}}
	var resources []json.RawMessage
	var wrong error
	err := members(encoded, func(m member) {
		switch {
		case m.name == "resources":
			wrong = json.Unmarshal(m.value, &resources)
			return
		case m.name == clusterMember:
			p.cluster = string(m.value)
		case m.identifies():
			p.provider = string(m.value)
		}
		p.members = append(p.members, m)
	})
	if err == nil {
		err = wrong
	}
	for _, r := range resources {
		if err != nil {
			break
		}
		err = p.add(r)
	}
	return p, err
}

func (p *place) add(encoded json.RawMessage) error {
	var id resourceID
	if err := json.Unmarshal(encoded, &id); err != nil {
		return err
	}
	n, ok := p.index[id]
	if !ok {
		n = len(p.resources)
		p.index[id] = n
		p.resources = append(p.resources, kindred{resourceID: id})
	}
	p.resources[n].entries = append(p.resources[n].entries, encoded)
	return nil
}

// members calls take for every member of an encoded object, in their order.
func members(encoded []byte, take func(member)) error {
	d := json.NewDecoder(bytes.NewReader(encoded))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		text, ok := name.(string)
		if !ok {
			return fail.New(fail.Internal, "not an object")
		}
		m := member{name: text}
		if err := d.Decode(&m.value); err != nil {
			return err
		}
		take(m)
	}
	return nil
}
