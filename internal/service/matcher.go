package service

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/drover-io/drover/internal/cas"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/match"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/share"
)

// TenantStore keeps what tenants say, and what follows from it. store.Store has it, and says more of each method.
type TenantStore interface {
	Get(ctx context.Context, noun *domain.Noun, key domain.Key) (domain.Object, error)
	Exists(ctx context.Context, noun *domain.Noun, key domain.Key) (bool, error)
	List(ctx context.Context, noun *domain.Noun, parent domain.Key) ([]domain.Object, error)
	Children(ctx context.Context, noun *domain.Noun, parent domain.Key) ([]domain.Object, error)

	WorkloadsAt(ctx context.Context, tenant string) (all []*domain.Workload, version int64, err error)
	WorkloadsByID(ctx context.Context, tenant string, ids []string) (found []*domain.Workload, version int64, err error)
	KnownWorkloads(ctx context.Context, tenant string, ids []string) (found []*domain.Workload, version int64, err error)
	WorkloadsVersion(ctx context.Context, tenant string) (int64, error)
	CountWorkloads(ctx context.Context, tenant string) (count int, bytes int64, err error)
	LookBytes(ctx context.Context, tenant string) (int64, error)
	WriteWorkloads(ctx context.Context, tenant string, w *domain.WorkloadWrite) (domain.WorkloadsWritten, error)
	RemoveHeld(ctx context.Context, tenant string) (removed []string, err error)
	AnyGone(ctx context.Context, tenant string, until time.Time) (bool, error)
	GoneRoom(ctx context.Context, tenant string) (domain.Room, error)
	RemoveGone(ctx context.Context, tenant string, until time.Time) (removed []string, err error)
	ForgetTenant(ctx context.Context, tenant string) error
	// Homes are those of tenants with a name; all when it is "".
	Homes(ctx context.Context, tenant string) ([]domain.Home, error)

	Matches(ctx context.Context, tenant string) ([]domain.Match, error)
	KnownMatches(ctx context.Context, tenant string) ([]domain.Match, error)
	MatchesByID(ctx context.Context, tenant string, ids []string) ([]domain.Match, error)
	WriteMatches(ctx context.Context, tenant string, write, remove []domain.Match) error
	PutBehind(ctx context.Context, tenant string) error

	BeginStream(ctx context.Context, tenant, process string) (*domain.Stream, error)
	EndStream(ctx context.Context, stream *domain.Stream, settled bool) error
	NoteStream(ctx context.Context, stream *domain.Stream, left []domain.LeftOut, count int) error
	StreamStands(ctx context.Context, stream *domain.Stream) (last, cut bool, err error)
	StandingStreams(ctx context.Context) (tokens map[string]string, err error)
	TenantStream(ctx context.Context, tenant string) (domain.TenantStream, error)
	LostStreams(ctx context.Context) ([]*domain.Stream, error)
	StreamsOf(ctx context.Context, process string) ([]*domain.Stream, error)
	CutStream(ctx context.Context, lost *domain.Stream) error
	SettleStream(ctx context.Context, lost *domain.Stream) error
	Pulse(ctx context.Context, process string, at time.Time) error
	EndPulse(ctx context.Context, process string) error

	ChangeSettings(ctx context.Context, tenant string) (token string, err error)
	SettingsChanged(ctx context.Context, tenant, token string) error
	SettingsVersion(ctx context.Context, tenant string) (version string, changing bool, err error)
	UnfinishedSettings(ctx context.Context, longer time.Duration) (map[string][]string, error)

	NoteUse(ctx context.Context, n *domain.Noun, key domain.Key, hash []byte, at time.Time) error
}

// Settler has the matches of a tenant settled that are due. engine.Engine has it.
type Settler interface {
	Settle(ctx context.Context, tenant string) error
}

// Matcher keeps the matches of rules and workloads in line with both, and takes in what tenants say. Whoever changes something
// writes it first and looks then at what it has to be compared with: a workload is stored before rules are read, a rule before
// workloads are. So of two that cross, on whatever processes, one sees the other. Who has written matches looks once more
// whether what they follow from is still so.
type Matcher struct {
	Heard   Heard // what clusters report, set before all else; nil: it is not shown
	store   TenantStore
	settler Settler // nil: others find what is due
	now     Clock
	moment  lease.Clock // now's, with the time for which the machine was suspended
	process string      // whose pulse streams live by

	runs TenantRuns // nil: nobody to ask what goes on
	ui   explain.WebUI

	known *lru.Weighed[string, *settings]

	looking *share.Reads[struct{}] // at all workloads, by tenant: one of a tenant at a time
	room    *semaphore.Weighted    // bytes of what those read
	reads   *reads                 // of all workloads or matches, for those who ask

	began    time.Time                       // by which its streams look at the same time
	standing *share.Reads[map[string]string] // tokens of streams by tenant

	mu       sync.Mutex
	unseen   map[string]domain.Key // by tenant, the rule that all workloads are to be looked at for; "": for all rules
	changing map[string][]word     // by tenant
	intakes  map[string]*Intake    // the last stream of each tenant in this process
	begins   map[string]int        // how many streams of a tenant begin in this process
	kicked   map[string]bool       // tenants to be settled; true: once more
	stats    map[string]*TenantCounts
	again    map[string]time.Time // when a stream of a tenant has ended so that all is said again
	sighted  map[string]sighting  // by tenant, of its stream that stands
	work     sync.WaitGroup
	ending   context.Context // of what goes on beside requests and streams
	end      context.CancelFunc
	closed   bool // nothing more is begun beside them
}

// word says that settings of a tenant are being changed, until it is taken back. One is as good as another: what counts is how many stand.
type word struct {
	token string // of ChangeSettings
	given lease.Instant
}

// sighting is when this process has read first that a stream stands.
type sighting struct {
	token string // the stream's
	since lease.Instant
}

// knownSettings is for how many tenants what their rules say is kept, and knownBytes is how much they may say together.
const (
	knownSettings = 2_000
	knownBytes    = 4 * limits.TenantRuleBytes
)

// lookBytes bounds what looks at all workloads of tenants read at a time, and leastLook is what each of them is taken to read at least.
const (
	lookBytes = 4 * limits.Tenants
	leastLook = 1 << 20
)

// NewMatcher makes one. The process is a name that no other process has.
func NewMatcher(s TenantStore, settler Settler, now Clock, process string) *Matcher {
	ending, end := context.WithCancel(context.Background())
	return &Matcher{
		ending: ending, end: end,
		store: s, settler: settler, now: now, moment: lease.By(now), process: process, known: lru.NewWeighed[string, *settings](knownSettings, knownBytes),
		looking: share.New[struct{}](), room: semaphore.NewWeighted(lookBytes), reads: newReads(s.LookBytes),
		began: time.Now(), standing: share.New[map[string]string](),
		unseen: map[string]domain.Key{}, changing: map[string][]word{}, intakes: map[string]*Intake{}, begins: map[string]int{}, kicked: map[string]bool{},
		stats: map[string]*TenantCounts{}, again: map[string]time.Time{}, sighted: map[string]sighting{},
	}
}

// settings are what a tenant's matches follow from, but for workloads. They are shared, and do not change.
type settings struct {
	version string // store.SettingsVersion, from before the rest was read
	tenant  *domain.Tenant
	hosts   []*domain.Host
	rules   []*match.Rule
}

// settings reads those of a tenant. NotFound when there is no such tenant.
func (m *Matcher) settings(ctx context.Context, tenant string) (*settings, error) {
	version, changing, err := m.store.SettingsVersion(ctx, tenant)
	if err != nil {
		return nil, err
	}
	if known, ok := m.known.Get(tenant); ok && !changing && known.version == version {
		return known, nil
	}
	s := &settings{version: version}
	o, err := m.store.Get(ctx, domain.Tenants, domain.TenantKey(tenant))
	if err != nil {
		return nil, err
	}
	s.tenant = o.(*domain.Tenant)
	hosts, err := m.store.Children(ctx, domain.Hosts, domain.TenantKey(tenant))
	if err != nil {
		return nil, err
	}
	for _, h := range hosts {
		s.hosts = append(s.hosts, h.(*domain.Host))
	}
	var rules []*domain.WorkloadRule
	var bytes int64
	for _, from := range []struct {
		noun   *domain.Noun
		parent domain.Key
	}{{domain.WorkloadRules, domain.TenantKey(tenant)}, {domain.OperatorRules, ""}} {
		list, err := m.store.Children(ctx, from.noun, from.parent)
		if err != nil {
			return nil, err
		}
		for _, o := range list {
			rule := domain.RuleOf(o)
			rules, bytes = append(rules, rule), bytes+int64(rule.Bytes())
		}
	}
	s.rules = match.CompileAll(s.tenant, rules)
	if !changing {
		m.known.Add(tenant, s, bytes)
	}
	return s, nil
}

// scope is the part of a tenant's matches that is looked at.
type scope struct {
	workloads []string   // only those of these workloads; nil: of all
	rule      domain.Key // only those of this rule; "": of all
	// written says that this process has just written the workloads: what it knows of them is not older than that.
	written bool
}

// errAll says that all workloads of a tenant are to be looked at, where only some were.
var errAll = errors.New("all workloads are to be looked at")

// look compares the matches that there are to be with the records, writes the difference and has settled what is due. Nothing
// is written when nothing differs. Of a tenant that is gone nothing is wanted.
//
// A look at all workloads reads all that a tenant has, and a tenant may ask for many at a time, as by writing rules: those who ask while
// one goes on share the next one, which is for all of their rules. Unavailable for who has no time left before that has ended: it goes on without him.
func (m *Matcher) look(ctx context.Context, tenant string, at scope) error {
	if at.workloads != nil {
		if err := m.compare(ctx, tenant, at); !errors.Is(err, errAll) {
			return err
		}
		at = scope{}
	}
	m.ask(tenant, at.rule)
	_, err := m.looking.Get(ctx, tenant, func(ctx context.Context) (none struct{}, err error) { return none, m.lookWhole(ctx, tenant) })
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && fail.Is(err, fail.Timeout) {
		return fail.Wrap(err, fail.Unavailable, "a look at all workloads of tenant %q takes longer than there is time to wait for it, and goes on: try again later", tenant)
	}
	return err
}

// ask has the next look at all workloads of a tenant be for a rule, too.
func (m *Matcher) ask(tenant string, rule domain.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if other, ok := m.unseen[tenant]; ok && other != rule {
		rule = ""
	}
	m.unseen[tenant] = rule
}

// lookWhole looks at all workloads for what was asked until it began. Nothing is left when the look before it began later than all who share this one
// asked; what that one has failed to see is asked for again.
func (m *Matcher) lookWhole(ctx context.Context, tenant string) error {
	m.mu.Lock()
	rule, some := m.unseen[tenant]
	delete(m.unseen, tenant)
	m.mu.Unlock()
	if !some {
		return nil
	}
	seen := false
	defer func() {
		if !seen {
			m.ask(tenant, rule)
		}
	}()
	if !m.begun() { // who has asked may be gone: a look goes on without him
		return fail.New(fail.Unavailable, "this process ends: try again")
	}
	defer m.work.Done()
	ctx, cancel := context.WithTimeout(ctx, policy.Answer)
	defer cancel()
	defer context.AfterFunc(m.ending, cancel)()
	bytes, err := m.store.LookBytes(ctx, tenant)
	if err != nil {
		return err
	}
	bytes = min(bytes+leastLook, lookBytes)
	if err := m.room.Acquire(ctx, bytes); err != nil {
		return fail.Wrap(err, fail.Unavailable, "looks at other tenants have all the memory that there is for them: try again later")
	}
	defer m.room.Release(bytes)
	err = m.compare(ctx, tenant, scope{rule: rule})
	seen = err == nil
	return err
}

// compare is look, without a turn. errAll when part of the workloads will not do.
func (m *Matcher) compare(ctx context.Context, tenant string, at scope) error {
	c := &comparison{matcher: m, tenant: tenant, at: at}
	err := cas.Do(ctx, func() error { return c.attempt(ctx) })
	if c.due {
		m.kick(tenant)
	}
	return err
}

// comparison is one call of compare. Its attempts share what is in it.
type comparison struct {
	matcher *Matcher
	tenant  string
	at      scope
	due     bool     // a match is to be settled
	written []string // ids of the records that attempts have written
}

// attempt compares once, and writes the difference. cas.ErrOvertaken when others have changed meanwhile what it has compared.
func (c *comparison) attempt(ctx context.Context) error {
	m := c.matcher
	s, err := m.settings(ctx, c.tenant)
	if fail.Is(err, fail.NotFound) {
		return c.unwant(ctx)
	}
	if err != nil {
		return err
	}
	rules := c.at.rulesIn(s)
	workloads, version, err := m.workloads(ctx, c.tenant, c.at)
	if err != nil {
		return err
	}
	c.at.written = false // another attempt means that others have written the workloads, too
	records, err := m.records(ctx, c.tenant, c.at, rules, c.written)
	if err != nil {
		return err
	}
	pairs, err := match.Pairs(ctx.Err, rules, workloads)
	if err != nil {
		return err
	}
	kept, all, err := m.within(ctx, c.tenant, c.at, pairs, records)
	if err != nil {
		return err
	}
	wanted, err := match.Wanted(ctx.Err, s.tenant, s.hosts, kept)
	if err != nil {
		return err
	}
	changes := match.Diff(wanted, records, m.now().UTC().Truncate(time.Millisecond))
	if len(changes.Write)+len(changes.Remove) == 0 {
		return nil
	}
	if err := c.write(ctx, &changes); err != nil {
		return err
	}
	if all { // there is room for others now
		return errAll
	}
	return m.stands(ctx, c.tenant, s.version, version)
}

// write writes the changes of an attempt. A tenant with a match that is due is noted first, so that the match is found if this process dies.
func (c *comparison) write(ctx context.Context, changes *match.Changes) error {
	m := c.matcher
	if slices.ContainsFunc(changes.Write, func(m domain.Match) bool { return !m.Due.IsZero() }) {
		c.due = true
		if err := m.store.PutBehind(ctx, c.tenant); err != nil {
			return err
		}
	}
	if err := m.store.WriteMatches(ctx, c.tenant, changes.Write, changes.Remove); err != nil {
		return cas.Overtaken(err)
	}
	m.count(c.tenant, func(of *TenantCounts) { of.MatchWrites += int64(len(changes.Write) + len(changes.Remove)) })
	if c.at.workloads != nil {
		for i := range changes.Write {
			c.written = append(c.written, changes.Write[i].ID())
		}
	}
	return nil
}

// unwant is attempt for a tenant that is gone. When a tenant of its name has been made meanwhile, all matches of that one are compared: errAll
// where only some were, else cas.ErrOvertaken.
func (c *comparison) unwant(ctx context.Context) error {
	gone, err := c.matcher.unwant(ctx, c.tenant)
	if c.due = c.due || gone; err != nil || !gone {
		return err
	}
	switch _, err := c.matcher.settings(ctx, c.tenant); {
	case fail.Is(err, fail.NotFound):
		return nil
	case err != nil:
		return err
	case c.at.workloads != nil:
		return errAll
	}
	c.at = scope{}
	return cas.ErrOvertaken
}

// rulesIn are the rules of the settings that the scope has.
func (at scope) rulesIn(s *settings) []*match.Rule {
	if at.rule == "" {
		return s.rules
	}
	return slices.DeleteFunc(slices.Clone(s.rules), func(r *match.Rule) bool { return r.Key() != at.rule })
}

// unwant has all that a tenant that is gone has in clusters taken away: whoever deleted it may have died before it saw that there
// was something.
func (m *Matcher) unwant(ctx context.Context, tenant string) (due bool, err error) {
	records, err := m.store.Matches(ctx, tenant)
	if err != nil || len(records) == 0 {
		return false, err
	}
	changes := match.Diff(nil, records, m.now().UTC().Truncate(time.Millisecond))
	if len(changes.Write)+len(changes.Remove) == 0 {
		return false, nil
	}
	if err := m.store.PutBehind(ctx, tenant); err != nil {
		return false, err
	}
	return true, cas.Overtaken(m.store.WriteMatches(ctx, tenant, changes.Write, changes.Remove))
}

// stands is cas.ErrOvertaken when settings or workloads are not what they were when they were read.
func (m *Matcher) stands(ctx context.Context, tenant, settings string, workloads int64) error {
	now, _, err := m.store.SettingsVersion(ctx, tenant)
	if err != nil {
		return err
	}
	version, err := m.store.WorkloadsVersion(ctx, tenant)
	if err == nil && (now != settings || version != workloads) {
		return cas.ErrOvertaken
	}
	return err
}

func (m *Matcher) workloads(ctx context.Context, tenant string, at scope) ([]*domain.Workload, int64, error) {
	if at.workloads == nil {
		return m.store.WorkloadsAt(ctx, tenant)
	}
	if at.written { // who changes them later looks later, and m.stands sees that they were changed
		return m.store.KnownWorkloads(ctx, tenant, at.workloads)
	}
	return m.store.WorkloadsByID(ctx, tenant, at.workloads)
}

// records are those of a scope. Of workloads they are those with the rules that there are, and those with the ids: those of a rule that is gone are
// looked at when it goes, but for what this look itself has written since.
func (m *Matcher) records(ctx context.Context, tenant string, at scope, rules []*match.Rule, written []string) ([]domain.Match, error) {
	if at.workloads != nil {
		ids := make([]string, 0, len(at.workloads)*len(rules)+len(written))
		for _, w := range at.workloads {
			for _, r := range rules {
				ids = append(ids, domain.MatchID(tenant, r.Key(), w))
			}
		}
		if len(written) > 0 {
			ids = append(ids, written...)
			slices.Sort(ids)
			ids = slices.Compact(ids)
		}
		return m.store.MatchesByID(ctx, tenant, ids)
	}
	all, err := m.store.Matches(ctx, tenant)
	if at.rule != "" {
		all = slices.DeleteFunc(all, func(r domain.Match) bool { return r.Rule != at.rule })
	}
	return all, err
}

// within leaves out of what is wanted what is beyond limits.RuleMatches: of each rule what has a record stays, then the workloads come in their
// order. all says that a rule that had as many as it may have has fewer now, so that others may take their place.
func (m *Matcher) within(ctx context.Context, tenant string, at scope, wanted []match.Pair, records []domain.Match) (kept []match.Pair, all bool, err error) {
	recorded := make(map[string]bool, len(records)) // whether something is wanted by it
	for _, r := range records {
		recorded[r.ID()] = r.Wanted != nil
	}
	there := map[string]bool{} // of those with a record
	had, comes := make([]bool, len(wanted)), false
	for i, w := range wanted {
		id := w.ID(tenant)
		is, found := recorded[id]
		if found {
			there[id] = true
		}
		had[i], comes = is, comes || !is
	}
	part := at.workloads != nil
	goes := slices.ContainsFunc(records, func(r domain.Match) bool { return r.Wanted != nil && !there[r.ID()] })
	if few := !part && len(wanted) <= limits.RuleMatches; few || !comes && (!goes || !part) {
		return wanted, false, nil
	}
	beside := records
	if part { // m.records has just read what is stored
		if beside, err = m.store.KnownMatches(ctx, tenant); err != nil {
			return nil, false, err
		}
	}
	before, count := map[domain.Key]int{}, map[domain.Key]int{}
	for _, r := range beside {
		if r.Wanted == nil {
			continue
		}
		before[r.Rule]++
		if _, mine := recorded[r.ID()]; !mine || there[r.ID()] {
			count[r.Rule]++
		}
	}
	for i, w := range wanted {
		if !had[i] {
			if count[w.Rule()] >= limits.RuleMatches {
				continue
			}
			count[w.Rule()]++
		}
		kept = append(kept, w)
	}
	for rule, n := range before {
		all = all || part && n >= limits.RuleMatches && count[rule] < n
	}
	return kept, all, nil
}

// Changing implements Matching.
func (m *Matcher) Changing(ctx context.Context, tenant string) error {
	token, err := m.store.ChangeSettings(ctx, tenant)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changing[tenant] = append(m.changing[tenant], word{token, m.moment()})
	return nil
}

// given is the last word of those that were given, the zero word when there is none, for who takes it back.
func (m *Matcher) given(tenant string) (last word) {
	m.mu.Lock()
	defer m.mu.Unlock()
	words := m.changing[tenant]
	if n := len(words); n > 0 {
		last = words[n-1]
		if m.changing[tenant] = words[:n-1]; n == 1 {
			delete(m.changing, tenant)
		}
	}
	return last
}

// mayBeEnded says whether Sweep, of any process, may have ended a word. Others go on while this machine is suspended: that time counts.
func (m *Matcher) mayBeEnded(w word) bool {
	return w.token == "" || m.moment().Since(w.given) >= policy.Unfinished-policy.ClocksApart-policy.WordTime
}

// outlived forgets the words that nobody has taken back, as where it is not known what has become of a write. They stand in the store: Sweep does
// what they are for.
func (m *Matcher) outlived() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for tenant, words := range m.changing {
		words = slices.DeleteFunc(words, func(w word) bool { return m.moment().Since(w.given) >= policy.Unfinished })
		if m.changing[tenant] = words; len(words) == 0 {
			delete(m.changing, tenant)
		}
	}
}

// Unchanged implements Matching.
func (m *Matcher) Unchanged(ctx context.Context, tenant string) {
	ctx, cancel := within(ctx, policy.Undo)
	defer cancel()
	if token := m.given(tenant).token; token != "" {
		_ = m.store.SettingsChanged(ctx, tenant, token) // else it stays
	}
}

// Changed implements Matching. What fails is done again by Sweep, since the token stays then.
func (m *Matcher) Changed(ctx context.Context, tenant string, rule domain.Key) {
	ctx, cancel := within(ctx, policy.Answer)
	defer cancel()
	given := m.given(tenant)
	tokens := []string{given.token}
	if m.mayBeEnded(given) { // as by a long undo (policy.UndoLong): what was read since counts no more
		_ = untilAnswered(ctx, func(ctx context.Context) error {
			token, err := m.store.ChangeSettings(ctx, tenant)
			tokens = append(tokens, token)
			return err
		})
	}
	if err := m.lookAll(ctx, tenant, scope{rule: rule}); err != nil {
		return
	}
	for _, token := range tokens {
		if token != "" {
			_ = m.store.SettingsChanged(ctx, tenant, token) // else it stays
		}
	}
}

// lookAll is look for a tenant, or with "" for all: what fails for one tenant keeps none of the others waiting.
func (m *Matcher) lookAll(ctx context.Context, tenant string, at scope) error {
	if tenant != "" {
		return m.look(ctx, tenant, at)
	}
	tenants, err := m.store.List(ctx, domain.Tenants, "")
	if err != nil {
		return err
	}
	var failed []error
	for _, t := range tenants {
		failed = append(failed, apart(ctx, func(ctx context.Context) error { return m.look(ctx, t.LocalName(), at) }))
	}
	return errors.Join(failed...)
}

// Matches implements Matching.
func (m *Matcher) Matches(ctx context.Context, tenant string) ([]domain.Match, error) {
	return m.store.Matches(ctx, tenant)
}

// LeftIn implements Matching. A tenant has a namespace in a cluster before all else, and it is the last to go.
func (m *Matcher) LeftIn(ctx context.Context, c domain.ClusterName) ([]domain.TenantLeft, error) {
	homes, err := m.store.Homes(ctx, "")
	if err != nil {
		return nil, err
	}
	var left []domain.TenantLeft
	for _, h := range homes {
		if h.Cluster != c || h.Shared() {
			continue
		}
		var t *domain.Tenant
		o, err := m.store.Get(ctx, domain.Tenants, domain.TenantKey(h.Tenant))
		if err != nil && !fail.Is(err, fail.NotFound) {
			return nil, err
		}
		if err == nil {
			t = o.(*domain.Tenant)
		}
		if !h.Left(t) {
			continue
		}
		one := domain.TenantLeft{Tenant: h.Tenant, ContextID: h.ContextID, Cluster: c, Namespace: h.Namespace}
		matches, err := m.store.Matches(ctx, h.Tenant)
		if err != nil {
			return nil, err
		}
		if t == nil || t.ClusterName() != c { // else they are the tenant's that has the name now
			one.Count(matches)
		}
		left = append(left, one)
	}
	slices.SortFunc(left, func(a, b domain.TenantLeft) int {
		return cmp.Compare(a.Tenant+" "+a.ContextID, b.Tenant+" "+b.ContextID)
	})
	return left, nil
}

// Fresh implements Matching. A stream that has begun meanwhile, of a tenant of the name that somebody else has made, ends, and
// begins anew with all that there is.
func (m *Matcher) Fresh(ctx context.Context, tenant string) error {
	return m.store.ForgetTenant(ctx, tenant)
}

// Forget removes what a tenant has said that is gone, and ends its stream. Nothing is removed when there is a tenant of the name, now or at the
// moment of a write (store.ForgetTenant): it has begun with nothing (Fresh), so that what there is is its own.
func (m *Matcher) Forget(ctx context.Context, tenant string) error {
	if there, err := m.store.Exists(ctx, domain.Tenants, domain.TenantKey(tenant)); err != nil || there {
		return err
	}
	m.mu.Lock()
	in := m.intakes[tenant]
	delete(m.stats, tenant)
	delete(m.again, tenant)
	m.mu.Unlock()
	if in != nil {
		in.displace(errGone(tenant))
	}
	if err := m.store.ForgetTenant(ctx, tenant); err != nil {
		return err
	}
	m.kick(tenant) // its namespace goes
	return nil
}

// kick has a tenant settled, and does not wait for it: without Temporal it is settled later, as what is due stays so.
func (m *Matcher) kick(tenant string) {
	if m.settler == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, going := m.kicked[tenant]; going {
		m.kicked[tenant] = true
		return
	}
	if m.closed {
		return
	}
	m.kicked[tenant] = false
	m.work.Go(func() {
		for {
			ctx, cancel := context.WithTimeout(context.Background(), policy.Plain)
			_ = panics.Do(ctx, func() error { return m.settler.Settle(ctx, tenant) })
			cancel()
			m.mu.Lock()
			again := m.kicked[tenant]
			if m.kicked[tenant] = false; !again {
				delete(m.kicked, tenant)
			}
			m.mu.Unlock()
			if !again {
				return
			}
		}
	})
}

// pulseEvery is how often a process says that its streams live.
const pulseEvery = domain.PulseLife / 3

// Run gives the pulses by which the streams of this process live, and looks for what others have left, until ctx ends. A look may take longer than
// a pulse lives: neither waits for the other.
func (m *Matcher) Run(ctx context.Context) {
	both := panics.New(ctx)
	both.Go(func() error {
		return again(ctx, pulseEvery, func() error { return m.store.Pulse(ctx, m.process, m.now()) })
	})
	both.Go(func() error { return again(ctx, policy.Lost, func() error { return m.Sweep(ctx) }) })
	_ = both.Wait() // they end with ctx
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), policy.Plain)
	defer cancel()
	_ = m.store.EndPulse(end, m.process)
}

// again does something every so often until ctx ends; what fails is done the next time.
func again(ctx context.Context, every time.Duration, do func() error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		_ = panics.Do(ctx, do)
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return nil
}

// Close waits for what goes on beside requests and streams, which must have ended.
func (m *Matcher) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.end()
	m.work.Wait()
}

// begun has Close wait for what begins, which calls m.work.Done when it is over; false where nothing more is to begin.
func (m *Matcher) begun() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.work.Add(1)
	return true
}

// Sweep does what processes that died have left: it looks for the tenants whose settings were being changed, and for those
// whose streams were lost, be it by this process. It removes the workloads whose time is over. What fails for one tenant, or takes long, keeps none of the others
// waiting.
func (m *Matcher) Sweep(ctx context.Context) error {
	m.outlived()
	unfinished, err := m.store.UnfinishedSettings(ctx, policy.Unfinished)
	failed := []error{err}
	for tenant, tokens := range unfinished {
		finish := func(ctx context.Context) error { return m.finish(ctx, tenant, tokens) }
		if tenant == "" { // of all, each has its time
			failed = append(failed, finish(ctx))
		} else {
			failed = append(failed, apart(ctx, finish))
		}
	}
	lost, err := m.store.LostStreams(ctx)
	dropped, dropErr := m.dropped(ctx)
	failed = append(failed, err, dropErr)
	for _, stream := range append(lost, dropped...) {
		failed = append(failed, apart(ctx, func(ctx context.Context) error { return m.settle(ctx, stream) }))
	}
	failed = append(failed, m.noteStreams(ctx))
	known := m.remembered() // before the list: who is made after it is not in both
	tenants, err := m.store.List(ctx, domain.Tenants, "")
	failed = append(failed, err)
	if err == nil {
		failed = append(failed, m.forgetOthers(ctx, known, tenants))
	}
	for _, o := range tenants {
		// Of a tenant that gives no grace any more, what has begun to go in it goes now.
		failed = append(failed, apart(ctx, func(ctx context.Context) error { return m.expireOf(ctx, o.(*domain.Tenant)) }))
	}
	return errors.Join(failed...)
}

// remembered are the tenants of which this process knows something, but for those whose streams it reads.
func (m *Matcher) remembered() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := map[string]bool{}
	for tenant := range m.unseen {
		known[tenant] = true
	}
	for tenant := range m.stats {
		known[tenant] = true
	}
	for tenant := range m.again {
		known[tenant] = true
	}
	maps.DeleteFunc(known, func(tenant string, _ bool) bool { return m.streams(tenant) })
	return known
}

// streams says whether this process reads a stream of a tenant, or begins to. m.mu is held.
func (m *Matcher) streams(tenant string) bool {
	return m.begins[tenant] > 0 || m.intakes[tenant] != nil
}

// forgetOthers forgets what this process knows of tenants but those that there are: another process has deleted them, or something came after Forget. A look
// that was asked for and has failed is done once more, since somebody may have made a tenant of the name meanwhile.
func (m *Matcher) forgetOthers(ctx context.Context, known map[string]bool, there []domain.Object) error {
	for _, o := range there {
		delete(known, o.LocalName())
	}
	var failed []error
	for tenant := range known {
		m.mu.Lock()
		if !m.streams(tenant) {
			delete(m.stats, tenant)
			delete(m.again, tenant)
		}
		_, some := m.unseen[tenant]
		m.mu.Unlock()
		if some {
			failed = append(failed, apart(ctx, func(ctx context.Context) error { return m.look(ctx, tenant, scope{}) }))
		}
	}
	return errors.Join(failed...)
}

// dropped are streams of this process that nobody reads any more, and that nobody could note the end of: the database was away then. As long as
// this process has a pulse no other one takes them for lost.
func (m *Matcher) dropped(ctx context.Context) ([]*domain.Stream, error) {
	open, err := m.store.StreamsOf(ctx, m.process)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(open, func(s *domain.Stream) bool { // looked at after the list: what was listed had begun to begin
		in := m.intakes[s.Tenant]
		return m.begins[s.Tenant] > 0 || in != nil && in.stream.Token == s.Token
	}), nil
}

// apart does something for one tenant of several: it has its time, and a panic is its own.
func apart(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, policy.SweepTenant)
	defer cancel()
	return panics.Do(ctx, func() error { return do(ctx) })
}

// finish looks for a tenant whose settings were being changed.
func (m *Matcher) finish(ctx context.Context, tenant string, tokens []string) error {
	if err := m.lookAll(ctx, tenant, scope{}); err != nil {
		return err
	}
	for _, token := range tokens {
		if err := m.store.SettingsChanged(ctx, tenant, token); err != nil {
			return err
		}
	}
	return nil
}

// settle looks for a tenant whose stream was lost.
func (m *Matcher) settle(ctx context.Context, stream *domain.Stream) error {
	if err := m.store.CutStream(ctx, stream); err != nil {
		return err
	}
	if err := m.look(ctx, stream.Tenant, scope{}); err != nil {
		return err
	}
	return m.store.SettleStream(ctx, stream)
}

// expireOf removes the workloads that have been gone for as long as the tenant lets them stay. Of one that gives them a grace nothing is removed while
// its cluster cannot say that they are back.
func (m *Matcher) expireOf(ctx context.Context, t *domain.Tenant) error {
	if some, err := m.store.AnyGone(ctx, t.Name, m.now().Add(-t.Grace())); err != nil || !some {
		return err
	}
	o, err := m.store.Get(ctx, domain.Tenants, domain.KeyOf(t)) // it may give more by now
	if err != nil {
		return err
	}
	grace := o.(*domain.Tenant).Grace()
	if grace > 0 {
		if heard, err := m.hears(ctx, t.Name); err != nil || !heard {
			return err
		}
	}
	until := m.now().Add(-grace)
	return m.remove(ctx, t.Name, func(ctx context.Context) ([]string, error) { return m.store.RemoveGone(ctx, t.Name, until) })
}

// noteStreams notes which streams stand, for hears. Others are forgotten.
func (m *Matcher) noteStreams(ctx context.Context) error {
	standing, err := m.store.StandingStreams(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[string]sighting, len(standing))
	for tenant, token := range standing {
		all[tenant] = m.sighting(tenant, token)
	}
	m.sighted = all
	return nil
}

// sighting is that of a stream of which it was read a moment ago that it stands. m.mu is held.
func (m *Matcher) sighting(tenant, token string) sighting {
	if known := m.sighted[tenant]; known.token == token {
		return known
	}
	return sighting{token, m.moment()} // it has begun before the read
}

// hears says whether the cluster of a tenant has a stream, and has had the time to say on it what is there. That runs from when this process has read first of
// the stream: when it began is told by the clock of another process, which may be wrong. So after its start a process hears nobody for policy.HeardAgain.
func (m *Matcher) hears(ctx context.Context, tenant string) (bool, error) {
	now := m.moment() // from before the read: this process may be frozen after that
	stream, err := m.store.TenantStream(ctx, tenant)
	if err != nil || !stream.Connected {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := m.sighted[tenant]
	return seen.token == stream.Token && now.Passed(seen.since) >= policy.HeardAgain, nil
}

// Release removes the workloads of a tenant whose deletion is held.
func (m *Matcher) Release(ctx context.Context, tenant string) error {
	if _, err := m.store.Get(ctx, domain.Tenants, domain.TenantKey(tenant)); err != nil {
		return err
	}
	return m.remove(ctx, tenant, func(ctx context.Context) ([]string, error) { return m.store.RemoveHeld(ctx, tenant) })
}

// remove removes workloads of which no stream says that they are gone, and sees to what follows. Who dies in between has left
// word, as of changed settings: no stream says it again.
func (m *Matcher) remove(ctx context.Context, tenant string, which func(context.Context) ([]string, error)) error {
	token, err := m.store.ChangeSettings(ctx, tenant)
	if err != nil {
		return err
	}
	removed, err := which(ctx)
	if err == nil && len(removed) > 0 {
		at := scope{workloads: removed}
		if len(removed) >= manyChanged {
			at = scope{}
		}
		err = m.look(ctx, tenant, at)
	}
	if err != nil {
		return err // the word stays
	}
	return m.store.SettingsChanged(ctx, tenant, token)
}
