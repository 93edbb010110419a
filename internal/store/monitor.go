package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

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

// serverMonitor counts looks at the database that fail: while it is away no command is sent, and none could be seen to fail. One
// member of several that does not answer is not that: as long as one is known that takes commands, nothing is counted. When none is, those
// that do answer, such as the secondaries of a set that elects no primary, have failed, too.
func serverMonitor() *event.ServerMonitor {
	var there atomic.Bool
	return &event.ServerMonitor{
		TopologyDescriptionChanged: func(e *event.TopologyDescriptionChangedEvent) {
			there.Store(slices.ContainsFunc(e.NewDescription.Servers, takesCommands))
		},
		ServerHeartbeatFailed: func(e *event.ServerHeartbeatFailedEvent) {
			if !there.Load() && !errors.Is(e.Failure, context.Canceled) {
				measure.StoreDuration.Record(e.Duration.Seconds(), "hello", measure.Failed)
			}
		},
		ServerHeartbeatSucceeded: func(e *event.ServerHeartbeatSucceededEvent) {
			if there.Load() || takesCommands(e.Reply) {
				return
			}
			took := e.Duration
			if e.Awaited { // it was to be answered when there is something to say
				took = 0
			}
			measure.StoreDuration.Record(took.Seconds(), "hello", measure.Failed)
		},
	}
}

// takesCommands is whether a member is known to take what Drover asks and writes. A secondary does not: all goes to the primary.
func takesCommands(member event.ServerDescription) bool {
	return slices.Contains([]string{"Standalone", "RSPrimary", "Mongos", "LoadBalancer"}, member.Kind)
}

// commandID names a command that goes on.
type commandID struct {
	connection string
	request    int64
}
