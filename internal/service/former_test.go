package service_test

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/operations"
	"github.com/drover-io/drover/internal/rights"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// TestAProjectTellsNothingOfTheOneBefore: who has his right in a project gets the audit records and the operations of this one, from what has
// begun its making on; who has it in the fleet gets those of another one, too, that had its name before.
func TestAProjectTellsNothingOfTheOneBefore(t *testing.T) {
	db := storetest.Open(t, store.Config{})
	made := time.Date(2026, 11, 21, 5, 29, 7, 36e6, time.UTC)
	require.NoError(t, db.Create(t.Context(), &domain.Project{Identity: domain.Identity{Made: made}, Metadata: domain.Metadata{Name: "p"}}))
	chain := audit.NewChain("api")
	for _, r := range []struct {
		at time.Duration
		audit.Record
	}{
		{-time.Hour, audit.Record{Event: audit.Begun, Verb: "create", Key: "projects/p"}},
		{-time.Hour + time.Millisecond, audit.Record{Event: audit.Answered, Verb: "create", Key: "projects/p", Result: audit.Done, Begun: 1}},
		{-8 * time.Second, audit.Record{Event: audit.Begun, Verb: "put", Key: "projects/p/composite-apps/ca/v1"}},
		{-7 * time.Second, audit.Record{Event: audit.Answered, Verb: "delete", Key: "projects/p", Result: audit.Done}},
		{-time.Millisecond, audit.Record{Event: audit.Begun, Verb: "create", Key: "projects/p"}},
		{time.Millisecond, audit.Record{Event: audit.Answered, Verb: "create", Key: "projects/p", Result: audit.Done, Begun: 5}},
		{time.Minute, audit.Record{Event: audit.Begun, Verb: "put", Key: "projects/p/composite-apps/ca/v1"}},
	} {
		line, _, err := chain.Add(r.Record, made.Add(r.at), nil)
		require.NoError(t, err)
		_, err = db.PutAudit(t.Context(), []audit.Line{line})
		require.NoError(t, err)
	}
	// Another process, whose clock is behind, was asked for something a second after that.
	line, _, err := audit.NewChain("api-of-another-clock").Add(audit.Record{Event: audit.Answered, Verb: "put", Key: "projects/p/composite-apps/ca/v1", Result: audit.Done}, made.Add(-2*time.Second), nil)
	require.NoError(t, err)
	_, err = db.PutAudit(t.Context(), []audit.Line{line})
	require.NoError(t, err)
	as := func(name string) context.Context {
		user := func(name string) []domain.RightSubject {
			return []domain.RightSubject{{Kind: domain.SubjectUser, Name: name}}
		}
		return rights.With(t.Context(), rights.NewBook(nil, []*domain.RoleBinding{
			{Identity: domain.Identity{Parent: "projects/p"}, Spec: domain.RoleBindingSpec{Role: domain.RoleProjectAdmin, Subjects: user("anna")}},
			{Spec: domain.RoleBindingSpec{Role: domain.RoleProjectAdmin, Subjects: user("pia")}},
			{Spec: domain.RoleBindingSpec{Role: domain.RoleAdmin, Subjects: user("root")}},
		}).Of(caller.Identity{Kind: caller.User, Name: name}))
	}

	a := service.NewAudit(db, func(context.Context) error { return nil }, audit.Keys{}, time.Now)
	records := func(who, query string) (numbers []int64) {
		t.Helper()
		v, err := url.ParseQuery(query)
		require.NoError(t, err)
		l, err := a.AuditRecords(as(who), "projects/p", v)
		require.NoError(t, err)
		for _, r := range l.Items {
			numbers = append(numbers, r.Number)
		}
		return numbers
	}
	require.Equal(t, []int64{7, 6, 5, 1}, records("anna", ""))
	require.Equal(t, []int64{7, 6, 5, 1}, records("anna", "from=2026-11-20T00:00:00Z"))
	require.Equal(t, []int64{7}, records("anna", "from=2026-11-21T05:30:00Z"))
	require.Empty(t, records("anna", "to=2026-11-21T05:00:00Z"))
	require.Equal(t, []int64{7}, records("anna", "event=unanswered"))
	for _, who := range []string{"pia", "root"} {
		require.Equal(t, []int64{7, 6, 5, 1, 4, 3, 2, 1}, records(who, ""), who)
		require.Equal(t, []int64{7, 3}, records(who, "event=unanswered"), who)
	}
	for who, want := range map[string]int{"anna": 4, "pia": 8, "root": 8} {
		lines := 0
		require.NoError(t, a.AuditExport(as(who), "projects/p", nil, func([]byte) error { lines++; return nil }))
		require.Equal(t, want, lines, who)
	}

	r, key := &runs{}, domain.Key("projects/p/composite-apps/ca/v1/deployment-intent-groups/g")
	// The engine's clock is behind. There are records of what this project has, and one of what the deletion of the other has left.
	for id, at := range map[string]time.Duration{"1001": -time.Second, "1002": time.Minute, "1003": -2 * time.Second, "1004": -time.Hour} {
		if id > "1002" {
			require.NoError(t, db.PutInstance(t.Context(), &domain.Instance{ContextID: id, Owner: key, Operation: domain.OpInstantiate}))
		}
		r.all = append(r.all, operations.Execution{
			Scope: domain.Scope{Owner: key, ContextID: id, Operation: domain.OpInstantiate},
			Run:   explain.Run{ID: "run", RunID: id, Status: explain.Completed, Started: made.Add(at)},
		})
	}
	j := service.NewJournal(service.NewLifecycle(db, db, nil, r, time.Now), r, explain.WebUI{})
	told := func(who string) (ids []string) {
		t.Helper()
		l, err := j.Operations(as(who), nil)
		require.NoError(t, err)
		for _, o := range l.Items {
			ids = append(ids, o.ID)
		}
		return ids
	}
	require.ElementsMatch(t, []string{"1002-instantiate", "1003-instantiate"}, told("anna"))
	_, err = j.Operation(as("anna"), "1001-instantiate")
	require.True(t, fail.Is(err, fail.NotFound), "%v", err)
	for _, who := range []string{"pia", "root"} {
		require.ElementsMatch(t, []string{"1001-instantiate", "1002-instantiate", "1003-instantiate", "1004-instantiate"}, told(who), who)
	}
	_, err = j.Operation(as("anna"), "1003-instantiate")
	require.NoError(t, err)
	_, err = j.Operation(as("root"), "1001-instantiate")
	require.NoError(t, err)

	require.NoError(t, db.Delete(t.Context(), domain.Projects, "projects/p", 0))
	require.Empty(t, told("anna"), "whose right has not gone yet")
	_, err = a.AuditRecords(as("anna"), "projects/p", nil)
	require.True(t, fail.Is(err, fail.NotFound), "%v", err)
	require.Len(t, records("root", ""), 8)
}
