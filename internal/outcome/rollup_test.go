package outcome_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/outcome"
)

type stateCounts = map[domain.ResourceState]int

func TestRollup(t *testing.T) {
	for name, c := range map[string]struct {
		parts []stateCounts
		want  stateCounts
	}{
		"nothing":            {nil, stateCounts{}},
		"one part is copied": {[]stateCounts{{domain.ResourceApplied: 2}}, stateCounts{domain.ResourceApplied: 2}},
		"zeros are left out": {[]stateCounts{{domain.ResourceApplied: 2, domain.ResourceFailed: 0}, nil}, stateCounts{domain.ResourceApplied: 2}},
		"every state is added up": {
			[]stateCounts{
				{domain.ResourceApplied: 1, domain.ResourceDeleted: 2, domain.ResourceFailed: 3},
				{domain.ResourceFailed: 1, domain.ResourcePending: 4, domain.ResourceRetrying: 5},
				{domain.ResourceRetrying: 1},
			},
			stateCounts{
				domain.ResourceApplied: 1, domain.ResourceDeleted: 2, domain.ResourceFailed: 4,
				domain.ResourcePending: 4, domain.ResourceRetrying: 6,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, cmp.Diff(c.want, outcome.Rollup(c.parts...)))
		})
	}
}

// TestStatus is where a context stands by what the leaves have left.
func TestStatus(t *testing.T) {
	for name, c := range map[string]struct {
		op      domain.Operation
		marks   string
		stopped bool
		want    domain.ContextStatus
	}{
		"instantiate: all applied":           {domain.OpInstantiate, "AAA", false, domain.ContextInstantiated},
		"instantiate: nothing to apply":      {domain.OpInstantiate, "", false, domain.ContextInstantiated},
		"instantiate: one refused":           {domain.OpInstantiate, "AFA", false, domain.ContextInstantiateFailed},
		"instantiate: one never sent":        {domain.OpInstantiate, "AAp", false, domain.ContextInstantiateFailed},
		"instantiate: one without an answer": {domain.OpInstantiate, "AAs", false, domain.ContextInstantiateFailed},
		"instantiate: a hook that is gone":   {domain.OpInstantiate, "AAD", false, domain.ContextInstantiated},
		"instantiate: a hook to come":        {domain.OpInstantiate, "AAh", false, domain.ContextInstantiated},
		"instantiate: that, and never sent":  {domain.OpInstantiate, "Aph", false, domain.ContextInstantiateFailed},
		"instantiate: stopped at the end":    {domain.OpInstantiate, "AAA", true, domain.ContextInstantiateFailed},
		"terminate: all deleted":             {domain.OpTerminate, "DDD", false, domain.ContextTerminated},
		"terminate: nothing to delete":       {domain.OpTerminate, "", false, domain.ContextTerminated},
		"terminate: one kept on purpose":     {domain.OpTerminate, "KDD", false, domain.ContextTerminated},
		"terminate: one never come to":       {domain.OpTerminate, "DdD", false, domain.ContextTerminateFailed},
		"terminate: one kept, one never come to": {
			domain.OpTerminate, "KdD", false, domain.ContextTerminateFailed,
		},
		"terminate: one refused":           {domain.OpTerminate, "DXD", false, domain.ContextTerminateFailed},
		"terminate: one without an answer": {domain.OpTerminate, "DDr", false, domain.ContextTerminateFailed},
		"terminate: stopped at the end":    {domain.OpTerminate, "DDD", true, domain.ContextTerminateFailed},
		"what does not deploy":             {domain.OpApprove, "AAA", false, domain.ContextNone},
	} {
		t.Run(name, func(t *testing.T) {
			var all outcome.Tally
			all.Add(domain.Marks(c.marks))
			require.Equal(t, c.want, all.Status(c.op, c.stopped))
			if !c.stopped {
				require.Equal(t, c.want.Succeeded(), outcome.Succeeded(c.op, domain.Marks(c.marks)))
			}
		})
	}
}
