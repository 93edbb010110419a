package activities_test

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/mongotest"
)

// slowMemory is what the activities that record need of a store, made of the commands that the real one sends: each may
// suffer a fault. TestSlowDatabase sees to it that it does what the real one does.
type slowMemory struct {
	activities.Store
	blobs     *memory
	groups    map[domain.Key]domain.DeploymentIntentGroup
	instances map[string]instanceRecord
	leaves    map[string]domain.Leaf // by LeafID and operation

	written []string
	nth     int // write from now on that suffers; 0 and less for none
	fault   mongotest.Fault
	held    func()
	after   int // commands until it is done
}

type instanceRecord struct {
	domain.Instance
	revision int
}

var errTooLong = fail.New(fail.Timeout, "the database does not answer in time")

// newSlowMemory has a database that costs nothing.
func newSlowMemory(t *testing.T) *slow {
	t.Helper()
	m := &slowMemory{
		blobs: newMemory(), groups: map[domain.Key]domain.DeploymentIntentGroup{}, instances: map[string]instanceRecord{}, leaves: map[string]domain.Leaf{},
	}
	s := newSlow(t, m, m)
	s.meet = func(nth int, f mongotest.Fault) { m.nth, m.fault = nth, f }
	s.flush = func() ([]string, bool) {
		m.release()
		written, unmet := m.written, m.nth > 0
		m.written, m.nth = nil, 0
		return written, unmet
	}
	return s
}

func (m *slowMemory) Standing(context.Context) (stand []domain.Standing, err error) {
	for id, i := range m.instances {
		if !i.Status.Over() {
			stand = append(stand, domain.Standing{ContextID: id, Owner: i.Owner, Namespace: i.Namespace, Plan: i.Plan})
		}
	}
	return stand, nil
}

func (m *slowMemory) release() {
	if held := m.held; held != nil {
		m.held = nil
		held()
	}
}

// command is one that has come to the database.
func (m *slowMemory) command() {
	if m.after--; m.after == 0 {
		m.release()
	}
}

// write is a command that changes something.
func (m *slowMemory) write(collection string, do func() error) error {
	m.command()
	m.written = append(m.written, collection)
	if m.nth--; m.nth != 0 {
		return do()
	}
	switch f := m.fault; {
	case f.After > 0:
		m.held, m.after = func() { _ = do() }, f.After
		return errTooLong
	case f.Lost:
		_ = do()
		return errTooLong
	default: // twice
		_ = do()
		return do()
	}
}

func (m *slowMemory) Create(_ context.Context, o domain.Object) error {
	g := o.(*domain.DeploymentIntentGroup)
	g.Revision = 1
	m.groups[domain.KeyOf(g)] = *g
	return nil
}

func (m *slowMemory) Get(_ context.Context, _ *domain.Noun, key domain.Key) (domain.Object, error) {
	m.command()
	g, ok := m.groups[key]
	if !ok {
		return nil, fail.New(fail.NotFound, "%s not found", key)
	}
	g.History.Actions = slices.Clone(g.History.Actions)
	return &g, nil
}

func (m *slowMemory) Replace(_ context.Context, o domain.Object) error {
	g := *o.(*domain.DeploymentIntentGroup)
	g.History.Actions = slices.Clone(g.History.Actions)
	return m.write("groups", func() error {
		if m.groups[domain.KeyOf(&g)].Revision != g.Revision {
			return fail.New(fail.Conflict, "changed meanwhile")
		}
		next := g
		next.Revision++
		m.groups[domain.KeyOf(&g)] = next
		return nil
	})
}

func (m *slowMemory) PutBlob(ctx context.Context, data []byte) (digest domain.Digest, err error) {
	err = m.write("blobs", func() error {
		digest, err = m.blobs.PutBlob(ctx, data)
		return err
	})
	return digest, err
}

func (m *slowMemory) PutBlobs(ctx context.Context, data [][]byte) (digests []domain.Digest, err error) {
	err = m.write("blobs", func() error {
		digests, err = m.blobs.PutBlobs(ctx, data)
		return err
	})
	return digests, err
}

func (m *slowMemory) Blob(ctx context.Context, digest domain.Digest) ([]byte, error) {
	m.command()
	return m.blobs.Blob(ctx, digest)
}

func (m *slowMemory) PutInstance(_ context.Context, in *domain.Instance) error {
	record := instanceRecord{*in, 1}
	return m.write("instances", func() error {
		if _, taken := m.instances[record.ContextID]; !taken {
			m.instances[record.ContextID] = record
		}
		return nil
	})
}

func (m *slowMemory) DeleteInstance(_ context.Context, contextID string) error {
	return m.write("instances", func() error { delete(m.instances, contextID); return nil })
}

func (m *slowMemory) RetractInstance(_ context.Context, contextID string, may func(*domain.Instance) bool) (retracted bool, err error) {
	err = m.write("instances", func() error {
		record, there := m.instances[contextID]
		if retracted = !there || may(&record.Instance); retracted {
			delete(m.instances, contextID)
		}
		return nil
	})
	return retracted, err
}

func (m *slowMemory) Instance(_ context.Context, contextID string) (*domain.Instance, error) {
	m.command()
	i, ok := m.instances[contextID]
	if !ok {
		return nil, fail.New(fail.NotFound, "instance %s not found", contextID)
	}
	return &i.Instance, nil
}

func (m *slowMemory) UpdateInstance(_ context.Context, contextID string, change func(*domain.Instance) error) error {
	for matched := false; !matched; {
		m.command()
		i, ok := m.instances[contextID]
		if !ok {
			return fail.New(fail.NotFound, "instance %s not found", contextID)
		}
		if err := change(&i.Instance); err != nil {
			return err
		}
		err := m.write("instances", func() error {
			if matched = m.instances[contextID].revision == i.revision; matched {
				m.instances[contextID] = instanceRecord{i.Instance, i.revision + 1}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *slowMemory) InstancesOf(_ context.Context, owner domain.Key) (found []*domain.Instance, err error) {
	for _, i := range m.instances {
		if i.Owner == owner {
			found = append(found, &i.Instance)
		}
	}
	slices.SortFunc(found, func(a, b *domain.Instance) int { return cmp.Compare(a.ContextID, b.ContextID) })
	return found, nil
}

func (m *slowMemory) PutLeaf(_ context.Context, leaf domain.Leaf) error {
	return m.write("leaves", func() error {
		m.leaves[leaf.ID+"#"+string(leaf.Operation)] = leaf
		return nil
	})
}

func (m *slowMemory) Leaf(_ context.Context, id string) (*domain.Leaf, error) {
	m.command()
	for _, op := range []domain.Operation{domain.OpTerminate, domain.OpInstantiate} { // the last word first
		if leaf, ok := m.leaves[id+"#"+string(op)]; ok {
			return &leaf, nil
		}
	}
	return nil, fail.New(fail.NotFound, "leaf %s not found", id)
}

func (m *slowMemory) LeafMarks(ctx context.Context, contextID string) (map[string]string, error) {
	marks := map[string]string{}
	err := m.EachLeaf(ctx, contextID, func(leaf domain.Leaf) error { marks[leaf.ID] = leaf.Marks; return nil })
	return marks, err
}

func (m *slowMemory) EachLeaf(ctx context.Context, contextID string, take func(domain.Leaf) error) error {
	m.command()
	for key := range m.leaves {
		id, _, _ := strings.Cut(key, "#")
		if !strings.HasPrefix(id, contextID+"/") {
			continue
		}
		leaf, err := m.Leaf(ctx, id)
		if err == nil {
			err = take(*leaf)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
