package api_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestForms(t *testing.T) {
	w := newRealWorld(t)
	furnish(t, w)
	explain := theGroup + "/explain"
	const json, text = "application/json", "text/plain; charset=UTF-8"
	accept := func(media string) map[string]string { return map[string]string{"Accept": media} }
	is := func(media string) map[string]string { return map[string]string{"Content-Type": media} }
	check(t, w.router, []call{
		{name: "no Accept", method: "GET", url: explain, status: 200, contains: []string{`"asWished":false`, `"kind":"NotAsked"`}, answers: is(json)},
		{name: "anything", method: "GET", url: explain, header: accept("*/*"), status: 200, answers: is(json)},
		{name: "text", method: "GET", url: explain, header: accept("text/plain"), status: 200, contains: []string{"deployment intent group dig: nothing is deployed: nobody has approved it"}, answers: is(text)},
		{name: "text rather than JSON", method: "GET", url: explain, header: accept("application/json;q=0.5, text/*"), status: 200, answers: is(text)},
		{name: "a picture", method: "GET", url: explain, header: accept("image/png"), status: 406},
		{name: "text whatever is accepted", method: "GET", url: explain + "?output=text", header: accept("image/png"), status: 200, answers: is(text)},
		{name: "JSON whatever is accepted", method: "GET", url: explain + "?output=json", header: accept("text/plain"), status: 200, answers: is(json)},
		{name: "of none", method: "GET", url: theComposite + "/deployment-intent-groups/none/explain", status: 404, contains: []string{`"none"`}},
	})
}

func TestWhoAsksIsPassedOn(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	for name, c := range map[string]struct{ header, want string }{
		"nobody": {"", ""}, "alice": {"alice", "alice"}, "too long to be a name": {strings.Repeat("x", 200), ""},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, w.router, []call{{method: "POST", url: theGroup + "/instantiate", header: map[string]string{"X-Forwarded-User": c.header}, status: 202}})
			require.Equal(t, c.want, w.operations.caller)
		})
	}
}

// TestClusterView: a cluster says what runs there where it is asked to; its status is EMCO's document of its networks.
func TestClusterView(t *testing.T) {
	w := newRealWorld(t)
	furnish(t, w)
	check(t, w.router, []call{
		{name: "EMCO's document", method: "GET", url: theCluster + "/status", status: 200, contains: []string{`"name":"p1+c1"`, `"cluster":{}`}, lacks: []string{"connectivity", "deployments"}},
		{name: "what runs there", method: "GET", url: theCluster + "/status?view=full", status: 200, contains: []string{`"name":"p1+c1"`, `"report":"auto"`, `"connectivity":"Available"`, `"tried":{"at":`, `"deployments":[`}},
		{name: "explained", method: "GET", url: theCluster + "/explain", status: 200, contains: []string{`"cluster":{"name":"p1+c1"`, `"summary"`}},
		{name: "as text", method: "GET", url: theCluster + "/explain?output=text", status: 200, contains: []string{"cluster c1: ", "connectivity Available; report auto"}},
		{name: "another view", method: "GET", url: theCluster + "/status?view=half", status: 400, contains: []string{`Invalid query view: "half"; use full`}},
		{name: "a view that changes", method: "GET", url: theCluster + "/status?view=full&watch=true", status: 400, contains: []string{"view=full cannot be watched"}},
		{name: "of none", method: "GET", url: theProvider + "/clusters/none/status?view=full", status: 404, contains: []string{`"none"`}},
	})
}
