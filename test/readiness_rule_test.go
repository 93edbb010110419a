package test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/test/harness"
)

const databaseDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"databases.test.drover.io"},
	"spec":{"group":"test.drover.io","scope":"Namespaced","names":{"kind":"Database","plural":"databases"},"versions":[
	{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

// databases are the objects of a kind of the test's own in a cluster.
type databases struct{ dynamic.ResourceInterface }

func defineDatabases(t *testing.T, c *harness.Cluster) databases {
	t.Helper()
	objects := c.Dynamic(t)
	defined := kubetest.Define(t, objects, []byte(databaseDefinition))
	t.Cleanup(func() { kubetest.Undefine(t, objects, defined) })
	return databases{objects.Resource(defined).Namespace(metav1.NamespaceDefault)}
}

func (d databases) set(ctx context.Context, t *testing.T, name, phase string) {
	t.Helper()
	change, err := json.Marshal(client.M{"status": client.M{"phase": phase}})
	require.NoError(t, err)
	_, err = d.Patch(ctx, name, types.MergePatchType, change, metav1.PatchOptions{}, "status")
	require.NoError(t, err)
}

// TestReadinessRule: a kind of the user's own, judged by a rule of the user's, with an agent and without.
func TestReadinessRule(t *testing.T) {
	ctx, s, clusters := within(t), harness.SharedStack(t), twoClusters(t)
	clusters[1].DefineReports(t)
	clusters[1].StartAgent(t)
	var registered []client.Cluster
	var kinds []databases
	for i, how := range []string{"agentless", "agent"} {
		registered = append(registered, register(ctx, t, s, clusters[i], how))
		kinds = append(kinds, defineDatabases(t, clusters[i]))
	}
	d := s.On(ctx, registered, client.App{Name: "site", Chart: harness.Chart(t, "site", map[string]string{
		"database.yaml": "apiVersion: test.drover.io/v1\nkind: Database\nmetadata: {name: {{ .Release.Name }}-db}\nspec: {size: 3}\n",
	})})
	do(ctx, t, s, d, "approve", "instantiate")
	name := d.Release + "-db"
	// shows waits until both databases are so, with the message.
	shows := func(state, message string) {
		t.Helper()
		reports(ctx, t, s, d, "status=ready&output=detail", func(r *reportedStatus) bool {
			found := r.of("Database")
			for _, x := range found {
				if x.Ready != state || x.Message != message {
					return false
				}
			}
			return len(found) == 2 && r.Ready == state
		})
	}
	shows("Ready", "") // to kstatus what says nothing of itself is ready

	path := "/readiness-rules/database"
	rule := func(ready string) client.M {
		return client.Named("database", client.M{"group": "test.drover.io", "kind": "Database", "ready": ready, "message": `"it is " + string(object.status.phase)`})
	}
	_, err := s.Client.Post(ctx, "/readiness-rules", rule("object.status.phase"))
	require.Equal(t, 400, code(t, err))
	require.ErrorContains(t, err, "spec.ready: is of type dyn, not bool")
	_, err = s.Client.Post(ctx, "/readiness-rules", rule(`object.status.phase == "Up"`))
	require.NoError(t, err)
	shows("NotReady", "rule database: no such key: status")
	for _, k := range kinds {
		k.set(ctx, t, name, "Starting")
	}
	shows("NotReady", "rule database: it is Starting")
	for _, k := range kinds {
		k.set(ctx, t, name, "Up")
	}
	shows("Ready", "")

	_, err = s.Client.Put(ctx, path, rule(`object.spec.size > 3`))
	require.NoError(t, err)
	shows("NotReady", "rule database: it is Up")
	_, err = s.Client.Delete(ctx, path)
	require.NoError(t, err)
	shows("Ready", "")
	do(ctx, t, s, d, "terminate")
	s.Await(ctx, d, "Terminated")
}
