package explore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"pgregory.net/rapid"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/status"
)

// What is around the groups, and changes too: the logical cloud of level 1 that some sequences have, network intents, and the
// registrations of clusters.

// owner is an owner that is no group.
type owner struct {
	key      domain.Key
	inFlight int  // guarded by the lane
	vague    bool // a request of it may have been accepted or not
}

// cloud is the logical cloud of a sequence that has steps of one. The other sequences have one of level 0, which is never touched.
type cloud struct {
	owner
	space string // its namespace
}

// cloudMoves are what is drawn for a cloud while groups are in it. Its user stays: the rights of the one before are over at once.
var cloudMoves = []string{"update", "change update", "change update await", "change update stop", "stop", "await", "instantiate", "change"}

// beginning draws how the cloud comes about: most often before the groups, and sometimes at the same time.
func beginning(t *rapid.T) (q sequence) {
	for _, do := range strings.Fields(rapid.SampledFrom([]string{
		"instantiate await", "instantiate await", "instantiate await", "instantiate", "instantiate stop terminate", "instantiate stop await",
	}).Draw(t, "cloud")) {
		q = append(q, complete(t, "cloud", do))
	}
	return q
}

// describe makes the project's cloud with its references, and does not instantiate it.
func (c *cloud) describe(ctx context.Context, l *lane) error {
	steps := []client.Step{
		{Object: &domain.Project{Metadata: domain.Metadata{Name: l.project}}},
		{Object: c.said(l, 0)},
		{Object: &domain.UserPermission{
			Identity: domain.Identity{Parent: c.key}, Metadata: domain.Metadata{Name: "all"},
			Spec: domain.UserPermissionSpec{Namespace: c.space, APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		}},
	}
	for _, k := range l.w.of(l.place) {
		steps = append(steps, client.Step{Object: &domain.ClusterReference{
			Identity: domain.Identity{Parent: c.key}, Metadata: domain.Metadata{Name: k.Name},
			Spec: domain.ClusterReferenceSpec{ClusterProvider: k.Provider, Cluster: k.Name},
		}})
	}
	return l.api.Run(ctx, steps, nil)
}

// said is the cloud's document; what changes is a label of its namespace.
func (c *cloud) said(l *lane, n int) *domain.LogicalCloud {
	return &domain.LogicalCloud{
		Identity: domain.Identity{Parent: domain.Join(domain.Projects.Collection, l.project)}, Metadata: domain.Metadata{Name: c.key.Name()},
		Spec: domain.LogicalCloudSpec{
			Level: "1", Namespace: c.space, Labels: map[string]string{"said": fmt.Sprint(n)}, User: domain.CloudUser{UserName: l.project, Type: "certificate"},
		},
	}
}

// of is summary for over.
func (o *owner) of(l *lane) func(context.Context) (*status.Document, error) {
	return func(ctx context.Context) (*status.Document, error) { return o.summary(ctx, l) }
}

func (o *owner) summary(ctx context.Context, l *lane) (*status.Document, error) {
	return l.api.Status(ctx, o.key, url.Values{"output": {"summary"}})
}

// ready says whether groups can surely be operated on in the cloud: it is instantiated, and nothing is asked of it.
func (l *lane) ready(ctx context.Context) bool {
	if l.cloud == nil {
		return true
	}
	l.mu.Lock()
	sure := l.cloud.inFlight == 0 && !l.cloud.vague
	l.mu.Unlock()
	got, err := l.cloud.summary(ctx, l)
	return sure && err == nil && got.Status == domain.ContextInstantiated
}

// askCloud asks something of the cloud. Only what must never be is wrong here; judgeCloud says what must be in the end.
func (l *lane) askCloud(ctx context.Context, s step) {
	l.askOwner(ctx, &l.cloud.owner, s, func(ctx context.Context, n int) error {
		if s.Do == "change" {
			_, err := l.api.Put(ctx, l.cloud.said(l, n), nil)
			return err
		}
		_, err := l.api.Operate(ctx, l.cloud.key, domain.Operation(s.Do))
		if s.Do == "terminate" && err == nil && !l.disturbed(l.groups["a"]) {
			l.wrong("%s is accepted, and a names the cloud", s)
		}
		return err
	})
}

// askOwner does what is asked of an owner in one of the ways; n is a number that nothing else has had.
func (l *lane) askOwner(ctx context.Context, o *owner, s step, do func(ctx context.Context, n int) error) {
	if s.Do == "await" {
		ctx, cancel := context.WithTimeout(ctx, awaitTime)
		defer cancel()
		_, err := over(ctx, o.of(l))
		l.note("%s: %v", s, err == nil)
		return
	}
	send := func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		l.mu.Lock()
		o.inFlight++
		l.said++
		n := l.said
		l.mu.Unlock()
		err := do(ctx, n)
		code := codeOf(err)
		l.note("%s: %v", s, err)
		if code == 500 || code == 501 {
			l.wrong("%s is answered %d: %v", s, code, err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		o.inFlight--
		o.vague = o.vague || err != nil && code/100 != 4
	}
	switch {
	case s.word("twice"):
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { send(ctx) })
		}
		both.Wait()
	case s.word("beside"):
		l.flying.Go(func() { send(ctx) })
		<-time.After(5 * time.Millisecond)
	case s.duration("lost") > 0:
		ctx, cancel := context.WithTimeout(ctx, s.duration("lost"))
		defer cancel()
		send(ctx)
	default:
		send(ctx)
	}
}

// codeOf is the code of an answer that is an error, 0 where nobody has answered.
func codeOf(err error) int {
	if refused := (*client.Error)(nil); errors.As(err, &refused) {
		return refused.Code
	}
	return 0
}

// judgeCloud says whether the cloud has come to the end of what was asked of it last, and whether what it says is so.
func (l *lane) judgeCloud(ctx context.Context, what string) {
	if l.cloud == nil {
		return
	}
	got, err := l.cloud.summary(ctx, l)
	if err != nil {
		l.wrong("%s: the status of the cloud: %v", what, err)
		return
	}
	l.note("%s: the cloud is %s (%s): %s", what, got.States.State(), got.Status, spell(got.States.Actions))
	if bad := illegal(got.States.Actions, cloudFollows); bad != "" {
		l.wrong("%s: the history of the cloud: %s: %s", what, bad, spell(got.States.Actions))
	}
	want := map[domain.State][]domain.ContextStatus{
		domain.Created:            {domain.ContextNone},
		domain.Instantiated:       {domain.ContextInstantiated},
		domain.Updated:            {domain.ContextInstantiated},
		domain.InstantiateStopped: {domain.ContextInstantiated, domain.ContextInstantiateFailed},
	}[got.States.State()]
	if !slices.Contains(want, got.Status) && !l.refused() {
		l.wrong("%s: the cloud is %s in the end, and the status %s", what, got.States.State(), got.Status)
	}
	spaces, err := l.spaces(ctx)
	if err != nil || got.Status == domain.ContextInstantiated && spaces != clustersEach {
		l.wrong("%s: the cloud is instantiated, and its namespace is in %d clusters: %v", what, spaces, err)
	}
	for _, g := range l.groups {
		is, err := g.Summary(ctx)
		if err == nil && is.Status == domain.ContextInstantiated && is.States.State() == domain.Instantiated && (got.Status == domain.ContextNone || got.Status == domain.ContextTerminated) {
			l.wrong("%s: the cloud is %s, and %s is instantiated in it", what, got.Status, g.name)
		}
	}
}

// spaces are the clusters in which the cloud's namespace is.
func (l *lane) spaces(ctx context.Context) (n int, err error) {
	for _, c := range l.w.of(l.place) {
		list, err := l.w.fleet.Held(ctx, c.Name, "")
		if err != nil {
			return 0, err
		}
		for _, o := range list {
			if o.Kind == "Namespace" && o.Name == l.cloud.space {
				n++
			}
		}
	}
	return n, nil
}

// endCloud terminates and deletes the cloud, when the groups are gone.
func (l *lane) endCloud(ctx context.Context) {
	if l.cloud == nil {
		return
	}
	got, err := l.cloud.summary(ctx, l)
	if err != nil {
		l.wrong("the status of the cloud: %v", err)
		return
	}
	if got.Status != domain.ContextNone && got.Status != domain.ContextTerminated {
		if !l.terminate(ctx, &l.cloud.owner, got) {
			return
		}
	}
	if n, err := l.spaces(ctx); err != nil || n > 0 {
		l.wrong("after the terminate the cloud's namespace is in %d clusters: %v", n, err)
	}
	below := []domain.Key{l.cloud.key.Child(domain.UserPermissions.Collection, "all")}
	for _, k := range l.w.of(l.place) {
		below = append(below, l.cloud.key.Child(domain.ClusterReferences.Collection, k.Name))
	}
	for _, key := range append(below, l.cloud.key) {
		if err := l.api.Delete(ctx, key); err != nil {
			l.wrong("delete %s: %v", key, err)
		}
	}
	if _, err := l.cloud.summary(ctx, l); !fail.Is(err, fail.NotFound) {
		l.wrong("the cloud is deleted, and its status is answered: %v", err)
	}
}

// terminate brings an owner to its end, and says whether that has come.
func (l *lane) terminate(ctx context.Context, o *owner, was *status.Document) bool {
	if _, err := l.api.Operate(ctx, o.key, domain.OpTerminate); err != nil {
		l.wrong("%s in state %s (%s) cannot be terminated: %v", o.key, was.States.State(), was.Status, err)
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, quietTime)
	defer cancel()
	got, err := over(ctx, o.of(l))
	if err != nil {
		words, _ := l.api.ExplainText(context.WithoutCancel(ctx), o.key)
		l.wrong("the terminate of %s waits for ever: %v\n%s", o.key, err, words)
		return false
	}
	if got.Status != domain.ContextTerminated {
		l.wrong("the terminate of %s ends %s", o.key, got.Status)
	}
	return true
}

// owners are those of the sequence that are no groups.
func (l *lane) owners() (all []*owner) {
	if l.cloud != nil {
		all = append(all, &l.cloud.owner)
	}
	if l.nets != nil {
		all = append(all, &l.nets.owner)
	}
	return all
}

// rotate replaces the registration of a cluster by one with the credential that is good.
func (l *lane) rotate(ctx context.Context, s step, k domain.ClusterName) {
	l.mu.Lock()
	l.said++
	words := fmt.Sprintf("%s, the %dth", l.project, l.said)
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	err := l.w.renew(ctx, l.api, k, words)
	l.note("%s: %v", s, err)
	if code := codeOf(err); errors.Is(err, errSame) || code == 500 || code/100 == 4 && code != 429 {
		l.wrong("%s is answered %d: %v", s, code, err)
	}
}
