package activities

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/drover-io/drover/internal/cas"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/match"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
)

// MatchStore keeps what rules want for workloads, and what was made for that.
type MatchStore interface {
	Get(ctx context.Context, n *domain.Noun, key domain.Key) (domain.Object, error)
	List(ctx context.Context, n *domain.Noun, parent domain.Key) ([]domain.Object, error)
	WorkloadsByID(ctx context.Context, tenant string, ids []string) (found []*domain.Workload, version int64, err error)
	Matches(ctx context.Context, tenant string) ([]domain.Match, error)
	MatchesByID(ctx context.Context, tenant string, ids []string) ([]domain.Match, error)
	// WriteMatches writes and removes all or none: Conflict when one of them is not as it was read.
	WriteMatches(ctx context.Context, tenant string, write, remove []domain.Match) error
	// Behind are the tenants for which something may be due, each with the token of the last word that it is.
	Behind(ctx context.Context) (map[string]string, error)
	PutBehind(ctx context.Context, tenant string) error
	BehindToken(ctx context.Context, tenant string) (string, error)
	EndBehind(ctx context.Context, tenant, token string) error
	// Watches is what is known of the watches of clusters; nil clusters are all.
	Watches(ctx context.Context, clusters []domain.ClusterName) (map[domain.ClusterName]domain.Watch, error)
	Settings
	Homes
}

// Settler starts what settles the matches of tenants.
type Settler interface {
	// Settle has the matches of a tenant settled that are due.
	Settle(ctx context.Context, tenant string) error
}

// Match makes what rules want for workloads, and takes it away again.
type Match struct {
	Work    *Kube
	Store   MatchStore
	Settler Settler
	Shards  Shards // nil: nobody watches what is made
	Now     func() time.Time

	relapses relapses
	hearsay  hearsay
	known    knownSettings
	moved    movedIn
}

// TenantInput names a tenant.
type TenantInput struct {
	Tenant string `json:"tenant"`
}

// DueInput asks for matches that are due.
type DueInput struct {
	Tenant string `json:"tenant"`
	Limit  int    `json:"limit"`
	// AtOnce is how many matches are tried at once, after which there is another look: of so few nothing is said but that they
	// are due.
	AtOnce int `json:"atOnce,omitempty"`
	// Now is the time by the clock of the workflow, by which DueMatches.Next is then: a worker's own may be another one. A workflow of before
	// v0.2.0 does not say it.
	Now time.Time `json:"now,omitzero"`
}

// DueMatches are matches that are due.
type DueMatches struct {
	Matches []DueMatch `json:"matches,omitempty"` // those that are due for longest first
	More    bool       `json:"more,omitempty"`    // there are more than were asked for
	Next    time.Time  `json:"next,omitzero"`     // when something else is due; zero for never
	Leaves  bool       `json:"leaves,omitempty"`  // there are namespaces to leave, see LeaveHomes
}

// DueMatch names a match.
type DueMatch struct {
	ID   string `json:"id"`           // domain.Match's
	Rule string `json:"rule"`         // the rule's id
	Of   string `json:"of,omitempty"` // namespace and name of what was made, or of the workload
}

// MatchesInput asks for some matches to be settled.
type MatchesInput struct {
	Tenant string   `json:"tenant"`
	IDs    []string `json:"ids"`
}

// Settled is what came of that.
type Settled struct {
	Away bool      `json:"away,omitempty"` // the cluster does not answer
	Next time.Time `json:"next,omitzero"`  // when something of it is due again; zero for never
}

// DueMatches lists matches of a tenant that are due. When none is, now or later, the tenant is not behind any more.
func (m *Match) DueMatches(ctx context.Context, in DueInput) (*DueMatches, error) {
	stop := beat(ctx)
	defer stop()
	token, err := m.Store.BehindToken(ctx, in.Tenant) // what becomes due from here on brings another one
	if err != nil {
		return nil, err
	}
	all, err := m.Store.Matches(ctx, in.Tenant)
	if err != nil {
		return nil, err
	}
	now := m.Now()
	due, next := match.Due(all, now)
	if !next.IsZero() && !in.Now.IsZero() {
		next = in.Now.Add(next.Sub(now))
	}
	if len(due) > 0 && len(due) <= in.AtOnce {
		out := &DueMatches{Next: next}
		for _, d := range due {
			out.Matches = append(out.Matches, DueMatch{ID: d.ID(), Rule: d.Rule.Name()})
		}
		return out, nil
	}
	left, err := m.left(ctx, in.Tenant, all)
	if err != nil {
		return nil, err
	}
	if len(due) == 0 && next.IsZero() && len(left) == 0 {
		return &DueMatches{}, m.Store.EndBehind(ctx, in.Tenant, token)
	}
	out := &DueMatches{Next: next, More: len(due) > in.Limit, Leaves: len(left) > 0}
	due = due[:min(len(due), in.Limit)]
	names, err := m.names(ctx, in.Tenant, due)
	if err != nil {
		return nil, err
	}
	for _, d := range due {
		out.Matches = append(out.Matches, DueMatch{ID: d.ID(), Rule: d.Rule.Name(), Of: names[d.Workload]})
	}
	return out, nil
}

// names are namespace and name of the workloads that are there, by id.
func (m *Match) names(ctx context.Context, tenant string, of []domain.Match) (map[string]string, error) {
	workloads, _, err := m.Store.WorkloadsByID(ctx, tenant, workloadsOf(of))
	if err != nil {
		return nil, err
	}
	names := make(map[string]string, len(workloads))
	for _, w := range workloads {
		names[w.ID] = plain(short(w.ResourceNamespace, 63) + "." + short(w.ResourceName, domain.MaxSubdomain))
	}
	return names, nil
}

// short is the beginning of a text. A tenant's cluster may have named a workload with half a megabyte, which no history takes.
func short(s string, most int) string { return strings.ToValidUTF8(s[:min(len(s), most)], "") }

// plain is a text without what is six times as long in JSON.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune("<>&\u2028\u2029", r) {
			return '?'
		}
		return r
	}, s)
}

func workloadsOf(matches []domain.Match) (ids []string) {
	for i := range matches {
		ids = append(ids, matches[i].Workload)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// SettleBehind starts what settles matches for each tenant that is behind, and returns how many. One for which that fails does not keep
// the others from it.
func (m *Match) SettleBehind(ctx context.Context) (int, error) {
	stop := beat(ctx)
	defer stop()
	behind, err := m.Store.Behind(ctx)
	if err != nil {
		return 0, err
	}
	left, err := m.left(ctx, "", nil) // a tenant's namespace goes after its document
	if err != nil {
		return 0, err
	}
	if err := m.watchAgain(ctx); err != nil {
		return 0, err
	}
	for _, h := range left {
		behind[h.Tenant] = ""
	}
	var failed error
	for tenant := range behind {
		err := m.Settler.Settle(ctx, tenant)
		if fail.IsUnanswered(err) || ctx.Err() != nil {
			return 0, cmp.Or(err, ctx.Err())
		}
		if err != nil {
			failed = errors.Join(failed, fail.Wrap(err, fail.KindOf(err), "tenant %q: %s", tenant, fail.TextOf(err)))
		}
	}
	return len(behind), failed
}

// AwaitCluster waits until the infrastructure cluster of a tenant answers. All that is due there waits for this one. Of the tenants
// of a cluster one asks, as far as their activities are on the same worker.
func (m *Match) AwaitCluster(ctx context.Context, in TenantInput) error {
	stop := beat(ctx)
	defer stop()
	ctx, cancel := untilWorkerStops(ctx)
	defer cancel(nil)
	again := pause.Backoff{First: policy.FirstAway, Most: policy.LongestAway}
	believed := policy.FirstAway // for how long others are, who say that it does not answer
	for {
		o, err := m.Store.Get(ctx, domain.Tenants, domain.TenantKey(in.Tenant))
		if fail.Is(err, fail.NotFound) { // what is left of it is asked of its cluster when it is tried
			return pause.For(ctx, m.relapses.next(in.Tenant, m.Now()))
		}
		var cluster *kube.Cluster
		if err == nil {
			cluster, err = m.ping(ctx, o.(*domain.Tenant), believed)
		}
		if err == nil {
			return pause.For(ctx, m.relapses.next(in.Tenant, m.Now()))
		}
		if believed = again.Next(); cluster == nil {
			err = pause.For(ctx, believed)
		} else {
			err = m.hearsay.wait(ctx, cluster, believed)
		}
		if err != nil {
			return err
		}
	}
}

// errSilent says that others have heard a moment ago that a cluster does not answer.
var errSilent = fail.New(fail.Unavailable, "it has not answered others")

// ping asks the cluster of a tenant whether it answers, unless others know; nil is the cluster when it cannot be asked.
func (m *Match) ping(ctx context.Context, t *domain.Tenant, believed time.Duration) (*kube.Cluster, error) {
	name := t.ClusterName()
	cluster, err := m.Work.clusters.Get(ctx, name)
	if err != nil {
		m.Work.outages.gone(activity.GetLogger(ctx), "matches", name, err)
		return nil, err
	}
	q, err := m.hearsay.ask(ctx, cluster, t.Name, believed)
	switch {
	case err != nil:
		return cluster, err
	case q == nil:
		return cluster, errSilent
	case q.lately:
		m.Work.outages.back(activity.GetLogger(ctx), "matches", name)
		return cluster, nil
	}
	defer q.end()
	err = cluster.Ping(ctx)
	switch {
	case err == nil:
		q.hears(true)
		m.Work.outages.back(activity.GetLogger(ctx), "matches", name)
	case ctx.Err() == nil:
		q.hears(false)
		m.Work.outages.gone(activity.GetLogger(ctx), "matches", name, err)
	}
	return cluster, err
}

const (
	// settlesAtOnce is how many requests to a cluster an attempt has under way.
	settlesAtOnce = 8
	// settleRounds bounds how often an attempt goes over its matches: each is deleted and made again in three, and starts anew
	// when somebody has changed it meanwhile. That is a round as any other and not a try of cas.Do: what it did in the cluster is done, the
	// next one reads first and goes on from there, and an attempt that is overtaken again and again ends and says so.
	settleRounds = 20
)

// SettleMatches goes over matches until none of them is due now, or the cluster does not answer. A match that the cluster does
// not take does not fail it: its record says why.
func (m *Match) SettleMatches(ctx context.Context, in MatchesInput) (*Settled, error) {
	local := activity.GetInfo(ctx).IsLocalActivity
	if local {
		leave, ok := m.Work.tries.enter()
		if !ok {
			return nil, ErrNotAtOnce
		}
		defer leave()
	}
	stop := beat(ctx)
	defer stop()
	ctx, cancel := whileHeld(ctx)
	defer cancel(nil)
	out := &Settled{}
	for range settleRounds {
		records, err := m.Store.MatchesByID(ctx, in.Tenant, in.IDs)
		if err != nil {
			return nil, err
		}
		due, next := match.Due(records, m.Now())
		if out.Next = next; len(due) == 0 {
			return out, nil
		}
		s := &settling{Match: m, after: map[string]domain.Match{}}
		for i := range due {
			s.after[due[i].ID()] = due[i]
		}
		err = s.round(ctx, in.Tenant, due)
		switch {
		case errors.Is(err, cas.ErrOvertaken):
			continue
		case err != nil && local:
			return nil, ErrNotAtOnce
		case err != nil:
			return nil, err
		case s.away.Load() && local && !s.silent: // the deadline may have been too short; the activity finds out
			return nil, ErrNotAtOnce
		case s.away.Load():
			out.Away = true
			return out, nil
		}
		// Who has marked one of them since says so to SettleTenant.
		due, next = match.Due(slices.Collect(maps.Values(s.after)), m.Now())
		if len(due) > 0 {
			continue
		}
		if out.Next.IsZero() || !next.IsZero() && next.Before(out.Next) {
			out.Next = next
		}
		return out, nil
	}
	out.Next = m.Now()
	return out, nil
}

// settling is one round over matches of a tenant.
type settling struct {
	*Match
	tenant     *domain.Tenant
	hosts      []*domain.Host
	rules      map[domain.Key]*match.Rule
	workloads  map[string]*domain.Workload
	after      map[string]domain.Match // the records as they are by now, as far as this round knows
	away       atomic.Bool
	silent     bool     // others have heard that: nothing was sent
	namespaces sync.Map // func() error by name: makes one that was found to be missing, once
}

// one is a match in a round: what is stored of it, what is to be done, and with what.
type one struct {
	domain.Match
	step     match.Step
	resource *match.Resource
	before   domain.Match // as it was read
}

// round takes each of the matches one step further.
func (s *settling) round(ctx context.Context, tenant string, due []domain.Match) error {
	if err := s.load(ctx, tenant, due); err != nil {
		return err
	}
	work, write, remove := s.decide(due)
	q, err := s.ask(ctx, work)
	if err != nil {
		return err
	}
	if s.silent { // what asks nothing of the cluster is done all the same
		return s.writeRest(ctx, work, write, remove)
	}
	defer func() {
		if s.away.Load() {
			q.hears(false)
		}
		q.end()
	}()
	if err := s.moveIn(ctx, work); err != nil || s.away.Load() {
		return err
	}
	if err := s.write(ctx, write, remove); err != nil {
		return err
	}
	for i := range write { // they have another revision now
		for j := range work {
			if work[j].Rule == write[i].Rule && work[j].Workload == write[i].Workload {
				work[j].Match = write[i]
			}
		}
	}
	blocked, err := s.lookAgain(ctx, work)
	if err != nil || s.away.Load() {
		return err
	}
	s.reportAgain(ctx, work)
	ends := make([]*domain.Match, len(work))
	for i, why := range blocked {
		end := match.Waiting(match.Unsent(work[i].Match, work[i].before), why, s.Now())
		ends[i], work[i].step = &end, match.Rest
	}
	acting, stop := untilNoted(ctx)
	defer stop()
	if len(work) > 0 { // one finds out whether the cluster answers
		sends := ends[0] == nil
		if ends[0] = s.act(acting, &work[0], ends[0]); sends && ends[0] != nil && !s.away.Load() {
			q.hears(true)
		} else if s.away.Load() {
			q.hears(false)
		}
		q.end() // the others need not wait for the rest
	}
	all, err := s.actAll(ctx, acting, work, ends)
	if err == nil && !all && acting.Err() != nil {
		return errOutOfTime
	}
	return err
}

// errOutOfTime says that not all was done in the time that there was.
var errOutOfTime = fail.New(fail.Timeout, "not all was done in time")

// untilNoted ends so long before ctx does that what came of requests can be written.
func untilNoted(ctx context.Context) (context.Context, context.CancelFunc) {
	if ends, ok := ctx.Deadline(); ok {
		return context.WithDeadline(ctx, ends.Add(-policy.Note))
	}
	return context.WithCancel(ctx)
}

// noteEvery is how often it is written what came of some matches while the requests of others go on.
var noteEvery = policy.NoteEvery

// actAll takes the step of each but the first, whose is taken, and writes what came of them: now and then, so that one whose request
// hangs holds up no word on the others. Requests end with acting. all says that of each it is known what came of it.
func (s *settling) actAll(ctx, acting context.Context, work []one, ends []*domain.Match) (all bool, err error) {
	ended := make(chan *domain.Match, len(work))
	go func() {
		defer close(ended)
		g := panics.New(acting)
		g.SetLimit(settlesAtOnce)
		for i := range work {
			if i == 0 {
				ended <- ends[i]
				continue
			}
			g.Go(func() error {
				if acting.Err() == nil && !s.away.Load() {
					ended <- s.act(acting, &work[i], ends[i])
				}
				return nil
			})
		}
		_ = g.Wait() // none returns an error
	}()
	tick := time.NewTicker(noteEvery)
	defer tick.Stop()
	overtaken, known := false, 0
	for goesOn := true; goesOn; {
		var some []*domain.Match
		for waits := true; waits && goesOn; {
			select {
			case end, more := <-ended:
				if goesOn = more; end != nil {
					some = append(some, end)
				}
			case <-tick.C:
				waits = len(some) == 0
			}
		}
		known += len(some)
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err == nil {
			err = s.end(ctx, some)
		}
		if errors.Is(err, cas.ErrOvertaken) { // it is looked at again when all have ended
			overtaken, err = true, nil
		}
	}
	if err == nil && overtaken {
		err = cas.ErrOvertaken
	}
	return known == len(work), err
}

// silentFor is for how long those who settle matches go by what others have heard of a cluster that does not answer.
var silentFor = policy.FirstAway

// ask waits for the turn to ask the cluster of which something is wanted first. s.silent says that others have heard that it does
// not answer. One of which nothing is known otherwise, or of which nothing is wanted, is nobody's turn.
func (s *settling) ask(ctx context.Context, work []one) (*question, error) {
	if len(work) == 0 {
		return &question{hearsay: &s.hearsay}, nil
	}
	cluster, err := s.Work.clusters.Since(ctx, work[0].Made.Cluster, s.Now())
	if err != nil { // who acts finds out why
		return &question{hearsay: &s.hearsay}, nil //nolint:nilerr // see above
	}
	q, err := s.hearsay.ask(ctx, cluster, s.tenant.Name, silentFor)
	if q == nil && err == nil {
		s.silent = true
		s.away.Store(true)
	}
	return q, err
}

// writeRest is write without the records of what is not to be sent after all.
func (s *settling) writeRest(ctx context.Context, work []one, write, remove []domain.Match) error {
	write = slices.DeleteFunc(write, func(m domain.Match) bool {
		return slices.ContainsFunc(work, func(o one) bool { return o.ID() == m.ID() })
	})
	return s.write(ctx, write, remove)
}

// load reads what the matches depend on, after they were read: of what has changed before they were marked nothing is missed.
func (s *settling) load(ctx context.Context, tenant string, due []domain.Match) error {
	of, err := s.settings(ctx, tenant)
	if err != nil {
		return err
	}
	if s.tenant, s.hosts = of.tenant, of.hosts; s.tenant == nil {
		s.tenant, err = s.former(ctx, tenant)
		return err
	}
	s.rules = map[domain.Key]*match.Rule{}
	for i := range due {
		if due[i].Wanted == nil {
			continue
		}
		if s.rules[due[i].Rule], err = of.rule(ctx, s.Store, due[i].Rule); err != nil {
			return err
		}
	}
	s.weigh(tenant, of)
	workloads, _, err := s.Store.WorkloadsByID(ctx, tenant, workloadsOf(due))
	s.workloads = make(map[string]*domain.Workload, len(workloads))
	for _, w := range workloads {
		s.workloads[w.ID] = w
	}
	return err
}

// former is a tenant that is gone although it has matches: nobody has rules or workloads any more by which something is wanted. Which of several
// tenants of the name it was is told by homes as long as there is but one's.
func (s *settling) former(ctx context.Context, tenant string) (*domain.Tenant, error) {
	t := &domain.Tenant{Metadata: domain.Metadata{Name: tenant}}
	homes, err := s.Store.Homes(ctx, tenant)
	for _, h := range homes {
		if !h.Operators() {
			t.ContextID, t.Spec.Cluster = h.ContextID, h.Cluster.String()
		}
	}
	return t, err
}

// decide says what is to be done, and what is to be written before that.
func (s *settling) decide(due []domain.Match) (work []one, write, remove []domain.Match) {
	for _, m := range due {
		o := one{Match: m, before: m}
		changed := s.want(&o)
		switch o.step = match.Next(&o.Match); o.step {
		case match.Forget:
			remove = append(remove, o.Match)
			continue
		case match.Rest:
			write = append(write, match.Rested(o.Match))
			continue
		case match.Create:
			o.Match, changed = match.Sending(o.Match, o.resource, s.Now()), true
		case match.Withdraw:
			o.Match, changed = match.Withdrawing(o.Match), changed || m.Mark != domain.MarkDeleting
		case match.Look:
		}
		if changed {
			write = append(write, o.Match)
		}
		work = append(work, o)
	}
	return work, write, remove
}

// want looks what is wanted by now: it may be something else than what the record says.
func (s *settling) want(o *one) (changed bool) {
	if o.Wanted == nil {
		return false
	}
	var wanted *domain.Wanted
	rule, w := s.rules[o.Rule], s.workloads[o.Workload]
	if rule != nil && w != nil && rule.Matches(w) {
		var m domain.Match
		m, o.resource = rule.Want(s.tenant, s.hosts, w)
		wanted = m.Wanted
	}
	due := o.Due
	if o.Match, changed = match.Change(o.Match, wanted, s.Now()); changed && o.Due.IsZero() {
		o.Due = due // until it is settled
	}
	return changed
}

// write writes records before what they say is done.
func (s *settling) write(ctx context.Context, write, remove []domain.Match) error {
	if len(write)+len(remove) == 0 {
		return nil
	}
	if err := lease.Check(ctx); err != nil {
		return err
	}
	if err := s.Store.WriteMatches(ctx, s.tenant.Name, write, remove); err != nil {
		return cas.Overtaken(err)
	}
	for i := range write {
		s.after[write[i].ID()] = write[i]
	}
	for i := range remove {
		delete(s.after, remove[i].ID())
	}
	return nil
}

// end writes what came of it. Of a record that was changed meanwhile nothing is written: it is due still, and looked at again.
func (s *settling) end(ctx context.Context, ends []*domain.Match) error {
	var write, remove []domain.Match
	for _, m := range ends {
		switch {
		case m.Made == nil && m.Wanted == nil:
			remove = append(remove, *m)
		default:
			write = append(write, *m)
		}
	}
	err := s.write(ctx, write, remove)
	if !errors.Is(err, cas.ErrOvertaken) {
		return err
	}
	for i := range write {
		if err := s.write(ctx, write[i:i+1], nil); err != nil && !errors.Is(err, cas.ErrOvertaken) {
			return err
		}
	}
	for i := range remove {
		if err := s.write(ctx, nil, remove[i:i+1]); err != nil && !errors.Is(err, cas.ErrOvertaken) {
			return err
		}
	}
	return cas.ErrOvertaken
}

// act does the step, and returns the record as it is to be then; nil when nobody knows what came of it. One that is not to be done
// has ended as it is.
func (s *settling) act(ctx context.Context, o *one, ended *domain.Match) *domain.Match {
	if ended != nil {
		return ended
	}
	cluster, err := s.Work.clusters.Get(ctx, o.Made.Cluster)
	switch {
	case fail.Is(err, fail.NotFound) && o.step == match.Withdraw && o.Wanted == nil: // it is not registered any more: who has abandoned it was told
		end := match.Withdrawn(o.Match, s.Now())
		return &end
	case err != nil: // that is no word on the object
		s.gone(ctx, o.Made.Cluster, err)
		return nil
	}
	var end domain.Match
	switch o.step {
	case match.Create:
		end, err = s.create(ctx, cluster, o)
	case match.Look:
		end, err = s.look(ctx, cluster, o)
	case match.Withdraw:
		end, err = s.withdraw(ctx, cluster, o)
	case match.Forget, match.Rest:
	}
	if err != nil {
		return s.failed(ctx, o, err)
	}
	return &end
}

// failed takes an error of the cluster: its word on the object, or that it cannot be asked now.
func (s *settling) failed(ctx context.Context, o *one, err error) *domain.Match {
	end, why := o.Match, fail.TextOf(err)
	switch {
	case ctx.Err() != nil || errors.Is(err, lease.ErrLost):
		return nil
	case errors.Is(err, kube.ErrReplaced):
		return nil
	case errors.Is(err, errTooLate):
		end = match.Unsent(end, o.before)
	case fail.KindOf(err).Retryable() && !kube.IsAnswer(err):
		if o.step == match.Create {
			end = match.Unanswered(end, s.Now())
		}
		if fail.Is(err, fail.Timeout) && s.answers(ctx, o) { // a webhook, say, does not
			end = match.Later(end, why, s.Now())
			break
		}
		s.gone(ctx, o.Made.Cluster, err)
		if o.step != match.Create {
			return nil
		}
	case fail.KindOf(err).Retryable():
		end = match.Later(end, why, s.Now())
	case o.step == match.Withdraw:
		end = match.Stuck(end, why, s.Now())
	default: // create knows when nothing is there
		end = match.Unclear(end, why)
	}
	return &end
}

// answers says whether the cluster answers something else.
func (s *settling) answers(ctx context.Context, o *one) bool {
	cluster, err := s.Work.clusters.Get(ctx, o.Made.Cluster)
	return err == nil && cluster.Ping(ctx) == nil
}

// gone notes that the cluster cannot be asked.
func (s *settling) gone(ctx context.Context, cluster domain.ClusterName, err error) {
	s.Work.outages.gone(activity.GetLogger(ctx), "matches", cluster, err)
	s.away.Store(true)
}

// errTooLate says that the record of a create is too old for it to be sent: it is written anew.
var errTooLate = errors.New("the create was to be sent earlier")

// create makes the object. One that is there already is looked at.
func (s *settling) create(ctx context.Context, cluster *kube.Cluster, o *one) (domain.Match, error) {
	if s.Now().Sub(o.Made.Sent) > policy.SendWithin {
		return domain.Match{}, errTooLate
	}
	uid, err := cluster.Create(ctx, o.resource.ID, o.resource.Manifest)
	if errors.Is(err, kube.ErrNoNamespace) {
		if err = s.makeNamespace(ctx, cluster, o.resource.ID.Namespace); err == nil {
			uid, err = cluster.Create(ctx, o.resource.ID, o.resource.Manifest)
		}
		if s.Work.asked(o.Made.Cluster) { // it went with the namespace
			h := domain.ReportHome(s.tenant, o.Rule, o.resource.ID.Namespace)
			s.forget(ctx, &h)
			s.report(ctx, &h)
		}
	}
	switch {
	case fail.Is(err, fail.Conflict):
		return s.look(ctx, cluster, o)
	case err != nil && !fail.KindOf(err).Retryable():
		// A create before this one, whose answer nobody got, may have arrived meanwhile: quotas, for example, refuse before the
		// cluster sees that the name is taken.
		if found, findErr := cluster.Find(ctx, o.resource.ID); findErr != nil {
			return domain.Match{}, findErr
		} else if found != nil && found.Deployment == o.resource.Label {
			return s.look(ctx, cluster, o)
		}
		if !match.Arriving(&o.before, s.Now()).IsZero() {
			return match.Later(o.Match, fail.TextOf(err), s.Now()), nil
		}
		return match.Refused(o.Match, fail.TextOf(err)), nil
	case err != nil:
		return domain.Match{}, err
	default:
		return match.Settled(o.Match, uid), nil
	}
}

// look says how the object stands that was made, and puts its annotations right.
func (s *settling) look(ctx context.Context, cluster *kube.Cluster, o *one) (domain.Match, error) {
	found, err := cluster.Find(ctx, resourceOf(o.Made))
	switch {
	case err != nil:
		return domain.Match{}, err
	case found == nil && o.Made.UID == "": // it was there a moment ago
		return o.Match, nil
	case found == nil:
		return match.Gone(o.Match, "it was gone from the cluster", s.Now()), nil
	case found.Deployment != o.resource.Label, found.UID != o.Made.UID && !match.IsFor(found.Annotations, o.Workload):
		return match.Taken(o.Match, s.Now()), nil
	case found.Ending:
		return match.Waiting(o.Match, "it is being deleted by somebody else, and is made again then", s.Now()), nil
	case found.Evicted:
		return match.Evicted(o.Match, s.Now()), nil
	case found.Annotations[match.AnnotationSpec] != o.resource.Spec:
		return match.Doomed(o.Match), nil
	}
	if changed := match.Annotations(found.Annotations, found.Ours, o.resource); len(changed) > 0 {
		err := cluster.Annotate(ctx, o.resource.ID, found.UID, changed)
		if fail.Is(err, fail.NotFound) {
			return match.Gone(o.Match, "it was gone from the cluster", s.Now()), nil
		}
		if err != nil {
			return domain.Match{}, err
		}
	}
	return match.Settled(match.Annotated(o.Match, o.resource), found.UID), nil
}

// withdraw deletes the object, but for that of another workload: one may be in its place by now, or have been before the create that nobody answered.
func (s *settling) withdraw(ctx context.Context, cluster *kube.Cluster, o *one) (domain.Match, error) {
	label := o.Made.Label
	if label == "" { // it was made by v0.1.0
		label = match.Label(s.tenant.ContextID, o.Rule)
	}
	waits, err := cluster.RemoveOurs(ctx, resourceOf(o.Made), label, func(uid string, annotations map[string]string) bool {
		return uid == o.Made.UID || match.IsFor(annotations, o.Workload)
	})
	now := s.Now()
	switch {
	case err != nil:
		return domain.Match{}, err
	case waits != "":
		return match.Ending(o.Match, waits, now), nil
	default:
		sent := match.Sent(o.Match, now)
		if until := match.Arriving(&sent, now); !until.IsZero() {
			end := match.Ending(sent, "its create may be on the way", now)
			end.Next = until
			return end, nil
		}
		return match.Withdrawn(o.Match, now), nil
	}
}

func resourceOf(m *domain.Made) plan.ResourceID {
	return plan.ResourceID{Group: m.Group, Version: m.Version, Kind: m.Kind, Namespace: m.Namespace, Name: m.Name}
}

// makeNamespace makes the namespace in which the tenant's matches are. All who need it get what came of that.
func (s *settling) makeNamespace(ctx context.Context, cluster *kube.Cluster, name string) error {
	once, _ := s.namespaces.LoadOrStore(name, sync.OnceValue(func() error {
		r := match.Namespace(s.tenant, name)
		_, err := cluster.Create(ctx, r.ID, r.Manifest)
		if fail.Is(err, fail.Conflict) { // somebody else was faster
			return nil
		}
		return err
	}))
	return once.(func() error)()
}
