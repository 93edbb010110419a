package store

import (
	"context"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/measure"
)

// CountUnread is what the metric says of what could not be read, by collection.
func (s *Store) CountUnread() map[string]int {
	all := map[string]int{}
	s.unread.say(func(_ *measure.Gauge, n float64, labels ...string) { all[labels[0]] += int(n) })
	return all
}

// SetChunk says how many bytes of a blob are in one document: the local database takes seconds for those of a large one.
func (s *Store) SetChunk(bytes int) { s.chunk = bytes }

// NoteContact notes that a cluster does not answer as a build does that notes no time.
func (s *Store) NoteContact(ctx context.Context, c domain.ClusterName) error {
	_, err := s.insertOnce(ctx, s.contacts(), contact{ID: c.Key(), ClusterName: c})
	return err
}
