package observe

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/panics"
)

// auto chooses who is heard: an agent that lives, which its Lease shows, and that reports on all that the sink knows; else
// the resources themselves. One that was installed after something was deployed has no ResourceBundleState for that, and is
// heard when it has: until then the resources tell as much.
type auto struct {
	*Watcher
	lease     *lease
	resources *agentless // while they are heard
}

// choose chooses before a session. What was heard before goes on, where it still can.
func (a *auto) choose(ctx context.Context, c *kube.Cluster) error {
	hearsAgent := a.source != nil && a.resources == nil
	if hearsAgent && !a.lease.lives(time.Now()) { // the way to the cluster was broken for long: it may have lived meanwhile
		a.lease.feed.version = ""
	}
	if err := a.lease.feed.sync(ctx, c); err != nil && !kube.IsAnswer(err) {
		return err
	}
	agent := a.lease.lives(time.Now())
	if agent && !hearsAgent {
		var err error
		if agent, err = a.covers(ctx, c); err != nil {
			return err
		}
	}
	switch {
	case !agent && a.resources == nil:
		a.withoutAgent()
	case agent && !hearsAgent:
		a.resources = nil
		a.hearAgent(a.lease).yields = true
	}
	return nil
}

func (a *auto) withoutAgent() {
	a.lease.unname()
	a.resources = a.hearResources()
}

// covers says whether the agent reports on all that there is, as far as the sink knows.
func (a *auto) covers(ctx context.Context, c *kube.Cluster) (bool, error) {
	q := kube.Collection{Path: bundlesPath, Labels: labelled, Metadata: true, Page: 1}
	_, err := c.List(ctx, q, func(json.RawMessage) error { return errEnough })
	if err != nil && !errors.Is(err, errEnough) {
		return false, notCovered(err)
	}
	agent := newAgent(newQueue(0), newLease(a.config.Silence), nil) // to be asked alone
	for _, id := range a.deployments() {
		if a.resources != nil && a.resources.objects.empty(id) {
			continue
		}
		o, err := agent.observe(ctx, c, id)
		if err != nil || o == nil || o.Error != "" {
			return false, notCovered(err)
		}
	}
	return a.lease.livesAsNamed(agent.lease, time.Now()), nil // the reports of a dead agent are no sign of one that lives elsewhere
}

// notCovered is err, unless that is the cluster's word that there is no report.
func notCovered(err error) error {
	if kube.IsAnswer(err) || errors.Is(err, errNoDefinition) || errors.Is(err, errBeingWritten) {
		return nil
	}
	return err
}

// looksPerTakeover is how many times Config.Takeover passes between two looks whether an agent reports on everything.
const looksPerTakeover = 4

// await ends with errAnother when an agent is to be heard.
func (a *auto) await(ctx context.Context, c *kube.Cluster) error {
	g, ctx := panics.WithContext(ctx)
	g.Go(func() error { return a.lease.follow(ctx, c) })
	g.Go(func() error {
		turn := takeover{after: a.config.Takeover, silence: a.config.Silence}
		for {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-a.lease.beat:
			}
			if now := time.Now(); !turn.beat(now, a.lease.lives(now)) {
				continue
			}
			covers, err := a.covers(ctx, c)
			if err != nil {
				return err
			}
			if covers {
				return errAnother
			}
		}
	})
	return g.Wait()
}

// takeover decides when it is looked whether an agent reports on everything: when it has lived for a while, and then again and
// again. One that is started anew again and again, with a beat before each crash, is not looked at for it.
type takeover struct {
	after, silence time.Duration // Config's Takeover and Silence
	alive          bool
	due, last      time.Time // last is the beat before
}

// beat takes a beat of the agent's; lives says whether it counts as alive.
func (t *takeover) beat(now time.Time, lives bool) (look bool) {
	silent := now.Sub(t.last) >= t.silence
	t.last = now
	switch {
	case !lives:
		t.alive = false
	case !t.alive || silent:
		t.alive, t.due = true, now.Add(t.after)
	case now.After(t.due):
		t.due = now.Add(looksPerTakeover * t.after)
		return true
	}
	return false
}
