package temporal_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/server/api/historyservice/v1"
	"google.golang.org/grpc"

	"github.com/drover-io/drover/deploy/local/temporal"
)

// history is a history service that does what the test says.
type history struct {
	historyservice.HistoryServiceClient
	record func(context.Context) error
}

func (h history) RecordWorkflowTaskStarted(ctx context.Context, _ *historyservice.RecordWorkflowTaskStartedRequest, _ ...grpc.CallOption) (*historyservice.RecordWorkflowTaskStartedResponse, error) {
	return nil, h.record(ctx)
}

func (h history) RecordActivityTaskStarted(ctx context.Context, _ *historyservice.RecordActivityTaskStartedRequest, _ ...grpc.CallOption) (*historyservice.RecordActivityTaskStartedResponse, error) {
	return nil, h.record(ctx)
}

func TestTheStartOfATaskHasTime(t *testing.T) {
	for name, call := range map[string]func(context.Context, historyservice.HistoryServiceClient) error{
		"of a workflow": func(ctx context.Context, c historyservice.HistoryServiceClient) error {
			_, err := c.RecordWorkflowTaskStarted(ctx, nil)
			return err
		},
		"of an activity": func(ctx context.Context, c historyservice.HistoryServiceClient) error {
			_, err := c.RecordActivityTaskStarted(ctx, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := temporal.Patient(history{record: func(ctx context.Context) error {
				if until, ok := ctx.Deadline(); !ok || time.Until(until) < 2*time.Second {
					t.Errorf("it has until %s", until)
				}
				return ctx.Err()
			}})
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := call(short, c); err != nil {
				t.Error(err)
			}

			nobody, leave := context.WithCancel(t.Context())
			c = temporal.Patient(history{record: func(ctx context.Context) error {
				leave() // who waits for the task goes
				<-ctx.Done()
				return ctx.Err()
			}})
			if err := call(nobody, c); err == nil {
				t.Error("it goes on although nobody waits for the task")
			}
		})
	}
}

// TestADatabaseThatIsBusyForAMoment loses no task that a worker is to have: none is waited for until it has timed out.
func TestADatabaseThatIsBusyForAMoment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "temporal.db")
	c := dial(t, start(t, temporal.Config{DBFile: file}))
	t.Cleanup(work(t, c))
	var all sync.WaitGroup
	var done atomic.Int32
	stop := make(chan struct{})
	for range 8 {
		all.Go(func() {
			for goesOn := true; goesOn; {
				select {
				case <-stop:
					goesOn = false // one more, which began while the database was busy or after it
				default:
				}
				run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
					TaskQueue: taskQueue, WorkflowTaskTimeout: time.Minute, // no worker needs so long
				}, One)
				if err == nil {
					err = run.Get(t.Context(), nil)
				}
				if err != nil {
					t.Error(err)
					return
				}
				for events := c.GetWorkflowHistory(t.Context(), run.GetID(), run.GetRunID(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
					event, err := events.Next()
					if err != nil {
						t.Error(err)
						return
					}
					// That one waits for long for its worker, which is the other timeout, a busy machine does by itself.
					if event.GetWorkflowTaskTimedOutEventAttributes().GetTimeoutType() == enumspb.TIMEOUT_TYPE_START_TO_CLOSE {
						t.Errorf("%s: %v", run.GetID(), event)
					}
				}
				done.Add(1)
			}
		})
	}
	for round := range int32(6) {
		eventually(t, "workflows end", func() error {
			if done.Load() < 20*round {
				return errors.New("too few have ended")
			}
			return nil
		})
		release := temporal.Hold(t, file)
		<-time.After(1500 * time.Millisecond) // more than the server's own second
		release()
	}
	close(stop)
	all.Wait()
}
