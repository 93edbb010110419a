package domain_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// many are n of something, by number.
func many[T any](n int, one func(i int) T) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = one(i)
	}
	return all
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
