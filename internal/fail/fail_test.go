package fail_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
)

// TestManyProblems: the first are named, the rest is counted, and who goes on to add does not change what was said.
func TestManyProblems(t *testing.T) {
	var p fail.Problems
	require.NoError(t, p.Err())
	for i := range fail.MostProblems {
		p.Add(fmt.Sprintf("spec.a[%d]", i), "is %s", "wrong")
	}
	all := p.Err()
	require.Len(t, fail.FieldsOf(all), fail.MostProblems)
	p.Add("spec.b", "is wrong")
	p.Add("spec.c", "is wrong")
	more := fail.FieldsOf(p.Err())
	require.Len(t, more, fail.MostProblems+1)
	require.Equal(t, fail.Field{Path: "...", Message: "and 2 more problems"}, more[fail.MostProblems])
	require.Len(t, fail.FieldsOf(all), fail.MostProblems)
}

// TestAParameterIsAField: in the text it stands behind EMCO's words, and for programs it is the field.
func TestAParameterIsAField(t *testing.T) {
	err := fail.Query("limit", "%q; use a number", "x")
	require.Equal(t, `Invalid query limit: "x"; use a number`, fail.TextOf(err))
	require.Equal(t, []fail.Field{{Path: "limit", Message: `"x"; use a number`}}, fail.FieldsOf(err))
	require.True(t, fail.Is(err, fail.Invalid))
}
