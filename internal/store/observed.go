package store

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

// Bounds of what is kept of observations.
const (
	// observedAge is for how long it is not read again while the version of its context stays: whoever dies between
	// writing an observation and its version leaves the old one.
	observedAge = time.Second
	// observedBytes is the most of it in memory.
	observedBytes = 64 << 20
)

// saidOfApp is what all clusters said of an app at a time. It is shared, and must not be changed.
type saidOfApp struct {
	version  string // of the context, before it was read
	at       time.Time
	clusters []*saidOfCluster // in the order of _id
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
	kept, _, err := s.keptOf(ctx, contextID, deployment, observedAge)
	if err != nil {
		return nil, err
	}
	read := func(ctx context.Context) (*saidOfApp, error) { return s.readSaid(ctx, contextID, deployment) }
	if kept == nil {
		return s.observedReads.get(ctx, deployment, read)
	}
	if s.now().Sub(kept.at) >= observedAge/2 {
		s.observedReads.start(ctx, deployment, read)
	}
	return kept, nil
}

// readSaid reads what clusters said of an app, unless those who asked a moment before have done it.
func (s *Store) readSaid(ctx context.Context, contextID, deployment string) (*saidOfApp, error) {
	kept, now, err := s.keptOf(ctx, contextID, deployment, observedAge/2)
	if kept != nil || err != nil {
		return kept, err
	}
	// It is read in one go: where no index is used for a range, every part of it would cost as much as the whole.
	found, err := all[*observation](ctx, s, s.observations(deployment), below(deployment))
	if err != nil {
		return nil, err
	}
	now.clusters = s.decoded(ctx, found, deployment)
	s.observedApps.add(deployment, now)
	return now, nil
}

// keptOf is what is in memory of an app, nil when there is none of the version that there is and younger than age: then
// now is what it is to be read into.
func (s *Store) keptOf(ctx context.Context, contextID, deployment string, age time.Duration) (kept, now *saidOfApp, err error) {
	now = &saidOfApp{at: s.now()}
	if now.version, err = s.ObservationsVersion(ctx, contextID); err != nil {
		return nil, nil, err
	}
	kept, ok := s.observedApps.lookup(deployment)
	if !ok || kept.version != now.version || now.at.Sub(kept.at) >= age {
		return nil, now, nil
	}
	return kept, now, nil
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
		c := &saidOfCluster{observation: o}
		if o.Names.Chunks == 0 {
			// One that is damaged is told of to those who want it.
			if c.resources, _, _ = s.resourcesOf(ctx, o); c.resources != nil {
				o.Names.Data = nil
			}
		}
		clusters[i] = c
	}
	return clusters
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
