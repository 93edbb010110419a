package store

import (
	"context"
	"sync"

	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/span"
)

// monitor measures the commands to the database, and has spans of those that are done for a request or an attempt: with the name of
// the command and of its collection, and nothing of what is asked for or written.
func monitor() *event.CommandMonitor {
	var spans sync.Map // what ends the span of a command, by its id
	end := func(e *event.CommandFinishedEvent, outcome string) {
		measure.StoreDuration.Record(e.Duration.Seconds(), e.CommandName, outcome)
		if !span.On() {
			return
		}
		if end, ok := spans.LoadAndDelete(commandID{e.ConnectionID, e.RequestID}); ok {
			end.(func(string, bool))(outcome, outcome != measure.Done)
		}
	}
	return &event.CommandMonitor{
		Started: func(ctx context.Context, e *event.CommandStartedEvent) {
			if !span.Allowed(ctx) {
				return
			}
			collection, _ := e.Command.Lookup(e.CommandName).StringValueOK()
			_, end := span.Begin(ctx, "store "+e.CommandName, span.Client,
				span.String("db.operation.name", e.CommandName), span.String("db.collection.name", collection))
			spans.Store(commandID{e.ConnectionID, e.RequestID}, end)
		},
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) { end(&e.CommandFinishedEvent, measure.Done) },
		Failed:    func(_ context.Context, e *event.CommandFailedEvent) { end(&e.CommandFinishedEvent, measure.Failed) },
	}
}

// serverMonitor counts looks at the database that fail: while it is away no command is sent, and none could be seen to fail.
func serverMonitor() *event.ServerMonitor {
	return &event.ServerMonitor{ServerHeartbeatFailed: func(e *event.ServerHeartbeatFailedEvent) {
		measure.StoreDuration.Record(e.Duration.Seconds(), "hello", measure.Failed)
	}}
}

// commandID names a command that goes on.
type commandID struct {
	connection string
	request    int64
}
