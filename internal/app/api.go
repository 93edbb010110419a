package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/api"
	"github.com/drover-io/drover/api/rpc"
	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/connections"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fetch"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/notify"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/status"
)

// ServeAPI answers REST requests behind the front, and calls on the addresses of gRPC and of tenants, until ctx ends, then drains. It calls ready
// once all of them are answered.
func (p *Parts) ServeAPI(ctx context.Context, f *Front, ready func()) error {
	root, err := p.store.Root(ctx)
	if err != nil {
		return err
	}
	clusters, err := kube.NewClusters(kubeConfig(p.config, rehearsedClusters), (&registrations{parts: p}).credentials)
	if err != nil {
		return err
	}
	defer clusters.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	behind := p.services(root, clusters)
	defer behind.close()
	rooms := door.NewRooms(p.config.Operations)
	hub, err := behind.streams(notify.Options{Log: p.log, Turn: rooms.Turn}, registry)
	if err != nil {
		return err
	}
	defer hub.Close()
	shares := door.NewShares(p.config.Fair, usage{p.engine, p.store}, time.Now)
	registry.MustRegister(newTenantCollector(behind.matcher.Counts), p.audit, p.expiring(), shareCollector{shares}, p.keysUnreadable(), p.metrics)
	defer p.measureWhole()()
	entrance := p.entrance(behind, hub, shares, rooms)
	if err := p.admit(ctx); err != nil {
		return err
	}
	prove, err := p.prover()
	if err != nil {
		return err
	}
	handler, err := api.New(api.Deps{
		Door: entrance, Prove: prove, Login: p.login(),
		Ready: p.answers(), Beside: p.works(), Log: p.log, Installation: root.ID(), Metrics: registry, MaxBody: p.config.MaxBody,
		Histories: p.codec.Handler(), WebUIs: webUIs(p.config),
		Listen: p.config.Listen, Hosts: p.config.AllowedHosts, Origins: p.config.AllowedOrigins, KubeconfigDownload: p.config.KubeconfigDownload,
	})
	if err != nil {
		return err
	}
	calls, err := p.listenRPC(ctx, prove, entrance)
	if err != nil {
		return err
	}
	defer calls.Close()
	ofTenants, err := p.listenTenants(ctx, entrance)
	if err != nil {
		return err
	}
	defer ofTenants.Close()
	g, ctx := panics.WithContext(ctx)
	defer context.AfterFunc(ctx, hub.Close)() // streams would not end by themselves
	g.Go(func() error { return f.until(ctx) })
	g.Go(func() error { return calls.serve(ctx) })
	g.Go(func() error { return ofTenants.serve(ctx) })
	f.open(handler)
	ready()
	p.workBehind(ctx, g, behind.matcher)
	return g.Wait()
}

// services are the commands and queries behind the API's door.
type services struct {
	lifecycle *service.Lifecycle
	documents *service.Service
	explainer *service.Explainer
	journal   *service.Journal
	fleet     *service.Fleet
	tables    *service.Tables
	matcher   *service.Matcher
}

// services makes them; close must be called. The clusters are those that a rehearsal asks for their nodes.
func (p *Parts) services(root secret.Root, clusters *kube.Clusters) *services {
	ui := explain.WebUI{URL: strings.TrimSuffix(p.config.WebUI, "/"), Namespace: p.config.Temporal.Namespace}
	lifecycle, matcher := p.lifecycle(root, clusters), p.matcher(ui)
	explainer := service.NewExplainer(lifecycle, p.engine, ui)
	explainer.LeftIn = matcher.LeftIn
	journal := service.NewJournal(lifecycle, p.engine, ui)
	return &services{
		lifecycle: lifecycle, documents: p.documents(lifecycle, matcher), explainer: explainer,
		journal: journal, fleet: service.NewFleet(lifecycle, p.store, journal), tables: service.NewTables(lifecycle), matcher: matcher,
	}
}

// close ends what goes on beside requests. The streams have ended by then.
func (s *services) close() {
	s.matcher.Close()
	s.fleet.Close()
}

// streams tells of what changes, to whoever follows it.
func (s *services) streams(o notify.Options, registry prometheus.Registerer) (*notify.Hub, error) {
	return notify.New(looks(statuses{s.lifecycle, s.fleet}, s.tables), o, registry)
}

// lifecycle has the commands of owners, which it can rehearse.
func (p *Parts) lifecycle(root secret.Root, clusters *kube.Clusters) *service.Lifecycle {
	rehearsal := activities.NewRehearsal(p.store, p.engine, p.charts)
	rehearsal.AskNodes(nodesOf{clusters})
	rehearsal.Bound(p.config.Fair.GroupTargets)
	rehearsal.AskElsewhere(fetch.New(p.config.ExternalHosts, nil))
	l := service.NewLifecycle(p.store, p.store, heard{p.store, p.rules}, p.engine, time.Now)
	l.Rehearse, l.Foresee = rehearsal.Rehearse, rehearsal.Foresee
	l.Masks = bundle.NewMasker(root.Derive("digests of what Secrets hold"))
	return l
}

// matcher has the commands of tenants.
func (p *Parts) matcher(ui explain.WebUI) *service.Matcher {
	m := service.NewMatcher(p.store, p.engine, time.Now, "api-"+rand.Text())
	m.AskRuns(p.engine, ui)
	m.Heard = heard{p.store, p.rules}
	return m
}

// documents has the commands of all other nouns.
func (p *Parts) documents(l *service.Lifecycle, m *service.Matcher) *service.Service {
	reached := kubeConfig(p.config, 0)
	return service.New(service.Deps{
		Store: p.store, Sealer: p.inner, Instances: l, Operations: l, Now: time.Now,
		UserKubeconfig: (&registrations{parts: p}).givenUserKubeconfig,
		Renewing:       p.store.Renewing,
		Undone:         door.Undone(p.audit.trail, p.log),
		Matching:       m,
		PodSecurity:    domain.PodSecurity(p.config.CloudPodSecurity),
		Checks: service.Checks{
			Chart: p.charts.CheckChart, Profile: p.charts.CheckProfile, Kubeconfig: reached.CheckKubeconfig, Reach: reached.Reach, See: reached.See, Expiry: kube.Expiry,
		},
	})
}

// entrance is the door to what answers, with all that is done for every request.
func (p *Parts) entrance(s *services, hub *notify.Hub, shares *door.Shares, rooms *door.Rooms) *door.Door {
	audited, begun := door.Audited(p.audit.trail)
	entrance := door.New(door.Parts{
		Audits:   service.NewAudit(p.store, p.audit.trail.Seal, p.audit.keys, time.Now),
		Commands: s.documents, Documents: s.documents,
		Statuses: door.StatusFunc(func(ctx context.Context, owner domain.Key, parameters url.Values) (door.Document, error) {
			d, err := s.lifecycle.Status(ctx, owner, parameters)
			if err != nil {
				return nil, err // a nil document must not hide in the interface
			}
			return d, nil
		}),
		Previews: s.lifecycle, Explanations: s.explainer, Journal: s.journal, Fleet: s.fleet, Streams: hub,
		Tables: s.tables, Tenancy: s.matcher,
	}, door.Traced(p.log), audited, door.Identified, door.NewRights(whoMay(s.documents.Rights, p.log), lease.Now).Authorised, shares.Fair, rooms.Slots, door.Timed, begun)
	entrance.Record(p.audit.trail)
	return entrance
}

// workBehind begins in the group what goes on beside requests until ctx ends.
func (p *Parts) workBehind(ctx context.Context, g *panics.Group, m *service.Matcher) {
	g.Go(func() error { // a panic of which is no end of what is served
		_ = panics.Do(ctx, func() error { p.settleBehind(ctx); return nil })
		return nil
	})
	g.Go(func() error { m.Run(ctx); return nil })
	if p.sessions != nil {
		g.Go(func() error {
			p.sessions.Run(ctx, func(err error) { p.log.Warn("end sessions whose time is over", "error", err) })
			return nil
		})
	}
}

// answers asks what every request needs, for /readyz. works asks what commands need as well: while Temporal is away, or the database takes
// no writes, all that there is can still be asked for.
func (p *Parts) answers() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{"database": p.store.Ping}
}

func (p *Parts) works() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{"temporal": p.engine.Ping, "writes to the database": p.store.Ready}
}

// kubeConfig bounds the work on clusters, of which so many clients are kept, as many as is usual when 0.
func kubeConfig(c *config.Config, clients int) kube.Config {
	allowed, _ := kube.Allow(c.KubeconfigAllow) // the configuration takes no other words
	return kube.Config{Clients: clients, Allowed: allowed, Networks: c.ClusterNetworks()}
}

// webUIs are the origins of pages that may have payloads opened.
func webUIs(c *config.Config) []string {
	if u, err := url.Parse(c.WebUI); err == nil && len(c.CodecOrigins) == 0 && u.Host != "" {
		return []string{u.Scheme + "://" + u.Host}
	}
	return c.CodecOrigins
}

// settleBehind starts what settles matches for tenants that are behind: a process may have died between marking one due and
// starting that. What fails is made up for by the schedule.
func (p *Parts) settleBehind(ctx context.Context) {
	matches := activities.Match{Store: p.store, Settler: p.engine, Shards: p.engine, Now: time.Now}
	if _, err := matches.SettleBehind(ctx); err != nil && ctx.Err() == nil {
		p.log.Warn("start what is behind with matches", "error", err)
	}
}

// listening is an address that takes connections, and what serves them.
type listening struct {
	net.Listener // nil for an address that is not wanted
	serve        func(context.Context) error
}

// Close implements net.Listener. A listener that was served is closed already.
func (l listening) Close() error {
	if l.Listener == nil {
		return nil
	}
	return l.Listener.Close()
}

var unwanted = listening{serve: func(context.Context) error { return nil }}

// listenRPC listens for gRPC where that is wanted.
func (p *Parts) listenRPC(ctx context.Context, prove authn.Prover, entrance *door.Door) (listening, error) {
	if p.config.GRPCListen == "" {
		return unwanted, nil
	}
	secured, err := p.config.TLS.Config(p.log, "h2")
	if err != nil {
		return unwanted, err
	}
	l, err := connections.Listen(ctx, p.config.GRPCListen, "gRPC (--grpc-listen)")
	if err != nil {
		return unwanted, err
	}
	return listening{l, func(ctx context.Context) error {
		return rpc.Serve(ctx, l, prove, rpc.Options{TLS: secured, Door: entrance, Log: p.log, Drain: p.config.Drain})
	}}, nil
}

// listenTenants listens for the gRPC services of tenants where that is wanted.
func (p *Parts) listenTenants(ctx context.Context, entrance *door.Door) (listening, error) {
	if p.config.TenantListen == "" {
		return unwanted, nil
	}
	secured, err := p.config.TenantTLS.Config(p.log, "h2")
	if err != nil {
		return unwanted, fmt.Errorf("the tenants' services (--tenant-listen): %w", err)
	}
	trust, err := p.config.TenantTLS.Trust(p.log)
	if err != nil {
		return unwanted, fmt.Errorf("the tenants' services (--tenant-listen): %w", err)
	}
	l, err := connections.Listen(ctx, p.config.TenantListen, "the tenants' services (--tenant-listen)")
	if err != nil {
		return unwanted, err
	}
	return listening{l, func(ctx context.Context) error {
		return rpc.ServeTenants(ctx, l, rpc.TenantOptions{
			Options: rpc.Options{TLS: secured, Door: entrance, Log: p.log, Drain: p.config.Drain}, Trust: trust, Rate: p.config.TenantRate,
		})
	}}, nil
}

// looks are at statuses, and at tables.
func looks(s statuses, t *service.Tables) notify.Looks {
	of := notify.Of(s)
	return func(owner domain.Key, e notify.Extent) notify.Look {
		if look, ok := t.Look(owner, e); ok {
			return look
		}
		return of(owner, e)
	}
}

// statuses are those of a Lifecycle, and of a Fleet where no owner is named, as notify.Statuses.
type statuses struct {
	*service.Lifecycle
	*service.Fleet
}

// Sign implements notify.Statuses.
func (s statuses) Sign(ctx context.Context, key domain.Key, e status.Extent) (string, error) {
	if domain.OwnerNoun(key) == nil {
		return s.Fleet.Sign(ctx, key)
	}
	return s.Lifecycle.Sign(ctx, key, e)
}

// Snapshot implements notify.Statuses.
func (s statuses) Snapshot(ctx context.Context, key domain.Key, e status.Extent) (notify.StatusSnapshot, error) {
	if domain.OwnerNoun(key) == nil {
		fleet, err := s.Fleet.Snapshot(ctx, key)
		if err != nil {
			return nil, err // a nil snapshot must not hide in the interface
		}
		return fleet, nil
	}
	snapshot, err := s.Lifecycle.Snapshot(ctx, key, e)
	if err != nil {
		return nil, err // the same
	}
	return snapshot, nil
}
