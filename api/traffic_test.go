package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// TestPrivateKeysOfInboundIntents: a private key is stored sealed, and no answer has it.
func TestPrivateKeysOfInboundIntents(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	const plain, other = "cHJpdmF0ZQ==", "b3RoZXI="
	body := func(key string) string {
		return `{"metadata":{"name":"keys"},"spec":{"app":"web","appLabel":"app=web","serviceName":"web","port":80,"protocol":"TCP","external":{"externalCerts":{"servicePrivateKey":"` + key + `"}}}}`
	}
	path, one := theTrafficGroup+"/inbound-intents", theTrafficGroup+"/inbound-intents/keys"
	masked, none := []string{`"servicePrivateKey":"********"`}, []string{`"servicePrivateKey":""`}
	secrets := []string{plain, other}
	stored := func() *domain.InboundServerIntent {
		o, err := w.store.Get(t.Context(), domain.InboundServerIntents, domain.Key(strings.TrimPrefix(one, "/v2/")))
		require.NoError(t, err)
		text, err := json.Marshal(o)
		require.NoError(t, err)
		require.NotContains(t, string(text), plain)
		return o.(*domain.InboundServerIntent)
	}
	check(t, w.router, []call{
		{name: "a mask stands for nothing", method: "POST", url: path, body: body("********"), status: 400, contains: []string{"spec.external.externalCerts.servicePrivateKey"}},
		{name: "not stored half", method: "GET", url: one, status: 404},
		{name: "create", method: "POST", url: path, body: body(plain), status: 201, contains: masked, lacks: secrets},
		{name: "get", method: "GET", url: one, status: 200, contains: masked, lacks: secrets},
		{name: "list", method: "GET", url: path, status: 200, contains: masked, lacks: secrets},
	})
	first := stored().PrivateKey
	require.NotContains(t, string(first.Data), "private")
	check(t, w.router, []call{{name: "the mask leaves it", method: "PUT", url: one, body: body("********"), status: 201, contains: masked, lacks: secrets}})
	require.Equal(t, first, stored().PrivateKey)
	check(t, w.router, []call{{name: "the same", method: "PUT", url: one, body: body(plain), status: 201, contains: masked, lacks: secrets}})
	require.Equal(t, first, stored().PrivateKey, "what is sealed anew would be another key to be applied")
	check(t, w.router, []call{{name: "another", method: "PUT", url: one, body: body(other), status: 201, contains: masked, lacks: secrets}})
	require.NotEqual(t, first, stored().PrivateKey)
	check(t, w.router, []call{{name: "none", method: "PUT", url: one, body: body(""), status: 201, contains: none}})
	require.Empty(t, stored().PrivateKey)
}

// TestTrafficGroupsWarnOfWhatIsNotActedOn: and a group that is not there is said, whatever else is missing.
func TestTrafficGroupsWarnOfWhatIsNotActedOn(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	inbound := `{"metadata":{"name":"NAME"},"spec":{"app":"later","appLabel":"app=web","serviceName":"web","port":80,"protocol":"TCP","serviceMesh":"linkerd","edgeCNF":"sdewan"}}`
	answer := do(t, w.router, call{method: "POST", url: theTrafficGroup + "/inbound-intents", body: strings.Replace(inbound, "NAME", "odd", 1)})
	require.Equal(t, 201, answer.Code, answer.Body)
	require.Equal(t, []string{
		`299 - "spec.serviceMesh: nothing is done for \"linkerd\"; use istio or none"`,
		`299 - "spec.edgeCNF: nothing is done for \"sdewan\""`,
		`299 - "spec.app: composite app \"ca/v1\" has no app \"later\" now"`,
	}, answer.Header()["Warning"])
	check(t, w.router, []call{
		{method: "POST", url: theComposite + "/deployment-intent-groups/none/traffic-group-intents/t/inbound-intents", body: strings.Replace(inbound, "NAME", "x", 1), status: 404, contains: []string{`deployment intent group "none" not found`}},
		{method: "DELETE", url: theComposite + "/apps/web", status: 409, contains: []string{inUse, `app "web" is used by`}},
	})
}
