package domain_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

func core() *string { return new(string) }

func word(s string) *string { return &s }

// TestWhichObjectsPass: fields are joined by AND, the entries of a list by OR, and nothing or "*" is all.
func TestWhichObjectsPass(t *testing.T) {
	web := domain.Tested{
		App: "web", Group: "apps", Kind: "Deployment", Resource: "deployments", Namespace: "default", Name: "fw0-web",
		Labels: map[string]string{"app": "web", "tier": "edge"},
	}
	node := domain.Tested{App: "web", Kind: "Node", Resource: "nodes", Name: "n"}
	selector := func(rs ...domain.LabelRequirement) domain.ObjectTest {
		return domain.ObjectTest{ObjectSelectors: []domain.LabelSelector{{MatchExpressions: rs}}}
	}
	for name, c := range map[string]struct {
		test domain.ObjectTest
		o    domain.Tested
		want bool
	}{
		"nothing is all":              {domain.ObjectTest{}, web, true},
		"nothing, without namespace":  {domain.ObjectTest{}, node, true},
		"an asterisk in every list":   {domain.ObjectTest{Apps: []string{"*"}, APIGroup: word("*"), Resources: []string{"*"}, Kinds: []string{"*"}, Namespaces: []string{"*"}, ObjectNames: []string{"*"}}, node, true},
		"one of the entries":          {domain.ObjectTest{Apps: []string{"db", "web"}, Kinds: []string{"Job", "Deployment"}}, web, true},
		"one field does not fit":      {domain.ObjectTest{Apps: []string{"web"}, Kinds: []string{"Job"}}, web, false},
		"an asterisk beside others":   {domain.ObjectTest{Kinds: []string{"Job", "*"}}, web, true},
		"kinds have their case":       {domain.ObjectTest{Kinds: []string{"deployment"}}, web, false},
		"its resource":                {domain.ObjectTest{Resources: []string{"deployments"}}, web, true},
		"its kind for its resource":   {domain.ObjectTest{Resources: []string{"Deployment"}}, web, false},
		"its group":                   {domain.ObjectTest{APIGroup: word("apps")}, web, true},
		"the core group":              {domain.ObjectTest{APIGroup: core()}, web, false},
		"of the core group":           {domain.ObjectTest{APIGroup: core()}, node, true},
		"its namespace":               {domain.ObjectTest{Namespaces: []string{"kube-system", "default"}}, web, true},
		"another namespace":           {domain.ObjectTest{Namespaces: []string{"kube-system"}}, web, false},
		"a namespace that it has not": {domain.ObjectTest{Namespaces: []string{"default"}}, node, false},
		"its name":                    {domain.ObjectTest{ObjectNames: []string{"fw0-web"}}, web, true},
		"a part of its name":          {domain.ObjectTest{ObjectNames: []string{"web"}}, web, false},
		"an empty selector":           {domain.ObjectTest{ObjectSelectors: []domain.LabelSelector{{}}}, node, true},
		"a label":                     {domain.ObjectTest{ObjectSelectors: []domain.LabelSelector{{MatchLabels: map[string]string{"app": "web", "tier": "edge"}}}}, web, true},
		"a label of another value":    {domain.ObjectTest{ObjectSelectors: []domain.LabelSelector{{MatchLabels: map[string]string{"app": "web", "tier": "core"}}}}, web, false},
		"one of two selectors":        {domain.ObjectTest{ObjectSelectors: []domain.LabelSelector{{MatchLabels: map[string]string{"app": "db"}}, {MatchLabels: map[string]string{"app": "web"}}}}, web, true},
		"In":                          {selector(domain.LabelRequirement{Key: "tier", Operator: domain.LabelIn, Values: []string{"core", "edge"}}), web, true},
		"In of what it has not":       {selector(domain.LabelRequirement{Key: "x", Operator: domain.LabelIn, Values: []string{""}}), web, false},
		"NotIn":                       {selector(domain.LabelRequirement{Key: "tier", Operator: domain.LabelNotIn, Values: []string{"edge"}}), web, false},
		"NotIn of what it has not":    {selector(domain.LabelRequirement{Key: "x", Operator: domain.LabelNotIn, Values: []string{"edge"}}), web, true},
		"Exists":                      {selector(domain.LabelRequirement{Key: "tier", Operator: domain.LabelExists}), web, true},
		"DoesNotExist":                {selector(domain.LabelRequirement{Key: "tier", Operator: domain.LabelDoesNotExist}), web, false},
		"two that do not both hold":   {selector(domain.LabelRequirement{Key: "tier", Operator: domain.LabelExists}, domain.LabelRequirement{Key: "x", Operator: domain.LabelExists}), web, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.test.Passes(&c.o)) })
	}
}

// TestWhatIntentsWantTogether: collectors are united, and booleans joined by OR.
func TestWhatIntentsWantTogether(t *testing.T) {
	intent := func(kind string, s domain.StatusIntentSpec) *domain.StatusIntent {
		s.Kinds = []string{kind}
		return &domain.StatusIntent{Spec: s}
	}
	intents := []*domain.StatusIntent{
		intent("Pod", domain.StatusIntentSpec{StatusCollectors: []string{"phase", "fleet/age"}}),
		intent("*", domain.StatusIntentSpec{StatusCollectors: []string{"age", "phase"}, Together: true}),
		intent("Pod", domain.StatusIntentSpec{WantSingletonReportedState: true}),
		intent("Job", domain.StatusIntentSpec{WantMultiWECReportedState: true}),
	}
	pod, job := domain.StatusWantedOf(intents, &domain.Tested{Kind: "Pod"}), domain.StatusWantedOf(intents, &domain.Tested{Kind: "Job"})
	require.Equal(t, domain.StatusWanted{Collectors: []string{"age", "fleet/age", "phase"}, Together: []string{"age", "phase"}, Singleton: true}, pod)
	require.Equal(t, domain.StatusWanted{Collectors: []string{"age", "phase"}, Together: []string{"age", "phase"}, Multi: true}, job)
	require.True(t, job.Any())
	none := domain.StatusWantedOf(intents[:1], &domain.Tested{Kind: "Job"})
	require.False(t, none.Any())
}

func TestStatusIntentsAreChecked(t *testing.T) {
	labels := func(s domain.LabelSelector) domain.StatusIntentSpec {
		return domain.StatusIntentSpec{ObjectTest: domain.ObjectTest{ObjectSelectors: []domain.LabelSelector{s}}, WantSingletonReportedState: true}
	}
	long := strings.Repeat("x", 254)
	for name, c := range map[string]struct {
		spec domain.StatusIntentSpec
		want []fail.Field
	}{
		"a collector":             {domain.StatusIntentSpec{StatusCollectors: []string{"a"}}, nil},
		"a library's":             {domain.StatusIntentSpec{StatusCollectors: []string{"a", "fleet/a"}}, nil},
		"reported state alone":    {domain.StatusIntentSpec{WantMultiWECReportedState: true}, nil},
		"nothing":                 {domain.StatusIntentSpec{}, []fail.Field{{Path: "spec", Message: "wants nothing: name statusCollectors, or set wantSingletonReportedState or wantMultiWECReportedState"}}},
		"together without any":    {domain.StatusIntentSpec{Together: true, WantMultiWECReportedState: true}, []fail.Field{{Path: "spec.together", Message: "needs statusCollectors, which are evaluated together"}}},
		"a collector named twice": {domain.StatusIntentSpec{StatusCollectors: []string{"a", "b", "a"}}, []fail.Field{{Path: "spec.statusCollectors[2]", Message: `"a" is named twice`}}},
		"another place": {domain.StatusIntentSpec{StatusCollectors: []string{"other/a", "fleet/"}}, []fail.Field{
			{Path: "spec.statusCollectors[0]", Message: "Does not match pattern '" + domain.NamePattern + "': a name has letters and digits, and between them '-', '_' and '.'"},
			{Path: "spec.statusCollectors[1]", Message: "is required"},
		}},
		"everything wrong": {
			domain.StatusIntentSpec{ObjectTest: domain.ObjectTest{
				Apps: []string{"a b"}, APIGroup: word("Apps"), Resources: []string{"*", "Pods"}, Kinds: []string{""}, Namespaces: []string{"", "a_b"}, ObjectNames: []string{"", long},
				NamespaceSelectors: []domain.LabelSelector{{}},
			}, WantSingletonReportedState: true},
			[]fail.Field{
				{Path: "spec.apps[0]", Message: "Does not match pattern '" + domain.NamePattern + "': a name has letters and digits, and between them '-', '_' and '.'"},
				{Path: "spec.apiGroup", Message: "Does not match pattern '^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$'"},
				{Path: "spec.resources[1]", Message: `"Pods" does not match pattern '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'`},
				{Path: "spec.kinds[0]", Message: `"" does not match pattern '^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$'`},
				{Path: "spec.namespaces[0]", Message: "is required"},
				{Path: "spec.namespaces[1]", Message: "must be the name of a Kubernetes namespace: at most 63 of a-z, 0-9 and -, not - first or last"},
				{Path: "spec.objectNames[0]", Message: "is required"},
				{Path: "spec.objectNames[1]", Message: "String length must be less than or equal to 253"},
				{Path: "spec.namespaceSelectors", Message: "cannot be evaluated: the labels of namespaces are not known here; name the namespaces"},
			},
		},
		"a selector with everything wrong": {
			labels(domain.LabelSelector{MatchLabels: map[string]string{"a": "-", "b": "c"}, MatchExpressions: []domain.LabelRequirement{
				{Key: "-", Operator: "in"}, {Key: "a", Operator: domain.LabelIn}, {Key: "a", Operator: domain.LabelExists, Values: []string{"b"}}, {Key: "a", Operator: domain.LabelNotIn, Values: []string{"-"}},
			}}),
			[]fail.Field{
				{Path: "spec.objectSelectors[0].matchLabels[a]", Message: `"a=-" is not a label of a Kubernetes object`},
				{Path: "spec.objectSelectors[0].matchExpressions[0].key", Message: `"-" is not the key of a label`},
				{Path: "spec.objectSelectors[0].matchExpressions[0].operator", Message: `"in" is not In, NotIn, Exists or DoesNotExist`},
				{Path: "spec.objectSelectors[0].matchExpressions[1].values", Message: "is required for In"},
				{Path: "spec.objectSelectors[0].matchExpressions[2].values", Message: "must be left out for Exists"},
				{Path: "spec.objectSelectors[0].matchExpressions[3].values[0]", Message: `"-" is not the value of a label`},
			},
		},
		"a list without end": {domain.StatusIntentSpec{StatusCollectors: []string{"a"}, ObjectTest: domain.ObjectTest{Kinds: make([]string, 257)}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var p fail.Problems
			(&domain.StatusIntent{Metadata: meta("i"), Spec: c.spec}).Validate(&p)
			got := fail.FieldsOf(p.Err())
			if name == "a list without end" {
				require.Equal(t, fail.Field{Path: "spec.kinds", Message: "Array must have at most 256 items"}, got[0])
				return
			}
			require.Equal(t, c.want, got)
		})
	}
}

// TestWhichCollectorsAreMeant: a bare name is one of the project's, and fleet/ stands before one of the fleet's.
func TestWhichCollectorsAreMeant(t *testing.T) {
	i := &domain.StatusIntent{
		Identity: domain.Identity{Parent: "projects/p/composite-apps/c/v1/deployment-intent-groups/g"},
		Spec:     domain.StatusIntentSpec{StatusCollectors: []string{"a", "fleet/a"}},
	}
	require.Equal(t, []domain.Reference{
		{Field: "spec.statusCollectors[0]", Noun: domain.ProjectCollectors, Key: "projects/p/status-collectors/a"},
		{Field: "spec.statusCollectors[1]", Noun: domain.StatusCollectors, Key: "status-collectors/a"},
	}, i.References())
}

func TestStatusCollectorsAreOfKubeStellarsKind(t *testing.T) {
	var p fail.Problems
	c := &domain.StatusCollector{APIVersion: "v1", Kind: "Pod"}
	c.Validate(&p)
	require.Equal(t, []fail.Field{
		{Path: "apiVersion", Message: `"v1" is not control.kubestellar.io/v1alpha1`}, {Path: "kind", Message: `"Pod" is not StatusCollector`},
		{Path: "metadata.name", Message: "is required"},
	}, fail.FieldsOf(p.Err()))
}
