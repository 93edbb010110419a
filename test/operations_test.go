package test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/operations"
	"github.com/drover-io/drover/test/harness"
)

// TestOperations: what is asked of a group is found in the list of operations and in its history, with who asked for it.
func TestOperations(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	c := &changing{t: t, s: s, clusters: twoClusters(t)}
	c.Deployment = s.Deployment(ctx, c.clusters[:1], client.App{Name: "web", Chart: says(t, "web", "a=1")})
	as := func(user string, op domain.Operation, body string) {
		t.Helper()
		s.Send(ctx, http.MethodPost, s.At(c.Key())+"/"+string(op), map[string]string{"X-Forwarded-User": user}, body)
	}
	of := func(pairs ...string) url.Values {
		filter := url.Values{"owner": {"/v2" + client.At(c.Key())}}
		for i := 0; i < len(pairs); i += 2 {
			filter.Set(pairs[i], pairs[i+1])
		}
		return filter
	}
	list := func(filter url.Values) (all []operations.Operation) {
		t.Helper()
		for o, err := range c.API.Operations(ctx, filter) {
			require.NoError(t, err)
			all = append(all, o)
		}
		return all
	}
	as("alice", "instantiate", "") // refused before there is an operation: not approved
	as("alice", "approve", "")
	as("alice", "instantiate", "")
	s.Await(ctx, c.Deployment, "Instantiated")
	c.chart(ctx, "web", "a=2")
	as("bob", "update", "")
	s.Await(ctx, c.Deployment, "Instantiated")
	as("carol", "rollback", `{"spec":{"revision":"1"}}`)
	s.Await(ctx, c.Deployment, "Instantiated")
	c.clusters[0].Down()
	as("dave", "terminate", "")

	// Temporal's visibility may be a moment late, and a run ends a moment after its operation.
	var all []operations.Operation
	harness.Until(ctx, t, "four operations, one of which goes on", func() bool {
		all = list(of())
		return len(all) == 4 && all[0].State == operations.Running &&
			!slices.ContainsFunc(all[1:], func(o operations.Operation) bool { return o.Ended == nil || o.Workflow.Status == explain.Running })
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
	there := url.Values{"cluster": {c.Clusters[0].String()}, "project": {c.Project}}
	harness.Until(ctx, t, "all of them had something to do there", func() bool { return len(list(there)) == 4 })
	require.Equal(t, all, list(there))
	require.Empty(t, list(url.Values{"cluster": {c.Clusters[0].Provider + "+none"}}))
	require.Equal(t, all[:1], list(of("state", "Running")))
	require.Equal(t, all[1:2], list(of("kind", "rollback")))
	require.Equal(t, all[:1], list(of("since", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))), "what goes on has not ended before")
	require.Equal(t, all[2:3], list(of("state", "Succeeded", "kind", "update", "limit", "1")))

	one, err := c.API.Operation(ctx, all[2].ID)
	require.NoError(t, err)
	require.Equal(t, map[domain.ResourceState]int{domain.ResourceApplied: 1}, one.Counts)
	one.Counts = nil // a list has none
	require.Equal(t, all[2], *one)
	one, err = c.API.Operation(ctx, all[0].ID)
	require.NoError(t, err)
	require.NotEmpty(t, one.Counts)

	document, err := c.Summary(ctx)
	require.NoError(t, err)
	var history []string
	for _, a := range document.States.Actions {
		history = append(history, strings.TrimSpace(string(a.State)+" "+a.Operation+" "+a.RequestedBy))
	}
	require.Equal(t, []string{
		"Created", "Approved  alice", "Instantiated  alice", "Updated update bob", "Instantiated update bob",
		"Updated rollback to 1 carol", "Instantiated rollback to 1 carol", "Terminated  dave",
	}, history)
	as("erin", "stop", "")
	harness.Until(ctx, t, "stopped", func() bool {
		found := list(of("state", "Stopped"))
		return len(found) == 1 && found[0].Operation == "terminate"
	})
	document, err = c.Summary(ctx)
	require.NoError(t, err)
	last := document.States.Last()
	require.Equal(t, domain.TerminateStopped, last.State)
	require.Equal(t, all[0].Instance, last.ContextID)
	require.Equal(t, "erin", last.RequestedBy)
	c.clusters[0].Up(t)
}
