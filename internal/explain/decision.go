package explain

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/view"
)

// decision collects the reasons of a situation.
type decision struct {
	s       *Situation
	groups  map[groupKey]*group
	unknown []string

	// Of the app context: its clusters, those of them on which everything is settled, and its resources there.
	clusters, settled, resources int

	noted   int                             // places
	unheard map[domain.ClusterName]struct{} // whose reports never came
	mute    domain.ClusterName              // one of them
	unread  bool                            // the reports, or some of them
	unseen  map[domain.ClusterName]struct{} // on which something was applied a moment ago that they have not reported
	fresh   int                             // so many resources
	silence string                          // why one of them does not report

	kept    map[bundled]bool // of resources of which somebody has asked
	placing bool             // nothing is advised, so no manifest is read
}

// group is what shares a reason.
type group struct {
	kind        Kind
	said        string // the error, or of kinds that are no errors the text
	clusters    map[domain.ClusterName]struct{}
	resources   int
	places      int
	examples    []place
	replaceable bool // that each place is
}

// place is where a reason holds.
type place struct {
	Place
	resource string
	said     string // there, the group's unless it is set before
	// replaceable says that the resource may be deleted and made anew, and that this would help.
	replaceable bool
	lastSeen    time.Time
	step        *Attempt
	workflow    string // which somebody has paused, or whose step
	pause       *Pause
}

// groupKey is equal for reasons that are the same but for the names and numbers in what was said, and for rules that are domain.BeyondHeld.
type groupKey struct {
	kind  Kind
	error string
}

// particular is what the same error of two clusters differs in: quoted names, hosts, numbers.
var particular = regexp.MustCompile(`"[^"]*"|[A-Za-z0-9][-A-Za-z0-9_]*(\.[-A-Za-z0-9_]+)+|[0-9]+`)

// add notes that a reason holds at a place, for a number of resources there.
func (d *decision) add(kind Kind, said string, resources int, at place) {
	alike := said
	if before, _, ok := strings.Cut(said, domain.BeyondHeld); ok {
		alike = before + domain.BeyondHeld
	}
	key := groupKey{kind, particular.ReplaceAllString(alike, "*")}
	g := d.groups[key]
	if g == nil {
		if d.groups == nil {
			d.groups = map[groupKey]*group{}
		}
		g = &group{kind: kind, said: said, clusters: map[domain.ClusterName]struct{}{}, replaceable: true}
		d.groups[key] = g
	}
	g.replaceable = g.replaceable && at.replaceable
	if at.Cluster != (domain.ClusterName{}) {
		g.clusters[at.Cluster] = struct{}{}
	}
	g.resources += resources
	g.places++
	d.noted++
	if len(g.examples) < maxExamples {
		at.said = cmp.Or(at.said, said)
		g.examples = append(g.examples, at)
	}
}

// add is the set with one more cluster.
func add(set map[domain.ClusterName]struct{}, c domain.ClusterName) map[domain.ClusterName]struct{} {
	if set == nil {
		set = map[domain.ClusterName]struct{}{}
	}
	set[c] = struct{}{}
	return set
}

// say notes a reason that is about the operation as a whole.
func (d *decision) say(kind Kind, format string, args ...any) {
	d.add(kind, fmt.Sprintf(format, args...), 0, place{})
}

// sorted are the groups: the gravest first, then those with the most clusters, then by what was said.
func (d *decision) sorted() []*group {
	groups := make([]*group, 0, len(d.groups))
	for _, g := range d.groups {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b *group) int {
		return cmp.Or(
			cmp.Compare(a.kind.rank(), b.kind.rank()), cmp.Compare(len(b.clusters), len(a.clusters)),
			cmp.Compare(b.resources, a.resources), cmp.Compare(a.said, b.said),
		)
	})
	return groups
}

// deleting says whether the last operation takes things away.
func (d *decision) deleting() bool { return d.s.Run.Operation == domain.OpTerminate }

// running says whether an operation is known to go on.
func (d *decision) running() bool { return d.s.Status.InProgress() && d.s.Silent == "" }

// abandoned says that the workflow of the last operation has ended without recording an end.
func (d *decision) abandoned() bool {
	return d.s.Instance != nil && d.s.Instance.Status.InProgress() && !d.s.Status.InProgress()
}

// operation finds what is wrong with the operation itself.
func (d *decision) operation() {
	s := d.s
	switch {
	case s.Silent == "":
	case s.Status.InProgress():
		d.say(EngineSilent, "how far it is cannot be asked: %s", s.Silent)
	default:
		d.unknown = append(d.unknown, "whether an operation is under way: "+s.Silent)
	}
	run := &s.Run
	if s.Starting != nil {
		run = s.Starting
	}
	if d.abandoned() {
		d.say(WorkflowGone, "the workflow of the %s has ended without recording an end: %s", d.verb(run.Operation), gone(run))
	}
	if s.Instance != nil && s.Instance.Reason != "" {
		d.say(WorkGaveUp, "%s", s.Instance.Reason)
	}
	switch {
	case d.remnants() == "":
	case s.Status.InProgress():
		d.say(Waiting, "the %s waits until nothing carries its label any more: %s", d.verb(run.Operation), d.remnants())
	default:
		d.say(Remnants, "clusters have something of it again: %s", d.remnants())
	}
	for _, i := range s.Earlier {
		d.say(Remnants, "clusters have something of the earlier app context %s again: %s", i.ContextID, i.Remnants)
	}
	if run.Status == Running || run.Paused != nil {
		d.run(run)
	}
	if s.Starting != nil && len(d.groups) == 0 {
		d.say(Preparing, "%s is being prepared: charts are rendered, placed and planned", d.verb(run.Operation))
	}
}

// run finds what is wrong with a run that goes on.
func (d *decision) run(run *Run) {
	if run.Paused != nil {
		d.paused(run.Paused, 0, place{workflow: run.ID, pause: run.Paused})
		return
	}
	if d.waits(run.Task) {
		d.say(NoWorker, "%s", d.untaken(run.Task, "the workflow's task"))
	}
	if d.waits(run.Below) {
		d.say(NoWorker, "%s", d.untaken(run.Below, "the task of workflow "+run.Below.Workflow))
	}
	for i := range run.Steps {
		step := &run.Steps[i]
		if step.Paused != nil {
			d.paused(step.Paused, 0, place{step: step, workflow: run.ID, pause: step.Paused})
			continue
		}
		if said := step.failure(d.s.Now); said != "" && said != d.remnants() { // for which it waits
			d.add(StepFails, said, 0, place{step: step})
		}
	}
}

// waits says whether a task waits for longer than it should.
func (d *decision) waits(t *Task) bool { return t != nil && d.s.Now.Sub(t.Since) > policy.TaskPatience }

// untaken says of a task that no worker has taken it, or that whoever took it has failed.
func (d *decision) untaken(t *Task, of string) string {
	if t.Attempt > 1 {
		return fmt.Sprintf("no worker has done %s since %s: attempt %d", of, d.ago(t.Since), t.Attempt)
	}
	return fmt.Sprintf("no worker has taken %s for %s", of, span(d.s.Now.Sub(t.Since)))
}

// paused notes that a person has paused an operation, its work at a place, or a step of one of them.
func (d *decision) paused(p *Pause, resources int, at place) {
	said := "somebody has paused it in Temporal"
	if p.By != "" {
		said += ", by " + p.By
	}
	d.add(Paused, clip(said+because(p.Why)), resources, at)
}

// unpause is the command that ends the pause of a place.
func (d *decision) unpause(p *place) string {
	at := ""
	if ns := d.s.UI.Namespace; ns != "" {
		at = " --namespace " + ns
	}
	if p.pause.Activity == "" {
		return fmt.Sprintf("temporal workflow unpause%s --workflow-id %s", at, p.workflow)
	}
	return fmt.Sprintf("temporal activity unpause%s --workflow-id %s --activity-id %s", at, p.workflow, p.pause.Activity)
}

// remnants are what clusters have and are not to have, "" for nothing.
func (d *decision) remnants() string {
	if d.s.Instance == nil {
		return ""
	}
	return d.s.Instance.Remnants
}

// gone says how a run came to its end.
func gone(r *Run) string {
	switch r.Status {
	case Terminated:
		return "it was terminated by hand" + because(r.End)
	case Canceled:
		return "it was cancelled" + because(r.End)
	case Failed:
		return "it failed" + because(r.End)
	case TimedOut:
		return "its time was up"
	default:
		return "the workflow engine does not know it any more"
	}
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// leaves goes over every app on every cluster.
func (d *decision) leaves() {
	clusters, open := map[domain.ClusterName]struct{}{}, map[domain.ClusterName]struct{}{}
	for p := range d.s.View.Places(view.Ask{Detail: true, Order: view.AsPlanned}) {
		cluster := p.Cluster.ClusterName
		clusters[cluster] = struct{}{}
		before := d.noted
		if d.leaf(p); d.noted != before {
			open[cluster] = struct{}{}
		}
	}
	d.clusters, d.settled = len(clusters), len(clusters)-len(open)
}

// leaf finds what is wrong with one app on one cluster.
func (d *decision) leaf(p *view.Place) {
	c := p.Cluster
	at := place{Place: Place{App: p.App.Name, Cluster: c.ClusterName}}
	var marks marks
	var roles refusedRoles
	for r := range p.Rows() {
		d.resources++
		marks.add(r.Mark)
		d.refused(r, at, &roles)
	}
	if !c.InProgress {
		marks[domain.LacksEnd] = 0 // refused has them
	}
	switch {
	case marks.unsettled() == 0:
	case c.InProgress && d.s.Attempts[at.Place].Paused != nil:
		a := d.s.Attempts[at.Place]
		at.workflow, at.pause = a.ID, a.Paused
		d.paused(a.Paused, marks.unsettled(), at)
	case c.InProgress && d.waits(d.s.Attempts[at.Place].Task):
		d.add(NoWorker, d.untaken(d.s.Attempts[at.Place].Task, "the task of its workflow"), marks.unsettled(), at)
	case c.InProgress && c.Connectivity == domain.ConnectivityRetrying && !c.Earlier:
		d.add(ClusterHoldsUp, c.LastError, marks.unsettled(), at)
	case c.InProgress && c.Reason != "" && !c.Heard():
		d.add(NotStarted, c.Reason, marks.unsettled(), at)
	case c.InProgress && c.Reason != "":
		d.add(Waiting, c.Reason, marks.unsettled(), at)
	case c.InProgress && !c.Heard():
		d.add(Queued, "", marks.unsettled(), at)
	case c.InProgress:
		d.add(AtWork, "", marks.unsettled(), at)
	case d.ended():
		return
	case !c.Heard() && (d.abandoned() || d.s.Status.InProgress()): // it may have been sent all the same
		d.add(Unrecorded, "", 0, at)
	default:
		d.over(c, marks, at)
	}
}

// ended says that there is nothing in clusters, and nothing is wished to be.
func (d *decision) ended() bool {
	return d.s.Status == domain.ContextTerminated || d.s.Status == domain.ContextUpdated || d.s.Status == domain.ContextNone
}

// over finds what is unsettled although nothing goes on.
func (d *decision) over(c *view.Cluster, marks marks, at place) {
	said := cmp.Or(c.LastError, c.Reason)
	switch {
	case c.LastError != "" && c.Connectivity != domain.ConnectivityRetrying:
		d.add(WorkGaveUp, c.LastError, marks.unsettled(), at)
		return
	case marks[domain.LacksAnswer] > 0:
		d.add(Unanswered, said, marks[domain.LacksAnswer], at)
	}
	if marks[domain.LacksDelete] > 0 {
		d.add(Leftover, said, marks[domain.LacksDelete], at)
	}
	if marks[domain.LacksRequest] > 0 {
		kind := NeverSent
		if d.deleting() {
			kind = Leftover // a terminate that died before it looked
		}
		d.add(kind, said, marks[domain.LacksRequest], at)
	}
}

// refused adds a resource that the cluster refuses, or that outlives its deletion without anybody who waits for that, with
// what it says of it. A binding that is refused for want of a role of roles shares the role's reason.
func (d *decision) refused(r *view.Row, at place, roles *refusedRoles) {
	stays := r.Mark == domain.MarkEnding && !r.Place.Cluster.InProgress
	if d.ended() || !r.Mark.Failed() && !stays {
		return
	}
	kind := ResourceRefused
	switch {
	case stays:
		kind = Leftover
	case r.Hook():
		kind = HookFailed
	}
	at.resource = name(r.Resource)
	at.replaceable = kind == ResourceRefused && !d.placing && d.replaceable(r)
	if role, ok := roles.wanted(r, d.s.View.Namespace); ok {
		at.said = r.Message
		d.add(role.kind, role.said, 1, at)
		return
	}
	roles.note(r, kind, d.s.View.Namespace)
	d.add(kind, r.Message, 1, at)
}

// forGood is how Kubernetes refuses to change what an object has for good: after its name, and as invalid, since what a webhook, a policy or a quota
// denies is refused of a new object, too.
var forGood = regexp.MustCompile(
	`(?s)^\S+ "[^"]*" is invalid: .*(?:(?:is|are) immutable|immutable field|updates to statefulset spec for fields other than|pod updates may not change fields other than|` +
		`updates to (?:parameters|provisioner|reclaimPolicy) are forbidden|may not be changed in an update|cannot change roleRef|may not change once set)`)

// replaceable says of a resource that is refused whether plan.ReplaceAnnotation would help, and it does not have that yet.
func (d *decision) replaceable(r *view.Row) bool {
	return d.changes() && forGood.MatchString(r.Message) && !strings.Contains(r.Message, plan.NotReplaced) && r.Resource.Irreplaceable() == "" && !d.keeps(r)
}

// bundled is a resource of an app on the clusters of a variant.
type bundled struct {
	app            string
	variant, index int
}

// keeps says whether a resource is to be kept, and so may not be replaced, or that is not known.
func (d *decision) keeps(r *view.Row) bool {
	of := bundled{r.Place.App.Name, r.Place.Cluster.Variant, r.Index}
	keeps, asked := d.kept[of]
	if !asked {
		manifest, err := r.Manifest()
		keeps = err != nil || plan.KeepsIn(manifest)
		if d.kept == nil {
			d.kept = map[bundled]bool{}
		}
		d.kept[of] = keeps
	}
	return keeps
}

// refusedRoles are the roles of a leaf that its cluster has refused, by their plan.Place. A plan has roles before bindings.
type refusedRoles map[plan.ResourceID]refusedRole

// refusedRole is why there is no such role.
type refusedRole struct {
	kind Kind
	said string
}

const rbacGroup = "rbac.authorization.k8s.io"

// note adds what is refused if it is a role. Where it names no namespace, it is in the one given.
func (roles *refusedRoles) note(r *view.Row, kind Kind, namespace string) {
	id := plan.Place(*r.Resource, namespace)
	if id.Group != rbacGroup || id.Kind != "Role" && id.Kind != "ClusterRole" {
		return
	}
	if *roles == nil {
		*roles = refusedRoles{}
	}
	(*roles)[id] = refusedRole{kind, r.Message}
}

// noRole is how Kubernetes refuses a binding whose role is not there: it calls the role a binding.
var noRole = regexp.MustCompile(`^(?:cluster)?rolebindings\.rbac\.authorization\.k8s\.io "(.+)" not found$`)

// wanted is the refused role for want of which a binding is refused. Where that names no namespace, it is in the one given.
func (roles *refusedRoles) wanted(r *view.Row, namespace string) (role refusedRole, ok bool) {
	if len(*roles) == 0 || r.Resource.Group != rbacGroup {
		return role, false
	}
	m := noRole.FindStringSubmatch(r.Message)
	if m == nil {
		return role, false
	}
	binding := plan.Place(*r.Resource, namespace)
	if binding.Kind == "RoleBinding" {
		if role, ok = (*roles)[plan.ResourceID{Group: rbacGroup, Kind: "Role", Namespace: binding.Namespace, Name: m[1]}]; ok {
			return role, true
		}
	}
	role, ok = (*roles)[plan.ResourceID{Group: rbacGroup, Kind: "ClusterRole", Name: m[1]}]
	return role, ok
}

// marks are the numbers of marks of a leaf that are not settled, by what they lack.
type marks [domain.LacksEnd + 1]int

func (m *marks) add(mark domain.Mark) { m[mark.Lacks()]++ }

func (m *marks) unsettled() (n int) {
	for _, lacking := range m[domain.LacksNothing+1:] {
		n += lacking
	}
	return n
}

// reported finds what clusters report that is not as it should be, where everything has been applied.
func (d *decision) reported() {
	if d.s.Reported == nil || d.s.Status != domain.ContextInstantiated {
		return
	}
	var silent *view.Place
	for r, err := range d.s.Reported {
		if err != nil {
			d.unknown = append(d.unknown, "whether what is in clusters is ready: their reports could not be read")
			d.unread = true
			return
		}
		switch {
		case r.Place == silent: // what it last reported need not hold
		case r.Place.Doubt != nil:
			silent = r.Place
			d.silent(silent)
		case r.Readiness == view.NotReady, r.Readiness == view.NotThere:
			d.unready(r)
		}
	}
	if d.fresh > 0 {
		d.unknown = append(d.unknown, fmt.Sprintf("whether what is in clusters is ready: %s applied %s, and %s not reported %s yet",
			were(d.fresh, "resource"), d.ago(d.s.Instance.Ended), has(len(d.unseen), "cluster"), them(d.fresh)))
	}
	if n := len(d.unheard); n > 0 {
		said := fmt.Sprintf("whether what is on %s is ready: %s", count(n, "cluster"), d.silence)
		if help := remedy(d.silence, d.mute); help != "" {
			said += "; " + help
		}
		d.unknown = append(d.unknown, said)
	}
}

// silent notes that nobody vouches for what a cluster reports of an app.
func (d *decision) silent(p *view.Place) {
	cluster := p.Cluster.ClusterName
	if !p.Doubt.Heard() {
		d.unheard, d.silence, d.mute = add(d.unheard, cluster), p.Doubt.Reason, cluster
		return
	}
	d.add(ClusterUnheard, p.Doubt.Reason, 0, place{Place: Place{App: p.App.Name, Cluster: cluster}, lastSeen: p.Doubt.LastSeen})
}

// unready notes what is not as it should be on a cluster that is heard.
func (d *decision) unready(r *view.Row) {
	cluster := r.Place.Cluster.ClusterName
	at := place{Place: Place{App: r.Place.App.Name, Cluster: cluster}, resource: name(r.Resource)}
	said := r.Unready
	if r.Doubt != nil {
		said, at.lastSeen = r.Doubt.Reason, r.Doubt.LastSeen
	}
	switch {
	case r.Readiness != view.NotThere:
		d.add(ResourceNotReady, said, 1, at)
	case d.s.Now.Sub(d.s.Instance.Ended) < policy.Reporting:
		d.unseen = add(d.unseen, cluster)
		d.fresh++
	default:
		d.add(ResourceMissing, said, 1, at)
	}
}

// asked finds what waits for a person.
func (d *decision) asked() {
	s := d.s
	since := d.ago(s.History.Last().Time)
	switch state := s.History.State(); {
	case s.Starting != nil:
	case s.Status == domain.ContextTerminating && (state == domain.Created || state == domain.Approved): // changed since that was asked for
		if len(d.groups) == 0 && d.running() {
			d.finishing()
		}
	case state == domain.Created && slices.Contains(s.May, domain.OpApprove):
		d.say(NotAsked, "nobody has approved it: it was created or changed %s", since)
	case state == domain.Created:
		d.say(NotAsked, "nobody has asked for %s since it was created or changed %s", d.verb(domain.OpInstantiate), since)
	case state == domain.Approved:
		d.say(NotAsked, "it was approved %s, and nobody has asked for %s", since, d.verb(domain.OpInstantiate))
	case state == domain.InstantiateStopped:
		op := domain.OpInstantiate
		if s.Run.Operation.TakesOver() {
			op = s.Run.Operation
		}
		d.say(Stopped, "its %s was stopped %s%s", d.verb(op), since, d.ending())
	case state == domain.TerminateStopped:
		d.say(Stopped, "its %s was stopped %s%s", d.verb(domain.OpTerminate), since, d.ending())
	case len(d.groups) > 0:
	case d.running():
		d.finishing()
	case s.Status == domain.ContextInstantiateFailed, s.Status == domain.ContextTerminateFailed:
		d.say(WorkGaveUp, "the last operation failed, and no work on a cluster says why")
	}
}

func (d *decision) finishing() {
	d.say(Finishing, "what there is to do on clusters is done, or has not begun; the operation goes on")
}

// ending says of what was stopped that it has not ended yet.
func (d *decision) ending() string {
	if d.s.Status.InProgress() {
		return " and is ending"
	}
	return ""
}

// reason shows a group.
func (d *decision) reason(g *group) Reason {
	r := Reason{Kind: g.kind, Text: d.text(g), Clusters: len(g.clusters), Resources: g.resources, Do: d.advice(g)}
	if g.kind == ClusterUnheard {
		r.Do = cmp.Or(remedy(g.said, g.examples[0].Cluster), r.Do)
	}
	if g.kind == Paused {
		r.Do = "it goes on by `" + d.unpause(&g.examples[0]) + "`"
	}
	said := d.newest(g)
	switch {
	case g.kind == StepFails:
		r.Text = "a step of the operation fails and is tried again"
	case g.kind == AtWork && said != "":
		r.Text = fmt.Sprintf("the work on %s fails and is tried again", d.of(g))
	}
	if g.kind != Waiting && g.kind != NotStarted && g.kind != Paused && g.kind != NoWorker && r.Text != said { // what is waited for is no error
		r.Error = clip(said)
	}
	for i := range g.examples {
		p := &g.examples[i]
		if p.Cluster == (domain.ClusterName{}) && p.step == nil {
			continue
		}
		e := Example{App: p.App, Resource: p.resource, LastSeen: at(p.lastSeen)}
		if p.Cluster != (domain.ClusterName{}) {
			e.Cluster = p.Cluster.String()
		}
		if last := d.last(g, p); last != said {
			e.Error = clip(last)
		}
		if a, ok := d.s.Attempts[p.Place]; ok && g.kind.tried() {
			d.attempt(&e, &a)
		}
		if p.step != nil {
			d.attempt(&e, p.step)
		}
		r.Examples = append(r.Examples, e)
	}
	if len(r.Examples) > 0 {
		r.More = g.places - len(r.Examples)
	}
	return r
}

// last is what was said last at a place: what its work was tried with since is newer than what is recorded.
func (d *decision) last(g *group, p *place) string {
	if g.kind == ClusterHoldsUp || g.kind == AtWork {
		a := d.s.Attempts[p.Place]
		return cmp.Or(a.failure(d.s.Now), p.said)
	}
	return p.said
}

// newest is what was said last to those who share a reason, as far as that is known.
func (d *decision) newest(g *group) string {
	said, ended := g.said, time.Time{}
	for i := range g.examples {
		p := &g.examples[i]
		if a := d.s.Attempts[p.Place]; !a.Last.Before(ended) && d.last(g, p) != p.said {
			said, ended = a.Error, a.Last
		}
	}
	return said
}

// maxWarnings bounds what is said of resources.
const maxWarnings = 20

// warnings are those about what is applied, or about what a terminate has left, each once for all clusters that give it.
func (d *decision) warnings() (texts []string) {
	if d.ended() && d.s.Status != domain.ContextTerminated {
		return nil
	}
	type warning struct{ app, resource, said string }
	clusters := map[warning]int{}
	var order []warning
	for p := range d.s.View.Places(view.Ask{}) {
		for _, n := range p.Cluster.Warnings {
			w := warning{app: p.App.Name, said: n.Message}
			if n.Index >= 0 && n.Index < len(p.App.Resources) {
				w.resource = " " + name(&p.App.Resources[n.Index])
			}
			if clusters[w]++; clusters[w] == 1 {
				order = append(order, w)
			}
		}
	}
	for _, w := range order[:min(len(order), maxWarnings)] {
		texts = append(texts, fmt.Sprintf("%s%s on %s: %s", w.app, w.resource, count(clusters[w], "cluster"), w.said))
	}
	if more := len(order) - maxWarnings; more > 0 {
		texts = append(texts, fmt.Sprintf("%s; the status with output=detail has them", count(more, "more warning")))
	}
	return texts
}

// effects are those of intents, each once for all clusters where it is the same; where an app has more clusters than these, some
// of these are named. Before them is why apps are not on other clusters.
func (d *decision) effects() (texts []string) {
	if d.ended() || d.deleting() {
		return nil
	}
	type effect struct {
		app string
		plan.Effect
	}
	clusters, resources, all := map[effect][]string{}, map[effect]string{}, map[string]int{}
	var order []effect
	for p := range d.s.View.Places(view.Ask{}) {
		all[p.App.Name]++
		for _, why := range p.Cluster.Passed {
			texts = append(texts, fmt.Sprintf("%s on %s, and not on %s", p.App.Name, p.Cluster.ClusterName, why))
		}
		for _, of := range p.Cluster.Effects {
			e := effect{p.App.Name, of}
			if of.Resource >= len(p.App.Resources) {
				continue
			}
			if len(clusters[e]) == 0 {
				order = append(order, e)
				resources[e] = name(&p.App.Resources[of.Resource])
			}
			clusters[e] = append(clusters[e], p.Cluster.String())
		}
	}
	const more = "%s; the status with output=detail has them"
	if left := len(texts) - maxWarnings; left > 0 {
		texts = append(texts[:maxWarnings], fmt.Sprintf(more, count(left, "more cluster")+" passed over"))
	}
	for _, e := range order[:min(len(order), maxWarnings)] {
		on := count(len(clusters[e]), "cluster")
		if len(clusters[e]) < all[e.app] {
			on = fmt.Sprintf("%d of %s (%s)", len(clusters[e]), count(all[e.app], "cluster"), some(clusters[e]))
		}
		texts = append(texts, fmt.Sprintf("%s %s on %s: %s", e.app, resources[e], on, e.Effect))
	}
	if left := len(order) - maxWarnings; left > 0 {
		texts = append(texts, fmt.Sprintf(more, count(left, "more effect")))
	}
	return texts
}

// attempt adds where an attempt stands.
func (d *decision) attempt(e *Example, a *Attempt) {
	e.Step, e.Since, e.Attempt, e.Trying, e.Paused = a.Step, at(a.Since), a.Number, a.Trying, a.Paused != nil
	e.LastAttempt, e.NextAttempt = at(a.Last), at(a.Next)
	if a.ID != "" {
		e.Workflow = &Workflow{ID: a.ID, RunID: a.RunID, Status: Running, Link: d.s.UI.Link(a.ID, a.RunID)}
	}
}

// summary says it in one sentence, which names the gravest reason.
func (d *decision) summary(e *Explanation) string {
	s := d.s
	switch {
	case s.Starting != nil && e.Reasons[0].Kind == Preparing:
		return e.Reasons[0].Text
	case s.Starting != nil:
		return fmt.Sprintf("%s is being prepared: %s", d.verb(s.Starting.Operation), e.Reasons[0].Text)
	case s.Status.InProgress() && s.Silent != "":
		return fmt.Sprintf("not as wished, it was last known to be %s: %s", s.Status, e.Reasons[0].Text)
	case s.Status.InProgress():
		return fmt.Sprintf("not as wished yet, %s goes on (%d of %s done): %s",
			d.verb(s.Run.Operation), d.settled, count(d.clusters, "cluster"), e.Reasons[0].Text)
	case !e.AsWished && len(e.Reasons) == 0:
		return "everything is applied, but not all of it is as wished: " + s.Warnings[0]
	case !e.AsWished && e.Reasons[0].Kind == NotAsked:
		return "nothing is deployed: " + e.Reasons[0].Text
	case !e.AsWished:
		return "not as wished: " + e.Reasons[0].Text
	case s.Status == domain.ContextUpdated:
		return "everything is as wished: another group's instance has taken over what is in clusters"
	case s.Status == domain.ContextTerminated:
		return "everything is as wished: nothing is left in clusters" + d.stay() + d.left()
	case len(d.unheard) > 0, d.fresh > 0, d.unread:
		return fmt.Sprintf("everything is applied as wished, %s on %s; whether all of it is ready is not known",
			count(d.resources, "resource"), count(d.clusters, "cluster"))
	case d.resources == 0:
		return fmt.Sprintf("everything is as wished: it is %s, and there is nothing to put into clusters", s.Status)
	default:
		return fmt.Sprintf("everything is as wished: %s applied on %s and ready",
			are(d.resources, "resource"), count(d.clusters, "cluster"))
	}
}

// stay says what a terminate has left on purpose, and names some of it: each resource once for all clusters, and for all apps that have it.
func (d *decision) stay() string {
	var kept named
	for p := range d.s.View.Places(view.Ask{Order: view.AsPlanned}) {
		for r := range p.Rows() {
			if r.Mark == domain.MarkKept {
				kept.add(p, r.Resource, d.s.View.Namespace)
			}
		}
	}
	if len(kept.names) == 0 {
		return ""
	}
	return fmt.Sprintf(" but %s that %s meant to stay: %s", kept.where(), is(len(kept.names)), some(kept.names))
}

// named are resources, each once for all clusters and for all apps that have it.
type named struct {
	seen     map[plan.ResourceID]bool
	clusters map[domain.ClusterName]bool
	names    []string
}

func (n *named) add(p *view.Place, r *plan.ResourceID, namespace string) {
	if n.seen == nil {
		n.seen, n.clusters = map[plan.ResourceID]bool{}, map[domain.ClusterName]bool{}
	}
	n.clusters[p.Cluster.ClusterName] = true
	if id := plan.Place(*r, namespace); !n.seen[id] {
		n.seen[id] = true
		n.names = append(n.names, name(r))
	}
}

// where says how many there are, and on how many clusters.
func (n *named) where() string {
	return fmt.Sprintf("%s on %s", count(len(n.names), "resource"), count(len(n.clusters), "cluster"))
}

// left names what a terminate counts as deleted and warns of: an object that is another's now, for example. Each is named once for all clusters.
func (d *decision) left() string {
	var left named
	for p := range d.s.View.Places(view.Ask{Order: view.AsPlanned}) {
		for _, n := range p.Cluster.Warnings {
			if n.Index >= 0 && n.Index < len(p.App.Resources) {
				left.add(p, &p.App.Resources[n.Index], d.s.View.Namespace)
			}
		}
	}
	if len(left.names) == 0 {
		return ""
	}
	return fmt.Sprintf("; the warnings tell of %s: %s", left.where(), some(left.names))
}

// some are the first of the names, and how many there are beside them.
func some(names []string) string {
	first := names[:min(len(names), maxExamples)]
	if left := len(names) - len(first); left > 0 {
		first = append(slices.Clip(first), fmt.Sprintf("%d more", left))
	}
	return strings.Join(first, ", ")
}

// name shows a resource as Kind/name.
func name(r *plan.ResourceID) string { return r.Kind + "/" + r.Name }
