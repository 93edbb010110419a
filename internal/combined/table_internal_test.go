package combined

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/domain"
)

// TestATableThatPanicsEndsNoOthers: it is given up, by itself, when it takes a row or is shown, and tried again as others are.
func TestATableThatPanicsEndsNoOthers(t *testing.T) {
	program, err := combine.Compile("all", &domain.StatusCollectorSpec{Select: []domain.NamedExpression{{Name: "wec", Def: "inventory.name"}}})
	require.NoError(t, err)
	row := &combine.Row{Key: combine.Key{Cluster: domain.ClusterName{Name: "a"}}}
	panicking := func() *table {
		return &table{program: program, rows: new(combine.Table), wants: func(*Object) bool { return true }}
	}

	shown := panicking()
	want := []string{combine.GivenUp + fault}
	require.Equal(t, want, shown.result(unfinished).Errors)
	require.Equal(t, want, shown.result(unfinished).Errors)
	require.Equal(t, []string{"wec"}, shown.result(unfinished).ColumnNames)

	put := panicking()
	require.True(t, put.put(t.Context(), row, time.Hour))
	require.True(t, put.rows.GivenUp())
	require.False(t, put.put(t.Context(), row, time.Hour))
	put.retry(func(yield func(combine.Key) bool) { yield(row.Key) })
	require.True(t, put.put(t.Context(), row, time.Hour))
	require.Empty(t, put.result(unfinished).Errors)
	require.Len(t, put.result(unfinished).Rows, 1)
}
