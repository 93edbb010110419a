package store

import (
	"context"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// Workloads are those of a tenant, sorted by id.
func (s *Store) Workloads(ctx context.Context, tenant string) ([]*domain.Workload, error) {
	found, _, err := s.WorkloadsAt(ctx, tenant)
	return found, err
}

// WorkloadsAt is Workloads with a number that is another one as soon as one of them is.
func (s *Store) WorkloadsAt(ctx context.Context, tenant string) (found []*domain.Workload, version int64, err error) {
	var values [][]byte
	err = s.workloads.read(ctx, tenant, func(b *book) {
		version = b.seq
		for _, id := range slices.Sorted(maps.Keys(b.values)) {
			values = append(values, b.values[id])
		}
	})
	if err == nil {
		found, err = decodeAll[domain.Workload](values)
	}
	return found, version, err
}

// WorkloadsByID are those of a tenant with the ids that are there, in that order, with the number of WorkloadsAt.
func (s *Store) WorkloadsByID(ctx context.Context, tenant string, ids []string) (found []*domain.Workload, version int64, err error) {
	var values [][]byte
	err = s.workloads.read(ctx, tenant, func(b *book) { values, version = b.some(ids), b.seq })
	if err == nil {
		found, err = decodeAll[domain.Workload](values)
	}
	return found, version, err
}

// KnownWorkloads is WorkloadsByID as this process knows them: with all that it has written, but perhaps not with what others
// have written since. It asks the database for nothing, unless this process knows nothing of the tenant yet.
func (s *Store) KnownWorkloads(ctx context.Context, tenant string, ids []string) (found []*domain.Workload, version int64, err error) {
	var values [][]byte
	err = s.workloads.known(ctx, tenant, func(b *book) { values, version = b.some(ids), b.seq })
	if err == nil {
		found, err = decodeAll[domain.Workload](values)
	}
	return found, version, err
}

// Workload reads one. NotFound names it.
func (s *Store) Workload(ctx context.Context, tenant, id string) (*domain.Workload, error) {
	found, _, err := s.WorkloadsByID(ctx, tenant, []string{id})
	if err == nil && len(found) == 0 {
		return nil, fail.New(fail.NotFound, "workload %q of tenant %q not found", id, tenant)
	}
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// WorkloadsVersion is the number of WorkloadsAt.
func (s *Store) WorkloadsVersion(ctx context.Context, tenant string) (version int64, err error) {
	err = s.workloads.read(ctx, tenant, func(b *book) { version = b.seq })
	return version, err
}

// CountWorkloads is how many workloads a tenant has, and how many bytes.
func (s *Store) CountWorkloads(ctx context.Context, tenant string) (count int, bytes int64, err error) {
	err = s.workloads.read(ctx, tenant, func(b *book) { count, bytes = len(b.values), b.bytes })
	return count, bytes, err
}

// LookBytes is how many bytes the workloads of a tenant and their matches have, as this process knows them (KnownWorkloads).
func (s *Store) LookBytes(ctx context.Context, tenant string) (bytes int64, err error) {
	for _, of := range []*ledgers{s.workloads, s.matches} {
		if err := of.known(ctx, tenant, func(b *book) { bytes += b.bytes }); err != nil {
			return 0, err
		}
	}
	return bytes, nil
}

// WriteWorkloads changes the workloads of a tenant, all at once. Aborted when another stream has begun since the one that says
// it.
func (s *Store) WriteWorkloads(ctx context.Context, tenant string, w *domain.WorkloadWrite) (written domain.WorkloadsWritten, err error) {
	encoded := make([]put, 0, len(w.Put))
	for _, one := range w.Put {
		value, err := encodeValue(one)
		if err != nil {
			return written, err
		}
		encoded = append(encoded, put{one.ID, value})
	}
	err = s.workloads.change(ctx, tenant, func(b *book) (edit, error) {
		if b.begun != w.Begun {
			return edit{}, fail.New(fail.Aborted, "a newer stream of tenant %q has taken the place of this one", tenant)
		}
		var puts []put
		var err error
		puts, written, err = decide(w, b, encoded)
		return edit{puts: puts}, err
	})
	return written, err
}

// isGone says whether an encoded workload has a time in Gone.
func isGone(value []byte) bool {
	_, err := bson.Raw(value).LookupErr("gone")
	return err == nil
}

// isHeld says whether an encoded workload is Held.
func isHeld(value []byte) bool {
	held, _ := bson.Raw(value).Lookup("held").BooleanOK()
	return held
}

// RemoveHeld removes the workloads of a tenant whose deletion is held, whoever has a stream, and returns their ids, sorted.
func (s *Store) RemoveHeld(ctx context.Context, tenant string) ([]string, error) {
	return s.removeWorkloads(ctx, tenant, isHeld)
}

// RemoveGone removes those that are gone since a time or longer, as RemoveHeld does.
func (s *Store) RemoveGone(ctx context.Context, tenant string, until time.Time) ([]string, error) {
	return s.removeWorkloads(ctx, tenant, goneSince(until))
}

// AnyGone says whether RemoveGone would remove something.
func (s *Store) AnyGone(ctx context.Context, tenant string, until time.Time) (some bool, err error) {
	err = s.workloads.read(ctx, tenant, func(b *book) {
		which := goneSince(until)
		for _, value := range b.values {
			if some = some || which(value); some {
				return
			}
		}
	})
	return some, err
}

// GoneRoom is what those workloads have that are gone and give way to one for which there is no room.
func (s *Store) GoneRoom(ctx context.Context, tenant string) (room domain.Room, err error) {
	err = s.workloads.read(ctx, tenant, func(b *book) {
		room = domain.Room{}
		for id, value := range b.values {
			if isGone(value) && !isNewer(id, value) {
				room.Count, room.Bytes = room.Count+1, room.Bytes+int64(len(id)+len(value))
			}
		}
	})
	return room, err
}

func goneSince(until time.Time) func([]byte) bool {
	return func(value []byte) bool {
		at, ok := bson.Raw(value).Lookup("gone").TimeOK()
		return ok && !at.After(until)
	}
}

func (s *Store) removeWorkloads(ctx context.Context, tenant string, which func([]byte) bool) (removed []string, err error) {
	err = s.workloads.change(ctx, tenant, func(b *book) (edit, error) {
		var e edit
		removed = nil
		for _, id := range slices.Sorted(maps.Keys(b.values)) {
			if which(b.values[id]) {
				if err := refuseNewerValue(id, b.values[id]); err != nil {
					return edit{}, err
				}
				removed, e.puts = append(removed, id), append(e.puts, put{id, nil})
			}
		}
		return e, nil
	})
	return removed, err
}

// ForgetTenant removes the workloads and matches of a tenant that is gone, and ends its stream. As long as something of a match may be
// in a cluster the matches stay. Whether the tenant is gone is asked at each write: who has slept since he looked finds what another one of
// its name has said, and leaves it.
func (s *Store) ForgetTenant(ctx context.Context, tenant string) error {
	gone := func() (bool, error) {
		there, err := s.Exists(ctx, domain.Tenants, domain.TenantKey(tenant))
		return !there, err
	}
	cleared, err := s.workloads.clear(ctx, tenant, func(*book) (bool, error) { return gone() })
	if err != nil || !cleared {
		return err
	}
	made := false
	cleared, err = s.matches.clear(ctx, tenant, func(b *book) (bool, error) {
		made = false
		if is, err := gone(); err != nil || !is {
			return false, err
		}
		matches, err := decodeMatches(slices.Collect(maps.Values(b.values)))
		made = slices.ContainsFunc(matches, func(m domain.Match) bool { return m.Made != nil })
		return !made, err
	})
	if err != nil || !cleared && !made {
		return err
	}
	// Read before the last look: what another one of the name has after that has another token, and stays.
	var stream streamDoc
	if err := s.findOne(ctx, s.streams(), tenant, &stream); err != nil && !fail.Is(err, fail.NotFound) {
		return err
	}
	due, err := s.BehindToken(ctx, tenant)
	if err != nil {
		return err
	}
	if is, err := gone(); err != nil || !is {
		return err
	}
	if _, err := s.deleteOne(ctx, s.streams(), ofToken(tenant, stream.Token)); err != nil {
		return err
	}
	if !made {
		if err := s.EndBehind(ctx, tenant, due); err != nil {
			return err
		}
	}
	// A tenant that gets its name has other settings.
	return s.setSetting(ctx, tenant, "$pull", bson.NewObjectID())
}

// encodeValue is what a ledger keeps of v. The same v is the same bytes.
func encodeValue(v any) ([]byte, error) {
	d, err := marshal(v)
	if err != nil {
		return nil, err
	}
	has, err := versionFor(ledgerValues, func() (bson.D, error) { return d, nil })
	if err != nil {
		return nil, err
	}
	if has > firstVersion {
		d = append(d, bson.E{Key: versionMember, Value: has})
	}
	data, err := bson.Marshal(d)
	if err != nil {
		return nil, fail.Wrap(err, fail.Internal, "the document cannot be stored")
	}
	return slices.Clone(data), nil // a ledger is kept in memory, and what was written into has up to twice the room
}

// ledgerValues is what workloads, hosts and matches are extended as (see extended).
const ledgerValues = "values of ledgers"

// decodeAll is the opposite of encodeValue. What it returns is not nil.
func decodeAll[T any](values [][]byte) ([]*T, error) {
	found := make([]*T, 0, len(values))
	for _, value := range values {
		v := new(T)
		if err := refuseNewer(ledgerValues, value); err != nil {
			return nil, err
		}
		if err := decode(value, v); err != nil {
			return nil, unopened(fail.Wrap(err, fail.Internal, "a stored value cannot be read"))
		}
		found = append(found, v)
	}
	return found, nil
}
