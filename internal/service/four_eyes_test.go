package service_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// begins is an engine that begins operations, or refuses them.
type begins struct {
	progress
	refusal error
	begun   int
	while   func() // an operation begins
}

func (b *begins) Start(context.Context, domain.Scope, domain.Seen) ([]string, error) {
	return nil, b.begin()
}

func (b *begins) Change(context.Context, domain.Scope, domain.Seen, domain.Goal) (int, []string, error) {
	return 2, []string{"told"}, b.begin()
}

func (*begins) StopWatching(context.Context, string) error { return nil }

func (b *begins) begin() error {
	if b.while != nil {
		b.while()
	}
	if b.refusal == nil {
		b.begun++
	}
	return b.refusal
}

// TestFourEyesSeeUpdates: a group that is instantiated is changed without another approval. So where its project asks for four eyes, who has
// changed it does not update it, nor instantiates it anew after a terminate; who else does has approved it, unless that was refused.
func TestFourEyesSeeUpdates(t *testing.T) {
	db, engine := storetest.Open(t, store.Config{}), &begins{}
	lifecycle := service.NewLifecycle(db, db, &heard{store: db}, engine, time.Now)
	documents := service.New(service.Deps{Store: db, Instances: lifecycle, Operations: lifecycle, Now: time.Now})
	as := func(name string) context.Context {
		return caller.WithIdentity(t.Context(), caller.Identity{Kind: caller.User, Name: name}, nil)
	}
	alice, bob, carl := as("alice"), as("bob"), as("carl")
	p := &domain.Project{Metadata: domain.Metadata{Name: "p"}, Spec: &domain.ProjectSpec{FourEyes: true}}
	require.NoError(t, db.Create(t.Context(), p))
	g := group("g")
	g.Parent = "projects/p/composite-apps/ca/v1"
	at := time.Date(2026, 11, 21, 5, 29, 7, 0, time.UTC)
	g.History = domain.NewHistory(at)
	g.History.Append(domain.Approved, "", 0, at)
	g.History.Append(domain.Instantiated, "1", 1, at)
	require.NoError(t, db.Create(t.Context(), g))
	require.NoError(t, db.PutInstance(t.Context(), &domain.Instance{ContextID: "1", Owner: domain.KeyOf(g), Operation: domain.OpInstantiate, Status: domain.ContextInstantiated}))
	change := func(by context.Context, name string) {
		t.Helper()
		intent := &domain.PlacementIntent{Identity: domain.Identity{Parent: domain.KeyOf(g)}, Metadata: domain.Metadata{Name: name}}
		_, err := documents.Put(by, intent)
		require.NoError(t, err)
	}
	update := func(by context.Context) error {
		_, _, err := lifecycle.Update(by, domain.KeyOf(g), service.UpdateOptions{})
		return err
	}
	refused := func(err error, says string) {
		t.Helper()
		require.True(t, fail.Is(err, fail.Forbidden), "%v", err)
		require.ErrorContains(t, err, says)
	}

	require.NoError(t, update(alice), "nobody has changed anything")
	change(alice, "a")
	intent := &domain.PlacementIntent{Identity: domain.Identity{Parent: domain.KeyOf(g)}, Metadata: domain.Metadata{Name: "a"}}
	require.True(t, fail.Is(documents.Create(bob, intent), fail.Conflict), "which makes bob nobody who has changed it")
	refused(update(alice), "was changed by user alice since it was last approved")
	refused(update(alice), "somebody else has to update it")
	require.NoError(t, update(bob))
	require.NoError(t, update(alice), "what she has changed is in clusters, as bob has asked for")

	change(alice, "b")
	engine.refusal = fail.New(fail.Conflict, "it is too late")
	require.True(t, fail.Is(update(bob), fail.Conflict))
	engine.refusal = nil
	refused(update(alice), "user alice")
	engine.while = func() { change(alice, "c") }
	require.NoError(t, update(bob))
	engine.while = nil
	refused(update(alice), "user alice")
	change(bob, "d")
	refused(update(bob), "user bob")
	require.NoError(t, update(carl))
	require.NoError(t, update(bob))

	wendy := as("wendy")
	change(alice, "g")
	begins, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	engine.while = func() { // bob's begins, and so does carl's, which finds more
		change(alice, "h")
		change(wendy, "i")
		engine.while = func() {
			engine.while = nil
			close(begins)
			<-goOn
			engine.refusal = fail.New(fail.Conflict, "it is too late")
		}
		go func() { ended <- update(carl) }()
		<-begins
	}
	require.NoError(t, update(bob))
	for _, by := range []context.Context{alice, wendy} {
		refused(update(by), "somebody else has to update it")
	}
	close(goOn)
	require.True(t, fail.Is(<-ended, fail.Conflict))
	engine.refusal = nil
	for _, by := range []context.Context{alice, wendy} {
		refused(update(by), "somebody else has to update it")
	}
	require.NoError(t, update(carl))

	o, err := db.Get(t.Context(), domain.DeploymentIntentGroups, domain.KeyOf(g))
	require.NoError(t, err)
	stored := o.(*domain.DeploymentIntentGroup)
	require.Empty(t, stored.Changers())
	stored.Reviewing = []string{"user alice"} // of a process that has died as it began an operation
	require.NoError(t, db.Replace(t.Context(), stored))
	refused(update(alice), "user alice")
	change(alice, "e")

	stored = get(t, db, g)
	stored.History.Append(domain.Terminated, "1", 0, at)
	require.NoError(t, db.Replace(t.Context(), stored))
	require.NoError(t, db.UpdateInstance(t.Context(), "1", func(i *domain.Instance) error { i.Status = domain.ContextTerminated; return nil }))
	_, err = lifecycle.Instantiate(alice, domain.KeyOf(g))
	refused(err, "somebody else has to instantiate it")
	begun := engine.begun
	_, err = lifecycle.Instantiate(bob, domain.KeyOf(g))
	require.NoError(t, err)
	require.Equal(t, begun+1, engine.begun)
	require.Empty(t, get(t, db, g).Changers())

	change(alice, "f")
	p.Spec.FourEyes = false
	require.NoError(t, db.Replace(t.Context(), p))
	_, err = lifecycle.Instantiate(alice, domain.KeyOf(g))
	require.False(t, fail.Is(err, fail.Forbidden), "%v", err)
}

func get(t *testing.T, db *store.Store, g *domain.DeploymentIntentGroup) *domain.DeploymentIntentGroup {
	t.Helper()
	o, err := db.Get(t.Context(), domain.DeploymentIntentGroups, domain.KeyOf(g))
	require.NoError(t, err)
	return o.(*domain.DeploymentIntentGroup)
}

// TestAnApprovalHasSeenWhatItApproves: what is written while a group is rehearsed is rehearsed, too, whoever has written it.
func TestAnApprovalHasSeenWhatItApproves(t *testing.T) {
	as := func(name string) context.Context {
		return caller.WithIdentity(t.Context(), caller.Identity{Kind: caller.User, Name: name}, nil)
	}
	for name, by := range map[string]context.Context{"known as a changer": as("alice"), "of nobody": t.Context()} {
		t.Run(name, func(t *testing.T) {
			db := storetest.Open(t, store.Config{})
			lifecycle := service.NewLifecycle(db, db, &heard{store: db}, &begins{}, time.Now)
			documents := service.New(service.Deps{Store: db, Instances: lifecycle, Operations: lifecycle, Now: time.Now})
			require.NoError(t, db.Create(t.Context(), &domain.Project{Metadata: domain.Metadata{Name: "p"}}))
			g := group("g")
			g.Parent = "projects/p/composite-apps/ca/v1"
			g.History = domain.NewHistory(time.Unix(0, 0))
			require.NoError(t, db.Create(t.Context(), g))
			change := func(name string) {
				t.Helper()
				_, err := documents.Put(by, &domain.PlacementIntent{Identity: domain.Identity{Parent: domain.KeyOf(g)}, Metadata: domain.Metadata{Name: name}})
				require.NoError(t, err)
			}
			change("before")
			var seen []int
			lifecycle.Rehearse = func(ctx context.Context, of *domain.DeploymentIntentGroup) (*plan.Plan, []string, error) {
				intents, err := db.List(ctx, domain.PlacementIntents, domain.KeyOf(of))
				require.NoError(t, err)
				if seen = append(seen, len(intents)); len(seen) == 1 {
					change("meanwhile")
				}
				return &plan.Plan{}, nil, nil
			}
			_, err := lifecycle.Approve(as("bob"), domain.KeyOf(g))
			require.NoError(t, err)
			require.Equal(t, []int{1, 2}, seen)
			require.Equal(t, domain.Approved, get(t, db, g).History.State())
		})
	}
}
