package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

// TestBegin is how the work on a leaf begins with a release of two, the second of which is to be kept, and a hook of before
// a terminate.
func TestBegin(t *testing.T) {
	t.Parallel()
	bundle := bundleOf("r", "r", "pre-delete")
	bundle[1].Keep = true
	record := func(op domain.Operation, marks string) *domain.Leaf {
		return &domain.Leaf{Operation: op, Marks: marks, Report: "why"}
	}
	for name, c := range map[string]struct {
		start    plan.Start
		want     string
		reported bool
		report   string
	}{
		"an instantiate": {start: plan.Start{Operation: domain.OpInstantiate}, want: "2p1h"},
		"an update":      {start: plan.Start{Operation: domain.OpUpdate, Inherited: "1o1A1h"}, want: "1o1A1h"},
		"an update where the plan says what is installed": {
			start: plan.Start{Operation: domain.OpUpdate, Inherited: "2p1A", Installs: true}, want: "2p1A",
		},
		"a terminate of what was never sent": {start: plan.Start{Operation: domain.OpTerminate}, want: "3D"},
		"a terminate": {
			start: plan.Start{Operation: domain.OpTerminate, Record: record(domain.OpInstantiate, "2A1h")}, want: "1d1K1p", reported: true,
		},
		"a terminate of which nobody knows what was sent": {
			start: plan.Start{Operation: domain.OpTerminate, Incomplete: true, Record: record(domain.OpInstantiate, "2p1h")}, want: "1r1k1s", reported: true,
		},
		"a terminate of what was applied without an answer": {
			start: plan.Start{Operation: domain.OpTerminate, Record: record(domain.OpInstantiate, "1s1p1h")}, want: "1r1D1p",
		},
		"a terminate of what is to be kept and was applied without an answer": {
			start: plan.Start{Operation: domain.OpTerminate, Record: record(domain.OpInstantiate, "1A1s1h")}, want: "1d1k1p", reported: true,
		},
		"a terminate again, which has not found out whether what is to be kept is there": {
			start: plan.Start{Operation: domain.OpTerminate, Record: record(domain.OpTerminate, "1D1k1D")}, want: "1D1k1D", reported: true,
		},
		"a terminate of what was taken over": {
			start: plan.Start{Operation: domain.OpTerminate, TookOver: true, Record: record(domain.OpUpdate, "1s1p1h")}, want: "1r1D1p", reported: true,
		},
		"a terminate of what an update had no work on": {
			start: plan.Start{Operation: domain.OpTerminate, TookOver: true, Inherited: "2A1h", Report: "why"}, want: "1d1K1p", reported: true,
		},
		"a terminate of what an update has dropped the hook of, and has not pruned it": {
			start: plan.Start{Operation: domain.OpTerminate, TookOver: true, Inherited: "2A1d", Record: record(domain.OpUpdate, "2A1r")}, want: "1d1K1r", reported: true,
		},
		"the same, and the cluster has refused to prune it": {
			start: plan.Start{Operation: domain.OpTerminate, TookOver: true, Inherited: "2A1d", Record: record(domain.OpUpdate, "2A1X")}, want: "1d1K1r", reported: true,
		},
		"the same, and nobody knows what was sent": {
			start: plan.Start{Operation: domain.OpTerminate, TookOver: true, Incomplete: true, Inherited: "2A1d"}, want: "1r1k1r", reported: true,
		},
		"the same again, and nobody knows how far the terminate came": {
			start: plan.Start{Operation: domain.OpTerminate, TookOver: true, Inherited: "2A1d", Record: record(domain.OpTerminate, "3s")}, want: "1r1k1r", reported: true,
		},
		"a terminate again, after its hook": {
			start: plan.Start{Operation: domain.OpTerminate, Record: record(domain.OpTerminate, "1X1K1A")}, want: "1r1K1d", reported: true,
		},
		"a terminate again, of which nobody knows how far it came": {
			start: plan.Start{Operation: domain.OpTerminate, Record: record(domain.OpTerminate, "3s")}, want: "1r1k1s", reported: true,
		},
		"a terminate again, after one that knew nothing of what was sent, and has found out": {
			start: plan.Start{Operation: domain.OpTerminate, Incomplete: true, Record: record(domain.OpTerminate, "2D1A")}, want: "2D1d", reported: true,
		},
		"a terminate again, of what has gone": {
			start: plan.Start{Operation: domain.OpTerminate, Record: &domain.Leaf{Operation: domain.OpTerminate, Marks: "1D1K1D"}}, want: "1D1K1D",
		},
		"pruning, where something stays": {
			start: plan.Start{Operation: domain.OpUpdate, Prune: true, Record: record(domain.OpUpdate, "1d1A1h")}, want: "1d1A1h", report: "why",
		},
		"pruning, where the app leaves": {
			start: plan.Start{Operation: domain.OpUpdate, Prune: true, Inherited: "1d2G", Report: "why"}, want: "1d2G", reported: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := plan.Begin(bundle, c.start)
			require.Equal(t, c.want, got.Marks.Encode())
			require.Equal(t, c.reported, got.Reported)
			require.Equal(t, c.report, got.Report)
		})
	}
}

// TestWhatIsKeptOutlivesASilentTerminate: of a terminate that was stopped before it had said anything, all counts as sent; the one
// after it does not delete what is to be kept, and does not say either that it is there.
func TestWhatIsKeptOutlivesASilentTerminate(t *testing.T) {
	t.Parallel()
	bundle := bundleOf("r", "r")
	bundle[1].Keep = true
	left := plan.Silence{Operation: domain.OpTerminate, Whole: true}.Believed(plan.First(domain.OpTerminate, false, "", 2))
	require.Equal(t, "2r", left.Encode())
	again := plan.Begin(bundle, plan.Start{Operation: domain.OpTerminate, Record: &domain.Leaf{Operation: domain.OpTerminate, Marks: left.Encode()}})
	require.Equal(t, "1r1k", again.Marks.Encode())
}

// TestDoomed are the hooks of a terminate, of which each has been run before what is left is deleted.
func TestDoomed(t *testing.T) {
	t.Parallel()
	bundle := bundleOf("r", "pre-delete", "post-delete", "pre-install")
	bundle[2].Keep = true
	last := plan.Step{Work: plan.WorkDelete, Resources: []int{1, 2, 3}}
	was := domain.DecodeMarks("1D2A1D")
	require.Equal(t, "1D1d1K1D", last.Doomed(bundle, was).Encode())
	require.Equal(t, "1D2A1D", was.Encode(), "the marks themselves stay")
	require.Equal(t, "1D1r1k1r", last.Doomed(bundle, domain.DecodeMarks("1D2s1H")).Encode(), "nobody knows whether they are there")
	require.Equal(t, "1d2A1D", plan.Step{Work: plan.WorkDelete, Resources: []int{0}}.Doomed(bundle, domain.DecodeMarks("1d2A1D")).Encode())
}

// TestSilence believes the worst of work that has said nothing: all of it may have been sent.
func TestSilence(t *testing.T) {
	t.Parallel()
	const every = "1p1o1s1A1F1d1r1L1X1D1K1k1h1H1G"
	for name, c := range map[string]struct {
		silence plan.Silence
		want    string
	}{
		"an instantiate":                         {plan.Silence{Operation: domain.OpInstantiate, Whole: true}, "3s1A1F1d1r1L1X1D1K1k1h1H1G"},
		"an instantiate with hooks":              {plan.Silence{Operation: domain.OpInstantiate, Hooked: true, Whole: true}, "3s1A1F1d1r1L1X1D1K1k2H1G"},
		"an update that prunes":                  {plan.Silence{Operation: domain.OpUpdate, Prune: true, Whole: true}, "1p1o1s1A1F2r1L1X1D1K1k1h1H1G"},
		"a terminate":                            {plan.Silence{Operation: domain.OpTerminate, Whole: true}, "3s1A1F2r1L1X1D1K1k1h1H1G"},
		"a terminate with hooks":                 {plan.Silence{Operation: domain.OpTerminate, Hooked: true, Whole: true}, "14s1G"},
		"a terminate with hooks, after its step": {plan.Silence{Operation: domain.OpTerminate, Hooked: true}, "3s1A1F2r1L1X1D1K1k2H1G"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, c.silence.Believed(domain.DecodeMarks(every)).Encode())
		})
	}
}
