package explore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/test/fleet"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/workflows"
)

// lane runs one sequence in a project of its own.
type lane struct {
	w   *world
	api *client.API // of one of the two
	*ground
	steps   sequence
	project string
	release string
	groups  map[string]*group
	cloud   *cloud         // nil for one of level 0
	nets    *nets          // nil for none
	tenant  *tenant        // nil for none
	flying  sync.WaitGroup // requests that nobody waits for
	failed  error          // of describe

	mu       sync.Mutex // guards what follows, and the groups
	begun    time.Time
	lines    []string // what was done, for people
	problems []string
	failing  bool // a hook was to fail, or what cannot be changed was to change
	fixed    bool // there may be what cannot be changed
	hand     bool // a person has ended a workflow
	orphans  bool // a group was deleted that had left something
	said     int
}

// group is a group, and what the model knows of it.
type group struct {
	*client.Deployment
	name     string
	possible []description // one of them is stored
	wanted   []description // one of them its instance is made of; none when that is not known
	inFlight int
	vague    bool           // a request of it may have been accepted or not, or may be yet
	broken   bool           // some of its documents may be missing
	accepted map[string]int // operations that were accepted since it was described, by name
	unknown  map[string]int
}

func (w *world) lane(at *ground, q sequence) *lane {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run++
	l := &lane{
		w: w, ground: at, steps: q, project: fmt.Sprintf("p%d", w.run), release: fmt.Sprintf("r%d", w.run), begun: time.Now(),
		groups: map[string]*group{}, api: w.apis[w.run%len(w.apis)],
	}
	if slices.ContainsFunc(q, func(s step) bool { return s.Who == "tenant" }) {
		l.tenant = &tenant{key: domain.TenantKey(l.project), address: w.tenants[w.run%len(w.tenants)]}
	}
	where := "admin"
	if slices.ContainsFunc(q, func(s step) bool { return s.Who == "cloud" }) {
		where = "own"
		l.cloud = &cloud{owner{key: domain.Join(domain.Projects.Collection, l.project).Child(domain.LogicalClouds.Collection, where)}, "space-" + l.project}
	}
	if slices.ContainsFunc(q, func(s step) bool { return s.Who == "networks" }) {
		l.nets = &nets{owner: owner{key: w.of(at.place)[0].Key()}}
	}
	for name, version := range map[string]string{"a": "v1", "b": "v2"} {
		l.groups[name] = &group{
			name: name, possible: []description{{n: 1, on: "12", says: "0"}}, accepted: map[string]int{}, unknown: map[string]int{},
			Deployment: &client.Deployment{
				API: l.api, Project: l.project, CompositeApp: "composite", Version: version, Profile: "profile", LogicalCloud: where,
				Group: name, Release: l.release, Clusters: w.of(at.place),
			},
		}
	}
	return l
}

// note writes what happens.
func (l *lane) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf("%6.2f ", time.Since(l.begun).Seconds())+fmt.Sprintf(format, args...))
}

// wrong notes something that must not be.
func (l *lane) wrong(format string, args ...any) {
	l.note("WRONG: "+format, args...)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

// apps are those of a group as its description has them.
func (l *lane) apps(g *group, d description) []client.App {
	values := func(app string, n int) map[string]string {
		return map[string]string{"app": app, "n": fmt.Sprint(n), "says": d.says}
	}
	where := domain.Placement{}
	if d.on == "edge" {
		where = harness.Labelled("edge", g.Clusters[0])
	} else {
		for _, i := range d.places() {
			where.AllOf = append(where.AllOf, domain.AllOf{Clusters: harness.One(g.Clusters[i])})
		}
	}
	one := client.App{Name: "one", Chart: l.w.charts["one"], Overrides: values("one", d.n), Intent: where}
	one.Overrides["with"] = d.with
	if g.name == "a" {
		two := client.App{Name: "two", Chart: l.w.charts["two"], Overrides: values("two", 1), Intent: harness.Labelled("edge", g.Clusters[0])}
		two.Overrides["hooks"], two.Overrides["job"] = "yes", d.job
		return []client.App{one, two}
	}
	three := client.App{Name: "three", Chart: l.w.charts["three"], Overrides: values("three", 1), Intent: harness.All(g.Clusters[:2]...)}
	three.Overrides["kept"] = "yes"
	return []client.App{one, three}
}

// describe describes the project with both groups.
func (l *lane) describe(ctx context.Context) error {
	if l.cloud != nil {
		if err := l.cloud.describe(ctx, l); err != nil {
			return err
		}
	}
	for _, name := range []string{"a", "b"} {
		g := l.groups[name]
		g.Apps = l.apps(g, g.possible[0])
		var steps []client.Step
		if name == "a" && l.cloud == nil {
			steps = g.CloudSteps()
		}
		for _, s := range g.GroupSteps() {
			if _, profile := s.Object.(*domain.Profile); !profile {
				steps = append(steps, s)
			}
		}
		if err := l.api.Run(ctx, steps, nil); err != nil {
			return err
		}
	}
	if l.tenant != nil {
		if err := l.tenant.describe(ctx, l); err != nil {
			return err
		}
	}
	a := l.groups["a"]
	_, err := l.api.Create(ctx, &domain.AppDependency{
		Identity: domain.Identity{Parent: domain.KeyOf(a.AppOf("two"))}, Metadata: domain.Metadata{Name: "after-one"},
		Spec: domain.AppDependencySpec{App: "one", OpStatus: domain.UntilDeployed},
	}, nil)
	return err
}

// Bounds of the requests and waits of a lane.
const (
	answerTime               = 75 * time.Second
	quietTime                = harness.Patience
	awaitTime                = 4 * time.Second
	firstPause, longestPause = 300 * time.Millisecond, 3 * time.Second
)

// perform does the steps.
func (l *lane) perform(ctx context.Context) {
	for _, s := range l.steps {
		l.step(ctx, s)
	}
}

// over waits until nothing goes on with an owner; the error is that ctx has ended. A look costs the store a dozen questions.
func over(ctx context.Context, summary func(context.Context) (*status.Document, error)) (*status.Document, error) {
	var got *status.Document
	var err error
	ended := harness.LookSeldom(ctx, func() bool {
		got, err = summary(ctx)
		return err == nil && !got.Status.InProgress()
	})
	if ended != nil {
		return got, errors.Join(ended, err)
	}
	return got, nil
}

// refuse notes that a cluster refuses something, and refused says whether one may have.
func (l *lane) refuse() {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.refusing = true
}

func (l *lane) refused() bool {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.refusing
}

func (l *lane) step(ctx context.Context, s step) {
	g := l.groups[s.Who]
	k, isCluster := l.cluster(s.Who)
	switch {
	case s.Who == "we" && s.Do == "wait":
		<-time.After(s.duration("for"))
	case s.Who == "we": // share: the batch has seen to it
	case g != nil && s.Do == "await":
		ctx, cancel := context.WithTimeout(ctx, cmp.Or(s.duration("for"), awaitTime))
		defer cancel()
		_, err := over(ctx, g.Summary)
		l.note("%s: %v", s, err == nil)
	case g != nil && (s.Do == "cancel" || s.Do == "end"):
		l.byHand(ctx, g, s)
	case g != nil:
		l.ask(ctx, g, s)
	case s.Who == "cloud":
		l.askCloud(ctx, s)
	case s.Who == "networks":
		l.askNetworks(ctx, s)
	case s.Who == "tenant":
		l.askTenant(ctx, s)
	case isCluster && s.Do == "rotate":
		l.rotate(ctx, s, k)
	case isCluster && s.Do == "revoke":
		l.note("%s: %v", s, l.w.revoke(ctx, k))
	case isCluster && s.Do == "remove":
		l.unregister(ctx, s, k)
	case isCluster:
		if s.Do == "forbid" {
			l.refuse()
		}
		l.note("%s: %v", s, l.w.fleet.Inject(ctx, k.Name, clusterFaults[s.Do]...))
	default:
		l.note("%s", s)
		l.w.harm(s)
	}
}

// cluster is the one that a step names: cluster1 to cluster3 are the groups', and the next one is the tenant's.
func (l *lane) cluster(who string) (k domain.ClusterName, ok bool) {
	number, ok := strings.CutPrefix(who, "cluster")
	if !ok {
		return k, false
	}
	all := append(slices.Clone(l.w.of(l.place)), l.w.spare[l.place])
	return all[int(number[0]-'1')%len(all)], true
}

// ask asks an operation in one of the ways.
func (l *lane) ask(ctx context.Context, g *group, s step) {
	if s.Do == "instantiate" && l.rival(ctx, g) {
		l.note("%s: left out, as the other group may have an instance", s)
		return
	}
	send := func(ctx context.Context, alone bool) { // as users do, again where there was no answer
		for pause := firstPause; ; pause *= 3 {
			asked, cancel := context.WithTimeout(ctx, answerTime)
			outcome := l.send(asked, g, s, alone)
			cancel()
			if outcome != "unknown" && outcome != "put off" || pause > longestPause || s.duration("lost") > 0 {
				return
			}
			<-time.After(pause)
		}
	}
	switch {
	case s.word("twice"):
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { send(ctx, false) })
		}
		both.Wait()
	case s.word("beside"):
		l.flying.Go(func() { send(ctx, false) })
		<-time.After(5 * time.Millisecond)
	case s.duration("lost") > 0:
		ctx, cancel := context.WithTimeout(ctx, s.duration("lost"))
		defer cancel()
		send(ctx, false)
	default:
		send(ctx, true)
	}
}

// disturbed says whether a person has ended a workflow, or, of a group, some of its documents may be missing.
func (l *lane) disturbed(g *group) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hand || g != nil && g.broken
}

// rival says whether the other group, whose objects have the same names, has an instance or may get one.
func (l *lane) rival(ctx context.Context, g *group) bool {
	other := l.other(g)
	l.mu.Lock()
	risky := other.inFlight > 0 || g.inFlight > 0 || other.unknown["instantiate"] > 0 || g.unknown["migrate"] > 0
	l.mu.Unlock()
	if risky {
		return true
	}
	got, err := other.Summary(ctx)
	if err != nil {
		return !fail.Is(err, fail.NotFound)
	}
	return got.Status != domain.ContextNone && got.Status != domain.ContextTerminated && got.Status != domain.ContextUpdated
}

func (l *lane) other(g *group) *group {
	if g.name == "a" {
		return l.groups["b"]
	}
	return l.groups["a"]
}

// send sends a request, waits for its answer, and learns from it. Where it is alone the states before and after it are compared.
func (l *lane) send(ctx context.Context, g *group, s step, alone bool) (outcome string) {
	began := time.Now()
	l.mu.Lock()
	alone = alone && g.inFlight == 0 && !g.vague && l.other(g).inFlight == 0 && !l.other(g).vague
	g.inFlight++
	next := g.possible[len(g.possible)-1]
	if s.Do == "change" {
		l.said++
		next = description{s.number("n"), s.arg("on"), fmt.Sprint(l.said), jobs[s.arg("job")], s.arg("with")}
		l.failing = l.failing || s.arg("job") == "fails" || l.fixed && next.with == "fixed" // which cannot say anything else
		l.fixed = l.fixed || next.with == "fixed"
	}
	if s.Do == "change" || s.Do == "describe" || s.Do == "delete" {
		g.possible = append(g.possible, next)
	}
	l.mu.Unlock()

	var before, rival *status.Document
	ready := false
	if alone {
		var err error
		ready = l.ready(ctx)
		if before, err = g.Summary(ctx); err != nil {
			before = nil
		}
		if rival, err = l.other(g).Summary(ctx); err != nil {
			rival = nil
		}
	}
	warnings, err := l.request(ctx, g, s, next)

	var after *status.Document
	if alone && before != nil {
		got, failed := g.Summary(context.WithoutCancel(ctx))
		if after = got; failed != nil {
			before = nil
		}
	}
	var refused *client.Error
	answered := errors.As(err, &refused)
	code := 0
	if answered {
		code = refused.Code
	}
	outcome = "accepted"
	switch {
	case answered && code/100 == 4 && code != 429 && code != 408:
		outcome = "refused"
	case err != nil:
		outcome = "unknown"
	}
	if code == 503 && strings.Contains(err.Error(), "nothing was done") {
		outcome = "put off" // there was too much to do
		if s.Do == "change" || s.Do == "describe" || s.Do == "delete" {
			outcome = "unknown" // these are several requests
		}
	}
	l.note("%s: %s %v %s", s, outcome, err, strings.Join(warnings, "; "))
	if code == 500 || code == 501 || answered && code < 400 {
		l.wrong("%s is answered %d: %v", s, code, err)
	}
	if code >= 502 && outcome == "unknown" && l.w.strict && !l.disturbed(nil) && l.w.calm(began) {
		l.wrong("%s is answered %d though nothing is amiss: %v", s, code, err)
	}
	if after != nil && before != nil {
		l.compare(g, s, outcome, code, err, warnings, before, after, rival, ready)
	}
	l.learn(g, s, outcome, next)
	return outcome
}

// compare judges an answer by the states before and after it.
func (l *lane) compare(g *group, s step, outcome string, code int, err error, warnings []string, before, after, rival *status.Document, ready bool) {
	was, is := before.States.Actions, after.States.Actions
	if s.Do == "delete" || s.Do == "describe" || l.disturbed(g) {
		return
	}
	if !extends(is, was) {
		l.wrong("%s: the history was %s, and is %s", s, spell(was), spell(is))
		return
	}
	if (outcome == "refused" || outcome == "put off") && len(is) != len(was) {
		l.wrong("%s is refused, and the history was %s and is %s", s, spell(was), spell(is))
	}
	nothing := strings.Contains(strings.Join(warnings, " "), "nothing to")
	effect := map[string]domain.State{
		"approve": domain.Approved, "instantiate": domain.Instantiated, "terminate": domain.Terminated,
		"update": domain.Instantiated, "reapply": domain.Instantiated, "rollback": domain.Instantiated, "migrate": domain.Updated,
	}[s.Do]
	if outcome == "accepted" && effect != "" && !nothing && after.States.State() != effect {
		l.wrong("%s is accepted, and the state is %s: %s", s, after.States.State(), spell(is))
	}
	if before.Status.InProgress() || outcome == "unknown" || outcome == "put off" {
		return
	}
	other := domain.State("")
	if rival != nil {
		if rival.Status.InProgress() {
			return
		}
		other = rival.States.State()
	}
	want := may(s.Do, before.States.State(), before.Status, other)
	if s.Do == "migrate" && rival != nil && rival.Status == domain.ContextTerminateFailed { // what it has left is to be terminated first
		want = "no"
	}
	if want == "yes" && !ready { // a cloud that is not instantiated takes no groups
		want = ""
	}
	if want == "yes" && outcome != "accepted" || want == "no" && outcome == "accepted" {
		l.wrong("%s is %s in state %s (%s), the other group is %s: %v", s, outcome, before.States.State(), before.Status, other, err)
	}
	if want == "no" && code != 0 && code != 409 && code != 404 {
		l.wrong("%s is answered %d in state %s (%s): %v", s, code, before.States.State(), before.Status, err)
	}
}

// learn changes what the model knows.
func (l *lane) learn(g *group, s step, outcome string, next description) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g.inFlight--
	alone := g.inFlight == 0 && !g.vague && !s.word("twice")
	if outcome == "accepted" {
		g.accepted[s.Do]++
	}
	if outcome == "unknown" {
		g.unknown[s.Do]++
		g.vague = true
		alone = false
	}
	to := g
	switch s.Do {
	case "change", "describe", "delete":
		if alone && outcome == "accepted" {
			g.possible = []description{next}
		}
		if s.Do == "delete" && outcome != "refused" {
			g.broken = true
		}
	case "migrate":
		to = l.other(g)
		fallthrough
	case "instantiate", "update", "reapply":
		switch {
		case outcome == "accepted" && alone && to.inFlight == 0 && !to.vague:
			to.wanted = slices.Clone(to.possible)
		case outcome != "refused" && outcome != "put off":
			to.wanted = nil
		}
	case "rollback":
		if outcome != "refused" && outcome != "put off" {
			g.wanted = nil
		}
	}
	if !alone && s.Do != "approve" {
		g.wanted = nil
	}
}

// request is one command.
func (l *lane) request(ctx context.Context, g *group, s step, next description) (warnings []string, err error) {
	key := g.Key()
	switch s.Do {
	case "reapply":
		a, err := l.api.Reapply(ctx, key)
		return warned(a), err
	case "rollback":
		a, err := l.api.Rollback(ctx, key, s.number("to"))
		return warned(a), err
	case "migrate":
		to := l.other(g)
		a, err := l.api.Migrate(ctx, key, to.Version, to.Group)
		return warned(a), err
	case "change", "describe":
		d := *g.Deployment
		d.Apps = l.apps(g, next)
		for _, step := range d.IntentSteps() {
			if _, intent := step.Object.(*domain.AppIntent); s.Do == "change" && !intent && domain.KeyOf(step.Object) != key {
				continue
			}
			if _, err := l.api.Put(ctx, step.Object, nil); err != nil {
				return nil, err
			}
		}
		return nil, nil
	case "delete":
		return nil, l.forget(ctx, g)
	default:
		a, err := l.api.Operate(ctx, key, domain.Operation(s.Do))
		return warned(a), err
	}
}

func warned(a *client.Accepted) []string {
	if a == nil {
		return nil
	}
	return a.Warnings
}

// forget deletes a group with its intents, unless it cannot be deleted.
func (l *lane) forget(ctx context.Context, g *group) error {
	got, err := g.Summary(ctx)
	if err != nil {
		return err
	}
	steps := g.IntentSteps()
	if s := got.States.State(); s == domain.Instantiated || s == domain.InstantiateStopped || got.Status.InProgress() {
		steps = steps[:1]
	} else {
		l.mu.Lock()
		g.broken = true
		// As in EMCO, a group can be deleted whose terminate was stopped or has failed. What that left is nobody's then.
		l.orphans = l.orphans || got.Status == domain.ContextTerminateFailed
		l.mu.Unlock()
	}
	for _, s := range slices.Backward(steps) {
		if err := l.api.Delete(ctx, domain.KeyOf(s.Object)); err != nil && !fail.Is(err, fail.NotFound) {
			return err
		}
	}
	return nil
}

// byHand cancels or ends a workflow, as a person does with Temporal's own tools.
func (l *lane) byHand(ctx context.Context, g *group, s step) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	for o, err := range l.api.Operations(ctx, url.Values{"owner": {string(g.Key())}, "state": {"Running"}}) {
		if err != nil || o.Workflow == nil {
			l.note("%s: %v", s, err)
			return
		}
		id := o.Workflow.ID
		scope := domain.Scope{Owner: g.Key(), ContextID: o.Instance, Operation: domain.Operation(o.Operation)}
		switch {
		case s.word("app"):
			id = workflows.AppID(scope, "one", 0, 0)
		case s.word("leaf"):
			id = workflows.LeafID(scope, "one", g.Clusters[0])
		}
		l.mu.Lock()
		l.hand = true
		l.mu.Unlock()
		if s.Do == "cancel" {
			err = l.w.temporal.CancelWorkflow(ctx, id, "")
		} else {
			err = l.w.temporal.TerminateWorkflow(ctx, id, "", "by hand")
		}
		l.note("%s: %s: %v", s, id, err)
		return
	}
	l.note("%s: nothing runs", s)
}

// held is what the clusters have of the sequence.
func (l *lane) held(ctx context.Context) (has contents, labels map[string]string, err error) {
	has, labels = contents{}, map[string]string{}
	for i, c := range l.w.of(l.place) {
		list, err := l.w.fleet.Held(ctx, c.Name, "emco/deployment-id")
		if err != nil {
			return nil, nil, err
		}
		for _, o := range list {
			if !strings.HasPrefix(o.Name, l.release+"-") {
				continue
			}
			at := fmt.Sprintf("%d/%s", i, o.Name)
			has[at], labels[at] = says(o), o.Labels["emco/deployment-id"]
		}
	}
	return has, labels, nil
}

func says(o fleet.Held) string {
	var m struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Data map[string]string `json:"data"`
	}
	_ = json.Unmarshal(o.Object, &m)
	return cmp.Or(m.Data["says"], m.Metadata.Annotations["says"])
}

// busyGroups says which group is at work, or cannot be asked; "" for none. It does not ask on when it has found one.
func (l *lane) busyGroups(ctx context.Context) string {
	for _, g := range l.groups {
		got, err := g.Summary(ctx)
		switch {
		case fail.Is(err, fail.NotFound):
		case err != nil:
			return err.Error()
		case got.Status.InProgress():
			return fmt.Sprintf("%s is %s (%s)", g.name, got.States.State(), got.Status)
		}
	}
	return ""
}

// busy is busyGroups for what is no group.
func (l *lane) busy(ctx context.Context) string {
	for _, o := range l.owners() {
		if got, err := o.summary(ctx, l); err != nil || got.Status.InProgress() {
			return fmt.Sprintf("%s: %v %+v", o.key, err, got)
		}
	}
	return ""
}

// settle waits until nothing goes on with the groups any more.
func (l *lane) settle(ctx context.Context) bool {
	l.flying.Wait()
	ctx, cancel := context.WithTimeout(ctx, quietTime)
	defer cancel()
	if l.tenant != nil {
		l.tenant.sayAgain(ctx, l)
	}
	last := ""
	if harness.LookSeldom(ctx, func() bool { last = l.goesOn(ctx); return last == "" }) == nil {
		return true
	}
	text := ""
	for _, g := range l.groups {
		words, _ := l.api.ExplainText(context.WithoutCancel(ctx), g.Key())
		text += "\n" + words
	}
	if l.tenant != nil {
		text += l.tenant.explain(context.WithoutCancel(ctx), l)
	}
	l.wrong("it waits for ever: %s%s", last, text)
	return false
}

// goesOn says what goes on with the groups; "" for nothing.
func (l *lane) goesOn(ctx context.Context) (what string) {
	if what = l.busy(ctx); what == "" {
		what = l.busyGroups(ctx)
	}
	if what == "" && l.tenant != nil {
		what = l.tenant.busy(ctx, l)
	}
	if what != "" {
		return what
	}
	for o, err := range l.api.Operations(ctx, url.Values{"project": {l.project}, "state": {"Running"}}) { // which costs more than all the rest
		if err != nil {
			return err.Error()
		}
		what += "; " + o.ID + " runs"
	}
	return what
}

// judge compares what is said with what is there.
func (l *lane) judge(ctx context.Context, what string) {
	has, labels, err := l.held(ctx)
	if err != nil {
		l.wrong("%v", err)
		return
	}
	l.judgeCloud(ctx, what)
	l.judgeNetworks(ctx, what)
	l.judgeTenant(ctx, what)
	accounted := map[string]bool{}
	for _, name := range []string{"a", "b"} {
		g := l.groups[name]
		got, err := g.Status(ctx, url.Values{"output": {"all"}})
		if err != nil {
			if !fail.Is(err, fail.NotFound) || !g.broken {
				l.wrong("%s: the status of %s: %v", what, name, err)
			}
			continue
		}
		l.note("%s: %s is %s (%s): %s", what, name, got.States.State(), got.Status, spell(got.States.Actions))
		if bad := illegal(got.States.Actions, follows); bad != "" {
			l.wrong("%s: the history of %s: %s: %s", what, name, bad, spell(got.States.Actions))
		}
		l.judgeState(ctx, g, what, got)
		if got.States.State() == domain.Updated { // the other group has its objects
			continue
		}
		rows := contents{}
		for _, a := range got.Apps {
			for _, c := range a.Clusters {
				i := slices.IndexFunc(g.Clusters, func(k domain.ClusterName) bool { return k.Name == c.Name })
				for _, r := range c.Resources {
					at := fmt.Sprintf("%d/%s", i, r.Name)
					rows[at] = string(r.Status)
					_, there := has[at]
					label := got.States.StatusContextID + "-" + a.Name
					switch {
					case r.Status == domain.ResourceApplied && !there:
						l.wrong("%s: %s says that %s is Applied, and it is not there", what, name, at)
					case r.Status == domain.ResourceApplied && labels[at] != label:
						l.wrong("%s: %s has the label %s, not %s", what, at, labels[at], label)
					case r.Status == domain.ResourceDeleted && labels[at] == label: // else it is the other group's, or nobody's, which is judged below
						l.wrong("%s: %s says that %s is Deleted, and it is there", what, name, at)
					}
					if r.Status != domain.ResourceDeleted {
						accounted[at] = true
					}
				}
			}
		}
		if got.Status == domain.ContextInstantiated && got.States.State() == domain.Instantiated {
			l.judgeContents(g, what, has, rows)
			l.judgeReported(ctx, g, what, rows)
		}
	}
	for _, at := range slices.Sorted(maps.Keys(labels)) {
		label := labels[at]
		if !accounted[at] && !isKept(at) && !l.orphans {
			l.wrong("%s: nobody wants %s (%s), and it is there", what, at, label)
		}
	}
}

// judgeState says whether the operation that was asked for last has come to its end.
func (l *lane) judgeState(ctx context.Context, g *group, what string, got *status.Document) {
	var want []domain.ContextStatus
	switch got.States.State() {
	case domain.Instantiated:
		want = []domain.ContextStatus{domain.ContextInstantiated}
	case domain.InstantiateStopped:
		want = []domain.ContextStatus{domain.ContextInstantiateFailed, domain.ContextInstantiated}
	case domain.Terminated:
		want = []domain.ContextStatus{domain.ContextTerminated}
	case domain.TerminateStopped:
		want = []domain.ContextStatus{domain.ContextTerminateFailed, domain.ContextTerminated}
	case domain.Updated:
		want = []domain.ContextStatus{domain.ContextUpdated}
	default:
		return
	}
	if !slices.Contains(want, got.Status) && !l.refused() && !l.failing && !l.disturbed(nil) {
		words, _ := l.api.ExplainText(ctx, g.Key())
		l.wrong("%s: %s is %s in the end, and the status %s\n%s", what, g.name, got.States.State(), got.Status, words)
	}
}

// judgeContents says whether an instance that is Instantiated is what was asked for.
func (l *lane) judgeContents(g *group, what string, has, rows contents) {
	for at, s := range rows {
		if s != string(domain.ResourceApplied) && !isHook(at) {
			l.wrong("%s: %s is Instantiated, and %s is %s", what, g.name, at, s)
		}
	}
	if len(g.wanted) == 0 || l.disturbed(g) {
		return
	}
	var differences []string
	for _, d := range g.wanted {
		difference := has.differs(d.wanted(g.name, l.release))
		if difference == "" {
			return
		}
		differences = append(differences, fmt.Sprintf("%+v: %s", d, difference))
	}
	l.wrong("%s: %s is not as it was described: %s", what, g.name, strings.Join(differences, " | "))
}

// judgeReported says whether what has been applied in the first cluster, which is watched, is reported as being there.
func (l *lane) judgeReported(ctx context.Context, g *group, what string, rows contents) {
	if l.disturbed(nil) || l.refused() { // whoever ends an operation by hand may leave clusters unwatched, and others may not be let in
		return
	}
	ctx, cancel := context.WithTimeout(ctx, quietTime)
	defer cancel()
	missing := []string{}
	is := func() bool {
		got, err := g.Status(ctx, url.Values{"status": {"ready"}, "output": {"all"}})
		if err != nil {
			missing = []string{err.Error()}
			return false
		}
		there := map[string]bool{}
		for _, a := range got.Apps {
			for _, c := range a.Clusters {
				for _, r := range c.Resources {
					there[r.Name] = there[r.Name] || c.Name == g.Clusters[0].Name && !c.Stale && !r.Stale && r.Ready != "NotPresent"
				}
			}
		}
		missing = nil
		for at, s := range rows {
			if name, first := strings.CutPrefix(at, "0/"); first && s == string(domain.ResourceApplied) && !isHook(at) && !there[name] {
				missing = append(missing, at)
			}
		}
		return len(missing) == 0
	}
	if harness.LookSeldom(ctx, is) != nil {
		slices.Sort(missing)
		l.wrong("%s: %s has applied what is never reported: %s", what, g.name, strings.Join(missing, ", "))
	}
}

// end terminates and deletes everything.
func (l *lane) end(ctx context.Context) {
	for _, name := range []string{"a", "b"} {
		g := l.groups[name]
		got, err := g.Summary(ctx)
		if fail.Is(err, fail.NotFound) {
			continue
		}
		if err != nil {
			l.wrong("the status of %s: %v", name, err)
			return
		}
		at, state := got.Status, got.States.State()
		if state == domain.Updated || at == domain.ContextNone || at == domain.ContextTerminated || at == domain.ContextUpdated {
			continue
		}
		if err := g.Do(ctx, domain.OpTerminate); err != nil {
			l.wrong("%s in state %s (%s) cannot be terminated: %v", name, state, at, err)
			return
		}
		wait, cancel := context.WithTimeout(ctx, quietTime)
		got, err = over(wait, g.Summary)
		cancel()
		if err != nil {
			words, _ := l.api.ExplainText(ctx, g.Key())
			l.wrong("the terminate of %s waits for ever: %v\n%s", name, err, words)
			return
		}
		if got.Status != domain.ContextTerminated {
			l.wrong("the terminate of %s ends %s", name, got.Status)
		}
	}
	has, labels, err := l.held(ctx)
	maps.DeleteFunc(has, func(at, _ string) bool { return isKept(at) })
	if err != nil || len(has) > 0 && !l.orphans {
		l.wrong("after the terminate there is %v %v %v", has, labels, err)
	}
	for _, name := range []string{"a", "b"} {
		g := l.groups[name]
		g.Apps = l.apps(g, g.possible[0])
		for _, s := range slices.Backward(g.IntentSteps()) {
			if err := l.api.Delete(ctx, domain.KeyOf(s.Object)); err != nil && (!g.broken || !fail.Is(err, fail.NotFound)) {
				l.wrong("delete %s: %v", domain.KeyOf(s.Object), err)
			}
		}
		if _, err := g.Summary(ctx); !fail.Is(err, fail.NotFound) {
			l.wrong("%s is deleted, and its status is answered: %v", name, err)
		}
	}
	l.endCloud(ctx)
	l.endNetworks(ctx)
	l.endTenant(ctx)
}
