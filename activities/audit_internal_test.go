package activities

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/outcome"
)

// recorded is a store of one record, and a trail.
type recorded struct {
	Store
	instance domain.Instance
	records  []audit.Record
}

func (r *recorded) Instance(context.Context, string) (*domain.Instance, error) {
	i := r.instance
	return &i, nil
}

func (r *recorded) Write(_ context.Context, one audit.Record) (int64, error) {
	r.records = append(r.records, one)
	return 1, nil
}

// TestEndsAreAudited: each operation has an end, also one that another operation has overtaken; one that is recorded has it already.
func TestEndsAreAudited(t *testing.T) {
	scope := domain.Scope{Owner: "projects/p", ContextID: "c", Operation: domain.OpInstantiate, Began: 7}
	runs := []domain.Ran{{Operation: domain.OpInstantiate, RunID: "run", RequestedBy: "user alice"}}
	for name, c := range map[string]struct {
		instance domain.Instance
		want     []audit.Record
	}{
		"the first attempt": {
			domain.Instance{Operation: domain.OpInstantiate, Began: 7, Runs: runs},
			[]audit.Record{{Who: &audit.Who{Kind: "user", Name: "alice"}, Workflow: "run"}},
		},
		"a later attempt": {domain.Instance{Operation: domain.OpInstantiate, Began: 7, Ended: time.Unix(1, 0), Runs: runs}, nil},
		"overtaken by a terminate": {
			domain.Instance{Operation: domain.OpTerminate, Began: 8, Runs: append(runs, domain.Ran{Operation: domain.OpTerminate, RunID: "other"})},
			[]audit.Record{{Who: &audit.Who{Kind: "user", Name: "alice"}, Workflow: "run"}},
		},
		"another context has taken over": {
			domain.Instance{Operation: domain.OpInstantiate, Status: domain.ContextUpdated, Began: 7, Ended: time.Unix(1, 0), Runs: runs}, nil,
		},
		"overtaken by its like": {domain.Instance{Operation: domain.OpInstantiate, Began: 8, Runs: runs}, []audit.Record{{}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorded{instance: c.instance}
			l := &Control{Store: r, Audit: r}
			require.NoError(t, l.audited(t.Context(), scope, outcome.Record{Stopped: true, At: time.Unix(2, 0)}))
			require.Len(t, r.records, len(c.want))
			for i, want := range c.want {
				require.Equal(t, audit.Stopped, r.records[i].Result)
				require.Equal(t, want.Who, r.records[i].Who)
				require.Equal(t, want.Workflow, r.records[i].Workflow)
			}
		})
	}
}

// broken are operations whose workflows were terminated.
type broken struct{ Runs }

func (broken) Close(context.Context, domain.Scope) (RunEnd, error) { return RunBroken, nil }

// TestTheEndOfWhatWasTerminatedIsAudited: what could not record its end has one in the audit log, and is told by who had asked for it.
func TestTheEndOfWhatWasTerminatedIsAudited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // what may be on its way is waited for
		goesOn := domain.Ran{Operation: domain.OpInstantiate, RunID: "run", RequestedBy: "user alice"}
		ended := goesOn
		ended.Ended = time.Unix(1, 0)
		terminate := domain.Ran{Operation: domain.OpTerminate, RunID: "other", RequestedBy: "user bob"}
		r := &recorded{}
		l := &Control{Store: r, Audit: r, Runs: broken{}}
		for _, c := range []struct {
			runs []domain.Ran
			dry  bool
			want int
		}{
			{runs: []domain.Ran{goesOn, terminate}, want: 1},
			{runs: []domain.Ran{goesOn, terminate}, dry: true},
			{runs: []domain.Ran{ended, terminate}}, // it has told of it itself
			{runs: []domain.Ran{terminate}},
		} {
			r.records, l.dry = nil, c.dry
			inOrder, err := l.end(t.Context(), &domain.Instance{Owner: "projects/p", Operation: domain.OpTerminate, Runs: c.runs}, "")
			require.NoError(t, err)
			require.False(t, inOrder)
			require.Len(t, r.records, c.want)
			if c.want > 0 {
				require.Equal(t, audit.Record{
					Event: audit.Ended, Verb: "instantiate", Noun: r.records[0].Noun, Key: "projects/p", Result: audit.Failed, Workflow: "run",
					Who: &audit.Who{Kind: "user", Name: "alice"},
				}, r.records[0])
			}
		}
	})
}
