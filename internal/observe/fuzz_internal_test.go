package observe

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/bundle"
)

// FuzzReports: whatever a hostile cluster has in place of the agent's reports, their names and its Lease, it is read as a report, or not.
func FuzzReports(f *testing.F) {
	for _, seed := range []string{
		`{"kind":"ResourceBundleState","metadata":{"name":"n","namespace":"d","uid":"u","resourceVersion":"1","labels":{"emco/deployment-id":"c-app"}},` +
			`"status":{"observedKinds":["Pod"],"resourceCount":1,"podStatuses":[{"metadata":{"name":"a"},"status":{"phase":"Running"}}]}}`,
		`{"metadata":{"name":1}}`, `{"metadata":null}`, `null`, `[]`, `{"spec":{"renewTime":"2026-11-23T00:00:00Z"},"metadata":{"namespace":"a"}}`, `{"spec":{"renewTime":"9999999-01-01"}}`,
		`{"status":{"resourceStatuses":[{"group":"apps","version":"v1","kind":"Deployment","name":"d","res":"e30="}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return // what is no JSON does not come this far
		}
		n := newNames(newQueue(0))
		if n.put(data) == nil {
			require.NoError(t, n.put(data))
			require.LessOrEqual(t, len(n.known), 1)
			require.NoError(t, n.remove(data))
			require.Empty(t, n.known)
		}
		l := newLease(time.Minute)
		l.begin()
		_ = l.put(data)
		_, _ = l.silent(time.Now())
		part, err := bundle.Decode(data)
		if err != nil {
			return
		}
		for _, b := range bundle.Join([]*bundle.Part{part}) {
			o := observation(&b)
			require.Len(t, o.Resources, len(b.Objects))
		}
	})
}
