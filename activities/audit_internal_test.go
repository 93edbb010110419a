package activities

import (
	"context"
	"testing"
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
