package api_test

import (
	"encoding/json"
	"strconv"
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

// TestRangesOfClients: EMCO's own example has an address in a range that is not the first one. What is sent comes back.
func TestRangesOfClients(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	body := `{"metadata":{"name":"ranges"},"spec":{"app":"web","appLabel":"app=web","serviceName":"web","namespaces":["np1","np2"],"cidrs":["172.168.21.0/24","10.20.20.0/16"]}}`
	check(t, w.router, []call{
		{method: "POST", url: theInbound + "/clients", body: body, status: 201, contains: []string{`"cidrs":["172.168.21.0/24","10.20.20.0/16"]`}, answers: map[string]string{"Warning": ""}},
		{method: "GET", url: theInbound + "/clients/ranges", status: 200, contains: []string{`"cidrs":["172.168.21.0/24","10.20.20.0/16"]`}},
	})
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
	// The way from outside is there with all that it needs, or not at all.
	const unless = ` unless spec.serviceMesh is istio and spec.externalSupport is true`
	const name, tls, certs = `299 - "spec.externalName: nothing is done with it` + unless + ` and spec.management.sidecarProxy is yes"`,
		`299 - "spec.management.tlsType: nothing is done with it` + unless + ` and spec.management.sidecarProxy is yes"`,
		`299 - "spec.external.externalCerts: nothing is done with it` + unless + ` and spec.management.sidecarProxy is yes"`
	const sidecar = `299 - "spec.management.sidecarProxy: nothing is done for \"yes\"` + unless + `"`
	for i, c := range []struct {
		members string
		want    []string
	}{
		{`"serviceMesh":"istio","externalSupport":true,"externalName":"web.example","management":{"sidecarProxy":"yes","tlsType":"MUTUAL"},"external":{"externalCerts":{"caCertificate":"YQ=="}}`, nil},
		{`"serviceMesh":"istio","externalSupport":true,"externalName":"web.example","management":{"sidecarProxy":"no","tlsType":"MUTUAL"},"external":{"externalCerts":{"caCertificate":"YQ=="}}`, []string{name, tls, certs}},
		{`"serviceMesh":"istio","externalName":"web.example","management":{"sidecarProxy":"yes","tlsType":"SIMPLE"},"external":{"externalCerts":{"serviceCertificate":"YQ=="}}`, []string{sidecar, name, tls, certs}},
		{`"serviceMesh":"none","externalSupport":true,"management":{"tlsType":"NONE"},"external":{"externalCerts":{"servicePrivateKey":"YQ=="}}`, []string{certs}},
		{`"externalSupport":true,"management":{"sidecarProxy":"yes"}`, []string{sidecar}},
		{`"serviceMesh":"istio","management":{"sidecarProxy":"no","tlsType":"NONE"}`, nil},
	} {
		body := `{"metadata":{"name":"outside` + strconv.Itoa(i) + `"},"spec":{"app":"web","appLabel":"app=web","serviceName":"web","port":80,"protocol":"TCP",` + c.members + `}}`
		answer := do(t, w.router, call{method: "POST", url: theTrafficGroup + "/inbound-intents", body: body})
		require.Equal(t, 201, answer.Code, answer.Body)
		require.Equal(t, c.want, answer.Header()["Warning"], c.members)
	}
	check(t, w.router, []call{
		{method: "POST", url: theComposite + "/deployment-intent-groups/none/traffic-group-intents/t/inbound-intents", body: strings.Replace(inbound, "NAME", "x", 1), status: 404, contains: []string{`deployment intent group "none" not found`}},
		{method: "DELETE", url: theComposite + "/apps/web", status: 409, contains: []string{inUse, `app "web" is used by`}},
	})
}
