package domain_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// The rules of a spec are in internal/combine's TestRefused, which has those of expressions too.
func TestStatusCollectorSpec(t *testing.T) {
	limit := -1
	s := domain.StatusCollectorSpec{
		GroupBy:        []domain.NamedExpression{{Name: "g", Def: "1"}},
		CombinedFields: []domain.NamedAggregator{{Name: "n", Type: domain.AggregatorCount, Subject: "1"}, {Name: "m", Type: domain.AggregatorMax}},
		Limit:          &limit,
		OrderBy:        []domain.ColumnOrder{{Column: "x"}},
	}
	require.Equal(t, []string{"g", "n", "m"}, s.Columns())
	var p fail.Problems
	s.Validate(&p)
	var paths []string
	for _, f := range fail.FieldsOf(p.Err()) {
		paths = append(paths, f.Path)
	}
	require.Equal(t, []string{
		"spec.combinedFields[0].subject", "spec.combinedFields[1].subject", "spec.limit", "spec.orderBy[0].column",
	}, paths)
	s.Limit = nil
	require.Equal(t, domain.DefaultCollectorLimit, s.Rows())
	limit = 0
	s.Limit = &limit
	require.Equal(t, domain.DefaultCollectorLimit, s.Rows(), "clients of KubeStellar write it so where it is missing")
}
