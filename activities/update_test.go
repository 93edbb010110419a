package activities_test

import (
	"context"
	"net/http"
	"path"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// TestRoundsOfAnUpdate goes through the rounds on a cluster that has everything, labelled by the first context.
func TestRoundsOfAnUpdate(t *testing.T) {
	for name, c := range map[string]struct {
		op        domain.Operation
		prune     bool
		inherited string
		recorded  string // marks of the context's own record, "" for none
		unsound   bool   // the operation before did not end in order
		want      string
		requests  []string
	}{
		"applies what is new or says something else": {
			op: domain.OpUpdate, inherited: "1A1o1p1d", want: "3A1d", requests: []string{"PATCH a1", "PATCH a2"},
		},
		"prunes what is not wanted": {
			op: domain.OpUpdate, prune: true, inherited: "1A1o1p1d", recorded: "3A1d", want: "3A1G", requests: []string{"DELETE a3", "GET a3"},
		},
		"prunes where nothing was to be applied": {
			op: domain.OpRollback, prune: true, inherited: "2A1G1d", want: "2A2G", requests: []string{"DELETE a3", "GET a3"},
		},
		"terminates what it took over": {
			op: domain.OpTerminate, inherited: "2A1G1d", want: "2D1G1D",
			requests: []string{"DELETE a0", "DELETE a1", "DELETE a3", "GET a0", "GET a1", "GET a3"},
		},
		"terminates what it knows of itself": {
			op: domain.OpTerminate, inherited: "1A1p1p1d", recorded: "2A1p1G", want: "3D1G",
			requests: []string{"DELETE a0", "DELETE a1", "GET a0", "GET a1"},
		},
		"terminates all but what was gone before when it knows nothing": {
			op: domain.OpTerminate, inherited: "1A1p1p1G", recorded: "1A1p1p1G", unsound: true, want: "3D1G",
			requests: []string{"DELETE a0", "DELETE a1", "DELETE a2", "GET a0", "GET a1", "GET a2"},
		},
		"takes a record that is shorter than the bundle": {
			op: domain.OpTerminate, recorded: "2A", want: "2D2G", requests: []string{"DELETE a0", "DELETE a1", "GET a0", "GET a1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeaf(t, c.op, 0, 0, 0, 0)
			l.in.ContextID, l.in.Label, l.in.Inherited, l.in.Prune, l.in.Incomplete = "2", "1", c.inherited, c.prune, c.unsound
			if c.recorded != "" {
				require.NoError(t, l.store.PutLeaf(t.Context(), domain.Leaf{ID: l.in.LeafID(), Operation: domain.OpUpdate, Marks: c.recorded}))
			}
			l.handle = func(w http.ResponseWriter, r *http.Request) {
				name := path.Base(r.URL.Path)
				if r.Method == http.MethodDelete {
					answer(w, http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Success"})
					return
				}
				answer(w, http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
					"name": name, "uid": name, "labels": map[string]any{"emco/deployment-id": "1-app"},
				}})
			}
			out, err := l.run()
			require.NoError(t, err)
			require.Equal(t, c.want, out.Marks)
			require.Equal(t, c.want, l.recorded().Marks)
			require.ElementsMatch(t, c.requests, l.seen())
		})
	}
}

// TestOutdatedAndRefused: what is in the cluster in its earlier form is not forgotten.
func TestOutdatedAndRefused(t *testing.T) {
	l := newLeaf(t, domain.OpUpdate, 0, 0)
	l.in.Inherited = "1o1p"
	l.handle = func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusUnprocessableEntity, "Invalid", path.Base(r.URL.Path))
	}
	out, err := l.run()
	require.NoError(t, err)
	require.Equal(t, "1X1F", out.Marks)
}

// updating is a deployment whose context 1 is to be taken over by 2.
func updating(t *testing.T) (*deployment, activities.RecordInput) {
	t.Helper()
	d := newDeployment(t)
	require.NoError(t, d.Record(t.Context(), d.instantiate()))
	require.NoError(t, d.store.UpdateInstance(t.Context(), "1", func(i *domain.Instance) error {
		i.Status = domain.ContextInstantiated
		return nil
	}))
	in := d.instantiate()
	in.Operation, in.ContextID = domain.OpUpdate, "2"
	in.Prepared.Label, in.Prepared.OwnerRevision = "1", d.store.group.Revision
	in.Prepared.From = &activities.From{ContextID: "1", Owner: in.Owner, OwnerRevision: d.store.group.Revision}
	return d, in
}

func TestTakeOverTwice(t *testing.T) {
	d, in := updating(t)
	for range 2 {
		require.NoError(t, d.Record(t.Context(), in))
		require.Equal(t, after(domain.Instantiated, domain.Updated, domain.Instantiated), d.store.states())
		require.Equal(t, domain.ContextUpdated, d.store.instances["1"].Status)
		require.Equal(t, domain.ContextInstantiating, d.store.instances["2"].Status)
		require.Equal(t, "1", d.store.instances["2"].Label)
		require.Equal(t, domain.OpUpdate, d.store.instances["2"].Origin)
		require.Equal(t, 2, d.store.group.History.Revision())
		require.Equal(t, "1", d.store.group.History.StatusContextID)
	}
}

// TestTakeOverAfterALostAnswer: the write of the group's state got through, its answer did not.
func TestTakeOverAfterALostAnswer(t *testing.T) {
	d, in := updating(t)
	lost := &lostOnce{memory: d.store}
	d.Store = lost
	require.True(t, fail.Is(d.Record(t.Context(), in), fail.Unavailable))
	require.Contains(t, d.store.instances, "2", "the inventory is there before the state")
	require.NoError(t, d.Record(t.Context(), in))
	require.Equal(t, after(domain.Instantiated, domain.Updated, domain.Instantiated), d.store.states())
	require.Equal(t, domain.ContextUpdated, d.store.instances["1"].Status)
}

func TestTakeOverRefused(t *testing.T) {
	for name, spoil := range map[string]func(d *deployment){
		"changed meanwhile": func(d *deployment) { d.store.group.Revision++ },
		"terminated meanwhile": func(d *deployment) {
			d.store.group.History.Append(domain.Terminated, "1", 0, begun)
		},
		"another update": func(d *deployment) {
			d.store.group.History.Leave("1", "3", 1, begun)
			d.store.group.History.Append(domain.Instantiated, "3", 2, begun)
			d.store.group.Revision++
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, in := updating(t)
			spoil(d)
			before := d.store.states()
			require.True(t, fail.Is(d.Record(t.Context(), in), fail.Conflict))
			require.Equal(t, before, d.store.states())
			require.NotContains(t, d.store.instances, "2")
			require.Equal(t, domain.ContextInstantiated, d.store.instances["1"].Status)
		})
	}
}

// lostOnce loses the answer to the first write of the group.
type lostOnce struct {
	*memory
	lost bool
}

func (l *lostOnce) Replace(ctx context.Context, o domain.Object) error {
	err := l.memory.Replace(ctx, o)
	if err == nil && !l.lost {
		l.lost = true
		return fail.New(fail.Unavailable, "store is gone")
	}
	return err
}

// twoGroups has the group that a migrate takes its context from beside the one that it goes to.
type twoGroups struct {
	*memory
	source domain.DeploymentIntentGroup
	left   func() error // when the source is written
	gone   bool         // the target
}

func (s *twoGroups) Get(ctx context.Context, noun *domain.Noun, key domain.Key) (domain.Object, error) {
	if key != domain.KeyOf(&s.source) {
		if s.gone {
			return nil, fail.New(fail.NotFound, "%s not found", key)
		}
		return s.memory.Get(ctx, noun, key)
	}
	g := s.source
	g.History.Actions = append([]domain.Action(nil), s.source.History.Actions...)
	return &g, nil
}

func (s *twoGroups) Replace(ctx context.Context, o domain.Object) error {
	g := *o.(*domain.DeploymentIntentGroup)
	if domain.KeyOf(&g) != domain.KeyOf(&s.source) {
		if s.gone {
			return fail.New(fail.NotFound, "%s not found", domain.KeyOf(o))
		}
		return s.memory.Replace(ctx, o)
	}
	if g.Revision != s.source.Revision {
		return fail.New(fail.Conflict, "changed meanwhile")
	}
	g.Revision++
	s.source = g
	if s.left != nil {
		return s.left()
	}
	return nil
}

func migrating(t *testing.T) (*deployment, *twoGroups, activities.RecordInput) {
	t.Helper()
	d := newDeployment(t)
	s := &twoGroups{memory: d.store, source: domain.DeploymentIntentGroup{
		Identity: domain.Identity{Parent: "projects/p/composite-apps/ca/v0", Revision: 7}, Metadata: domain.Metadata{Name: "source"},
	}}
	d.Store = s
	s.source.History.Append(domain.Instantiated, "1", 4, begun)
	source := domain.KeyOf(&s.source)
	s.instances["0"] = domain.Instance{ContextID: "0", Owner: source, Status: domain.ContextUpdated}
	s.instances["4"] = domain.Instance{ContextID: "4", Owner: source, Label: "0", Status: domain.ContextUpdated}    // between the two
	s.instances["8"] = domain.Instance{ContextID: "8", Owner: source, Label: "7", Status: domain.ContextTerminated} // of an earlier instance
	s.instances["1"] = domain.Instance{ContextID: "1", Owner: source, Label: "0", Status: domain.ContextInstantiated}
	in := d.instantiate()
	in.Operation, in.ContextID = domain.OpMigrate, "2"
	in.Prepared.Label = "0"
	in.Prepared.From = &activities.From{ContextID: "1", Owner: source, OwnerRevision: 7}
	return d, s, in
}

func TestMigrateTwice(t *testing.T) {
	d, s, in := migrating(t)
	for range 2 {
		require.NoError(t, d.Record(t.Context(), in))
		require.Equal(t, after(domain.Instantiated), d.store.states())
		require.Equal(t, "0", d.store.group.History.StatusContextID)
		require.Equal(t, domain.Updated, s.source.History.State())
		require.Len(t, s.source.History.Actions, 2)
		for _, id := range []string{"0", "1", "2", "4"} {
			require.Equal(t, in.Owner, s.instances[id].Owner, "records with the label must outlive the source")
		}
		require.Equal(t, domain.KeyOf(&s.source), s.instances["8"].Owner)
		require.Equal(t, domain.ContextUpdated, s.instances["1"].Status)
	}
}

func TestMigrateRefused(t *testing.T) {
	for name, spoil := range map[string]func(d *deployment, s *twoGroups){
		"by the target":                 func(d *deployment, _ *twoGroups) { d.store.group.Revision++ },
		"by the source":                 func(_ *deployment, s *twoGroups) { s.source.Revision++ },
		"by the source, terminated":     func(_ *deployment, s *twoGroups) { s.source.History.Append(domain.Terminated, "1", 0, begun) },
		"by the target, not approved":   func(d *deployment, _ *twoGroups) { d.store.group.History.Append(domain.Created, "", 0, begun) },
		"as the source went to another": func(_ *deployment, s *twoGroups) { s.source.History.Leave("1", "3", 0, begun); s.source.Revision++ },
	} {
		t.Run(name, func(t *testing.T) {
			d, s, in := migrating(t)
			spoil(d, s)
			target, source := d.store.states(), len(s.source.History.Actions)
			require.True(t, fail.Is(d.Record(t.Context(), in), fail.Conflict))
			require.Equal(t, target, d.store.states())
			require.Len(t, s.source.History.Actions, source, "what was taken from the source is given back")
			require.NotContains(t, s.instances, "2")
			require.Equal(t, domain.ContextInstantiated, s.instances["1"].Status)
			require.Equal(t, domain.KeyOf(&s.source), s.instances["1"].Owner)
		})
	}
}

// TestMigrateToAGroupThatGoes: its source has its instance as before, be it that the target is deleted while an attempt records the migrate, or before
// the next one does. Whoever deletes it deletes its records, too.
func TestMigrateToAGroupThatGoes(t *testing.T) {
	for name, answer := range map[string]error{"in an attempt": nil, "between two": fail.New(fail.Unavailable, "store is gone")} {
		t.Run(name, func(t *testing.T) {
			d, s, in := migrating(t)
			s.left = func() error {
				require.Equal(t, domain.Updated, s.source.History.State())
				s.left, s.gone = nil, true
				delete(s.instances, "2")
				return answer
			}
			if answer != nil {
				require.ErrorIs(t, d.Record(t.Context(), in), answer)
			}
			for range 2 {
				require.True(t, fail.Is(d.Record(t.Context(), in), fail.NotFound))
				require.Equal(t, domain.Instantiated, s.source.History.State())
				require.Equal(t, "1", s.source.History.ContextID())
				require.NotContains(t, s.instances, "2")
				require.Equal(t, domain.KeyOf(&s.source), s.instances["1"].Owner)
			}
		})
	}

	d, s, in := migrating(t)
	require.NoError(t, d.Record(t.Context(), in))
	s.gone = true
	require.True(t, fail.Is(d.Record(t.Context(), in), fail.NotFound))
	require.Equal(t, domain.Updated, s.source.History.State(), "the target had it")
}

// TestMigrateOntoWhatIsLeft is refused when it is planned, too: the group that gets the instance may have left something meanwhile.
func TestMigrateOntoWhatIsLeft(t *testing.T) {
	d, s, in := migrating(t)
	target := domain.KeyOf(&s.group)
	s.group.History = domain.NewHistory(begun)
	s.group.History.Append(domain.Instantiated, "9", 0, begun)
	s.group.History.Append(domain.Terminated, "9", 0, begun)
	s.group.History.Append(domain.Approved, "", 0, begun)
	s.instances["9"] = domain.Instance{ContextID: "9", Owner: target, Status: domain.ContextTerminateFailed}
	change := activities.ChangeInput{Scope: in.Scope, Goal: domain.Goal{Source: domain.KeyOf(&s.source)}}
	_, err := d.PrepareChange(t.Context(), change)
	require.Equal(t, fail.Conflict, fail.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "TerminateFailed")
	require.ErrorContains(t, d.Record(t.Context(), in), "terminate it first")
	require.Equal(t, domain.KeyOf(&s.source), s.instances["1"].Owner)
}

// running are operations that go on until they are closed.
type running struct{ closed []domain.Scope }

func (r *running) Running(_ context.Context, s domain.Scope) (bool, error) {
	return !slices.Contains(r.closed, s), nil
}

func (r *running) Close(_ context.Context, s domain.Scope) (activities.RunEnd, error) {
	r.closed = append(r.closed, s)
	return activities.RunInOrder, nil
}

// TestWhatGoesOnIsNotEnded by a run that was asked for earlier, and is refused now.
func TestWhatGoesOnIsNotEnded(t *testing.T) {
	for name, c := range map[string]struct {
		op      domain.Operation
		history []domain.State // of the group, all of context 1
		status  domain.ContextStatus
	}{
		"an instantiate":                {domain.OpUpdate, []domain.State{domain.Instantiated}, domain.ContextInstantiating},
		"one that is to be rolled back": {domain.OpRollback, []domain.State{domain.Instantiated}, domain.ContextInstantiating},
		"one that is being stopped":     {domain.OpUpdate, []domain.State{domain.Instantiated, domain.InstantiateStopped}, domain.ContextInstantiating},
		"a terminate":                   {domain.OpUpdate, []domain.State{domain.Instantiated, domain.Terminated}, domain.ContextTerminating},
		"a terminate that an instantiate is to take over from": {
			domain.OpInstantiate, []domain.State{domain.Instantiated, domain.Terminated}, domain.ContextTerminating,
		},
		"an instantiate whose terminate has ended": {
			domain.OpInstantiate, []domain.State{domain.Instantiated, domain.TerminateStopped}, domain.ContextInstantiating,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, runs := newDeployment(t), &running{}
			d.Runs = runs
			for _, s := range c.history {
				d.store.group.History.Append(s, "1", 1, begun)
			}
			owner := domain.KeyOf(&d.store.group)
			d.store.instances["1"] = domain.Instance{ContextID: "1", Owner: owner, Origin: domain.OpInstantiate, Status: c.status, Plan: d.plan}
			s := domain.Scope{Owner: owner, ContextID: "2", Operation: c.op}
			var err error
			if c.op == domain.OpInstantiate {
				_, err = d.Prepare(t.Context(), s)
			} else {
				_, err = d.PrepareChange(t.Context(), activities.ChangeInput{Scope: s, Goal: domain.Goal{Revert: "1"}})
			}
			require.True(t, fail.Is(err, fail.Conflict), "%v", err)
			require.Empty(t, runs.closed)
		})
	}
}

// TestLateMigrate: neither group is any more as it was when the migrate was asked for.
func TestLateMigrate(t *testing.T) {
	for name, spoil := range map[string]func(s *twoGroups){
		"whose source was updated":     func(s *twoGroups) { s.source.History.Append(domain.Instantiated, "1", 5, begun) },
		"whose target was migrated to": func(s *twoGroups) { s.group.History.Append(domain.Instantiated, "9", 1, begun) },
	} {
		t.Run(name, func(t *testing.T) {
			d, s, in := migrating(t)
			d.Runs = &running{}
			goal := domain.Goal{Source: domain.KeyOf(&s.source), SourceHistory: s.source.History.Sign()}
			spoil(s)
			_, err := d.PrepareChange(t.Context(), activities.ChangeInput{Scope: in.Scope, Goal: goal})
			require.True(t, fail.Is(err, fail.Conflict), "%v", err)
		})
	}
}

// TestRecordOfWhatWasAskedEarlier: the group is again in a state that allows it, and is not as it was.
func TestRecordOfWhatWasAskedEarlier(t *testing.T) {
	d := newDeployment(t)
	in := d.instantiate()
	in.History = d.store.group.History.Sign()
	d.store.group.History.Append(domain.Instantiated, "0", 1, begun)
	d.store.group.History.Append(domain.Terminated, "0", 0, begun)
	before := d.store.states()
	require.True(t, fail.Is(d.Record(t.Context(), in), fail.Conflict))
	require.Equal(t, before, d.store.states())
	require.Empty(t, d.store.instances)
	in.History = d.store.group.History.Sign()
	for range 2 { // and finds its own
		require.NoError(t, d.Record(t.Context(), in))
	}
}

// TestHistoriesNameTheOperation, and who asked for it.
func TestHistoriesNameTheOperation(t *testing.T) {
	d, s, in := migrating(t)
	in.Goal.Source, in.By, in.RunID = domain.KeyOf(&s.source), "alice", "run"
	for range 2 {
		require.NoError(t, d.Record(t.Context(), in))
	}
	named := func(a domain.Action) [2]string { return [2]string{a.Operation, a.RequestedBy} }
	require.Equal(t, [2]string{"migrate to v1/group", "alice"}, named(s.source.History.Last()))
	require.Equal(t, [2]string{"migrate from v0/source", "alice"}, named(d.store.group.History.Last()))
	require.Equal(t, []domain.Ran{{RunID: "run", Operation: domain.OpMigrate, Detail: "migrate from v0/source", RequestedBy: "alice", Accepted: begun}}, s.instances["2"].Runs)

	d.store.group.History.Leave("2", "3", 0, begun)
	d.store.group.History.Append(domain.Instantiated, "3", 1, begun)
	i := s.instances["2"]
	i.ContextID, i.Status = "3", domain.ContextInstantiated
	s.instances["3"] = i
	back := activities.RecordInput{
		Scope: domain.Scope{Owner: in.Owner, ContextID: "4", Operation: domain.OpRollback}, By: "bob", Goal: domain.Goal{Revert: "2"},
		Prepared: &activities.Prepared{Plan: d.plan, OwnerRevision: d.store.group.Revision, From: &activities.From{ContextID: "3", Owner: in.Owner, OwnerRevision: d.store.group.Revision}},
	}
	require.NoError(t, d.Record(t.Context(), back))
	require.Equal(t, [2]string{"rollback to 0", "bob"}, named(d.store.group.History.Last()))
	require.Equal(t, 2, d.store.group.History.Last().Revision)
}
