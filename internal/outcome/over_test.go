package outcome_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/outcome"
)

func TestOver(t *testing.T) {
	ended := time.Unix(1, 0)
	for name, c := range map[string]struct {
		record *domain.Instance
		op     domain.Operation
		over   bool
	}{
		"there is no record":             {nil, domain.OpInstantiate, false},
		"it goes on":                     {&domain.Instance{Operation: domain.OpInstantiate, Began: 5}, domain.OpInstantiate, false},
		"it has ended":                   {&domain.Instance{Operation: domain.OpInstantiate, Began: 5, Ended: ended}, domain.OpInstantiate, true},
		"another context has taken over": {&domain.Instance{Operation: domain.OpUpdate, Began: 5, Status: domain.ContextUpdated}, domain.OpUpdate, true},
		"the record does not know it":    {&domain.Instance{Operation: domain.OpInstantiate, Began: 4, Ended: ended}, domain.OpTerminate, false},
		"nor that one":                   {&domain.Instance{Operation: domain.OpTerminate, Began: 4, Ended: ended}, domain.OpTerminate, false},
		"a release noted no beginning":   {&domain.Instance{Operation: domain.OpInstantiate, Ended: ended}, domain.OpInstantiate, false},
		"a terminate is to end it":       {&domain.Instance{Operation: domain.OpTerminate, Began: 6}, domain.OpInstantiate, false},
		"it had ended before the terminate": {&domain.Instance{Operation: domain.OpTerminate, Began: 6, Runs: []domain.Ran{
			{Operation: domain.OpInstantiate, Ended: ended}, {Operation: domain.OpTerminate},
		}}, domain.OpInstantiate, true},
		"the terminate has ended":    {&domain.Instance{Operation: domain.OpTerminate, Began: 6, Ended: ended}, domain.OpInstantiate, true},
		"there is a later terminate": {&domain.Instance{Operation: domain.OpTerminate, Began: 6}, domain.OpTerminate, true},
		"the terminate goes on":      {&domain.Instance{Operation: domain.OpTerminate, Began: 5}, domain.OpTerminate, false},
	} {
		require.Equal(t, c.over, outcome.Over(c.record, domain.Scope{Operation: c.op, Began: 5}), name)
	}
}
