package store

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/drover-io/drover/internal/measure"
)

// monitor measures the commands to the database.
func monitor() *event.CommandMonitor {
	return &event.CommandMonitor{
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			measure.StoreDuration.Record(e.Duration.Seconds(), e.CommandName, measure.Done)
		},
		Failed: func(_ context.Context, e *event.CommandFailedEvent) {
			measure.StoreDuration.Record(e.Duration.Seconds(), e.CommandName, measure.Failed)
		},
	}
}
