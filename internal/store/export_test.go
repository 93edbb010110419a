package store

import "github.com/drover-io/drover/internal/measure"

// CountUnread is what the metric says of what could not be read, by collection.
func (s *Store) CountUnread() map[string]int {
	all := map[string]int{}
	s.unread.say(func(_ *measure.Gauge, n float64, labels ...string) { all[labels[0]] += int(n) })
	return all
}

// SetChunk says how many bytes of a blob are in one document: the local database takes seconds for those of a large one.
func (s *Store) SetChunk(bytes int) { s.chunk = bytes }
