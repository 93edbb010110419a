package fleet

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// memo remembers what became of manifests, so that one that is applied to a thousand clusters is worked out
// once, and costs the others a tenth.
type memo struct {
	shared             bool   // there are clusters to share with
	uid, version, time []byte // stand for what differs from cluster to cluster

	mu    sync.RWMutex
	known map[manifest]*object
}

// manifest is what a manager applies to an object: the digest of the manager's name and the body.
type manifest struct {
	id
	digest digest
}

type digest [sha256.Size]byte

// unapplied is that of no manifest.
var unapplied digest

func manifestOf(at id, manager string, body []byte) manifest {
	h := sha256.New()
	h.Write([]byte(manager))
	h.Write([]byte{0})
	h.Write(body)
	m := manifest{id: at}
	h.Sum(m.digest[:0])
	return m
}

// maxKnown bounds what a memo remembers.
const maxKnown = 8192

func newMemo(shared bool) *memo {
	marker := func() []byte { return []byte(rand.Text()) }
	return &memo{shared: shared, uid: marker(), version: marker(), time: marker(), known: map[manifest]*object{}}
}

// learn remembers the new object. Kinds that are only one cluster's, or that the server acts on, are not for
// others to share.
func (m *memo) learn(of manifest, o *object) {
	if !m.shared || o.kind.crd != "" || o.kind == crdKind || o.kind == namespaceKind || o.kind == jobKind {
		return
	}
	content := o.content()
	metadata := member(content, "metadata")
	metadata["uid"], metadata["resourceVersion"] = string(m.uid), string(m.version)
	metadata["creationTimestamp"] = string(m.time)
	for _, entry := range list(metadata, "managedFields") {
		entry.(map[string]any)["time"] = string(m.time)
	}
	pattern := seal(o.id, 0, content)
	pattern.applied = of.digest
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) >= maxKnown {
		clear(m.known)
	}
	m.known[of] = pattern
}

// find is the pattern of the object that the manifest makes, nil when that is not known.
func (m *memo) find(of manifest) *object {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.known[of]
}

// stamp makes an object of the pattern.
func (m *memo) stamp(pattern *object, version uint64) *object {
	o := *pattern
	o.version, o.uid = version, uuid.NewUUID()
	metadata := pattern.raw[pattern.from:pattern.to]
	for _, hole := range []struct {
		marker []byte
		value  string
	}{{m.uid, string(o.uid)}, {m.version, strconv.FormatUint(version, 10)}, {m.time, now()}} {
		metadata = bytes.ReplaceAll(metadata, hole.marker, []byte(hole.value))
	}
	o.raw = bytes.Join([][]byte{pattern.raw[:pattern.from], metadata, pattern.raw[pattern.to:]}, nil)
	o.to = o.from + len(metadata)
	return &o
}

// repeat applies a manifest whose outcome is known: that of the object's last change, which changes nothing
// again, or one that another cluster got, where nothing is. The object is nil when it is not known.
func (c *cluster) repeat(of manifest) (o *object, created bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if live := c.objects[of.id]; live != nil {
		if live.applied == of.digest {
			return live, false
		}
		return nil, false
	}
	pattern := c.memo.find(of)
	if pattern == nil || c.admit(of.id) != nil {
		return nil, false
	}
	o = c.memo.stamp(pattern, c.next())
	c.store(o, nil)
	return o, true
}
