package operations_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/operations"
)

// FuzzParseID: an operation's id that is taken is one operation's, whose id is taken again.
func FuzzParseID(f *testing.F) {
	for _, seed := range []string{"", "a/b/c", "update", theContext + "-rollback", "p/c-a/v1/dig/" + theContext + "/rollback", "1-apply"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		s, err := operations.ParseID(id)
		if err != nil {
			require.True(t, fail.Is(err, fail.NotFound), "%v", err)
			return
		}
		again, err := operations.ParseID(operations.ID(s))
		require.NoError(t, err)
		require.Equal(t, s.ContextID, again.ContextID)
		require.Equal(t, s.Operation, again.Operation)
	})
}

// FuzzParseFilter: whatever is asked for is understood, or refused with the parameter.
func FuzzParseFilter(f *testing.F) {
	for _, seed := range []string{"", "project=p&state=Failed&since=2h", "cluster=p%2Bc1", "owner=/v2/x&kind=apply", "since=-1h", "state=%00", "kind=rollback&kind=apply"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		v, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		if _, err := operations.ParseFilter(v, time.Now()); err != nil {
			require.True(t, fail.Is(err, fail.Invalid), "%v", err)
			require.NotEmpty(t, fail.FieldsOf(err))
		}
	})
}
