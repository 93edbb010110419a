package service_test

import (
	"fmt"
	"maps"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/match"
	"github.com/drover-io/drover/internal/service"
)

// effects are what records of the rule bring about, by workload.
func (w *tenancy) effects(rule string) map[string]match.Effect {
	w.Helper()
	all, err := w.first().store.Matches(w.Context(), "t")
	require.NoError(w, err)
	found := map[string]match.Effect{}
	for _, m := range all {
		if m.Rule.Name() == rule {
			found[m.Workload] = match.EffectOf(&m)
		}
	}
	return found
}

// applied marks all records as made as they are wanted.
func (w *tenancy) applied() {
	w.Helper()
	all, err := w.first().store.Matches(w.Context(), "t")
	require.NoError(w, err)
	for i := range all {
		m := &all[i]
		if !m.IsWanted() {
			continue
		}
		m.Made = &domain.Made{Cluster: m.Wanted.Cluster, Version: "v1", Kind: "Pod", Namespace: "tenant-t", Name: m.Workload, Spec: m.Wanted.Spec, Annotations: m.Wanted.Annotations}
		m.Mark, m.Due = domain.MarkApplied, m.Next
	}
	require.NoError(w, w.first().store.WriteMatches(w.Context(), "t", all, nil))
}

// TestAPreviewIsWhatComes: what a preview says of a rule is what the records say when it is stored; it stores nothing itself.
func TestAPreviewIsWhatComes(t *testing.T) {
	w := newTenancy(t, 1)
	r, in := w.first(), w.begin(w.first())
	unplaced := labelled("d", "no")
	unplaced.NodeName = ""
	w.take(in, syncs(labelled("a", "yes"), labelled("b", "yes"), labelled("c", "no"), unplaced))
	for name, c := range map[string]struct {
		change func(*domain.WorkloadRule)
		counts map[match.Effect]int
	}{
		"new":          {func(*domain.WorkloadRule) {}, map[match.Effect]int{match.EffectCreate: 2}},
		"the same":     {func(*domain.WorkloadRule) {}, map[match.Effect]int{match.EffectKeep: 2}},
		"other labels": {func(r *domain.WorkloadRule) { r.Spec.WorkloadTerms[0].MatchExpressions[0].Values[0] = "no" }, map[match.Effect]int{match.EffectCreate: 2, match.EffectDelete: 2}},
		"one more label": {func(r *domain.WorkloadRule) {
			r.Spec.WorkloadTerms[0].MatchExpressions[0].Values = []string{"yes", "no"}
		}, map[match.Effect]int{match.EffectCreate: 2, match.EffectKeep: 2}},
		"another template": {func(r *domain.WorkloadRule) {
			r.Spec.RuleTemplate = domain.Template(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"containers":[{"name":"x","image":"y"}]}}`)
		}, map[match.Effect]int{match.EffectReplace: 2}},
		"an injection": {func(r *domain.WorkloadRule) {
			r.Spec.WorkloadInfoInject = []domain.WorkloadInfoInject{{Key: "metadata.id", AsAnnotation: &domain.WorkloadInfoAsAnnotation{Name: "id"}}}
		}, map[match.Effect]int{match.EffectChange: 2}},
		"no host": {func(r *domain.WorkloadRule) { r.Spec.DPUSelectionPolicy = domain.SameNode }, map[match.Effect]int{match.EffectDelete: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			id := strings.ReplaceAll(name, " ", "-")
			if name != "new" {
				require.NoError(t, r.make(t.Context(), rule(id, "yes")))
				w.applied()
			}
			before, err := r.store.Matches(t.Context(), "t")
			require.NoError(t, err)
			next := rule(id, "yes")
			c.change(next)
			p, err := r.Preview(t.Context(), next, url.Values{})
			require.NoError(t, err)
			after, err := r.store.Matches(t.Context(), "t")
			require.NoError(t, err)
			require.Equal(t, before, after, "nothing is stored")
			require.Equal(t, c.counts, p.Counts)
			require.Equal(t, 4, p.Workloads)
			said := map[string]match.Effect{}
			for _, one := range p.Items {
				said[one.Workload] = one.Effect
				require.Equal(t, "provider+edge", one.Cluster)
			}
			if name == "new" {
				require.NoError(t, r.make(t.Context(), next))
			} else {
				stored, err := r.store.Get(t.Context(), domain.WorkloadRules, domain.KeyOf(next))
				require.NoError(t, err)
				next.Identity = *stored.Base()
				require.NoError(t, r.put(t.Context(), next, r.store.Replace))
			}
			came := w.effects(id)
			maps.DeleteFunc(came, func(_ string, e match.Effect) bool { return e == match.EffectKeep })
			require.Equal(t, came, said)
		})
	}
}

// TestAPreviewIsBounded: pages, a workload alone with its manifest, what is beyond a rule's limit, all tenants of an operator's.
func TestAPreviewIsBounded(t *testing.T) {
	w := newTenancy(t, 1)
	w.tenant("u", func(*domain.Tenant) {})
	r, in := w.first(), w.begin(w.first())
	var all []*domain.Workload
	for n := range limits.RuleMatches + 5 {
		all = append(all, labelled(fmt.Sprintf("w-%04d", n), "yes"))
	}
	w.take(in, syncs(all...))
	p, err := r.Preview(t.Context(), rule("r", "yes"), url.Values{"limit": {"600"}})
	require.NoError(t, err)
	require.Len(t, p.Items, 600)
	require.Equal(t, 5, p.Beyond)
	require.Equal(t, limits.RuleMatches+5, p.Matched)
	require.Equal(t, limits.RuleMatches, p.Counts[match.EffectCreate])
	require.Nil(t, p.Items[0].Manifest)
	rest, err := r.Preview(t.Context(), rule("r", "yes"), url.Values{"limit": {"600"}, "continue": {p.Continue}})
	require.NoError(t, err)
	require.Len(t, rest.Items, limits.RuleMatches-600)
	require.Empty(t, rest.Continue)
	one, err := r.Preview(t.Context(), rule("r", "yes"), url.Values{"workload": {"w-0007"}})
	require.NoError(t, err)
	require.Len(t, one.Items, 1)
	require.Contains(t, fmt.Sprintf("%s", one.Items[0].Manifest), "tenant-t")
	require.Equal(t, &service.MatchObject{APIVersion: "v1", Kind: "Pod", Namespace: "tenant-t", Name: one.Items[0].Object.Name}, one.Items[0].Object)

	operators := rule("o", "yes")
	operators.Parent = ""
	p, err = r.Preview(t.Context(), operators, url.Values{})
	require.NoError(t, err)
	require.Equal(t, limits.RuleMatches, p.Counts[match.EffectCreate])
	require.Equal(t, domain.OperatorNamespace, p.Items[0].Object.Namespace)
	p, err = r.Preview(t.Context(), operators, url.Values{"tenant": {"u"}})
	require.NoError(t, err)
	require.Empty(t, p.Counts)
	require.Equal(t, []service.PreviewedMatch{}, p.Items)
}

// TestAPreviewOfSeveralTenantsHasPages, of which each has what is to be shown of the tenants one after the other, and counts all.
func TestAPreviewOfSeveralTenantsHasPages(t *testing.T) {
	w := newTenancy(t, 1)
	r := w.first()
	var want []string
	for _, tenant := range []string{"t", "t-1", "u"} {
		if tenant != "t" {
			w.tenant(tenant, func(*domain.Tenant) {})
		}
		in, err := r.Begin(t.Context(), tenant)
		require.NoError(t, err)
		require.NoError(t, in.Take(t.Context(), syncs(labelled("a", "yes"), labelled("b", "yes"), labelled("c", "no"))))
		want = append(want, tenant+"/a", tenant+"/b")
	}
	operators := rule("o", "yes")
	operators.Parent = ""
	for _, limit := range []string{"1", "2", "3", "6", "7"} {
		q, got := url.Values{"limit": {limit}}, []string{}
		for {
			p, err := r.Preview(t.Context(), operators, q)
			require.NoError(t, err)
			require.Equal(t, map[match.Effect]int{match.EffectCreate: 6}, p.Counts)
			for _, one := range p.Items {
				got = append(got, one.Tenant+"/"+one.Workload)
			}
			if p.Continue == "" {
				break
			}
			q.Set("continue", p.Continue)
		}
		require.Equal(t, want, got, limit)
	}
}
