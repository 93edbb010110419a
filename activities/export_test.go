package activities

import (
	"testing"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/lease"
)

// SetTellEvery sets how often the workflow is told who is heard for the time of a test.
func SetTellEvery(t *testing.T, d time.Duration) {
	before := tellEvery
	t.Cleanup(func() { tellEvery = before })
	tellEvery = d
}

// SetPulseEvery sets how often a shard's attempt gives a pulse for the time of a test.
func SetPulseEvery(t *testing.T, d time.Duration) {
	before := pulseEvery
	t.Cleanup(func() { pulseEvery = before })
	pulseEvery = d
}

// SetPulseClock sets by what clock it is noticed that the machine was suspended for the time of a test.
func SetPulseClock(t *testing.T, clock lease.Clock) {
	before := pulseClock
	t.Cleanup(func() { pulseClock = before })
	pulseClock = clock
}

// SetScheduledFor sets how long ago activities were scheduled, by Temporal's clock, for the time of a test.
func SetScheduledFor(t *testing.T, d time.Duration) {
	before := scheduledFor
	t.Cleanup(func() { scheduledFor = before })
	scheduledFor = func(activity.Info, lease.Instant) time.Duration { return d }
}

// SetSilentFor sets for how long others are believed that a cluster does not answer for the time of a test.
func SetSilentFor(t *testing.T, d time.Duration) {
	before := silentFor
	t.Cleanup(func() { silentFor = before })
	silentFor = d
}

// SetNoteEvery sets how often it is written what came of some matches while others go on for the time of a test.
func SetNoteEvery(t *testing.T, d time.Duration) {
	before := noteEvery
	t.Cleanup(func() { noteEvery = before })
	noteEvery = d
}

// HasPlanner says whether there is a plan for the owners of a noun.
func HasPlanner(n *domain.Noun) bool { return planners[n] != nil }

// SetLookAtNews sets how often it is looked for contexts that have ended for the time of a test.
func SetLookAtNews(t *testing.T, d time.Duration) {
	before := lookAtNews
	t.Cleanup(func() { lookAtNews = before })
	lookAtNews = d
}

// SameShard says whether clusters are watched together.
func SameShard(a, b domain.ClusterName) bool { return shardOf(a) == shardOf(b) }

// ShardOf is the shard that a cluster is watched in.
func ShardOf(c domain.ClusterName) int { return shardOf(c) }
