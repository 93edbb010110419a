package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"weak"

	"go.temporal.io/sdk/activity"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/cas"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/match"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
)

// Homes keeps what tenants have in clusters beside the objects of matches.
type Homes interface {
	PutHome(ctx context.Context, h domain.Home) error
	// Homes are those of tenants with a name; all when it is "".
	Homes(ctx context.Context, tenant string) ([]domain.Home, error)
	// Home is the one with an id, NotFound when there is none.
	Home(ctx context.Context, id string) (domain.Home, error)
	HomesOf(ctx context.Context, contextID string) ([]domain.Home, error)
	// DeleteHome removes the record of one as it was read: what somebody has written since stays.
	DeleteHome(ctx context.Context, h domain.Home) error
}

// homes are what the matches that are to be created need beside them.
func (s *settling) homes(work []one) []domain.Home {
	homes := []domain.Home{domain.HomeOf(s.tenant)}
	add := func(h domain.Home) {
		if !slices.ContainsFunc(homes, func(o domain.Home) bool { return o.ID() == h.ID() }) {
			homes = append(homes, h)
		}
	}
	reported := s.Work.asked(s.tenant.ClusterName())
	for i := range work {
		if work[i].step != match.Create {
			continue
		}
		namespace := work[i].resource.ID.Namespace
		if namespace == domain.OperatorNamespace {
			add(domain.OperatorHome(s.tenant))
		}
		if reported {
			add(domain.ReportHome(s.tenant, work[i].Rule, namespace))
		}
	}
	return homes
}

// moveIn has the cluster watched, and notes what the tenant is to have there beside the objects of its matches, before anything
// is made. The record comes last: where it is, both are done.
func (s *settling) moveIn(ctx context.Context, work []one) error {
	if !slices.ContainsFunc(work, func(o one) bool { return o.step == match.Create }) {
		return nil
	}
	if _, err := s.Work.clusters.Get(ctx, s.tenant.ClusterName()); err != nil { // how it reports is known then
		s.gone(ctx, s.tenant.ClusterName(), err)
		return nil
	}
	needs := s.homes(work)
	if s.moved.all(needs) {
		return nil
	}
	have, err := s.homesOf(ctx, work)
	if err != nil {
		return err
	}
	for _, h := range needs {
		if _, there := have[h.ID()]; there {
			continue
		}
		if err := lease.Check(ctx); err != nil {
			return err
		}
		h.Began = s.Now().UTC().Truncate(policy.StoredTime) // as it is stored: who leaves says it again
		if !h.Shared() && s.Shards != nil {
			if err := s.Shards.Watch(ctx, shardOf(h.Cluster), watchingOf(&h)); err != nil {
				return err
			}
		}
		if err := s.Store.PutHome(ctx, h); err != nil {
			return err
		}
	}
	return nil
}

func watchingOf(h *domain.Home) Watching {
	return Watching{ContextID: h.ContextID, Clusters: []domain.ClusterName{h.Cluster}, Began: h.Began}
}

// homesOf are the homes that matches of the tenant may need, and those of earlier tenants of its name, by id.
func (s *settling) homesOf(ctx context.Context, work []one) (map[string]domain.Home, error) {
	all, err := s.Store.Homes(ctx, s.tenant.Name)
	if err == nil && slices.ContainsFunc(work, func(o one) bool { return domain.RuleNoun(o.Rule) == domain.OperatorRules }) {
		var operators []domain.Home
		operators, err = s.Store.HomesOf(ctx, domain.OperatorContext)
		all = append(all, operators...)
	}
	found := map[string]domain.Home{}
	for _, h := range all {
		found[h.ID()] = h
	}
	return found, err
}

// lookAgain looks once more, now that records say what is to be created: what somebody is about to remove is not used. It returns
// what is not to be created now with the reason, and makes the reports on the rest.
func (s *settling) lookAgain(ctx context.Context, work []one) (blocked map[int]string, err error) {
	blocked = map[int]string{}
	if !slices.ContainsFunc(work, func(o one) bool { return o.step == match.Create }) {
		return blocked, nil
	}
	have, err := s.stillThere(ctx, work)
	if err != nil {
		return nil, err
	}
	for i := range work {
		if work[i].step != match.Create {
			continue
		}
		needs := s.homes(work[i : i+1])
		for _, h := range needs {
			if is, there := have[h.ID()]; !there || is.Leaving {
				s.moved.forget(h)
				blocked[i] = fmt.Sprintf("what was in namespace %s is being removed", h.Namespace)
			}
		}
		if namespace := work[i].resource.ID.Namespace; s.inherited(have, namespace) {
			blocked[i] = fmt.Sprintf("namespace %s of an earlier tenant of the name is being removed", namespace)
		}
		if blocked[i] != "" {
			continue
		}
		for _, h := range needs {
			if !s.inherited(have, h.Namespace) {
				s.moved.note(h)
			}
			h.Began = have[h.ID()].Began
			s.report(ctx, &h)
		}
	}
	return blocked, nil
}

// inherited says whether a namespace is an earlier tenant's still.
func (s *settling) inherited(have map[string]domain.Home, namespace string) bool {
	for _, h := range have {
		if h.Namespace == namespace && h.Cluster == s.tenant.ClusterName() && !h.Shared() && h.ContextID != s.tenant.ContextID {
			return true
		}
	}
	return false
}

// stillThere are the homes that what is to be created needs, with those of earlier tenants. Where this process has seen them
// before, with no earlier tenant's beside them, they alone are looked for: there is none later either.
func (s *settling) stillThere(ctx context.Context, work []one) (map[string]domain.Home, error) {
	needs := s.homes(work)
	if !s.moved.all(needs) {
		return s.homesOf(ctx, work)
	}
	have := map[string]domain.Home{}
	for _, h := range needs {
		is, err := s.Store.Home(ctx, h.ID())
		if err != nil && !fail.Is(err, fail.NotFound) {
			return nil, err
		}
		if err == nil {
			have[h.ID()] = is
		}
	}
	return have, nil
}

// movedIn are the homes in which this process has seen matches to be created. It reads these by id, and all homes for others.
// The zero value is ready to use.
type movedIn struct {
	once  sync.Once
	cache *lru.Cache[string, struct{}]
}

func (m *movedIn) of() *lru.Cache[string, struct{}] {
	m.once.Do(func() { m.cache = lru.New[string, struct{}](knownReports) })
	return m.cache
}

func (m *movedIn) note(h domain.Home)   { m.of().Add(h.ID(), struct{}{}) }
func (m *movedIn) forget(h domain.Home) { m.of().Remove(h.ID()) }

func (m *movedIn) all(homes []domain.Home) bool {
	return !slices.ContainsFunc(homes, func(h domain.Home) bool { return !m.of().Contains(h.ID()) })
}

// reportAgain makes the reports anew on matches that are looked at: one that was due may be so as somebody has deleted the report.
func (s *settling) reportAgain(ctx context.Context, work []one) {
	done := map[string]bool{}
	for i := range work {
		if work[i].step != match.Look || !s.Work.asked(work[i].Made.Cluster) {
			continue
		}
		if h := domain.ReportHome(s.tenant, work[i].Rule, work[i].Made.Namespace); !done[h.ID()] {
			done[h.ID()] = true
			h.Began = s.forget(ctx, &h)
			s.report(ctx, &h)
		}
	}
}

// forget has a report made again. It returns when the home began for which it was made, as far as this process knows.
func (s *settling) forget(ctx context.Context, h *domain.Home) (began time.Time) {
	if cluster, err := s.Work.clusters.Get(ctx, h.Cluster); err == nil {
		key := matchReportOf(cluster, h)
		began, _ = s.Work.matches.Get(key)
		s.Work.matches.Remove(key)
	}
	return began
}

// report makes the report that an agent is to fill, once for a home that began at a time, as far as this process knows: another
// process may have removed the home since, with the report. What the cluster refuses of it is no failure of matches.
func (s *settling) report(ctx context.Context, h *domain.Home) {
	if h.App == "" || s.away.Load() {
		return
	}
	r := s.Work.reporting
	cluster, err := s.Work.clusters.Get(ctx, h.Cluster)
	if err == nil {
		key := matchReportOf(cluster, h)
		if began, made := r.matches.Get(key); !made || !began.Equal(h.Began) {
			if err = s.makeReport(ctx, cluster, h); err == nil {
				r.matches.Add(key, h.Began)
			}
		}
	}
	switch kind := fail.KindOf(err); {
	case err == nil || ctx.Err() != nil:
	case kind.Retryable() && kind != fail.Timeout && !kube.IsAnswer(err):
		s.gone(ctx, h.Cluster, err)
	default:
		activity.GetLogger(ctx).Warn("report on matches", "tenant", h.Tenant, "app", h.App, "cluster", h.Cluster, "error", err)
	}
}

func (s *settling) makeReport(ctx context.Context, cluster *kube.Cluster, h *domain.Home) error {
	r, resource := s.Work.reporting, bundle.New(h.App, h.ContextID, h.Namespace)
	if r.reports.Report(h.Cluster) == domain.ReportInstall {
		if refusal, outcome := r.install(ctx, cluster); refusal != "" || outcome.Retry != nil {
			return cmp.Or(outcome.Retry, error(fail.New(fail.Forbidden, "the agent could not be installed: %s", refusal)))
		}
	}
	if !r.installed.Contains(weak.Make(cluster)) {
		if served, err := r.serves(ctx, cluster, resource.ResourceID); err != nil || !served {
			return err
		}
	}
	_, err := cluster.Create(ctx, resource.ResourceID, resource.Manifest)
	if errors.Is(err, kube.ErrNoNamespace) {
		if err = s.makeNamespace(ctx, cluster, h.Namespace); err == nil {
			_, err = cluster.Create(ctx, resource.ResourceID, resource.Manifest)
		}
	}
	if r.doubt(cluster, err); fail.Is(err, fail.Conflict) {
		return nil
	}
	return err
}

// left are the homes of the tenants with a name, of all when it is "", that nobody needs any more, or that somebody was about to
// remove. Matches are those of the tenant; without them it is not known which reports are needed.
func (m *Match) left(ctx context.Context, name string, matches []domain.Match) ([]domain.Home, error) {
	all, err := m.Store.Homes(ctx, name)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, nil
	}
	tenants, err := m.tenants(ctx, name)
	var unread []string
	if name == "" {
		unread, err = domain.UnreadableOf(err)
	}
	if err != nil {
		return nil, err
	}
	var left []domain.Home
	for _, h := range all {
		if slices.Contains(unread, string(domain.TenantKey(h.Tenant))) {
			continue
		}
		is, err := m.isLeft(ctx, &h, tenants[h.Tenant], name, matches)
		if name == "" { // of all homes one of which nobody knows stays, and the others go on
			_, err = domain.UnreadableOf(err)
		}
		if err != nil {
			return nil, err
		}
		if is {
			left = append(left, h)
		}
	}
	return left, nil
}

// isLeft is left of one home, whose tenant is t now, nil for none.
func (m *Match) isLeft(ctx context.Context, h *domain.Home, t *domain.Tenant, name string, matches []domain.Match) (bool, error) {
	switch {
	case h.Leaving:
		return true, nil
	case h.Operators():
		return m.vacated(ctx, h)
	case h.Left(t):
		if name == "" && h.App == "" { // a report is kept by none
			var err error
			if matches, err = m.Store.Matches(ctx, h.Tenant); err != nil {
				return false, err
			}
		}
		return !slices.ContainsFunc(matches, func(o domain.Match) bool { return keeps(h, &o) }), nil
	case h.App != "":
		return name != "" && !slices.ContainsFunc(matches, func(o domain.Match) bool { return h.Needs(&o) }), nil
	default:
		return false, nil
	}
}

// keeps says whether a match keeps the namespace of its tenant, which nobody needs any more: not that of an earlier tenant of the name, for the end of which
// matches of this one wait (inherited). What v0.1.0 has made may be of either.
func keeps(h *domain.Home, m *domain.Match) bool {
	return h.Keeps(*m) && (m.Made.Label == "" || m.Made.Label == match.Label(h.ContextID, m.Rule))
}

// tenants are the one with a name, or all when it is "", by name.
func (m *Match) tenants(ctx context.Context, name string) (map[string]*domain.Tenant, error) {
	if name != "" {
		t, err := m.tenant(ctx, name)
		return map[string]*domain.Tenant{name: t}, err
	}
	all, err := m.Store.List(ctx, domain.Tenants, "")
	tenants := make(map[string]*domain.Tenant, len(all))
	for _, o := range all {
		tenants[o.LocalName()] = o.(*domain.Tenant)
	}
	return tenants, err
}

// tenant is the one that has the name now, nil when none has.
func (m *Match) tenant(ctx context.Context, name string) (*domain.Tenant, error) {
	o, err := m.Store.Get(ctx, domain.Tenants, domain.TenantKey(name))
	if fail.Is(err, fail.NotFound) {
		return nil, nil //nolint:nilnil // see above
	}
	if err != nil {
		return nil, err
	}
	return o.(*domain.Tenant), nil
}

// vacated says whether nothing of the operator's rules is in the namespace that they have in a cluster, and nothing is to be.
func (m *Match) vacated(ctx context.Context, h *domain.Home) (bool, error) {
	rules, err := m.Store.List(ctx, domain.OperatorRules, "")
	if err != nil || len(rules) > 0 {
		return false, err
	}
	tenants, err := m.Store.List(ctx, domain.Tenants, "")
	if err != nil {
		return false, err
	}
	for _, t := range tenants {
		matches, err := m.Store.Matches(ctx, t.LocalName())
		if err != nil || slices.ContainsFunc(matches, func(o domain.Match) bool { return h.Needs(&o) }) {
			return false, err
		}
	}
	return true, nil
}

// needed says whether somebody needs a shared home after all.
func (m *Match) needed(ctx context.Context, h *domain.Home) (bool, error) {
	if h.Operators() {
		vacated, err := m.vacated(ctx, h)
		return !vacated, err
	}
	t, err := m.tenant(ctx, h.Tenant)
	if err != nil || h.Left(t) {
		return false, err
	}
	matches, err := m.Store.Matches(ctx, h.Tenant)
	return slices.ContainsFunc(matches, func(o domain.Match) bool { return h.Needs(&o) }), err
}

// LeaveHomes removes the namespaces of tenants with the name that are gone, or are in another cluster now, and what else nobody
// needs any more. It fails, to be tried again, until all are gone.
func (m *Match) LeaveHomes(ctx context.Context, in TenantInput) error {
	stop := beat(ctx)
	defer stop()
	ctx, cancel := whileHeld(ctx)
	defer cancel(nil)
	matches, err := m.Store.Matches(ctx, in.Tenant)
	if err != nil {
		return err
	}
	left, err := m.left(ctx, in.Tenant, matches)
	if err != nil {
		return err
	}
	var errs []error
	for _, h := range left {
		errs = append(errs, m.leave(ctx, h))
	}
	return errors.Join(errs...)
}

// leave removes one home, unless somebody else has one of the name by now.
func (m *Match) leave(ctx context.Context, h domain.Home) error {
	m.moved.forget(h)
	if h.Shared() {
		if needed, err := m.announce(ctx, &h); err != nil || needed {
			return err
		}
	} else if err := m.unwatch(ctx, &h); err != nil {
		return err
	}
	cluster, err := m.Work.clusters.Since(ctx, h.Cluster, time.Now()) // as of a leaf, see Kube.clusterOf
	switch {
	case fail.Is(err, fail.NotFound): // it is not registered any more
		return m.noteGone(ctx, h)
	case err != nil:
		return err
	}
	waits, err := m.raze(ctx, cluster, &h)
	switch {
	case err != nil:
		return err
	case waits != "":
		again := fail.New(fail.Unavailable, "%s", waits)
		again.RetryAfter = waitAgain(time.Since(activity.GetInfo(ctx).ScheduledTime))
		return again
	default:
		return m.noteGone(ctx, h)
	}
}

// noteGone removes the record of a home, if nobody uses it again by now.
func (m *Match) noteGone(ctx context.Context, h domain.Home) error {
	if err := lease.Check(ctx); err != nil {
		return err
	}
	return m.Store.DeleteHome(ctx, h)
}

// announce says that a shared home is about to be removed, and then looks whether somebody needs it: then it is not.
func (m *Match) announce(ctx context.Context, h *domain.Home) (needed bool, err error) {
	put := func(leaving bool) error {
		if h.Leaving == leaving {
			return nil
		}
		if err := lease.Check(ctx); err != nil {
			return err
		}
		h.Leaving = leaving
		return m.Store.PutHome(ctx, *h)
	}
	if err := put(true); err != nil {
		return false, err
	}
	if needed, err = m.needed(ctx, h); err != nil || !needed {
		return false, err
	}
	return true, put(false)
}

// raze removes what is in the cluster. waits says of what is still there what it waits for.
func (m *Match) raze(ctx context.Context, cluster *kube.Cluster, h *domain.Home) (waits string, err error) {
	if h.App == "" {
		return cluster.RemoveNamespace(ctx, h.Namespace, match.LabelTenant, h.ContextID)
	}
	m.Work.matches.Remove(matchReportOf(cluster, h))
	return cluster.Remove(ctx, bundle.New(h.App, h.ContextID, h.Namespace).ResourceID, plan.DeploymentID(h.ContextID, h.App))
}

// unwatch has the cluster watched for the tenant no longer, and those of the same shard in which the tenant is now as before.
func (m *Match) unwatch(ctx context.Context, h *domain.Home) error {
	if m.Shards == nil {
		return nil
	}
	of, err := m.Store.HomesOf(ctx, h.ContextID)
	if err != nil {
		return err
	}
	// Earlier builds have told the shard of parts of a millisecond, too, which the record does not have.
	stays := Watching{ContextID: h.ContextID, Only: true, Began: h.Began.Add(policy.StoredTime - 1)}
	for _, o := range of {
		if o.Cluster != h.Cluster && !o.Shared() && shardOf(o.Cluster) == shardOf(h.Cluster) {
			stays.Clusters = append(stays.Clusters, o.Cluster)
		}
	}
	return m.Shards.Watch(ctx, shardOf(h.Cluster), stays)
}

// Watched are the homes for which clusters are to be watched.
func (m *Match) Watched(ctx context.Context) ([]domain.Home, error) {
	all, err := m.Store.Homes(ctx, "")
	if err != nil {
		return nil, err
	}
	left, err := m.left(ctx, "", nil)
	return slices.DeleteFunc(all, func(h domain.Home) bool {
		return h.Shared() || slices.ContainsFunc(left, func(o domain.Home) bool { return o.ID() == h.ID() })
	}), err
}

// watchAgain starts the watches of clusters in which tenants have a namespace and that nobody watches: somebody has ended them by
// hand.
func (m *Match) watchAgain(ctx context.Context) error {
	if m.Shards == nil {
		return nil
	}
	homes, err := m.Watched(ctx)
	if err != nil || len(homes) == 0 {
		return err
	}
	watches, err := m.Store.Watches(ctx, nil)
	for _, h := range homes {
		if w := watches[h.Cluster]; err == nil && !w.Stands(m.Now()) {
			err = m.Shards.Watch(ctx, shardOf(h.Cluster), watchingOf(&h))
		}
	}
	return err
}

// Reported takes what a cluster says of what matches have made there: what is gone is due again, and what has no record is to go
// if the cluster still has it.
// ours is false when it is not about a tenant's matches. The error is domain.Unreadable where what says so cannot be read.
func (m *Match) Reported(ctx context.Context, o *domain.Observation) (ours bool, err error) {
	h, err := m.homeOf(ctx, o.ContextID, o.Cluster)
	if h == nil || err != nil {
		return false, err
	}
	due := false
	err = cas.Do(ctx, func() error {
		records, err := m.Store.Matches(ctx, h.Tenant)
		if err != nil {
			return unreadable("matches of "+h.Tenant, err)
		}
		changed, unrecorded := match.Missed(records, o, h.Tenant, m.Now())
		changed = append(changed, m.stillReported(ctx, o, unrecorded)...)
		if len(changed) == 0 {
			return nil
		}
		due = true
		if err := m.Store.PutBehind(ctx, h.Tenant); err != nil {
			return err
		}
		return cas.Overtaken(m.Store.WriteMatches(ctx, h.Tenant, changed, nil))
	})
	if err == nil && due {
		err = m.Settler.Settle(ctx, h.Tenant)
	}
	return true, err
}

// asksOfReport is of how many objects a cluster is asked for one report. All that is unrecorded is by far less, but where somebody
// has removed records.
const asksOfReport = 100

// stillReported are those of what a report has unrecorded of which the cluster does not say that they are gone, or another's. The
// report may have been made before the records were removed because the objects were gone. It is to be called after the records
// were read: what was made since then is in the way of the write. What the cluster was not asked of, or did not answer, is as reported.
func (m *Match) stillReported(ctx context.Context, o *domain.Observation, unrecorded []domain.Match) []domain.Match {
	if len(unrecorded) == 0 {
		return nil
	}
	cluster, err := m.Work.clusters.Get(ctx, o.Cluster)
	if err != nil {
		return unrecorded
	}
	label := plan.DeploymentID(o.ContextID, o.App)
	gone := make([]bool, len(unrecorded))
	g := panics.New(ctx)
	g.SetLimit(settlesAtOnce)
	for i := range unrecorded[:min(len(unrecorded), asksOfReport)] {
		g.Go(func() error {
			found, err := cluster.Find(ctx, resourceOf(unrecorded[i].Made))
			gone[i] = err == nil && (found == nil || found.Deployment != label)
			return err // the others need not be asked
		})
	}
	_ = g.Wait()
	var there []domain.Match
	for i := range unrecorded {
		if !gone[i] {
			there = append(there, unrecorded[i])
		}
	}
	return there
}

// homeOf is that of a context in a cluster; nil when it has none there.
func (m *Match) homeOf(ctx context.Context, contextID string, c domain.ClusterName) (*domain.Home, error) {
	found, err := m.Store.Homes(ctx, "") // they are kept: a context's alone would be looked for among all
	for _, h := range found {
		if h.ContextID == contextID && h.Cluster == c && !h.Shared() {
			return &h, err
		}
	}
	return nil, err
}
