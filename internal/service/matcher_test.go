package service_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
	"github.com/drover-io/drover/internal/token"
)

// settled counts for whom Temporal was asked.
type settled struct {
	mu    sync.Mutex
	calls map[string]int
}

func (s *settled) Settle(_ context.Context, tenant string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls == nil {
		s.calls = map[string]int{}
	}
	s.calls[tenant]++
	return fail.New(fail.Unavailable, "Temporal does not answer: what is taken is settled later")
}

func (s *settled) of(tenant string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[tenant]
}

// replica is an API process.
type replica struct {
	*service.Matcher
	store   *store.Store
	settled *settled
}

// tenancy is a database with tenant t, and processes that work with it.
type tenancy struct {
	*testing.T
	replicas []*replica
	clock    *ticking
	config   store.Config // of the replicas' stores
}

type ticking struct {
	mu  sync.Mutex
	now time.Time
}

func (c *ticking) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *ticking) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// moment is what the clocks of the machine tell.
func (c *ticking) moment() lease.Instant {
	passed := time.Duration(c.Now().UnixNano())
	return lease.Instant{Boot: passed, Wall: passed}
}

func newTenancy(t *testing.T, replicas int) *tenancy {
	t.Helper()
	w := &tenancy{T: t, clock: &ticking{now: time.UnixMilli(1.7e12).UTC()}}
	config := storetest.Config(t)
	config.Now, config.Moment = w.clock.Now, w.clock.moment
	w.config = config
	for i := range replicas {
		s := storetest.Open(t, config)
		r := &replica{store: s, settled: &settled{}}
		r.Matcher = service.NewMatcher(s, r.settled, w.clock.Now, fmt.Sprint("replica-", i))
		r.SetMoment(w.clock.moment)
		w.replicas = append(w.replicas, r)
	}
	w.tenant("t", func(*domain.Tenant) {})
	return w
}

func (w *tenancy) first() *replica { return w.replicas[0] }

func (w *tenancy) tenant(name string, change func(*domain.Tenant)) {
	w.Helper()
	one := &domain.Tenant{Metadata: domain.Metadata{Name: name}, ContextID: "1234567890123456789"}
	one.Spec.Cluster = "provider+edge"
	one.Default()
	one.Spec.Nodes = domain.NodesAll
	change(one)
	require.NoError(w, w.first().store.Create(w.Context(), one))
}

const podTemplate = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"nginx"},"spec":{"containers":[{"name":"nginx","image":"nginx"}]}}`

// rule matches workloads with the label.
func rule(id, label string) *domain.WorkloadRule {
	r := &domain.WorkloadRule{Metadata: domain.Metadata{Name: id}, Identity: domain.Identity{Parent: domain.TenantKey("t")}}
	r.Spec = domain.WorkloadRuleSpec{
		OrchestratorType: domain.Kubernetes, ResourceType: domain.KindPod, DPUSelectionPolicy: domain.AnyNode,
		WorkloadTerms: []domain.WorkloadTerm{{MatchExpressions: []domain.MatchExpression{
			{Key: "state.extra.labels.is", Operation: domain.OperationIn, Values: []string{label}},
		}}},
		RuleTemplate: domain.Template(podTemplate),
	}
	return r
}

// put makes a rule, or deletes it, as the service does.
func (r *replica) put(ctx context.Context, o domain.Object, write func(context.Context, domain.Object) error) error {
	if err := r.Changing(ctx, "t"); err != nil {
		return err
	}
	if err := write(ctx, o); err != nil {
		return err
	}
	r.Changed(ctx, "t", domain.KeyOf(o))
	return nil
}

func (r *replica) make(ctx context.Context, o domain.Object) error {
	return r.put(ctx, o, r.store.Create)
}

func (r *replica) delete(ctx context.Context, o domain.Object) error {
	return r.put(ctx, o, func(ctx context.Context, o domain.Object) error {
		return r.store.Delete(ctx, o.Noun(), domain.KeyOf(o), 0)
	})
}

func labelled(id, label string) *domain.Workload {
	return &domain.Workload{
		ID: id, Orchestrator: domain.Kubernetes, ResourceType: domain.KindPod, ResourceNamespace: "default", ResourceName: id, NodeName: "n",
		Extra: map[string]map[string]string{domain.ExtraLabels: {"is": label}},
	}
}

func updates(all ...*domain.Workload) []*service.Said { return []*service.Said{{Put: all}} }

func syncs(all ...*domain.Workload) []*service.Said { return []*service.Said{{Sync: true, Put: all}} }

func (w *tenancy) begin(r *replica) *service.Intake {
	w.Helper()
	in, err := r.Begin(w.Context(), "t")
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, in.End(context.Background())) })
	return in
}

func (w *tenancy) take(in *service.Intake, messages []*service.Said) {
	w.Helper()
	require.NoError(w, in.Take(w.Context(), messages))
}

// wanted are the workloads of matches of which something is wanted.
func (w *tenancy) wanted() []string {
	w.Helper()
	all, err := w.first().store.Matches(w.Context(), "t")
	require.NoError(w, err)
	found := []string{}
	for _, m := range all {
		if m.Wanted != nil {
			found = append(found, m.Rule.Name()+"/"+m.Workload)
		}
	}
	slices.Sort(found)
	return found
}

func (w *tenancy) stored() []string {
	w.Helper()
	all, err := w.first().store.Workloads(w.Context(), "t")
	require.NoError(w, err)
	found := []string{}
	for _, one := range all {
		found = append(found, one.ID)
	}
	return found
}

// TestOfTwoThatCrossOneSeesTheOther: a rule and a workload that it matches are made at once on two processes, and then the
// rule goes while the workload changes. None is missed, and nothing stays.
//
// That is 200 rounds in four databases, side by side: most of a round is waiting for the database.
func TestOfTwoThatCrossOneSeesTheOther(t *testing.T) {
	for database := range 4 {
		t.Run(fmt.Sprint(database), func(t *testing.T) {
			t.Parallel()
			crossing(t, 50)
		})
	}
}

func crossing(t *testing.T, rounds int) {
	t.Helper()
	w := newTenancy(t, 2)
	a, b := w.replicas[0], w.replicas[1]
	in := w.begin(b)
	for n := range rounds {
		id, label := fmt.Sprint("w-", n), fmt.Sprint("label-", n)
		r := rule(fmt.Sprint("r-", n), label)
		var g errgroup.Group
		g.Go(func() error { return a.make(t.Context(), r) })
		g.Go(func() error { return in.Take(t.Context(), updates(labelled(id, label))) })
		require.NoError(t, g.Wait())
		require.Equal(t, []string{r.Name + "/" + id}, w.wanted(), "round %d", n)
		g.Go(func() error { return a.delete(t.Context(), r) })
		g.Go(func() error {
			changed := labelled(id, label)
			changed.NodeName = "other"
			return in.Take(t.Context(), updates(changed))
		})
		require.NoError(t, g.Wait())
		require.Empty(t, w.wanted(), "round %d", n)
	}
	behind, err := a.store.Behind(t.Context())
	require.NoError(t, err)
	require.Contains(t, behind, "t", "Temporal did not answer: somebody is to look again")
}

// TestAWorkloadThatChangesWhileARuleIsMade: what counts is the last state, whoever has looked at an earlier one.
func TestAWorkloadThatChangesWhileARuleIsMade(t *testing.T) {
	w := newTenancy(t, 2)
	a, b := w.replicas[0], w.replicas[1]
	in := w.begin(b)
	for n := range 60 {
		id, label := fmt.Sprint("w-", n), fmt.Sprint("label-", n)
		r := rule(fmt.Sprint("r-", n), label)
		w.take(in, updates(labelled(id, label)))
		var g errgroup.Group
		g.Go(func() error { return a.make(t.Context(), r) })
		g.Go(func() error { return in.Take(t.Context(), updates(labelled(id, "another"))) })
		require.NoError(t, g.Wait())
		require.Empty(t, w.wanted(), "round %d", n)
		require.NoError(t, b.delete(t.Context(), r))
	}
}

func TestWhatMatchesNothingCostsNothing(t *testing.T) {
	w := newTenancy(t, 1)
	r := w.first()
	require.NoError(t, r.make(t.Context(), rule("r", "yes")))
	in := w.begin(r)
	w.take(in, syncs(labelled("a", "no"), labelled("b", "no")))
	version, err := r.store.WorkloadsVersion(t.Context(), "t")
	require.NoError(t, err)
	w.take(in, syncs(labelled("b", "no"), labelled("a", "no")))
	w.take(in, updates(labelled("a", "no")))
	w.take(in, []*service.Said{{Delete: []string{"nobody"}}})
	same, err := r.store.WorkloadsVersion(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, version, same, "no difference writes nothing")
	w.take(in, updates(labelled("a", "maybe")))
	require.Zero(t, r.settled.of("t"))
	require.Zero(t, r.Counts()["t"].MatchWrites)
	w.take(in, updates(labelled("a", "yes")))
	require.Eventually(t, func() bool { return r.settled.of("t") == 1 }, time.Minute, time.Millisecond)
	require.Equal(t, []string{"r/a"}, w.wanted())
	w.take(in, updates(labelled("b", "yes"), labelled("a", "yes")))
	require.Equal(t, []string{"r/a", "r/b"}, w.wanted())
	w.take(in, syncs(labelled("b", "yes"), labelled("b", "no")))
	require.Empty(t, w.wanted())
	require.Equal(t, []string{"b"}, w.stored())
}

// TestMessagesThatAreTakenTogether: of each workload the last word counts, and a sync begins anew.
func TestMessagesThatAreTakenTogether(t *testing.T) {
	w := newTenancy(t, 1)
	in := w.begin(w.first())
	w.take(in, slices.Concat(updates(labelled("a", "1")), syncs(labelled("b", "1"), labelled("c", "1")), updates(labelled("b", "2")),
		[]*service.Said{{Delete: []string{"c", "d"}}}, updates(labelled("d", "1")), []*service.Said{{Delete: []string{"b"}}}, updates(labelled("b", "3"))))
	require.Equal(t, []string{"b", "d"}, w.stored())
	got, err := w.first().store.Workload(t.Context(), "t", "b")
	require.NoError(t, err)
	require.Equal(t, "3", got.Extra[domain.ExtraLabels]["is"])
}

// TestWhatIsLeftOutTakesNoWordBack: what was said before of a workload counts as it does where the messages come one by one.
func TestWhatIsLeftOutTakesNoWordBack(t *testing.T) {
	bad := func(id string) []*service.Said {
		one := labelled(id, "bad")
		return []*service.Said{{Put: []*domain.Workload{one}, TooLarge: map[*domain.Workload]bool{one: true}}}
	}
	said := slices.Concat([]*service.Said{{Delete: []string{"goes"}}}, bad("goes"), updates(labelled("comes", "1")), bad("comes"), bad("better"),
		updates(labelled("better", "2")), bad("stays"), updates(labelled("leaves", "2")), []*service.Said{{Delete: []string{"leaves"}}}, bad("leaves"))
	for name, take := range map[string]func(in *service.Intake) error{
		"together": func(in *service.Intake) error { return in.Take(t.Context(), said) },
		"one by one": func(in *service.Intake) error {
			for _, one := range said {
				if err := in.Take(t.Context(), []*service.Said{one}); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		w := newTenancy(t, 1)
		in := w.begin(w.first())
		w.take(in, syncs(labelled("goes", "1"), labelled("stays", "1"), labelled("better", "1"), labelled("leaves", "1")))
		require.NoError(t, take(in), name)
		require.Equal(t, []string{"better", "comes", "stays"}, w.stored(), name)
		s, err := w.first().store.TenantStream(t.Context(), "t")
		require.NoError(t, err)
		var left []string
		for _, one := range s.LeftOut {
			left = append(left, one.ID)
		}
		require.Equal(t, []string{"comes", "goes", "leaves", "stays"}, left, name)
	}
}

// TestAPodThatTakesAnothersPlace is taken though a tenant has as many workloads as it may have, when it is told of together with the end of the
// other one: a Deployment that is rolled out says so first of the new one.
func TestAPodThatTakesAnothersPlace(t *testing.T) {
	for name, grace := range map[string]string{"at once": "", "in its grace": "30s"} {
		t.Run(name, func(t *testing.T) {
			w := newTenancy(t, 1)
			w.guarded(0, grace)
			in := w.begin(w.first())
			w.take(in, syncs(asManyAsMayBe()...))
			w.take(in, slices.Concat(updates(labelled("new", "1")), []*service.Said{{Delete: []string{"w-000007"}}}))
			s, err := w.first().store.TenantStream(t.Context(), "t")
			require.NoError(t, err)
			require.Empty(t, s.LeftOut)
			_, err = w.first().store.Workload(t.Context(), "t", "new")
			require.NoError(t, err)
			_, err = w.first().store.Workload(t.Context(), "t", "w-000007")
			require.True(t, fail.Is(err, fail.NotFound), "%v", err)
		})
	}
}

// asManyAsMayBe are as many workloads as a tenant may have.
func asManyAsMayBe() []*domain.Workload {
	all := make([]*domain.Workload, limits.TenantWorkloads)
	for i := range all {
		all[i] = labelled(fmt.Sprintf("w-%06d", i), "1")
	}
	return all
}

// TestAStreamEndsWhenThereIsRoomForWhatItHasLeftOut: no agent says that again unless it begins anew.
func TestAStreamEndsWhenThereIsRoomForWhatItHasLeftOut(t *testing.T) {
	w := newTenancy(t, 1)
	r := w.first()
	in := w.begin(r)
	w.take(in, syncs(append(asManyAsMayBe(), labelled("late", "1"))...))
	w.take(in, []*service.Said{{Delete: []string{"w-000007"}}})
	ends := func(in *service.Intake) error {
		t.Helper()
		select {
		case <-in.Context().Done():
			return context.Cause(in.Context())
		case <-time.After(time.Minute):
			return nil
		}
	}
	err := ends(in)
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	require.ErrorContains(t, err, "connect again")
	require.NoError(t, in.End(t.Context()))
	w.take(w.begin(r), syncs(append(asManyAsMayBe()[:limits.TenantWorkloads-1], labelled("late", "1"))...))
	s, err := r.store.TenantStream(t.Context(), "t")
	require.NoError(t, err)
	require.Empty(t, s.LeftOut)
}

// TestAStreamOfATenantThatIsMadeAnew connects again: no other one has taken its place.
func TestAStreamOfATenantThatIsMadeAnew(t *testing.T) {
	w := newTenancy(t, 2)
	in := w.begin(w.first())
	w.take(in, syncs(labelled("a", "1")))
	other := w.replicas[1]
	require.NoError(t, other.store.Delete(t.Context(), domain.Tenants, domain.TenantKey("t"), 0))
	require.NoError(t, other.Forget(t.Context(), "t"))
	w.tenant("t", func(*domain.Tenant) {})
	err := in.Take(t.Context(), updates(labelled("b", "1")))
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
}

// TestManyMessagesThatAreTakenTogether cost as much as they are many: a tenant must not keep a process busy by small messages.
func TestManyMessagesThatAreTakenTogether(t *testing.T) {
	w := newTenancy(t, 1)
	in := w.begin(w.first())
	w.take(in, syncs(labelled("a", "1")))
	many := make([]*service.Said, 300_000)
	for i := range many {
		many[i] = &service.Said{Delete: []string{strconv.Itoa(i)}}
	}
	w.take(in, many)
	require.Equal(t, []string{"a"}, w.stored())
}

func TestTheSecondStreamDisplacesTheFirst(t *testing.T) {
	w := newTenancy(t, 2)
	first := w.begin(w.replicas[0])
	w.take(first, syncs(labelled("a", "1")))
	second := w.begin(w.replicas[1])
	w.take(second, syncs(labelled("b", "1")))
	err := first.Take(t.Context(), updates(labelled("c", "1")))
	require.True(t, fail.Is(err, fail.Aborted), "%v", err)
	require.True(t, fail.Is(context.Cause(first.Context()), fail.Aborted))
	third := w.begin(w.replicas[1])
	<-second.Context().Done()
	require.True(t, fail.Is(context.Cause(second.Context()), fail.Aborted), "on the same process it is told at once")
	w.take(third, updates(labelled("d", "1")))
	require.Equal(t, []string{"b", "d"}, w.stored())
	_, err = w.first().Begin(t.Context(), "nobody")
	require.True(t, fail.Is(err, fail.Precondition), "%v", err)
	require.EqualError(t, err, `tenant "nobody" not found`)
}

// TestWhatIsLeftOutIsNamed, and what was taken before stays.
func TestWhatIsLeftOutIsNamed(t *testing.T) {
	w := newTenancy(t, 1)
	in := w.begin(w.first())
	service := labelled("svc", "1")
	service.ResourceType = "v1/Service"
	left := func() []domain.LeftOut {
		t.Helper()
		s, err := w.first().store.TenantStream(t.Context(), "t")
		require.NoError(t, err)
		require.Equal(t, len(s.LeftOut), s.LeftOutCount)
		return s.LeftOut
	}
	w.take(in, syncs(labelled("a", "1"), labelled("big", "1"), service))
	require.Equal(t, []string{"a", "big"}, w.stored())
	require.Equal(t, []domain.LeftOut{{ID: "svc", Pod: "default/svc", Reason: "its type is not v1/Pod of Kubernetes"}}, left())
	_, err := w.first().Why(t.Context(), domain.Workloads, domain.TenantKey("t"), "svc", nil)
	require.True(t, fail.Is(err, fail.NotFound), "%v", err)
	require.ErrorContains(t, err, "it was said, and left out, as its type is not v1/Pod of Kubernetes")
	large := updates(labelled("big", "2"))
	large[0].TooLarge = map[*domain.Workload]bool{large[0].Put[0]: true}
	w.take(in, large)
	require.Equal(t, []string{"a", "big"}, w.stored())
	require.Len(t, left(), 2)
	w.take(in, updates(labelled("big", "3")))
	require.Len(t, left(), 1, "it is small enough again")
	require.NoError(t, in.End(t.Context()))
	require.Len(t, left(), 1)
	again := w.begin(w.first())
	require.Len(t, left(), 1, "as long as the next stream has not said otherwise")
	large = updates(labelled("big", "4"))
	large[0].TooLarge = map[*domain.Workload]bool{large[0].Put[0]: true}
	w.take(again, large)
	require.Len(t, left(), 2, "an update says nothing of the other one")
	w.take(again, updates(labelled("big", "5")))
	require.Equal(t, "svc", left()[0].ID)
	require.Len(t, left(), 1)
	w.take(again, syncs(labelled("a", "1")))
	require.Empty(t, left())
}

// TestWhatIsLeftOutIsBounded: neither ids nor how many there are may fill the memory.
func TestWhatIsLeftOutIsBounded(t *testing.T) {
	w := newTenancy(t, 1)
	in := w.begin(w.first())
	long := labelled(strings.Repeat("a", limits.WorkloadID-1)+"é", "1")
	long.ResourceName = strings.Repeat("n", 1<<20)
	w.take(in, updates(long))
	s, err := w.first().store.TenantStream(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("a", limits.WorkloadID-1), s.LeftOut[0].ID, "no part of a letter is kept")
	require.Len(t, s.LeftOut[0].Pod, limits.WorkloadID)
	w.take(in, []*service.Said{{Delete: []string{long.ID}}})
	s, err = w.first().store.TenantStream(t.Context(), "t")
	require.NoError(t, err)
	require.Empty(t, s.LeftOut)

	many := make([]*domain.Workload, limits.LeftOutCounted+10)
	for i := range many {
		many[i] = labelled(fmt.Sprintf("s-%06d", i), "1")
		many[i].ResourceType = "v1/Service"
	}
	w.take(in, updates(many[:20]...))
	w.take(in, updates(many...))
	s, err = w.first().store.TenantStream(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, limits.LeftOutCounted, s.LeftOutCount)
	require.Len(t, s.LeftOut, limits.LeftOut)

	// A stream after it knows the names of the first ones alone, and how many there are.
	again := w.begin(w.first())
	w.take(again, []*service.Said{{Delete: []string{s.LeftOut[0].ID}}})
	s, err = w.first().store.TenantStream(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, limits.LeftOutCounted-1, s.LeftOutCount)
	require.Len(t, s.LeftOut, limits.LeftOut-1)
	w.take(again, syncs())
	s, err = w.first().store.TenantStream(t.Context(), "t")
	require.NoError(t, err)
	require.Zero(t, s.LeftOutCount)
}

// silent does not answer when it is asked for tokens.
type silent struct{ *store.Store }

func (s silent) Get(ctx context.Context, noun *domain.Noun, key domain.Key) (domain.Object, error) {
	if noun == domain.TenantTokens {
		return nil, fail.New(fail.Unavailable, "the store does not answer")
	}
	return s.Store.Get(ctx, noun, key)
}

// TestATokenExpiresWithoutTheStore: when it is over is known.
func TestATokenExpiresWithoutTheStore(t *testing.T) {
	w := newTenancy(t, 1)
	r := w.first()
	const life = 50 * time.Millisecond
	one := &domain.TenantToken{Identity: domain.Identity{Parent: domain.TenantKey("t")}, Metadata: domain.Metadata{Name: "agent"}}
	text, hash := token.New(string(domain.KeyOf(one)))
	one.Credential = domain.Credential{Hash: hash, Expires: w.clock.Now().Add(life), LastUsed: w.clock.Now()}
	require.NoError(t, r.store.Create(t.Context(), one))
	speaker, err := r.SpeakerBy(t.Context(), "t", text)
	require.NoError(t, err)
	m := service.NewMatcher(silent{r.store}, r.settled, w.clock.Now, "silent")
	in, err := m.Begin(t.Context(), "t")
	require.NoError(t, err)
	defer m.Close()
	defer func() { require.NoError(t, in.End(t.Context())) }()
	w.clock.add(life)
	in.SpokenBy(speaker)
	select {
	case <-in.Context().Done():
	case <-time.After(time.Minute):
		require.Fail(t, "the stream goes on")
	}
	require.True(t, fail.Is(context.Cause(in.Context()), fail.Unauthorized))
}

func TestTenantsMayGuardAgainstDeletions(t *testing.T) {
	w := newTenancy(t, 1)
	r := w.first()
	o, err := r.store.Get(t.Context(), domain.Tenants, domain.TenantKey("t"))
	require.NoError(t, err)
	o.(*domain.Tenant).Spec.DeleteGuard, o.(*domain.Tenant).Spec.DeleteAfter = 50, "30s"
	require.NoError(t, r.put(t.Context(), o, r.store.Replace))
	require.NoError(t, r.make(t.Context(), rule("r", "yes")))
	in := w.begin(r)
	w.take(in, syncs(labelled("a", "yes"), labelled("b", "yes"), labelled("c", "yes")))
	w.take(in, syncs())
	require.Len(t, w.wanted(), 3, "held")
	w.take(in, syncs(labelled("a", "yes"), labelled("b", "yes")))
	require.Len(t, w.wanted(), 3, "it is gone, and stays for a time")
	w.clock.add(29 * time.Second)
	require.NoError(t, r.store.Pulse(t.Context(), "replica-0", w.clock.Now()))
	require.NoError(t, r.Sweep(t.Context()))
	require.Len(t, w.wanted(), 3)
	w.clock.add(time.Second)
	require.NoError(t, r.store.Pulse(t.Context(), "replica-0", w.clock.Now()))
	require.NoError(t, r.Sweep(t.Context()))
	require.Equal(t, []string{"r/a", "r/b"}, w.wanted())
	w.take(in, syncs())
	require.NoError(t, r.Release(t.Context(), "t"))
	require.Empty(t, w.wanted())
	require.Empty(t, w.stored())
}

// TestAGraceThatIsTakenAway: what has begun to go in it goes at once.
func TestAGraceThatIsTakenAway(t *testing.T) {
	w := newTenancy(t, 1)
	r := w.first()
	grace := func(after string) {
		t.Helper()
		o, err := r.store.Get(t.Context(), domain.Tenants, domain.TenantKey("t"))
		require.NoError(t, err)
		o.(*domain.Tenant).Spec.DeleteAfter = after
		require.NoError(t, r.put(t.Context(), o, r.store.Replace))
	}
	grace("1h")
	require.NoError(t, r.make(t.Context(), rule("r", "yes")))
	in := w.begin(r)
	w.take(in, syncs(labelled("a", "yes"), labelled("b", "yes")))
	w.take(in, syncs(labelled("a", "yes")))
	require.Len(t, w.wanted(), 2)
	grace("")
	require.NoError(t, r.store.Pulse(t.Context(), "replica-0", w.clock.Now()))
	require.NoError(t, r.Sweep(t.Context()))
	require.Equal(t, []string{"r/a"}, w.wanted())
	require.Len(t, w.stored(), 1)
}

// TestWhatADeadProcessHasLeft: a process has stored a workload, and another one a rule, and both died before they looked.
func TestWhatADeadProcessHasLeft(t *testing.T) {
	w := newTenancy(t, 2)
	dead, other := w.replicas[0], w.replicas[1]
	require.NoError(t, dead.make(t.Context(), rule("r", "yes")))
	require.NoError(t, dead.store.Pulse(t.Context(), "replica-0", w.clock.Now()))
	stream, err := dead.store.BeginStream(t.Context(), "t", "replica-0")
	require.NoError(t, err)
	one, two := labelled("a", "yes"), labelled("b", "other")
	one.Tenant, two.Tenant = "t", "t"
	_, err = dead.store.WriteWorkloads(t.Context(), "t", &domain.WorkloadWrite{Begun: stream.Begun, Put: []*domain.Workload{one, two}})
	require.NoError(t, err)
	require.NoError(t, dead.Changing(t.Context(), "t"))
	require.NoError(t, dead.store.Create(t.Context(), rule("later", "other")))

	require.NoError(t, other.Sweep(t.Context()))
	require.Empty(t, w.wanted(), "it may be alive")
	w.clock.add(domain.PulseLife + time.Second)
	require.NoError(t, other.Sweep(t.Context()))
	require.Equal(t, []string{"later/b", "r/a"}, w.wanted(), "settings that are being changed are read anew")
	require.Eventually(t, func() bool { return other.settled.of("t") > 0 }, time.Minute, time.Millisecond)
	lost, err := other.store.LostStreams(t.Context())
	require.NoError(t, err)
	require.Empty(t, lost)
	w.clock.add(time.Minute)
	require.NoError(t, other.Sweep(t.Context()))
	unfinished, err := other.store.UnfinishedSettings(t.Context(), 0)
	require.NoError(t, err)
	require.Empty(t, unfinished)
}

// forgetful is a store that was away for a moment: something was done and the answer lost, or was not done at all.
type forgetful struct {
	*store.Store
	end, begin bool // the next one
}

var errAway = fail.New(fail.Unavailable, "the database cannot be reached")

func (s *forgetful) EndStream(ctx context.Context, stream *domain.Stream, settled bool) error {
	if s.end {
		s.end = false
		return errAway
	}
	return s.Store.EndStream(ctx, stream, settled)
}

func (s *forgetful) WriteMatches(ctx context.Context, tenant string, write, remove []domain.Match) error {
	if s.end {
		return errAway
	}
	return s.Store.WriteMatches(ctx, tenant, write, remove)
}

func (s *forgetful) BeginStream(ctx context.Context, tenant, process string) (*domain.Stream, error) {
	begun, err := s.Store.BeginStream(ctx, tenant, process)
	if s.begin && err == nil {
		s.begin = false
		return nil, errAway
	}
	return begun, err
}

// TestAStreamWhoseEndWasNotNoted, or of which its own process does not know that it has begun, is lost though that lives.
func TestAStreamWhoseEndWasNotNoted(t *testing.T) {
	w := newTenancy(t, 1)
	r := w.first()
	s := &forgetful{Store: r.store}
	m := service.NewMatcher(s, r.settled, w.clock.Now, "replica-0")
	defer m.Close()
	connected := func() bool {
		t.Helper()
		is, err := r.store.TenantStream(t.Context(), "t")
		require.NoError(t, err)
		return is.Connected
	}
	require.NoError(t, r.make(t.Context(), rule("r", "yes")))
	in, err := m.Begin(t.Context(), "t")
	require.NoError(t, err)
	s.end = true
	require.ErrorIs(t, in.Take(t.Context(), updates(labelled("a", "yes"))), errAway)
	require.ErrorIs(t, in.End(t.Context()), errAway)
	require.True(t, connected())
	require.Empty(t, w.wanted())
	require.NoError(t, m.Sweep(t.Context()))
	require.False(t, connected())
	require.Equal(t, []string{"r/a"}, w.wanted())

	s.begin = true
	_, err = m.Begin(t.Context(), "t")
	require.ErrorIs(t, err, errAway)
	require.True(t, connected())
	require.NoError(t, m.Sweep(t.Context()))
	require.False(t, connected())

	in, err = m.Begin(t.Context(), "t")
	require.NoError(t, err)
	require.NoError(t, m.Sweep(t.Context()))
	require.True(t, connected(), "it goes on")
	require.NoError(t, in.Take(t.Context(), updates(labelled("b", "yes"))))
	require.NoError(t, in.End(t.Context()))
	require.False(t, connected())
}

// TestAStreamThatBeginsIsNotLost, though its process does not know it yet.
func TestAStreamThatBeginsIsNotLost(t *testing.T) {
	w := newTenancy(t, 1)
	r := w.first()
	s := &slowBegin{Store: r.store}
	m := service.NewMatcher(s, r.settled, w.clock.Now, "replica-0")
	defer m.Close()
	s.begun = func() { require.NoError(t, m.Sweep(t.Context())) }
	in, err := m.Begin(t.Context(), "t")
	require.NoError(t, err)
	require.NoError(t, in.Take(t.Context(), syncs(labelled("a", "yes"))))
	require.NoError(t, in.End(t.Context()))
}

// slowBegin calls begun when a stream has begun and nobody knows it yet.
type slowBegin struct {
	*store.Store
	begun func()
}

func (s *slowBegin) BeginStream(ctx context.Context, tenant, process string) (*domain.Stream, error) {
	stream, err := s.Store.BeginStream(ctx, tenant, process)
	s.begun()
	return stream, err
}

// TestAChangeThatWasNotMadeLeavesNoWord, and takes none of another one away.
func TestAChangeThatWasNotMadeLeavesNoWord(t *testing.T) {
	w := newTenancy(t, 1)
	r := w.first()
	stand := func(want int) {
		t.Helper()
		unfinished, err := r.store.UnfinishedSettings(t.Context(), 0)
		require.NoError(t, err)
		require.Len(t, unfinished["t"], want)
		_, changing, err := r.store.SettingsVersion(t.Context(), "t")
		require.NoError(t, err)
		require.Equal(t, want > 0, changing, "what is known of rules is relied on when nothing changes")
	}
	for range 3 {
		require.NoError(t, r.Changing(t.Context(), "t"))
		r.Unchanged(t.Context(), "t")
	}
	stand(0)
	require.NoError(t, r.Changing(t.Context(), "t"))
	require.NoError(t, r.Changing(t.Context(), "t"))
	r.Unchanged(t.Context(), "t")
	stand(1)
	r.Changed(t.Context(), "t", "")
	stand(0)
	r.Unchanged(t.Context(), "t")
	r.Unchanged(t.Context(), "nobody")
	stand(0)
}

// TestAChangeThatIsTakenBackLate is one for all who have read the settings since somebody has ended its word: the process that has given it, or another one,
// by a clock that is ahead.
func TestAChangeThatIsTakenBackLate(t *testing.T) {
	for name, c := range map[string]struct {
		sweeps, reads int // which process
		after         time.Duration
	}{
		"its own process has ended it":                          {0, 1, policy.Unfinished + time.Second},
		"another one has, and its own has read since":           {1, 0, policy.Unfinished + time.Second},
		"another one has, whose clock is ahead, a moment early": {1, 0, policy.Unfinished - policy.ClocksApart},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTenancy(t, 2)
			slow, refused := w.first(), rule("r", "yes")
			require.NoError(t, slow.Changing(t.Context(), "t"))
			require.NoError(t, slow.store.Create(t.Context(), refused))
			w.clock.add(max(c.after, policy.Unfinished))
			require.NoError(t, w.replicas[c.sweeps].Sweep(t.Context()))
			w.clock.add(min(0, c.after-policy.Unfinished))
			in, err := w.replicas[c.reads].Begin(t.Context(), "t")
			require.NoError(t, err)
			require.NoError(t, in.Take(t.Context(), updates(labelled("a", "yes"))))
			require.Equal(t, []string{"r/a"}, w.wanted(), "the rule is known")

			require.NoError(t, slow.store.Delete(t.Context(), domain.WorkloadRules, domain.KeyOf(refused), 0))
			slow.Changed(t.Context(), "t", domain.KeyOf(refused))
			require.Empty(t, w.wanted())
			require.NoError(t, in.Take(t.Context(), updates(labelled("b", "yes"))))
			require.Empty(t, w.wanted(), "nobody goes by a rule that is not there")
			require.NoError(t, in.End(t.Context()))
			unfinished, err := slow.store.UnfinishedSettings(t.Context(), 0)
			require.NoError(t, err)
			require.Empty(t, unfinished)
		})
	}
}

// ailing does not store the matches of a tenant.
type ailing struct {
	*store.Store
	tenant string
}

func (s ailing) WriteMatches(ctx context.Context, tenant string, write, remove []domain.Match) error {
	if tenant == s.tenant {
		return fail.New(fail.Internal, "its matches are not stored")
	}
	return s.Store.WriteMatches(ctx, tenant, write, remove)
}

// TestWhatFailsForATenantKeepsNobodyWaiting: of three tenants whose process died, one cannot be seen to.
func TestWhatFailsForATenantKeepsNobodyWaiting(t *testing.T) {
	w := newTenancy(t, 1)
	s := w.first().store
	others := []string{"s", "t", "u"}
	w.tenant("s", func(*domain.Tenant) {})
	w.tenant("u", func(*domain.Tenant) {})
	require.NoError(t, s.Pulse(t.Context(), "dead", w.clock.Now()))
	for _, name := range others {
		r := rule("r", "yes")
		r.Parent = domain.TenantKey(name)
		require.NoError(t, s.Create(t.Context(), r))
		stream, err := s.BeginStream(t.Context(), name, "dead")
		require.NoError(t, err)
		one := labelled("a", "yes")
		one.Tenant = name
		_, err = s.WriteWorkloads(t.Context(), name, &domain.WorkloadWrite{Begun: stream.Begun, Put: []*domain.Workload{one}})
		require.NoError(t, err)
	}
	lost, err := s.LostStreams(t.Context())
	require.NoError(t, err)
	require.Empty(t, lost)
	w.clock.add(domain.PulseLife + time.Second)
	for _, ill := range others {
		m := service.NewMatcher(ailing{s, ill}, nil, w.clock.Now, "sweeper")
		defer m.Close()
		require.ErrorContains(t, m.Sweep(t.Context()), "its matches are not stored")
		for _, name := range others {
			records, err := s.Matches(t.Context(), name)
			require.NoError(t, err)
			require.Equal(t, name == ill, len(records) == 0, "%s, while %s cannot be seen to", name, ill)
			if name != ill {
				require.NoError(t, s.WriteMatches(t.Context(), name, nil, records))
			}
		}
		for _, name := range others { // lost once more
			stream, err := s.BeginStream(t.Context(), name, "dead")
			require.NoError(t, err)
			require.NotNil(t, stream)
		}
	}
}

// panicking panics when it is asked for settings after a stream has begun.
type panicking struct {
	*store.Store
	begun bool
}

func (p *panicking) BeginStream(ctx context.Context, tenant, process string) (*domain.Stream, error) {
	p.begun = true
	return p.Store.BeginStream(ctx, tenant, process)
}

func (p *panicking) SettingsVersion(ctx context.Context, tenant string) (string, bool, error) {
	if p.begun {
		panic("defect")
	}
	return p.Store.SettingsVersion(ctx, tenant)
}

// TestAStreamThatPanicsAsItBegins ends, and the next one sees to what it has not.
func TestAStreamThatPanicsAsItBegins(t *testing.T) {
	w := newTenancy(t, 1)
	s := w.first().store
	_, err := s.BeginStream(t.Context(), "t", "dead")
	require.NoError(t, err)
	m := service.NewMatcher(&panicking{Store: s}, nil, w.clock.Now, "unlucky")
	_, err = m.Begin(t.Context(), "t")
	require.ErrorContains(t, err, "defect")
	m.Close() // waits for what goes on
	next, err := s.BeginStream(t.Context(), "t", "replica-0")
	require.NoError(t, err)
	require.True(t, next.Unsettled)
}

// TestAnAgentThatConnectsAgainWritesNothing: it does so before the end of the connection that it lost has arrived. The older
// stream ends in order first, so that nothing need be written to keep it out.
func TestAnAgentThatConnectsAgainWritesNothing(t *testing.T) {
	w := newTenancy(t, 1)
	r := w.first()
	older := w.begin(r)
	w.take(older, syncs(labelled("a", "1")))
	ended := make(chan error, 1)
	go func() {
		<-older.Context().Done()
		ended <- older.End(context.Background())
	}()
	again := w.begin(r)
	require.NoError(t, <-ended)
	require.True(t, fail.Is(context.Cause(older.Context()), fail.Aborted))
	w.take(again, syncs(labelled("a", "1")))
	require.NoError(t, again.End(t.Context()))
	next, err := r.store.BeginStream(t.Context(), "t", "replica-0")
	require.NoError(t, err)
	require.False(t, next.Unsettled)
	require.Zero(t, next.Begun, "an entry has begun a stream")
}

// TestAProcessThatWasFrozenSaysNothingMore: others have taken its stream for lost meanwhile, and the agent has gone to one of them.
func TestAProcessThatWasFrozenSaysNothingMore(t *testing.T) {
	w := newTenancy(t, 2)
	frozen, other := w.replicas[0], w.replicas[1]
	alive := func() {
		require.NoError(t, other.Sweep(t.Context()), "who looks now and then sees pulses that do not change")
		w.clock.add(domain.PulseLife + time.Second)
		require.NoError(t, other.store.Pulse(t.Context(), "replica-1", w.clock.Now()))
		require.NoError(t, other.Sweep(t.Context()))
	}
	first := w.begin(frozen)
	w.take(first, syncs(labelled("a", "1")))
	alive()
	err := first.Take(t.Context(), updates(labelled("b", "1")))
	require.True(t, fail.Is(err, fail.Unavailable), "the agent connects again at once: %v", err)
	require.NoError(t, first.End(t.Context()))

	second := w.begin(frozen)
	w.take(second, syncs(labelled("a", "1")))
	alive()
	third := w.begin(other)
	w.take(third, syncs(labelled("c", "1")))
	err = second.Take(t.Context(), updates(labelled("d", "1")))
	require.True(t, fail.Is(err, fail.Aborted), "%v", err)
	alive()
	w.take(third, updates(labelled("e", "1")))
	require.Equal(t, []string{"c", "e"}, w.stored())
}

// TestAnAgentThatGoesToAnotherProcess: the first one has died when a sync was stored, and before its matches were. The agent says
// the same to another one, for which that is no difference.
func TestAnAgentThatGoesToAnotherProcess(t *testing.T) {
	w := newTenancy(t, 2)
	dead, other := w.replicas[0], w.replicas[1]
	require.NoError(t, dead.make(t.Context(), rule("r", "yes")))
	require.NoError(t, dead.store.Pulse(t.Context(), "replica-0", w.clock.Now()))
	stream, err := dead.store.BeginStream(t.Context(), "t", "replica-0")
	require.NoError(t, err)
	one := labelled("a", "yes")
	one.Tenant = "t"
	_, err = dead.store.WriteWorkloads(t.Context(), "t", &domain.WorkloadWrite{Begun: stream.Begun, Put: []*domain.Workload{one}})
	require.NoError(t, err)
	w.take(w.begin(other), syncs(labelled("a", "yes")))
	require.Equal(t, []string{"r/a"}, w.wanted())
}

// TestARuleHasSoManyMatches, and when one goes another one takes its place.
func TestARuleHasSoManyMatches(t *testing.T) {
	w := newTenancy(t, 1)
	r := w.first()
	require.NoError(t, r.make(t.Context(), rule("r", "yes")))
	in := w.begin(r)
	var all []*domain.Workload
	for n := range limits.RuleMatches + 5 {
		all = append(all, labelled(fmt.Sprintf("w-%04d", n), "yes"))
	}
	w.take(in, updates(all[:limits.RuleMatches-1]...))
	require.Len(t, w.wanted(), limits.RuleMatches-1)
	for _, one := range all[limits.RuleMatches-1:] {
		w.take(in, updates(one))
	}
	require.Len(t, w.wanted(), limits.RuleMatches)
	w.take(in, []*service.Said{{Delete: []string{"w-0000", "w-0001"}}})
	require.Len(t, w.wanted(), limits.RuleMatches)
	w.take(in, syncs(all[:3]...))
	require.Len(t, w.wanted(), 3)
	w.take(in, syncs(all...))
	require.Len(t, w.wanted(), limits.RuleMatches)
}

// TestARuleThatWasStoredBeforeItHadBounds goes on matching: did it match nothing, all that it has made would go. A worker that settles it takes it, too.
func TestARuleThatWasStoredBeforeItHadBounds(t *testing.T) {
	w := newTenancy(t, 1)
	r := w.first()
	require.NoError(t, r.make(t.Context(), rule("r", "yes")))
	w.take(w.begin(r), updates(labelled("a", "yes")))
	require.Equal(t, []string{"r/a"}, w.wanted())
	o, err := r.store.Get(t.Context(), domain.WorkloadRules, domain.KeyOf(rule("r", "yes")))
	require.NoError(t, err)
	large := domain.RuleOf(o)
	for i := range limits.RuleValues {
		e := &large.Spec.WorkloadTerms[0].MatchExpressions[0]
		e.Values = append(e.Values, fmt.Sprint(i))
	}
	require.NoError(t, r.put(t.Context(), large, r.store.Replace))
	require.Equal(t, []string{"r/a"}, w.wanted())
	r.Changed(t.Context(), "t", "")
	require.Equal(t, []string{"r/a"}, w.wanted(), "by a whole look")
}
