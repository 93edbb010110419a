package engine_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/engine"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/operations"
)

// TestAPlaceThatIsNoneOfTemporals is the caller's error, whatever Temporal keeps its lists in; what else a list fails at is not.
func TestAPlaceThatIsNoneOfTemporals(t *testing.T) {
	unread := errors.New("invalid character 'p' looking for beginning of value") // of SQL, as gRPC brings it
	for name, c := range map[string]struct {
		err   error
		after string
		kind  fail.Kind
	}{
		"of another list, in Elasticsearch":    {serviceerror.NewInvalidArgument("unable to deserialize page token"), "projects/p", fail.Invalid},
		"of another list, in SQL":              {unread, "projects/p", fail.Invalid},
		"of this list, and nobody knows why":   {unread, `{"RunID":"1"}`, fail.Internal},
		"of another list, and nothing answers": {serviceerror.NewUnavailable("down"), "projects/p", fail.Unavailable},
		"none, and the query is wrong":         {serviceerror.NewInvalidArgument("invalid query"), "", fail.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			for _, f := range []operations.Filter{{}, {Cluster: domain.ClusterName{Provider: "p", Name: "c"}}} {
				_, _, err := engine.New(&describing{lists: c.err}).Executions(t.Context(), f, 10, []byte(c.after))
				require.True(t, fail.Is(err, c.kind), "%v", err)
				if c.kind == fail.Invalid {
					require.Equal(t, "continue", fail.FieldsOf(err)[0].Path)
					require.ErrorIs(t, err, c.err)
				}
			}
		})
	}
}
