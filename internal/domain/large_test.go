package domain_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
)

// many are n of something, by number.
func many[T any](n int, one func(i int) T) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = one(i)
	}
	return all
}

func words(n int) []string { return many(n, func(i int) string { return fmt.Sprint("n", i) }) }

// TestListsThatAreTooLong: a body has room for some hundred thousand entries of a list. Whether or not there is a limit of them, nobody compares each
// with each, and of a list beyond its limit that is the one problem, which takes little to say.
func TestListsThatAreTooLong(t *testing.T) {
	const n = 300_000
	intent := func(test domain.ObjectTest) *domain.StatusIntent {
		return &domain.StatusIntent{Metadata: meta("a"), Spec: domain.StatusIntentSpec{ObjectTest: test, WantSingletonReportedState: true}}
	}
	selecting := func(s domain.LabelSelector) *domain.StatusIntent {
		return intent(domain.ObjectTest{ObjectSelectors: []domain.LabelSelector{s}})
	}
	labels := map[string]string{}
	for _, w := range words(n) {
		labels[w] = "a"
	}
	binding := domain.NewRoleBinding("")
	binding.Name, binding.Spec.Role = "a", domain.RoleViewer
	binding.Spec.Subjects = many(n, func(i int) domain.RightSubject {
		return domain.RightSubject{Kind: domain.SubjectUser, Name: fmt.Sprint(i)}
	})
	for name, c := range map[string]struct {
		o    domain.Object
		want string // "" for a list without a limit
	}{
		"collectors": {
			&domain.StatusIntent{Metadata: meta("a"), Spec: domain.StatusIntentSpec{StatusCollectors: words(n)}},
			"spec.statusCollectors: Array must have at most 256 items",
		},
		"apps":             {intent(domain.ObjectTest{Apps: words(n)}), "spec.apps: Array must have at most 256 items"},
		"resources":        {intent(domain.ObjectTest{Resources: words(n)}), "spec.resources: Array must have at most 256 items"},
		"kinds":            {intent(domain.ObjectTest{Kinds: words(n)}), "spec.kinds: Array must have at most 256 items"},
		"namespaces":       {intent(domain.ObjectTest{Namespaces: words(n)}), "spec.namespaces: Array must have at most 256 items"},
		"objectNames":      {intent(domain.ObjectTest{ObjectNames: words(n)}), "spec.objectNames: Array must have at most 256 items"},
		"selectors":        {intent(domain.ObjectTest{ObjectSelectors: make([]domain.LabelSelector, n)}), "spec.objectSelectors: Array must have at most 256 items"},
		"matchLabels":      {selecting(domain.LabelSelector{MatchLabels: labels}), "spec.objectSelectors: have 300000 matchLabels and matchExpressions, of 1000 at most"},
		"matchExpressions": {selecting(domain.LabelSelector{MatchExpressions: make([]domain.LabelRequirement, n)}), "spec.objectSelectors: have 300000 matchLabels and matchExpressions, of 1000 at most"},
		"values": {
			selecting(domain.LabelSelector{MatchExpressions: []domain.LabelRequirement{{Key: "a", Operator: domain.LabelNotIn, Values: words(n)}}}),
			"spec.objectSelectors: have 300000 values, of 10000 at most",
		},
		"subjects": {binding, "spec.subjects: there may be 256 at the most; bind a group"},
		"rules":    {&domain.Role{Metadata: meta("a"), Spec: domain.RoleSpec{Rules: make([]domain.RoleRule, n)}}, "spec.rules: there may be 64 rules at the most"},
		"steps": {
			&domain.Customization{Metadata: meta("a"), Spec: domain.CustomizationSpec{
				ClusterSpecific: domain.False, ClusterInfo: domain.ClusterInfo{Scope: domain.ScopeName, ClusterProvider: "p", Mode: domain.ModeAllow},
				PatchType: domain.PatchJSON, PatchJSON: make([]domain.PatchStep, n),
			}},
			"spec.patchJson: has 300000 steps, of 1000 at most",
		},
		"nodes": {&domain.Host{Metadata: meta("a"), Spec: domain.HostSpec{Nodes: words(n)}}, ""},
		"kinds of templates": {&domain.Tenant{Metadata: meta("a"), Spec: domain.TenantSpec{
			Cluster: "p+c", Nodes: domain.NodesHosts, PodSecurity: domain.PodBaseline, Kinds: many(n, func(i int) string { return fmt.Sprint("v1/N", i) }),
		}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			var p fail.Problems
			c.o.Validate(&p)
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			require.Less(t, took, 10*time.Second) // each with each took a minute
			if c.want == "" {
				require.NoError(t, p.Err())
				return
			}
			require.Equal(t, "Invalid Input:\n"+c.want, fail.TextOf(p.Err()))
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
		})
	}
}

// TestSpecsThatAreTooLarge: a collector of a million columns is not gone through, and the names of its columns are not told again and again.
func TestSpecsThatAreTooLarge(t *testing.T) {
	const n = 300_000
	problems := func(s *domain.StatusCollectorSpec, most uint64) string {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var p fail.Problems
		s.Validate(&p)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, most)
		return fail.TextOf(p.Err())
	}
	orders := func(n int) []domain.ColumnOrder {
		return many(n, func(int) domain.ColumnOrder { return domain.ColumnOrder{Column: "b"} })
	}
	require.Equal(t, "Invalid Input:\nspec: has 300000 columns; a table has at most 50\nspec.orderBy: has 300000 columns; a table has at most 50",
		problems(&domain.StatusCollectorSpec{Select: make([]domain.NamedExpression, n), OrderBy: orders(n)}, 1<<20))
	require.Equal(t, "Invalid Input:\nspec.orderBy: has 51 columns; a table has at most 50",
		problems(&domain.StatusCollectorSpec{Select: []domain.NamedExpression{{Name: "a", Def: "1"}}, OrderBy: orders(51)}, 1<<20))
	long := domain.NamedExpression{Name: strings.Repeat("a", 1<<20), Def: "1"}
	require.Contains(t, problems(&domain.StatusCollectorSpec{Select: []domain.NamedExpression{long}, OrderBy: orders(50)}, 16<<20), `"b" is no column of the table`)
}

// TestSelectorsThatAreJustNotTooLarge are taken.
func TestSelectorsThatAreJustNotTooLarge(t *testing.T) {
	var selectors []domain.LabelSelector
	const each = 200
	for range limits.TestExpressions / each {
		s := domain.LabelSelector{}
		for range each {
			s.MatchExpressions = append(s.MatchExpressions, domain.LabelRequirement{Key: "a", Operator: domain.LabelIn, Values: words(limits.TestValues / limits.TestExpressions)})
		}
		selectors = append(selectors, s)
	}
	test := domain.ObjectTest{ObjectSelectors: selectors}
	var p fail.Problems
	test.Check(&p, "tests")
	require.NoError(t, p.Err())
	test.ObjectSelectors = append(test.ObjectSelectors, domain.LabelSelector{MatchLabels: map[string]string{"a": "b"}})
	test.Check(&p, "tests")
	require.Equal(t, "Invalid Input:\ntests.objectSelectors: have 1001 matchLabels and matchExpressions, of 1000 at most", fail.TextOf(p.Err()))
}
