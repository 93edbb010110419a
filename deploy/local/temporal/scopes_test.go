package temporal_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/drover-io/drover/deploy/local/temporal"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/workflows"
)

// TestOperationsAreFoundByTheirScopes: Temporal takes the queries, and they select what lies in the scopes and nothing else.
func TestOperationsAreFoundByTheirScopes(t *testing.T) {
	attributes := map[string]enumspb.IndexedValueType{}
	for _, name := range workflows.SearchAttributes() {
		attributes[name] = keyword
	}
	c := dial(t, start(t, temporal.Config{SearchAttributes: attributes}))
	owners := []domain.Key{
		"projects/p/logical-clouds/lc", "projects/q/composite-apps/ca/v1/deployment-intent-groups/g", "cluster-providers/x/clusters/c", "cluster-providers/xy/clusters/c",
	}
	for i, owner := range owners {
		s := domain.Scope{Owner: owner, ContextID: string(rune('1' + i)), Operation: domain.OpInstantiate}
		if _, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
			ID: workflows.OperationID(s), TaskQueue: taskQueue, TypedSearchAttributes: workflows.OperationAttributes(s),
		}, workflows.InstantiateName); err != nil {
			t.Fatal(err)
		}
	}
	list := func(within ...domain.Key) (found []domain.Key) {
		r, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: workflows.OperationsQuery(workflows.Wanted{Within: within})})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range r.GetExecutions() {
			for _, owner := range owners {
				if workflows.OperationID(domain.Scope{Owner: owner, ContextID: string(rune('1' + slices.Index(owners, owner))), Operation: domain.OpInstantiate}) == x.GetExecution().GetWorkflowId() {
					found = append(found, owner)
				}
			}
		}
		slices.SortFunc(found, func(a, b domain.Key) int { return cmp.Compare(slices.Index(owners, a), slices.Index(owners, b)) })
		return found
	}
	for deadline := time.Now().Add(time.Minute); len(list()) < len(owners); {
		if time.Now().After(deadline) {
			t.Fatal("Temporal does not list what was started")
		}
	}
	for _, one := range []struct{ within, want []domain.Key }{
		{[]domain.Key{"projects/p"}, owners[:1]},
		{[]domain.Key{"projects/p", "projects/q"}, owners[:2]},
		{[]domain.Key{"projects/none"}, nil},
		{[]domain.Key{"projects"}, owners[:2]},
		{[]domain.Key{"cluster-providers"}, owners[2:]},
		{[]domain.Key{"cluster-providers/x"}, owners[2:3]},
		{[]domain.Key{"cluster-providers/x", "projects/q"}, owners[1:3]},
	} {
		if found := list(one.within...); !slices.Equal(found, one.want) {
			t.Errorf("within %v: %v, want %v", one.within, found, one.want)
		}
	}
}
