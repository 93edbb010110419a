package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/storetest"
)

// TestRuleIsOneValue: the members of a rule are not the database's, and its template comes back byte for byte.
func TestRuleIsOneValue(t *testing.T) {
	c := storetest.Config(t)
	s := storetest.Open(t, c)
	rule := &domain.WorkloadRule{Identity: below(domain.TenantKey("t")), Metadata: named("r"), Spec: domain.WorkloadRuleSpec{
		OrchestratorType: domain.Kubernetes, ResourceType: domain.KindPod, DPUSelectionPolicy: domain.SameNode,
		WorkloadTerms: []domain.WorkloadTerm{{MatchExpressions: []domain.MatchExpression{
			{Key: "metadata.id", Operation: domain.OperationIn, Values: []string{"a", ""}},
			{Key: "state.ready", Operation: domain.OperationExists, Values: []string{}},
		}}},
		WorkloadInfoInject: []domain.WorkloadInfoInject{{Key: "@", AsAnnotation: &domain.WorkloadInfoAsAnnotation{Name: "a"}}, {Key: "$"}},
		RuleTemplate:       domain.Template("{ \"kind\" :\t\"Pod\", \"ž\": 1.50 }\n"),
	}}
	operators := &domain.OperatorRule{WorkloadRule: *rule}
	operators.Parent = ""
	for _, o := range []domain.Object{rule, operators} {
		require.NoError(t, s.Create(t.Context(), o))
		got, err := s.Get(t.Context(), o.Noun(), domain.KeyOf(o))
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(o, got))
	}
	client, err := mongo.Connect(options.Client().ApplyURI(c.URI))
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Disconnect(t.Context())) }()
	raw, err := client.Database(c.Database).Collection(domain.WorkloadRules.Kind).FindOne(t.Context(), bson.D{}).Raw()
	require.NoError(t, err)
	require.Equal(t, bson.TypeBinary, raw.Lookup("sealed").Type)
	_, err = raw.LookupErr("spec")
	require.Error(t, err)
}
