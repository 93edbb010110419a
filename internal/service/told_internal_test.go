package service

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// onlyGroup is a store with a group, and counts who reads its intents.
type onlyGroup struct {
	Store
	group *domain.DeploymentIntentGroup
	reads int
}

func (o *onlyGroup) Get(context.Context, *domain.Noun, domain.Key) (domain.Object, error) {
	return o.group, nil
}

func (o *onlyGroup) List(context.Context, *domain.Noun, domain.Key) ([]domain.Object, error) {
	o.reads++
	return nil, nil
}

type onlyInstance struct {
	Records
	instance domain.Instance
}

func (o *onlyInstance) Instance(context.Context, string) (*domain.Instance, error) {
	i := o.instance
	return &i, nil
}

type halfway struct{ Engine }

func (halfway) Counts(context.Context, domain.Scope) (map[domain.ResourceState]int, error) {
	return map[domain.ResourceState]int{domain.ResourceApplied: 1}, nil
}

// TestWarningsAreReadOnceASecondWhileAnOperationGoesOn, and anew for each status when none does: what a user has just changed shows.
func TestWarningsAreReadOnceASecondWhileAnOperationGoesOn(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := &onlyGroup{group: &domain.DeploymentIntentGroup{
		Identity: domain.Identity{Parent: "projects/p/composite-apps/ca/v1"}, Metadata: domain.Metadata{Name: "group"}, History: domain.NewHistory(now),
	}}
	s.group.History.Append(domain.Approved, "", 0, now)
	s.group.History.Append(domain.Instantiated, "1", 1, now)
	records := &onlyInstance{instance: domain.Instance{ContextID: "1", Status: domain.ContextInstantiating, Operation: domain.OpInstantiate}}
	l := NewLifecycle(s, records, nil, halfway{}, func() time.Time { return now })
	ask := func() int {
		before := s.reads
		_, err := l.Status(t.Context(), domain.KeyOf(s.group), url.Values{"output": {"summary"}})
		require.NoError(t, err)
		return s.reads - before
	}
	require.Equal(t, 1, ask())
	require.Equal(t, 0, ask())
	now = now.Add(time.Second)
	require.Equal(t, 1, ask())
	s.group.History = domain.NewHistory(now)
	s.group.History.Append(domain.Approved, "", 0, now)
	s.group.History.Append(domain.Instantiated, "2", 1, now)
	records.instance.ContextID = "2"
	require.Equal(t, 1, ask(), "another group has the name")
	require.Equal(t, 0, ask())

	records.instance.Status, records.instance.Counts = domain.ContextInstantiated, map[domain.ResourceState]int{domain.ResourceApplied: 1}
	for range 2 {
		require.Equal(t, 1, ask(), "it is over")
	}
	now = now.Add(time.Second)
	for range 2 {
		require.Equal(t, 1, ask())
	}
}
