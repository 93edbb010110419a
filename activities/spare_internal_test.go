package activities

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

// TestANamespaceThatWasThereSaysWhatItDoesNotEnforce: it gets no label, so that Pods may be there which those of other clouds refuse.
func TestANamespaceThatWasThereSaysWhatItDoesNotEnforce(t *testing.T) {
	const there = "the namespace was there before the logical cloud: it is left as it is, and stays"
	namespace := func(enforces string) json.RawMessage {
		if enforces == "" {
			return json.RawMessage(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}`)
		}
		return json.RawMessage(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n","labels":{"` + domain.PodSecurityEnforce + `":"` + enforces + `"}}}`)
	}
	for name, c := range map[string]struct{ least, has, says string }{
		"nothing is asked for": {"", "", there},
		"it says nothing":      {"baseline", "", there + "; it does not say that it enforces Pod Security baseline"},
		"it says less":         {"restricted", "baseline", there + "; it does not say that it enforces Pod Security restricted"},
		"it says as much":      {"baseline", "restricted", there},
		"nothing is enforced":  {"privileged", "", there},
	} {
		t.Run(name, func(t *testing.T) {
			a := &attempt{resources: []plan.Resource{{ResourceID: plan.ResourceID{Kind: "Namespace", Name: "n"}, Manifest: namespace(c.least)}}}
			a.in.Owner, a.in.ContextID = "projects/p/logical-clouds/c", "1"
			why, err := a.sparedAs(0, namespace(c.has))
			require.NoError(t, err)
			require.Equal(t, c.says, why)
		})
	}
}
