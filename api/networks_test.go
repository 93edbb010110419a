package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

const networkBody = `{"metadata":{"name":"net"},"spec":{"cniType":"ovn4nfv","ipv4Subnets":[{"name":"s","subnet":"10.1.0.0/24"}]}}`

// recordCluster puts the networks of a cluster into a state, as an operation does.
func recordCluster(t *testing.T, w *world, key domain.Key, state domain.State) {
	t.Helper()
	o, err := w.store.Get(t.Context(), domain.ClustersNoun, key)
	require.NoError(t, err)
	o.(*domain.Cluster).History.Append(state, "1", 0, now)
	require.NoError(t, w.store.Replace(t.Context(), o))
}

func TestRoutesOfNetworks(t *testing.T) {
	for name, c := range map[string]struct {
		call  call
		err   error
		asked []string
	}{
		"apply":               {call: call{method: "POST", url: theCluster + "/apply", body: `{"metadata":{"name":""}}`, status: 204}, asked: []string{"instantiate c1"}},
		"terminate":           {call: call{method: "POST", url: theCluster + "/terminate", status: 204}, asked: []string{"terminate c1"}},
		"stop":                {call: call{method: "POST", url: theCluster + "/stop", status: 204}, asked: []string{"stop c1"}},
		"refused":             {call: call{method: "POST", url: theCluster + "/stop", status: 409, contains: []string{"no\n"}}, err: fail.New(fail.Conflict, "no"), asked: []string{"stop c1"}},
		"status":              {call: call{method: "GET", url: theCluster + "/status?output=summary", status: 200, is: `{"name":"c1","output":"summary"}`, answers: map[string]string{"Content-Type": "application/json"}}},
		"status refused":      {call: call{method: "GET", url: theCluster + "/status?instance=7", status: 400, contains: []string{"No state information for 7"}}, err: fail.New(fail.Invalid, "No state information for 7")},
		"no approval":         {call: call{method: "POST", url: theCluster + "/approve", status: 404}},
		"wrong method":        {call: call{method: "GET", url: theCluster + "/apply", status: 405}},
		"a cluster cannot be": {call: call{method: "POST", url: theProvider + "/clusters/a%2Fb/apply", status: 404, contains: []string{`"a/b" is not a name`}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.operations.err = c.err
			check(t, w.router, []call{c.call})
			require.Equal(t, c.asked, w.operations.asked)
		})
	}
}

// Every write of a network goes through the state of its cluster, and so does the deletion of the cluster.
func TestWritesOfNetworksByState(t *testing.T) {
	writes := map[string]call{
		"create":  {method: "POST", url: theCluster + "/networks", body: `{"metadata":{"name":"new"},"spec":{"cniType":"ovn4nfv","ipv4Subnets":[{"name":"s","subnet":"10.1.0.0/24"}]}}`, status: 201},
		"replace": {method: "PUT", url: theCluster + "/networks/net", body: networkBody, status: 201},
		"delete":  {method: "DELETE", url: theCluster + "/networks/net", status: 204},
	}
	const creating, deleting = "Existing cluster network intents must be terminated before creating", "Cluster network intents must be terminated before deleting"
	const invalid = "Cluster is in an invalid state"
	type refusal struct {
		status int
		text   string
	}
	w, n := newWorld(t), 0
	post(t, w, call{url: "/v2/cluster-providers", body: `{"metadata":{"name":"p1"}}`})
	for state, refused := range map[domain.State]map[string]refusal{
		domain.Created:            {},
		domain.Terminated:         {},
		domain.Applied:            {"create": {400, creating}, "replace": {400, creating}, "delete": {409, deleting}},
		domain.InstantiateStopped: {"create": {409, invalid}, "replace": {409, invalid}, "delete": {409, deleting}},
		domain.TerminateStopped:   {"create": {409, invalid}, "replace": {409, invalid}},
	} {
		for name, c := range writes {
			t.Run(string(state)+"/"+name, func(t *testing.T) {
				n++
				cluster := fmt.Sprint("c-", n) // one of its own costs a tenth of a world
				at := theProvider + "/clusters/" + cluster
				post(t, w, call{url: theProvider + "/clusters", body: `{"metadata":{"name":"` + cluster + `"}}`, file: []byte(kubeconfig)})
				post(t, w, call{url: at + "/networks", body: networkBody})
				recordCluster(t, w, domain.Key("cluster-providers/p1/clusters/"+cluster), state)
				c.url = strings.Replace(c.url, theCluster, at, 1)
				if r, ok := refused[name]; ok {
					c.status, c.contains = r.status, []string{r.text, `"` + cluster + `" is in state ` + string(state)}
				}
				check(t, w.router, []call{c})
			})
		}
	}
}

func TestDeleteOfAClusterByState(t *testing.T) {
	for name, c := range map[string]struct {
		state   domain.State
		context domain.ContextStatus
		status  int
		text    string
	}{
		"created":                        {state: domain.Created, status: 204},
		"applied":                        {domain.Applied, domain.ContextInstantiated, 409, "Cluster network intents must be terminated before it can be deleted"},
		"stopped":                        {domain.InstantiateStopped, domain.ContextInstantiateFailed, 409, "Cluster network intents must be terminated before it can be deleted"},
		"terminating":                    {domain.Terminated, domain.ContextTerminating, 409, "Network intents for cluster have not completed terminating"},
		"terminated":                     {domain.Terminated, domain.ContextTerminated, 204, ""},
		"a termination that was stopped": {domain.TerminateStopped, domain.ContextTerminateFailed, 204, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			check(t, w.router, []call{
				{method: "POST", url: "/v2/cluster-providers", body: `{"metadata":{"name":"p1"}}`, status: 201},
				{method: "POST", url: theProvider + "/clusters", body: `{"metadata":{"name":"c1"}}`, file: []byte(kubeconfig), status: 201},
			})
			recordCluster(t, w, theClusterKey, c.state)
			w.operations.status, w.operations.forgot = c.context, nil
			check(t, w.router, []call{{method: "DELETE", url: theCluster, status: c.status, contains: []string{c.text}}})
			if c.status == 204 {
				require.Equal(t, []domain.Key{"cluster-providers/p1/clusters/c1"}, w.operations.forgot)
			} else {
				require.Empty(t, w.operations.forgot)
			}
		})
	}
}

func TestNetworksHoldTheirCluster(t *testing.T) {
	w := newWorld(t)
	check(t, w.router, []call{
		{method: "POST", url: "/v2/cluster-providers", body: `{"metadata":{"name":"p1"}}`, status: 201},
		{method: "POST", url: theProvider + "/clusters", body: `{"metadata":{"name":"c1"}}`, file: []byte(kubeconfig), status: 201},
		{method: "GET", url: theCluster + "/networks", status: 200, is: "[]"},
		{method: "GET", url: theCluster + "/provider-networks", status: 200, is: "[]"},
		{method: "POST", url: theCluster + "/networks", body: networkBody, status: 201},
		{method: "DELETE", url: theCluster, status: 409, contains: []string{`cluster "c1" has network "net"`}},
		{method: "DELETE", url: theCluster + "/networks/net", status: 204},

		{name: "every member is known", method: "POST", url: theCluster + "/provider-networks", status: 201, answers: map[string]string{"Warning": ""}, body: `{"metadata":{"name":"net"},"spec":{"cniType":"ovn4nfv",
			"ipv4Subnets":[{"name":"s","subnet":"10.1.0.0/24"}],"providerNetType":"VLAN","vlan":{"vlanID":"1","providerInterfaceName":"eth1","vlanNodeSelector":"any","nodeLabelList":[]}}}`, contains: []string{`"nodeLabelList":[]`}},
		{method: "GET", url: "/openapi.json", status: 200, contains: []string{`"providerNetType":{`, `"vlanNodeSelector":{`}},
		{method: "DELETE", url: theCluster + "/provider-networks/net", status: 204},
		{method: "DELETE", url: theCluster, status: 204},

		{method: "GET", url: theProvider + "/cluster-sync-objects", status: 200, is: "[]"},
		{method: "POST", url: theProvider + "/cluster-sync-objects", body: `{"metadata":{"name":"git"},"spec":{"kv":[{"a":"b"}]}}`, status: 201},
		{method: "GET", url: theProvider + "/cluster-sync-objects/git?key=a", status: 200, is: `{"value":"b"}`},
		{method: "GET", url: theProvider + "/cluster-sync-objects/git?key=none", status: 404, contains: []string{"Cluster sync object key value not found", `"none" is not in "git"`}},
	})
}
