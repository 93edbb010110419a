package audit_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/fail"
)

// FuzzParseFilter: whatever is asked for within a project stays in it, or is refused.
func FuzzParseFilter(f *testing.F) {
	for _, seed := range []string{"", "who=user+alice&from=24h", "project=p", "project=q", "resource=/projects/p/x", "resource=projects/pp", "from=x", "to=2026-11-21T05:29:07Z&from=1h"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		v, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		const project = "projects/p"
		filter, err := audit.ParseFilter(v, project, time.Now())
		if err != nil {
			require.True(t, fail.Is(err, fail.Invalid), "%v", err)
			return
		}
		for _, other := range []string{"projects/q", "projects/pp", "projects/q/x", "", "service-accounts/admin"} {
			require.False(t, filter.Matches(&audit.Record{Key: other}), "%q by %q", other, query)
		}
	})
}
