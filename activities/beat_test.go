package activities_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
)

// heedful answers the first question only when a heartbeat was sent meanwhile.
type heedful struct {
	*memory
	beat chan struct{}
	once sync.Once
	err  error
}

func (h *heedful) heed(ctx context.Context) error {
	h.once.Do(func() {
		select {
		case <-h.beat:
		case <-time.After(20 * time.Second):
			h.err = errors.New("nothing was heard of the attempt")
		case <-ctx.Done():
			h.err = ctx.Err()
		}
	})
	return h.err
}

func (h *heedful) Get(ctx context.Context, n *domain.Noun, key domain.Key) (domain.Object, error) {
	if err := h.heed(ctx); err != nil {
		return nil, err
	}
	return h.memory.Get(ctx, n, key)
}

func (h *heedful) Instance(ctx context.Context, contextID string) (*domain.Instance, error) {
	if err := h.heed(ctx); err != nil {
		return nil, err
	}
	return h.memory.Instance(ctx, contextID)
}

func (h *heedful) PutLeaf(ctx context.Context, leaf domain.Leaf) error {
	if err := h.heed(ctx); err != nil {
		return err
	}
	return h.memory.PutLeaf(ctx, leaf)
}

// TestRecordsOfASlowStoreAreHeartbeaten: what records holds its lease by heartbeats, however long the store takes. Without
// them every attempt on a store that is slow for long would lose it, and none would ever come to its write.
func TestRecordsOfASlowStoreAreHeartbeaten(t *testing.T) {
	for name, record := range map[string]func(d *deployment) (function, in any){
		"Record": func(d *deployment) (any, any) { return d.Record, d.instantiate() },
		"RecordStop": func(d *deployment) (any, any) {
			return d.RecordStop, activities.StopInput{Scope: d.scope(domain.OpInstantiate)}
		},
		"RecordLeaf": func(d *deployment) (any, any) {
			return d.RecordLeaf, domain.Leaf{ContextID: "1", App: "app", Cluster: domain.ClusterName{Provider: "p", Name: "a"}, Marks: "2A"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			if name != "Record" {
				require.NoError(t, d.Record(t.Context(), d.instantiate()))
			}
			slow := &heedful{memory: d.store, beat: make(chan struct{}, 1)}
			d.Store = slow
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestActivityEnvironment()
			env.SetTestTimeout(time.Minute)
			env.SetOnActivityHeartbeatListener(func(*activity.Info, converter.EncodedValues) {
				select {
				case slow.beat <- struct{}{}:
				default:
				}
			})
			function, in := record(d)
			env.RegisterActivity(function)
			_, err := env.ExecuteActivity(function, in)
			require.NoError(t, err)
		})
	}
}
