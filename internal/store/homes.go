package store

import (
	"context"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/policy"
)

type homeDoc struct {
	ID          string `bson:"_id"`
	domain.Home `bson:",inline"`
	Version     int64 `bson:"v,omitempty"`
}

func (s *Store) homes() *mongo.Collection { return s.db.Collection(homes) }

// homeDocument is a home as it is stored.
func homeDocument(h *domain.Home) (homeDoc, error) {
	d := homeDoc{ID: h.ID(), Home: *h}
	has, err := versionFor(homes, func() (bson.D, error) { return marshal(d) })
	if has > firstVersion {
		d.Version = has
	}
	return d, err
}

// PutHome notes that a tenant has a namespace in a cluster, or is about to.
func (s *Store) PutHome(ctx context.Context, h domain.Home) error {
	d, err := homeDocument(&h)
	if err != nil {
		return err
	}
	if _, err := s.put(ctx, s.homes(), d.ID, d); err != nil {
		return err
	}
	return s.movedHomes(ctx)
}

// homesVersion is the id of the version that is another one after a home was written or deleted.
const homesVersion = "homes"

// movedHomes notes that homes are not what they were. A write is done when this is.
func (s *Store) movedHomes(ctx context.Context) error {
	_, err := s.put(ctx, s.versions(), homesVersion, versionDoc{homesVersion, bson.NewObjectID()})
	return err
}

// keptHomes are all homes as they were read last. The embedded database goes over them for every question but one by id.
type keptHomes struct {
	mu      sync.Mutex
	version string // from before they were read
	read    time.Time
	all     []domain.Home
}

// Homes are those of the tenants that have, or had, a name, sorted by id; all when it is "". They are as of a moment after the call
// began, but for what a process has written that died before it could say so.
func (s *Store) Homes(ctx context.Context, tenant string) ([]domain.Home, error) {
	version, err := s.versionOf(ctx, homesVersion)
	if err != nil {
		return nil, err
	}
	k := &s.keptHomes
	k.mu.Lock()
	all := k.all
	known := version != "" && version == k.version && time.Since(k.read) < policy.HomesStand
	k.mu.Unlock()
	if !known {
		began := time.Now()
		if all, err = s.homesOf(ctx, bson.D{}); err != nil {
			return nil, err
		}
		k.mu.Lock()
		k.version, k.read, k.all = version, began, all
		k.mu.Unlock()
	}
	found := make([]domain.Home, 0, 1)
	for _, h := range all {
		if tenant == "" || h.Tenant == tenant {
			found = append(found, h)
		}
	}
	return found, nil
}

// Home is the one with an id. NotFound when there is none.
func (s *Store) Home(ctx context.Context, id string) (domain.Home, error) {
	var d homeDoc
	err := s.findOne(ctx, s.homes(), id, &d)
	return d.Home, err
}

// HomesOf are those with a context id.
func (s *Store) HomesOf(ctx context.Context, contextID string) ([]domain.Home, error) {
	return s.homesOf(ctx, below(contextID))
}

func (s *Store) homesOf(ctx context.Context, filter bson.D) ([]domain.Home, error) {
	found, err := all[homeDoc](ctx, s, s.homes(), filter)
	list := make([]domain.Home, 0, len(found))
	for _, d := range found {
		list = append(list, d.Home)
	}
	return list, err
}

// DeleteHome notes that the namespace is gone. The home is one that was read: a record that somebody has written since stays, as that one
// may use it again, and so does what came after one that was deleted before.
func (s *Store) DeleteHome(ctx context.Context, h domain.Home) error {
	if _, err := s.deleteOne(ctx, s.homes(), asRead(&h)); err != nil {
		return err
	}
	return s.movedHomes(ctx)
}

// asRead selects the record of a home as it was read. What says nothing is not stored, which null stands for.
func asRead(h *domain.Home) bson.D {
	var leaving, began any
	if h.Leaving {
		leaving = true
	}
	if !h.Began.IsZero() {
		began = h.Began
	}
	return append(byID(h.ID()), bson.E{Key: "leaving", Value: leaving}, bson.E{Key: "began", Value: began})
}
