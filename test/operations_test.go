package test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/operations"
	"github.com/drover-io/drover/test/harness"
)

// TestOperations: what is asked of a group is found in the list of operations and in its history, with who asked for it.
func TestOperations(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	c := &changing{t: t, s: s, clusters: twoClusters(t)}
	c.Deployment = s.Deployment(ctx, c.clusters[:1], client.App{Name: "web", Chart: says(t, "web", "a=1")})
	as := func(user, method, path, body string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, method, s.URL()+"/v2"+path, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("X-Forwarded-User", user)
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return string(text)
	}
	list := func(query string) []operations.Operation {
		t.Helper()
		var l operations.List
		require.NoError(t, json.Unmarshal([]byte(as("", http.MethodGet, "/operations?"+query, "")), &l))
		return l.Items
	}
	as("alice", http.MethodPost, c.Path()+"/instantiate", "") // refused before there is an operation: not approved
	as("alice", http.MethodPost, c.Path()+"/approve", "")
	as("alice", http.MethodPost, c.Path()+"/instantiate", "")
	s.Await(ctx, c.Deployment, "Instantiated")
	c.chart(ctx, "web", "a=2")
	as("bob", http.MethodPost, c.Path()+"/update", "")
	s.Await(ctx, c.Deployment, "Instantiated")
	as("carol", http.MethodPost, c.Path()+"/rollback", `{"spec":{"revision":"1"}}`)
	s.Await(ctx, c.Deployment, "Instantiated")
	c.clusters[0].Down()
	as("dave", http.MethodPost, c.Path()+"/terminate", "")

	// Temporal's visibility may be a moment late.
	owner := "owner=/v2" + c.Path()
	var all []operations.Operation
	harness.Until(ctx, t, "four operations, one of which goes on", func() bool {
		all = list(owner)
		return len(all) == 4 && all[0].State == operations.Running && all[1].Ended != nil
	})
	type told struct {
		operation, detail, by string
		state                 operations.State
	}
	var got []told
	for _, o := range all {
		got = append(got, told{o.Operation, o.Detail, o.By, o.State})
	}
	require.Equal(t, []told{
		{"terminate", "", "dave", operations.Running},
		{"rollback", "rollback to 1", "carol", operations.Succeeded},
		{"update", "update", "bob", operations.Succeeded},
		{"instantiate", "", "alice", operations.Succeeded},
	}, got)
	cluster := "cluster=" + c.Clusters[0].Provider + "%2B" + c.Clusters[0].Name
	harness.Until(ctx, t, "all of them had something to do there", func() bool { return len(list(cluster+"&project="+c.Project)) == 4 })
	require.Equal(t, all, list(cluster+"&project="+c.Project))
	require.Empty(t, list("cluster="+c.Clusters[0].Provider+"%2Bnone"))
	require.Equal(t, all[:1], list(owner+"&state=Running"))
	require.Equal(t, all[1:2], list(owner+"&kind=rollback"))
	require.Equal(t, all[:1], list(owner+"&since="+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)), "what goes on has not ended before")
	require.Equal(t, all[2:3], list(owner+"&state=Succeeded&kind=update&limit=1"))

	var one operations.Operation
	require.NoError(t, json.Unmarshal([]byte(as("", http.MethodGet, "/operations/"+all[2].ID, "")), &one))
	require.Equal(t, map[domain.ResourceState]int{domain.ResourceApplied: 1}, one.Counts)
	one.Counts = nil // a list has none
	require.Equal(t, all[2], one)
	require.NoError(t, json.Unmarshal([]byte(as("", http.MethodGet, "/operations/"+all[0].ID, "")), &one))
	require.NotEmpty(t, one.Counts)

	var document struct {
		States struct {
			Actions []struct{ State, Operation, RequestedBy string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(as("", http.MethodGet, c.Path()+"/status?status=deployed&output=summary", "")), &document))
	var history []string
	for _, a := range document.States.Actions {
		history = append(history, strings.TrimSpace(a.State+" "+a.Operation+" "+a.RequestedBy))
	}
	require.Equal(t, []string{
		"Created", "Approved  alice", "Instantiated  alice", "Updated update bob", "Instantiated update bob",
		"Updated rollback to 1 carol", "Instantiated rollback to 1 carol", "Terminated  dave",
	}, history)
	as("erin", http.MethodPost, c.Path()+"/stop", "")
	harness.Until(ctx, t, "stopped", func() bool {
		found := list(owner + "&state=Stopped")
		return len(found) == 1 && found[0].Operation == "terminate"
	})
	require.Contains(t, as("", http.MethodGet, c.Path()+"/status?status=deployed&output=summary", ""), `"state":"TerminateStopped","instance":"`+all[0].Instance)
	require.Contains(t, as("", http.MethodGet, c.Path()+"/status?status=deployed&output=summary", ""), `"requestedBy":"erin"`)
	c.clusters[0].Up(t)
}
