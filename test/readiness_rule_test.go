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
	"github.com/drover-io/drover/internal/domain"
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
	change, err := json.Marshal(map[string]any{"status": map[string]any{"phase": phase}})
	require.NoError(t, err)
	_, err = d.Patch(ctx, name, types.MergePatchType, change, metav1.PatchOptions{}, "status")
	require.NoError(t, err)
}

// readinessRule: a kind of the user's own, judged by a rule of the user's, with an agent and without.
func readinessRule(t *testing.T) {
	ctx, s, clusters := within(t), harness.SharedStack(t), clustersOfAgents(t)
	clusters[1].DefineReports(t)
	clusters[1].StartAgent(t)
	var registered []domain.ClusterName
	var kinds []databases
	for i, how := range []domain.Report{domain.ReportAgentless, domain.ReportAgent} {
		registered = append(registered, register(ctx, t, s, clusters[i], how))
		kinds = append(kinds, defineDatabases(t, clusters[i]))
	}
	d := s.On(ctx, registered, client.App{Name: "site", Chart: harness.Chart(t, "site", map[string]string{
		"database.yaml": "apiVersion: test.drover.io/v1\nkind: Database\nmetadata: {name: {{ .Release.Name }}-db}\nspec: {size: 3}\n",
	})})
	do(ctx, t, d, "approve", "instantiate")
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

	api := s.Client.API()
	rule := func(ready string) *domain.ReadinessRule {
		return &domain.ReadinessRule{Metadata: domain.Metadata{Name: "database"}, Spec: domain.ReadinessRuleSpec{
			Group: "test.drover.io", Kind: "Database", Ready: ready, Message: `"it is " + string(object.status.phase)`,
		}}
	}
	_, err := api.Create(ctx, rule("object.status.phase"), nil)
	require.Equal(t, 400, code(t, err))
	require.ErrorContains(t, err, "spec.ready: is of type dyn, not bool")
	_, err = api.Create(ctx, rule(`object.status.phase == "Up"`), nil)
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

	_, err = api.Put(ctx, rule(`object.spec.size > 3`), nil)
	require.NoError(t, err)
	shows("NotReady", "rule database: it is Up")
	require.NoError(t, api.Delete(ctx, domain.KeyOf(rule(""))))
	shows("Ready", "")
	do(ctx, t, d, "terminate")
	s.Await(ctx, d, "Terminated")
}
