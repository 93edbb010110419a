package store

import (
	"context"
	"errors"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// versionDoc tells of an app context that what clusters say of it has changed, of a provider that labels have, that watches have,
// and that homes have.
type versionDoc struct {
	Of      string        `bson:"_id"`     // the id of the context; labelsOf; watchesVersion; homesVersion
	Version bson.ObjectID `bson:"version"` // the last one of its changes
}

func (s *Store) versions() *mongo.Collection { return s.db.Collection(versions) }

// ObservationsVersion is another one after an observation of the context has been written or deleted; "" before the
// first. A process that dies between the two writes leaves the old one, until somebody stores the same observation again, as
// whoever watches the cluster then does.
func (s *Store) ObservationsVersion(ctx context.Context, contextID string) (string, error) {
	return s.versionOf(ctx, contextID)
}

// ObservationsVersions are those of many contexts. Those before the first are missing.
func (s *Store) ObservationsVersions(ctx context.Context, contextIDs []string) (map[string]string, error) {
	found := map[string]string{}
	for ids := range slices.Chunk(contextIDs, maxDelete) {
		some, err := all[versionDoc](ctx, s, s.versions(), byID(bson.D{{Key: "$in", Value: ids}}))
		if err != nil {
			return nil, err
		}
		for _, d := range some {
			found[d.Of] = d.Version.Hex()
		}
	}
	return found, nil
}

func (s *Store) versionOf(ctx context.Context, id string) (string, error) {
	return s.versionReads.Get(ctx, id, func(ctx context.Context) (string, error) {
		var d versionDoc
		err := s.findOne(ctx, s.versions(), id, &d)
		if fail.Is(err, fail.NotFound) {
			return "", nil
		}
		return d.Version.Hex(), err
	})
}

// observed notes that an observation has changed, so that the version of its context is another one, even if not all that
// goes with that has been done. Calls that come together are written together.
func (s *Store) observed(ctx context.Context, o domain.ObservedApp, changed bool, err error) error {
	if !changed {
		return err
	}
	return errors.Join(err, s.versionWrites.do(ctx, observedChange{o.ContextID, observationID(o)}))
}

// putVersions belongs to many callers, so that no caller's context bounds it.
func (s *Store) putVersions(changed []observedChange) []error {
	ids := map[string][]string{}
	for _, c := range changed {
		if !slices.Contains(ids[c.contextID], c.id) {
			ids[c.contextID] = append(ids[c.contextID], c.id)
		}
	}
	written := map[string]error{}
	for contextID, of := range ids {
		written[contextID] = s.putChanges(context.Background(), contextID, of)
	}
	outcomes := make([]error, len(changed))
	for i, c := range changed {
		outcomes[i] = written[c.contextID]
	}
	return outcomes
}

// LabelsVersion is another one after a label of one of the provider's clusters was written or deleted; "" before the first. A
// process that dies between the two writes leaves the old one.
func (s *Store) LabelsVersion(ctx context.Context, provider string) (string, error) {
	return s.versionOf(ctx, labelsOf(domain.Join(domain.ClusterProviders.Collection, provider)))
}

func labelsOf(provider domain.Key) string { return "labels of " + string(provider) }

// wrote notes that a document was written or deleted, where somebody watches all of its noun. That it cannot be noted is no error
// of the write, which is done: who watches looks at everything from time to time.
func (s *Store) wrote(ctx context.Context, n *domain.Noun, key domain.Key) {
	if n == domain.ClusterLabels {
		id := labelsOf(domain.ScopeOf(key))
		_, _ = s.put(ctx, s.versions(), id, versionDoc{id, bson.NewObjectID()})
	}
}
