package activities_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// memory is what lifecycle activities need of a store, but for what Prepare reads.
type memory struct {
	activities.Store

	mu        sync.Mutex
	group     domain.DeploymentIntentGroup
	blobs     map[domain.Digest][]byte
	instances map[string]domain.Instance
	leaves    map[string]domain.Leaf

	unreachable map[domain.ClusterName]bool
	reachable   []bool // what was recorded
}

func newMemory() *memory {
	return &memory{blobs: map[domain.Digest][]byte{}, instances: map[string]domain.Instance{}, leaves: map[string]domain.Leaf{}}
}

func (m *memory) Get(_ context.Context, _ *domain.Noun, key domain.Key) (domain.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if key != domain.KeyOf(&m.group) {
		return nil, fail.New(fail.NotFound, "%s not found", key)
	}
	g := m.group
	g.History.Actions = append([]domain.Action(nil), m.group.History.Actions...)
	return &g, nil
}

func (m *memory) Replace(_ context.Context, o domain.Object) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := *o.(*domain.DeploymentIntentGroup)
	if g.Revision != m.group.Revision {
		return fail.New(fail.Conflict, "changed meanwhile")
	}
	g.Revision++
	m.group = g
	o.Base().Revision = g.Revision // as the store does
	return nil
}

func (m *memory) PutBlob(_ context.Context, data []byte) (domain.Digest, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := sha256.Sum256(data)
	digest := domain.Digest(hex.EncodeToString(sum[:]))
	m.blobs[digest] = data
	return digest, nil
}

func (m *memory) PutBlobs(ctx context.Context, data [][]byte) (digests []domain.Digest, err error) {
	for _, d := range data {
		digest, err := m.PutBlob(ctx, d)
		if err != nil {
			return nil, err
		}
		digests = append(digests, digest)
	}
	return digests, nil
}

func (m *memory) Blob(_ context.Context, digest domain.Digest) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.blobs[digest]
	if !ok {
		return nil, fail.New(fail.NotFound, "blob %s not found", digest)
	}
	return data, nil
}

func (m *memory) PutInstance(_ context.Context, in *domain.Instance) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, there := m.instances[in.ContextID]; !there {
		m.instances[in.ContextID] = *in
	}
	return nil
}

func (m *memory) DeleteInstance(_ context.Context, contextID string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.instances, contextID)
	return nil
}

func (m *memory) RetractInstance(_ context.Context, contextID string, may func(*domain.Instance) bool) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if in, there := m.instances[contextID]; there && !may(&in) {
		return false, nil
	}
	delete(m.instances, contextID)
	return true, nil
}

func (m *memory) Instance(_ context.Context, contextID string) (*domain.Instance, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	in, ok := m.instances[contextID]
	if !ok {
		return nil, fail.New(fail.NotFound, "instance %s not found", contextID)
	}
	return &in, nil
}

func (m *memory) InstancesByID(_ context.Context, contextIDs []string) (found []*domain.Instance, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range contextIDs {
		if i, ok := m.instances[id]; ok {
			found = append(found, &i)
		}
	}
	return found, nil
}

func (m *memory) ActiveInstances(context.Context) (active []*domain.Instance, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(m.instances)) {
		if i := m.instances[id]; !i.Status.Over() {
			active = append(active, &i)
		}
	}
	return active, nil
}

func (m *memory) InstancesOf(_ context.Context, owner domain.Key) (found []*domain.Instance, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(m.instances)) {
		if i := m.instances[id]; i.Owner == owner {
			found = append(found, &i)
		}
	}
	return found, nil
}

func (m *memory) Standing(context.Context) (stand []domain.Standing, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(m.instances)) {
		if i := m.instances[id]; !i.Status.Over() {
			stand = append(stand, domain.Standing{ContextID: id, Owner: i.Owner, Namespace: i.Namespace, Plan: i.Plan})
		}
	}
	return stand, nil
}

func (m *memory) UpdateInstance(_ context.Context, contextID string, change func(*domain.Instance) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	in, ok := m.instances[contextID]
	if !ok {
		return fail.New(fail.NotFound, "instance %s not found", contextID)
	}
	if err := change(&in); err != nil {
		return err
	}
	m.instances[contextID] = in
	return nil
}

func (m *memory) PutLeaf(_ context.Context, leaf domain.Leaf) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leaves[leaf.ID] = leaf
	return nil
}

func (m *memory) Leaf(_ context.Context, id string) (*domain.Leaf, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	leaf, ok := m.leaves[id]
	if !ok {
		return nil, fail.New(fail.NotFound, "leaf %s not found", id)
	}
	return &leaf, nil
}

func (m *memory) LeafMarks(ctx context.Context, contextID string) (map[string]string, error) {
	marks := map[string]string{}
	err := m.EachLeaf(ctx, contextID, func(leaf domain.Leaf) error { marks[leaf.ID] = leaf.Marks; return nil })
	return marks, err
}

func (m *memory) EachLeaf(_ context.Context, contextID string, take func(domain.Leaf) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, leaf := range m.leaves {
		if strings.HasPrefix(id, contextID+"/") {
			if err := take(leaf); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *memory) Unreachable(context.Context) (map[domain.ClusterName]bool, error) {
	return m.unreachable, nil
}

// states are those of the group's history.
func (m *memory) states() []domain.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	var states []domain.State
	for _, a := range m.group.History.Actions {
		states = append(states, a.State)
	}
	return states
}

// put stores a value as a blob of JSON.
func (m *memory) put(t *testing.T, v any) domain.Digest {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	digest, err := m.PutBlob(t.Context(), data)
	require.NoError(t, err)
	return digest
}

func (m *memory) SetReachable(_ context.Context, _ domain.ClusterName, reachable bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reachable = append(m.reachable, reachable)
	return nil
}
