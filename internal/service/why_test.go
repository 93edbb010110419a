package service_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/service"
)

// settling is what goes on for a tenant.
type settling struct {
	run explain.Run
	err error
}

func (s *settling) Settling(context.Context, string) (explain.Run, error) { return s.run, s.err }

// why explains something of tenant t, as JSON's words and as text.
func (w *tenancy) why(noun *domain.Noun, name string, q url.Values) (*explain.Explanation, string) {
	w.Helper()
	parent := domain.TenantKey("t")
	if noun == domain.Tenants {
		parent = ""
	}
	x, err := w.first().Why(w.Context(), noun, parent, name, q)
	require.NoError(w, err)
	var text strings.Builder
	require.NoError(w, x.WriteText(&text))
	return x, text.String()
}

// kinds are those of the reasons.
func kinds(x *explain.Explanation) []explain.Kind {
	all := []explain.Kind{}
	for _, r := range x.Reasons {
		all = append(all, r.Kind)
	}
	return all
}

// TestWhyARuleDoesNotApply: expression by expression, with the value seen, from both sides.
func TestWhyARuleDoesNotApply(t *testing.T) {
	w := newTenancy(t, 1)
	r, in := w.first(), w.begin(w.first())
	one := rule("r", "yes")
	one.Spec.WorkloadTerms[0].MatchExpressions = append(one.Spec.WorkloadTerms[0].MatchExpressions,
		domain.MatchExpression{Key: "metadata.resourceNamespace", Operation: domain.OperationIn, Values: []string{"default"}},
		domain.MatchExpression{Key: "state.extra.annotations.tier", Operation: domain.OperationExists, Values: []string{""}})
	require.NoError(t, r.make(t.Context(), one))
	x, text := w.why(domain.WorkloadRules, "r", nil)
	require.Equal(t, []explain.Kind{explain.MatchesNothing}, kinds(x))
	require.Contains(t, text, "no workload is known that it could apply to")

	far := labelled("far", "no")
	far.ResourceNamespace = "other"
	w.take(in, syncs(far, labelled("near", "no")))
	x, text = w.why(domain.WorkloadRules, "r", nil)
	require.Equal(t, []explain.Kind{explain.MatchesNothing}, kinds(x))
	require.False(t, x.AsWished)
	require.Equal(t, []string{"near", "far"}, []string{x.Judged[0].Workload, x.Judged[1].Workload}, "the nearest first")
	require.Equal(t, "no", x.Judged[0].Terms[0].Expressions[0].Value)
	require.True(t, x.Judged[0].Terms[0].Expressions[1].Holds)
	require.True(t, x.Judged[0].Terms[0].Expressions[2].Absent)
	for _, line := range []string{
		"workload rule r: not as wished: it applies to none of the 2 workloads", "rule r does not apply to default/near",
		`term 1: no  state.extra.labels.is In yes: it is "no"`, `term 1: yes metadata.resourceNamespace In default: it is "default"`,
		"term 1: no  state.extra.annotations.tier Exists : there is none",
	} {
		require.Contains(t, text, line)
	}
	x, text = w.why(domain.Workloads, "far", nil)
	require.Equal(t, []explain.Kind{explain.MatchesNothing}, kinds(x))
	require.Contains(t, text, "the only rule that there is does not apply to it")
	require.Contains(t, text, `In default: it is "other"`)
	x, _ = w.why(domain.Tenants, "t", nil)
	require.True(t, x.AsWished, "a rule that applies to nothing is a warning there")
	require.Len(t, x.Warnings, 1)
	require.Contains(t, x.Warnings[0], "tenants/t/workload-rules/r applies to none of the 2 workloads")
	for _, of := range [][2]string{{"workload-rules", "none"}, {"workloads", "none"}} {
		noun := map[string]*domain.Noun{"workload-rules": domain.WorkloadRules, "workloads": domain.Workloads}[of[0]]
		_, err := r.Why(t.Context(), noun, domain.TenantKey("t"), of[1], nil)
		require.True(t, fail.Is(err, fail.NotFound), "%v", err)
	}
}

// TestWhyAMatchIsNotMade has each reason, of the tenant, of the rule and of the workload.
func TestWhyAMatchIsNotMade(t *testing.T) {
	for name, c := range map[string]struct {
		rule   func(*domain.WorkloadRule)
		record func(*domain.Match)
		run    settling
		want   explain.Kind
		says   string
	}{
		"no host": {rule: func(r *domain.WorkloadRule) { r.Spec.DPUSelectionPolicy = domain.SameNode }, want: explain.NoPlace, says: `the tenant has no host of that name`},
		"somebody else's": {record: func(m *domain.Match) {
			m.Mark, m.Reason = domain.MarkRefused, "NameConflict: the cluster has an object"
		}, want: explain.NameConflict, says: "something else of the name"},
		"refused": {record: func(m *domain.Match) { m.Mark, m.Due, m.Reason = domain.MarkRefused, time.Time{}, "quota exceeded" }, want: explain.ResourceRefused, says: "quota exceeded"},
		"refused, when it was there": {record: func(m *domain.Match) {
			m.Made = &domain.Made{Cluster: m.Wanted.Cluster, Kind: "Pod", Name: "x", Spec: m.Wanted.Spec}
			m.Mark, m.Due, m.Reason = domain.MarkUndeleted, time.Time{}, "annotations are too long"
		}, want: explain.ResourceRefused, says: "annotations are too long"},
		"the cluster is away": {run: settling{run: explain.Run{Status: explain.Running, Steps: []explain.Attempt{{Step: "AwaitCluster", Number: 1, Trying: true}}}}, want: explain.ClusterHoldsUp, says: "does not answer"},
		"the cluster is slow": {record: func(m *domain.Match) { m.Reason, m.Attempts = "too many requests", 3 }, run: settling{run: explain.Run{Status: explain.Running}}, want: explain.ClusterHoldsUp, says: "too many requests"},
		"a finalizer": {record: func(m *domain.Match) {
			m.Made = &domain.Made{Cluster: m.Wanted.Cluster, Kind: "Pod", Name: "x"}
			m.Mark, m.Reason = domain.MarkDeleting, "finalizer example.com/x"
		}, run: settling{run: explain.Run{Status: explain.Running}}, want: explain.Waiting, says: "finalizer example.com/x"},
		"at work":               {run: settling{run: explain.Run{Status: explain.Running}}, want: explain.AtWork, says: "is under way"},
		"nobody at work":        {want: explain.Queued, says: "waits for its turn"},
		"no answer of Temporal": {run: settling{err: fail.New(fail.Unavailable, "Temporal does not answer")}, want: explain.EngineSilent, says: "Temporal does not answer"},
		"no worker":             {run: settling{run: explain.Run{Status: explain.Running, Task: &explain.Task{Since: time.UnixMilli(1.6e12), Attempt: 1}}}, want: explain.NoWorker, says: "no worker"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTenancy(t, 1)
			r, in := w.first(), w.begin(w.first())
			r.AskRuns(&c.run, explain.WebUI{})
			one := rule("r", "yes")
			if c.rule != nil {
				c.rule(one)
			}
			require.NoError(t, r.make(t.Context(), one))
			w.take(in, syncs(labelled("w", "yes"), labelled("other", "no")))
			if c.record != nil {
				all, err := r.store.Matches(t.Context(), "t")
				require.NoError(t, err)
				require.Len(t, all, 1)
				c.record(&all[0])
				require.NoError(t, r.store.WriteMatches(t.Context(), "t", all, nil))
			}
			for noun, name := range map[*domain.Noun]string{domain.Tenants: "t", domain.WorkloadRules: "r", domain.Workloads: "w"} {
				x, text := w.why(noun, name, nil)
				require.Equal(t, c.want, x.Reasons[0].Kind, "%s", text)
				require.Contains(t, text, c.says)
				require.False(t, x.AsWished)
			}
			x, _ := w.why(domain.Workloads, "other", nil)
			require.Equal(t, []explain.Kind{explain.MatchesNothing}, kinds(x), "nothing of others is said")
		})
	}
}

// holding are runs of an engine that does not answer until it is let.
type holding struct{ asked, let chan struct{} }

func (h *holding) Settling(context.Context, string) (explain.Run, error) {
	h.asked <- struct{}{}
	<-h.let
	return explain.Run{}, fail.New(fail.Unavailable, "Temporal does not answer")
}

// TestWhoAsksTemporalHasNoTurn: what needs the store alone is answered while explanations wait for it. Of an operator's rule it is asked until it does not answer.
func TestWhoAsksTemporalHasNoTurn(t *testing.T) {
	w := newTenancy(t, 1)
	w.tenant("u", func(*domain.Tenant) {})
	r := w.first()
	runs := &holding{asked: make(chan struct{}, 10), let: make(chan struct{})}
	r.AskRuns(runs, explain.WebUI{})
	operators := &domain.OperatorRule{WorkloadRule: *rule("o", "yes")}
	operators.Parent = ""
	require.NoError(t, r.make(t.Context(), operators))
	for _, tenant := range []string{"t", "u"} {
		in, err := r.Begin(t.Context(), tenant)
		require.NoError(t, err)
		require.NoError(t, in.Take(t.Context(), syncs(labelled("w", "yes"))))
	}
	var asks errgroup.Group
	for _, of := range []struct {
		noun *domain.Noun
		name string
	}{{domain.Tenants, "t"}, {domain.OperatorRules, "o"}} {
		asks.Go(func() error {
			x, err := r.Why(t.Context(), of.noun, "", of.name, nil)
			if err == nil && !slices.Contains(kinds(x), explain.EngineSilent) {
				err = fmt.Errorf("%s: %v", of.name, kinds(x))
			}
			return err
		})
		<-runs.asked
	}
	status, err := r.TenantStatus(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, 1, status.Due)
	list, err := r.MatchesOf(t.Context(), domain.KeyOf(operators), nil)
	require.NoError(t, err)
	require.Len(t, list.Items, 2)
	close(runs.let)
	require.NoError(t, asks.Wait())
	require.Empty(t, runs.asked, "asked once for both tenants")
}

// TestWhyWorkloadsAreKeptOrLeftOut: held, in their grace, left out; a tenant that is not connected; a rule that it may not have.
func TestWhyWorkloadsAreKeptOrLeftOut(t *testing.T) {
	w := newTenancy(t, 1)
	w.tenant("u", func(t *domain.Tenant) { t.Spec.DeleteGuard, t.Spec.DeleteAfter = 50, "30s" })
	r := w.first()
	of := func(noun *domain.Noun, parent domain.Key, name string) (*explain.Explanation, string) {
		x, err := r.Why(t.Context(), noun, parent, name, nil)
		require.NoError(t, err)
		var text strings.Builder
		require.NoError(t, x.WriteText(&text))
		return x, text.String()
	}
	x, text := of(domain.Tenants, "", "u")
	require.Equal(t, []explain.Kind{explain.TenantStale}, kinds(x))
	require.Contains(t, text, "has never told of its workloads")
	in, err := r.Begin(t.Context(), "u")
	require.NoError(t, err)
	strange := labelled("s", "yes")
	strange.ResourceType = "v1/Service"
	require.NoError(t, in.Take(t.Context(), syncs(labelled("a", "yes"), labelled("b", "yes"), strange)))
	require.NoError(t, in.Take(t.Context(), []*service.Said{{Delete: []string{"a"}}}))
	x, text = of(domain.Tenants, "", "u")
	require.ElementsMatch(t, []explain.Kind{explain.LeftOut, explain.InGrace}, kinds(x))
	require.Contains(t, text, "default/s")
	x, _ = of(domain.Workloads, domain.TenantKey("u"), "a")
	require.Contains(t, kinds(x), explain.InGrace)
	require.Equal(t, domain.State("Gone"), x.State)
	require.NoError(t, in.Take(t.Context(), syncs(strange))) // which would take all
	x, text = of(domain.Tenants, "", "u")
	require.Contains(t, kinds(x), explain.Held)
	require.Contains(t, text, "spec.deleteGuard (50 percent)")
	require.Contains(t, text, "release")
	require.NoError(t, in.End(t.Context()))
	x, _ = of(domain.Tenants, "", "u")
	require.Contains(t, kinds(x), explain.TenantStale)
	require.Equal(t, domain.State("Stale"), x.State)

	bad := rule("bad", "yes")
	bad.Parent = domain.TenantKey("u")
	bad.Spec.RuleTemplate = domain.Template(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"x"}}`)
	require.NoError(t, r.store.Create(t.Context(), bad))
	x, text = of(domain.WorkloadRules, domain.TenantKey("u"), "bad")
	require.Contains(t, kinds(x), explain.RuleRefused)
	require.Contains(t, text, "spec.ruleTemplate")
}

// TestRulesOfTheSameNameAreAskedForOneByOne: the tenant's by its name, the operator's by its path.
func TestRulesOfTheSameNameAreAskedForOneByOne(t *testing.T) {
	w := newTenancy(t, 1)
	r := w.first()
	require.NoError(t, r.make(t.Context(), rule("r", "yes")))
	operators := &domain.OperatorRule{WorkloadRule: *rule("r", "no")}
	operators.Identity = domain.Identity{}
	require.NoError(t, r.Changing(t.Context(), ""))
	require.NoError(t, r.store.Create(t.Context(), operators))
	r.Changed(t.Context(), "", domain.KeyOf(operators))
	w.take(w.begin(r), syncs(labelled("a", "yes"), labelled("b", "no")))
	for said, key := range map[string]domain.Key{"r": "tenants/t/workload-rules/r", "tenants/t/workload-rules/r": "tenants/t/workload-rules/r", "workload-rules/r": "workload-rules/r"} {
		q := url.Values{"rule": {said}}
		list, err := r.MatchesOf(t.Context(), domain.TenantKey("t"), q)
		require.NoError(t, err)
		require.Len(t, list.Items, 1)
		require.Equal(t, key, list.Items[0].Rule)
		for _, workload := range []string{"a", "b"} {
			x, _ := w.why(domain.Workloads, workload, q)
			require.Len(t, x.Judged, 1, "%s of %s", said, workload)
			require.Equal(t, key, x.Judged[0].Rule)
			require.NotContains(t, kinds(x), explain.RuleRefused)
		}
	}
	_, err := r.Why(t.Context(), domain.Workloads, domain.TenantKey("t"), "a", url.Values{"rule": {"workload-rules/none"}})
	require.True(t, fail.Is(err, fail.NotFound), "%v", err)
	for _, said := range []string{"rules/r", "tenants/u/workload-rules/r", "workload-rules/", "r r", "/r"} {
		q := url.Values{"rule": {said}}
		_, err := r.MatchesOf(t.Context(), domain.TenantKey("t"), q)
		require.True(t, fail.Is(err, fail.Invalid), "%s: %v", said, err)
		require.ErrorContains(t, err, "Invalid query rule", said)
		_, err = r.Why(t.Context(), domain.Workloads, domain.TenantKey("t"), "a", q)
		require.True(t, fail.Is(err, fail.Invalid), "%s: %v", said, err)
	}
	list, err := r.MatchesOf(t.Context(), domain.TenantKey("t"), url.Values{"rule": {"gone"}})
	require.NoError(t, err, "its matches may still be there")
	require.Empty(t, list.Items)
}
