package bundle

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/plan"
)

// MaxSize is how large a status may be, in bytes: etcd takes 1.5 MiB in a request, and what is around the status
// needs little of it. MinSize is the least that Split can work with.
const (
	MaxSize = limits.Status
	MinSize = limits.StatusLeast
)

// maxParts is where Split gives up; 1 GiB of summaries is no app's.
const maxParts = 1024

// list is a member of the status with objects of one kind.
type list struct{ group, version, kind, member string }

// lists are the kinds with a member of their own, as EMCO has them; all others are in resourceStatuses.
var lists = []list{
	{"", "v1", "ConfigMap", "configMapStatuses"},
	{"certificates.k8s.io", "v1", "CertificateSigningRequest", "csrStatuses"},
	{"apps", "v1", "DaemonSet", "daemonSetStatuses"},
	{"apps", "v1", "Deployment", "deploymentStatuses"},
	{"networking.k8s.io", "v1", "Ingress", "ingressStatuses"},
	{"batch", "v1", "Job", "jobStatuses"},
	{"", "v1", "Pod", "podStatuses"},
	{"", "v1", "Secret", "secretStatuses"},
	{"", "v1", "Service", "serviceStatuses"},
	{"apps", "v1", "StatefulSet", "statefulSetStatuses"},
}

const genericMember = "resourceStatuses"

// memberOf is the member of the status for an object of the kind.
func memberOf(group, kind string) string {
	for _, l := range lists {
		if l.group == group && l.kind == kind {
			return l.member
		}
	}
	return genericMember
}

// generic is an entry of resourceStatuses.
type generic struct {
	Group     string `json:"group"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	Res       []byte `json:"res"` // base64 of the object's JSON
}

// entry is how the object is written in its list.
func entry(o *Object, member string) ([]byte, error) {
	if member != genericMember {
		return o.JSON, nil
	}
	return json.Marshal(generic{o.Group, o.Version, o.Kind, o.Name, o.Namespace, o.JSON})
}

// weight bounds the bytes that entry and a comma take.
func weight(o *Object) int {
	if memberOf(o.Group, o.Kind) != genericMember {
		return len(o.JSON) + 1
	}
	const names = 6 // a name may need escapes: \u0000 for each byte
	return base64.StdEncoding.EncodedLen(len(o.JSON)) + names*(len(o.Group)+len(o.Version)+len(o.Kind)+len(o.Name)+len(o.Namespace)) + 80
}

// Head is what is said of the bundle as a whole. Kinds are those that the agent observes, in any order: of a kind
// that is not among them nobody knows whether an object is there. Lease is the namespace of the Lease (LeaseName) that the
// agent renews: where there is none, there is no agent any more. "" is for an agent without one. Unheard are kinds that the
// agent watches and cannot hear, in the order in which they are to be written.
type Head struct {
	Ready   bool
	Kinds   []schema.GroupKind
	Unheard []Unheard
	Lease   string
}

// Unheard is a kind of whose objects nobody knows whether they still are as they were reported: since when, zero for ever,
// and why.
type Unheard struct {
	schema.GroupKind
	Since  time.Time
	Reason string
}

// unheard is how Unheard is written.
type unheard struct {
	Kind   string     `json:"kind"`
	Since  *time.Time `json:"since,omitempty"`
	Reason string     `json:"reason"`
}

// maxReason is how much of a reason a status has, in bytes.
const maxReason = 256

// maxUnheard is the part of a status that reasons may take, where there are many: one to so many.
const maxUnheard = 8

// shortened are the same with reasons of maxReason at most, that take no more than room together.
func shortened(all []Unheard, room int) []Unheard {
	all = slices.Clone(all)
	for i := range all {
		if most := min(maxReason, room/len(all)); len(all[i].Reason) > most {
			all[i].Reason = cut(all[i].Reason, most)
		}
	}
	return all
}

// encodeUnheard writes the member for kinds that are not heard, "" for none.
func encodeUnheard(head *Head) (string, error) {
	if len(head.Unheard) == 0 {
		return "", nil
	}
	list := make([]unheard, 0, len(head.Unheard))
	for _, u := range head.Unheard {
		w := unheard{Kind: u.String(), Reason: u.Reason}
		if !u.Since.IsZero() {
			since := u.Since.UTC()
			w.Since = &since
		}
		list = append(list, w)
	}
	data, err := json.Marshal(list)
	return `"unheardKinds":` + string(data) + `,`, err
}

// Split writes the statuses of a bundle's parts, the first resource's first, each no longer than maxSize, which
// has to be MinSize at least. The same objects make the same bytes whatever their order. A part changes only when an
// object of its own does, or the number of parts. The error says that there is more than maxParts can hold.
// summarise is Summarise or a function that remembers what it returned.
func Split(head Head, objects []*Object, maxSize int, summarise func(*Object) (*Object, error)) ([]json.RawMessage, error) {
	objects = slices.SortedFunc(slices.Values(objects), byID)
	head.Unheard = shortened(head.Unheard, maxSize/maxUnheard)
	unheard, err := encodeUnheard(&head)
	if err != nil {
		return nil, err
	}
	budget := maxSize - envelope(head) - len(unheard)
	if budget <= 0 && len(objects) > 0 {
		return nil, fmt.Errorf("the names of %d kinds, %d of which cannot be heard, leave no room for objects in %d bytes", len(head.Kinds), len(head.Unheard), maxSize)
	}
	if fits, err := shrink(objects, budget, summarise); err != nil {
		return nil, err
	} else if fits {
		status, err := encode(&head, 1, len(objects), objects)
		return []json.RawMessage{status}, err
	}
	for n := 2; n <= maxParts; n *= 2 {
		parts, fit := spread(objects, n, budget)
		if !fit {
			continue
		}
		statuses := make([]json.RawMessage, n)
		for i, part := range parts {
			h, count := &head, len(objects)
			if i > 0 {
				h, count = nil, len(part)
			}
			var err error
			if statuses[i], err = encode(h, n, count, part); err != nil {
				return nil, err
			}
		}
		return statuses, nil
	}
	return nil, fmt.Errorf("%d objects do not fit into %d parts of %d bytes", len(objects), maxParts, maxSize)
}

// maxError is how much of an error a status has, in bytes.
const maxError = 1 << 10

// Unwritten is the status of a bundle that cannot be written: why, in place of its count objects.
func Unwritten(head Head, count int, cause error) (json.RawMessage, error) {
	text := cause.Error()
	if len(text) > maxError {
		text = cut(text, maxError)
	}
	return json.Marshal(written{ResourceCount: count, ObservedKinds: &[]string{}, Parts: 1, Lease: head.Lease, Error: text})
}

// envelope bounds what a status takes beside its entries.
func envelope(head Head) int {
	n := 1 << 10 // the names of the members
	for _, k := range head.Kinds {
		n += size(k.String()) + 1
	}
	return n
}

// shrink summarises the largest objects, in their places, until all fit; false when even that is not enough.
// Every summary is shorter than what it stands for.
func shrink(objects []*Object, budget int, summarise func(*Object) (*Object, error)) (bool, error) {
	total := 0
	order := make([]int, len(objects))
	for i, o := range objects {
		order[i] = i
		total += weight(o)
	}
	if total <= budget {
		return true, nil
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(weight(objects[b]), weight(objects[a])) })
	for _, i := range order {
		if total <= budget {
			return true, nil
		}
		short, err := summarise(objects[i])
		if err != nil {
			return false, fmt.Errorf("summarise %s %s/%s: %w", objects[i].Kind, objects[i].Namespace, objects[i].Name, err)
		}
		if len(short.JSON) < len(objects[i].JSON) {
			total += weight(short) - weight(objects[i])
			objects[i] = short
		}
	}
	return total <= budget, nil
}

// spread puts the objects into n parts; false when one is too large.
func spread(objects []*Object, n, budget int) ([][]*Object, bool) {
	parts := make([][]*Object, n)
	sizes := make([]int, n)
	for _, o := range objects {
		i := partOf(o.ResourceID, n)
		parts[i] = append(parts[i], o)
		if sizes[i] += weight(o); sizes[i] > budget {
			return nil, false
		}
	}
	return parts, true
}

// partOf is the index of the part that an object is in, whatever else there is. The version is not of its name.
func partOf(id plan.ResourceID, n int) int {
	h := fnv.New64a()
	for _, s := range []string{id.Group, id.Kind, id.Namespace, id.Name} {
		_, _ = h.Write([]byte(s)) // cannot fail
		_, _ = h.Write([]byte{0})
	}
	sum := h.Sum64()
	return int((sum ^ sum>>32) % uint64(n))
}

// byID orders objects for reading; the version last.
func byID(a, b *Object) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
}

// encode writes a status; head is nil in all parts but the first.
func encode(head *Head, parts, count int, objects []*Object) (json.RawMessage, error) {
	members := map[string][][]byte{}
	size := 4 << 10
	for _, o := range objects {
		size += weight(o)
		member := memberOf(o.Group, o.Kind)
		data, err := entry(o, member)
		if err != nil {
			return nil, err
		}
		members[member] = append(members[member], data)
	}
	var b bytes.Buffer
	b.Grow(size)
	b.WriteByte('{')
	if head != nil {
		names := make([]string, 0, len(head.Kinds))
		for _, k := range head.Kinds {
			names = append(names, k.String()) // Deployment.apps
		}
		slices.Sort(names)
		kinds, err := json.Marshal(names)
		if err != nil {
			return nil, err
		}
		unheard, err := encodeUnheard(head)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, `"ready":%t,"observedKinds":%s,%s"parts":%d,`, head.Ready, kinds, unheard, parts)
		if head.Lease != "" {
			fmt.Fprintf(&b, `"lease":%q,`, head.Lease) // a DNS label
		}
	}
	b.WriteString(`"resourceCount":` + strconv.Itoa(count))
	for _, l := range append(slices.Clone(lists), list{member: genericMember}) {
		b.WriteString(`,"` + l.member + `":[`)
		for i, data := range members[l.member] {
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(data)
		}
		b.WriteByte(']')
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
