package store

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/secret"
)

// Bounds of what is kept of observations.
const (
	// observedShare is the part of the time that reading observations as a whole may cost: where it takes long it is done less often.
	observedShare = 50
	// observedBytes is the most of it in memory.
	observedBytes = 64 << 20
	// fewChanged is up to how many observations are read one by one. Of many it is one in fewOf: to read one costs about as much
	// as a tenth of that many do in one go.
	fewChanged, fewOf = 50, 20
)

// saidOfApp is what all clusters said of an app at a time. It is shared, and must not be changed.
type saidOfApp struct {
	version  string                        // of the context, before it was read
	looked   atomic.Pointer[lease.Instant] // when that was the version for the last time
	whole    time.Time                     // when all of it was read
	took     time.Duration                 // to read all of it
	clusters []*saidOfCluster              // in the order of _id
}

// old says whether it is to be read as a whole again, or, at half, will be soon.
func (a *saidOfApp) old(now time.Time, part time.Duration) bool {
	return now.Sub(a.whole) >= max(policy.ObservedAge, observedShare*a.took)/part
}

// saidOfCluster is what a cluster said of an app.
type saidOfCluster struct {
	*observation
	resources []domain.ObservedResource // nil where they are not decoded yet
}

// saidOf is what clusters said of an app, with every observation whose version was written before the call. Who asks
// while it gets old has it read anew for those to come, and does not wait.
func (s *Store) saidOf(ctx context.Context, contextID, app string) (*saidOfApp, error) {
	deployment := plan.DeploymentID(contextID, app)
	asked := s.moment()
	version, err := s.ObservationsVersion(ctx, contextID)
	if err != nil {
		return nil, err
	}
	kept, ok := s.observedApps.lookup(deployment)
	read := func(ctx context.Context) (*saidOfApp, error) { return s.readSaid(ctx, contextID, deployment) }
	if !ok || kept.version != version || kept.old(s.now(), 1) {
		return s.observedReads.Get(ctx, deployment, read)
	}
	kept.looked.Store(&asked)
	if kept.old(s.now(), 2) {
		s.observedReads.Start(ctx, deployment+" anew", read) // who needs what has changed meanwhile does not wait for it
	}
	return kept, nil
}

// readSaid reads what clusters said of an app, unless those who asked a moment before have done it.
func (s *Store) readSaid(ctx context.Context, contextID, deployment string) (*saidOfApp, error) {
	began, looked := s.now(), s.moment()
	version, err := s.ObservationsVersion(ctx, contextID)
	if err != nil {
		return nil, err
	}
	kept, ok := s.observedApps.lookup(deployment)
	if ok && !kept.old(began, 2) {
		if kept.version == version {
			return kept, nil
		}
		if now, err := s.readChanged(ctx, contextID, deployment, kept, version, looked); now != nil || err != nil {
			return now, err
		}
	}
	// It is read in one go: where no index is used for a range, every part of it would cost as much as the whole.
	found, err := all[*observation](ctx, s, s.observations(deployment), below(deployment))
	if err != nil {
		return nil, err
	}
	now := &saidOfApp{version: version, whole: began}
	now.looked.Store(&looked)
	now.clusters = s.decoded(ctx, found, deployment)
	now.took = s.now().Sub(began)
	s.observedApps.add(deployment, now)
	return now, nil
}

// readChanged reads what has changed since, nil when nobody can tell, or when it is so much that all may be read.
func (s *Store) readChanged(ctx context.Context, contextID, deployment string, kept *saidOfApp, version string, looked lease.Instant) (*saidOfApp, error) {
	ids, known, err := s.changedBetween(ctx, contextID, kept.version, version, *kept.looked.Load())
	if err != nil || !known {
		return nil, err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return !strings.HasPrefix(id, deployment+"/") })
	if len(ids) > max(fewChanged, len(kept.clusters)/fewOf) {
		return nil, nil
	}
	now := &saidOfApp{version: version, whole: kept.whole, took: kept.took, clusters: slices.Clone(kept.clusters)}
	now.looked.Store(&looked)
	for _, id := range ids {
		i, there := slices.BinarySearchFunc(now.clusters, id, func(c *saidOfCluster, id string) int { return strings.Compare(c.ID, id) })
		o := &observation{}
		err := s.findOne(ctx, s.observations(deployment), id, o)
		switch {
		case fail.Is(err, fail.NotFound) && there:
			now.clusters = slices.Delete(now.clusters, i, i+1)
		case fail.Is(err, fail.NotFound):
		case err != nil:
			return nil, err
		case there:
			now.clusters[i] = s.decodedOne(ctx, o)
		default:
			now.clusters = slices.Insert(now.clusters, i, s.decodedOne(ctx, o))
		}
	}
	s.observedApps.add(deployment, now)
	return now, nil
}

// decoded decodes what is in place; what is in chunks is large, and stays where it is. What was decoded before is taken
// from there.
func (s *Store) decoded(ctx context.Context, found []*observation, deployment string) []*saidOfCluster {
	before := map[bson.ObjectID]*saidOfCluster{}
	if kept, ok := s.observedApps.lookup(deployment); ok {
		for _, c := range kept.clusters {
			before[c.Upload] = c
		}
	}
	clusters := make([]*saidOfCluster, len(found))
	for i, o := range found {
		if c := before[o.Upload]; c != nil {
			clusters[i] = c
			continue
		}
		clusters[i] = s.decodedOne(ctx, o)
	}
	return clusters
}

func (s *Store) decodedOne(ctx context.Context, o *observation) *saidOfCluster {
	c := &saidOfCluster{observation: o}
	if o.Names.Chunks == 0 {
		// One that is damaged is told of to those who want it.
		if c.resources, _, _ = s.resourcesOf(ctx, o); c.resources != nil {
			o.Names.Data = secret.HeadOf(o.Names.Data) // bodies are opened with it
		}
	}
	return c
}

// size is what it takes in memory, about.
func (a *saidOfApp) size() int64 {
	const perCluster, perResource = 500, 150 // structs, maps' shares, and what allocations round up
	var n int
	for _, c := range a.clusters {
		n += perCluster + len(c.Names.Data) + len(c.Bodies.Data)
		for i := range c.resources {
			r := &c.resources[i]
			n += perResource + len(r.Group) + len(r.Version) + len(r.Kind) + len(r.Namespace) + len(r.Name) + len(r.Status) + len(r.Message)
		}
	}
	return int64(n)
}
