package notify

import (
	"bytes"
	"context"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/status"
)

// Statuses are the statuses of owners, of which there are documents and notifications.
type Statuses interface {
	// Sign is Look.Sign, and Snapshot Look.Snapshot.
	Sign(ctx context.Context, owner domain.Key, e status.Extent) (string, error)
	Snapshot(ctx context.Context, owner domain.Key, e status.Extent) (StatusSnapshot, error)
}

// StatusSnapshot is the Snapshot of a status.
type StatusSnapshot interface {
	// Image is the document of a query.
	Image(q status.Query) (*status.Image, error)
	// Known is what its rows are made of; nil of what has none, as a list of groups.
	Known() *status.Source
}

// Of looks at statuses: at extents that are a status.Extent.
func Of(statuses Statuses) Looks {
	return func(owner domain.Key, e Extent) Look { return &statusLook{statuses, owner, e.(status.Extent)} }
}

// statusLook keeps nothing.
type statusLook struct {
	statuses Statuses
	owner    domain.Key
	extent   status.Extent
}

// Sign implements Look.
func (l *statusLook) Sign(ctx context.Context) (string, error) {
	return l.statuses.Sign(ctx, l.owner, l.extent)
}

// Snapshot implements Look.
func (l *statusLook) Snapshot(ctx context.Context) (Snapshot, error) {
	return l.statuses.Snapshot(ctx, l.owner, l.extent)
}

// Reported implements Look.
func (l *statusLook) Reported() bool { return l.extent.Reported }

// Size implements Look.
func (l *statusLook) Size() int64 { return 0 }

// Close implements Look.
func (l *statusLook) Close() {}

// document is the document of a status query as a question.
type document struct{ status.Query }

// Extent implements Question.
func (d document) Extent() Extent { return d.Query.Extent() }

// Answer implements Question.
func (d document) Answer(_ context.Context, s Snapshot, before Answer) (Answer, error) {
	image, err := s.(StatusSnapshot).Image(d.Query)
	if err != nil || before != nil && bytes.Equal(image.Document(), before.Document()) {
		return nil, err
	}
	return written{image}, nil
}

// written is a document as an answer.
type written struct{ *status.Image }

// Since implements Answer.
func (w written) Since(before Answer) ([]byte, error) {
	return status.Change(before.(written).Image, w.Image)
}
