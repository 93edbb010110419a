package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/combine"
)

// TestWhatAggregatesLeaveOutIsShown below the table: its numbers are of the rest alone.
func TestWhatAggregatesLeaveOutIsShown(t *testing.T) {
	var out strings.Builder
	s := &session{Options: Options{Out: &out, Err: &out}}
	three := "3"
	require.NoError(t, s.printResult(&combine.Result{
		Name: "sum", ColumnNames: []string{"n"}, Rows: []combine.ResultRow{{Columns: []combine.Cell{{Type: combine.CellNumber, Float: &three}}}}, TotalRows: 1,
		AggregationErrors: []combine.AggregationError{{ColumnName: "n", Error: "left out 1 cluster:\ncp+a (string \"x\")"}},
	}))
	require.Equal(t, "\nsum\nn\n3\nn: left out 1 cluster: cp+a (string \"x\")\n\n", out.String())
}
