package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/combined"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/share"
	"github.com/drover-io/drover/internal/stored"
	"github.com/drover-io/drover/internal/version"
	"github.com/drover-io/drover/internal/view"
)

// Tables answers what all clusters report of the objects of a deployment intent group, combined.
type Tables struct {
	lifecycle *Lifecycle
	programs  *lru.Weighed[string, combined.Collector] // those of stored collectors, by name and spec
	keeper    *keeper
	answers   *answers
	reads     *share.Reads[*tablesAnswer] // of what is kept, by caller and query
}

// keptPrograms is how many collectors stay compiled at the most, and programBytes what they take together, about. A program of many short parts
// takes up to heldOfProgram times as much as its text, see TestProgramsWeighWhatTheyHold.
const (
	keptPrograms  = 1000
	programBytes  = 128 << 20
	heldOfProgram = 100
)

// NewTables makes the queries.
func NewTables(l *Lifecycle) *Tables {
	return &Tables{lifecycle: l, programs: lru.NewWeighed[string, combined.Collector](keptPrograms, programBytes), keeper: newKeeper(l.now), answers: newAnswers(mostAnswers), reads: share.New[*tablesAnswer]()}
}

// TableQuery is a status collector and tests of objects, to be evaluated once: nothing of it is stored.
type TableQuery struct {
	APIVersion string                     `json:"apiVersion,omitempty" api:"enum=control.kubestellar.io/v1alpha1"` // KubeStellar's; may be left out
	Kind       string                     `json:"kind,omitempty" api:"enum=StatusCollector"`                       // KubeStellar's; may be left out
	Metadata   domain.CollectorMetadata   `json:"metadata,omitzero" api:"optional"`                                // its name is the result's, query when missing
	Spec       domain.StatusCollectorSpec `json:"spec" api:"required"`                                             // the collector
	Tests      domain.ObjectTest          `json:"tests,omitzero"`                                                  // of the objects, as a status intent has them; all when missing
	// Together makes one table of all these objects of an app, too.
	Together bool `json:"together,omitempty"`
}

// Foreign says which members that it does not know a query takes without a word: a manifest may be sent as a cluster shows it.
func (*TableQuery) Foreign(path string) bool { return domain.AddedByCluster(path) }

// queried is the name of a query's result.
const queried = "query"

// CombinedStatus is what the status intents of a group ask for, as clusters report it now: a combined.List. Errors: NotFound; Invalid
// for a parameter, or where the answer would take more than limits.Tables; Exhausted where what others ask takes the room; Timeout where there is too much to look at; those of the store.
func (t *Tables) CombinedStatus(ctx context.Context, group domain.Key, parameters url.Values) (*TablesDocument, error) {
	return t.read(ctx, group, false, parameters)
}

// Objects are the objects that a group wants, each with the status that its intents ask for: a combined.ObjectList. Errors are
// those of CombinedStatus.
func (t *Tables) Objects(ctx context.Context, group domain.Key, parameters url.Values) (*TablesDocument, error) {
	return t.read(ctx, group, true, parameters)
}

func (t *Tables) read(ctx context.Context, group domain.Key, objects bool, parameters url.Values) (*TablesDocument, error) {
	f, err := ParseFilter(parameters)
	if err != nil {
		return nil, err
	}
	a, err := t.ask(ctx, keptKey{group, extentOf(objects, f)})
	if err != nil {
		return nil, err
	}
	if err := t.known(ctx, group, &f); err != nil {
		return nil, err
	}
	warnUnread(ctx, a.unread)
	return a.send(ctx, t.answers)
}

// warnUnread has the answer name what it leaves out.
func warnUnread(ctx context.Context, keys []string) {
	for _, key := range keys {
		caller.RequestOf(ctx).Warn(key + " is left out: " + unreadableText)
	}
}

// CheckFilter refuses the query of a stream as CombinedStatus and Objects refuse theirs: one that names what there is not would say
// nothing for ever. What goes later does not end a stream. Errors are those of CombinedStatus.
func (t *Tables) CheckFilter(ctx context.Context, group domain.Key, parameters url.Values) error {
	f, err := ParseFilter(parameters)
	if err != nil || len(f.Apps)+len(f.Collectors) == 0 {
		return err
	}
	if _, err := t.lifecycle.owner(ctx, group); err != nil {
		return err
	}
	return t.known(ctx, group, &f)
}

// known refuses a filter by an app that neither the composite app has nor what is deployed, as status does, or by a collector that no
// intent names: an empty answer would look like one about what is there. Invalid, with those that there are. Kinds and names of
// objects come and go.
func (t *Tables) known(ctx context.Context, group domain.Key, f *combined.Filter) error {
	if len(f.Apps) > 0 {
		names, err := t.apps(ctx, group, f.Apps)
		if err != nil {
			return err
		}
		if err := knownApps(f.Apps, names, appsHolder(group)); err != nil {
			return err
		}
	}
	if len(f.Collectors) > 0 {
		intents, err := t.lifecycle.store.List(ctx, domain.StatusIntents, group)
		unread, err := domain.UnreadableOf(err)
		if err != nil || len(unread) > 0 { // what those name nobody knows
			return err
		}
		named := map[string]bool{}
		for _, o := range intents {
			for _, name := range o.(*domain.StatusIntent).Spec.StatusCollectors {
				named[name] = true
			}
		}
		for _, name := range f.Collectors {
			if !named[name] {
				return fail.New(fail.Invalid, "Filter collector %s not in list of collectors for deployment intent group %s (its status intents name: %s)", name, group.Name(), list(slices.Sorted(maps.Keys(named))))
			}
		}
	}
	return nil
}

// apps are the names of the apps of a group's composite app; of what is deployed, too, where those lack one of wanted: an instance may have an app yet
// that the composite app has not any more.
func (t *Tables) apps(ctx context.Context, group domain.Key, wanted []string) ([]string, error) {
	composite, _ := domain.CompositeApps.Above(group)
	apps, err := t.lifecycle.store.List(ctx, domain.Apps, composite)
	unread, err := domain.UnreadableOf(err)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, key := range unread { // it is there
		names = append(names, domain.Blank(domain.Apps, domain.Key(key)).LocalName())
	}
	for _, o := range apps {
		names = append(names, o.LocalName())
	}
	if !slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(names, name) }) {
		return names, nil
	}
	in, err := t.stands(ctx, group)
	if err != nil || in.group.Plan == nil {
		return names, err
	}
	for i := range in.group.Plan.Apps {
		if name := in.group.Plan.Apps[i].Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// appsHolder is what a user reads of what has the apps of a group.
func appsHolder(group domain.Key) string {
	composite, _ := domain.CompositeApps.Above(group)
	return "composite app " + composite.Segments()[3]
}

// knownApps refuses, as Invalid, a filter by an app that is not among names, those of the holder.
func knownApps(asked, names []string, holder string) error {
	for _, name := range asked {
		if !slices.Contains(names, name) {
			return fail.New(fail.Invalid, "Filter app %s %s", name, notAmong(names, holder))
		}
	}
	return nil
}

// notAmong says of an app that it is not among names, those of the holder.
func notAmong(names []string, holder string) string {
	return fmt.Sprintf("not in list of apps for %s (it has: %s)", holder, list(names))
}

// list is what users read of names.
func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// Query evaluates a collector that is not stored: a combined.List. Errors: as CombinedStatus; Invalid with each fault of the body, or for an app that there
// is not.
func (t *Tables) Query(ctx context.Context, group domain.Key, q *TableQuery) (*TablesDocument, error) {
	c := domain.StatusCollectors.New().(*domain.StatusCollector)
	c.APIVersion, c.Kind, c.Metadata, c.Spec = q.APIVersion, q.Kind, q.Metadata, q.Spec
	if c.Metadata.Name == "" {
		c.Metadata.Name = queried
	}
	var p fail.Problems
	c.Validate(&p)
	checkCollector(c, &p)
	q.Tests.Check(&p, "tests")
	if err := p.Err(); err != nil {
		return nil, err
	}
	in, err := t.stands(ctx, group)
	if err != nil {
		return nil, err
	}
	if err := t.checkApps(ctx, group, q.Tests.Apps); err != nil {
		return nil, err
	}
	name, g := c.Metadata.Name, in.group
	g.Intents = []*domain.StatusIntent{{Spec: domain.StatusIntentSpec{
		ObjectTest: q.Tests, StatusCollectors: []string{name}, Together: q.Together,
	}}}
	if looksAtLabels([]*domain.StatusCollectorSpec{&q.Spec}) {
		var unread []string
		if g.Labels, unread, err = t.labels(ctx, g); err != nil {
			return nil, err
		}
		warnUnread(ctx, unread)
	}
	short, cancel := context.WithTimeout(ctx, t.answers.limit) // with the wait for a turn, so that who waits is answered before the request is cut
	defer cancel()
	tooLong := func(err error) bool { return err != nil && short.Err() != nil && ctx.Err() == nil }
	tooMuch := errTooMuch(group, "ask for fewer objects by tests, or store the collector and name it in a status intent")
	room, err := t.answers.begin(short)
	if err != nil {
		return nil, err
	}
	defer room.end()
	set, source, err := t.setOnce(short, in, map[string]combined.Collector{name: compile(name, &q.Spec, "")}, room)
	switch {
	case tooLong(err):
		return nil, tooMuch
	case err != nil:
		return nil, err
	}
	if source != nil {
		if err := set.Evaluate(short, source); err != nil && !tooLong(err) {
			return nil, err
		}
		if !set.Whole() {
			return nil, tooMuch
		}
	}
	held := set.Size()
	a, err := encodeTables(group, set, nil, func(encoded int64) error { return room.hold(held + encoded) })
	if err != nil {
		return nil, err
	}
	sends := room.over(a.size())
	return a.documentWith(sends.mine.who, sends), nil
}

// setOnce is the set of a query for one answer, with the source of its rows; nil for no rows.
func (t *Tables) setOnce(ctx context.Context, in *standing, collectors map[string]combined.Collector, room *part) (*combined.Set, *view.Source, error) {
	g := in.group
	g.Room = room.hold
	if err := t.bundles(ctx, g); err != nil {
		return nil, nil, err
	}
	set, err := combined.NewSet(ctx, g, combined.Filter{}, collectors)
	if err != nil {
		return nil, nil, err
	}
	set.Once()
	source, err := t.source(ctx, in, nil)
	return set, source, err
}

// checkApps refuses the apps that the tests of a query name where known would refuse a filter by them, each with its path in the body.
func (t *Tables) checkApps(ctx context.Context, group domain.Key, asked []string) error {
	if len(asked) == 0 || slices.Contains(asked, domain.Anything) {
		return nil
	}
	names, err := t.apps(ctx, group, asked)
	if err != nil {
		return err
	}
	var p fail.Problems
	for i, name := range asked {
		if !slices.Contains(names, name) {
			p.Add(fmt.Sprintf("tests.apps[%d]", i), "%q is %s", name, notAmong(names, appsHolder(group)))
		}
	}
	return p.Err()
}

// ParseFilter reads the parameters of a query for combined status or objects; Invalid for one without a value.
func ParseFilter(v url.Values) (f combined.Filter, err error) {
	for _, one := range []struct {
		name string
		into *[]string
	}{{"app", &f.Apps}, {"kind", &f.Kinds}, {"resource", &f.Resources}, {"collector", &f.Collectors}} {
		for _, value := range v[one.name] {
			if value == "" {
				return f, fail.Query(one.name, `""; use a name`)
			}
			*one.into = append(*one.into, value)
		}
	}
	return f, nil
}

// standing is where a group stands, with its intents and what is heard of its clusters.
type standing struct {
	owner    domain.Owner
	group    *combined.Group  // without bundles and labels
	instance *domain.Instance // of its current app context; nil when nothing is to be in clusters
	records  *view.Records    // of its leaves, once the source has read them
	unread   []string         // the keys of intents that cannot be read
	hearing
}

// stands reads where a group stands.
func (t *Tables) stands(ctx context.Context, key domain.Key) (*standing, error) {
	l := t.lifecycle
	owner, err := l.owner(ctx, key)
	if err != nil {
		return nil, err
	}
	in := &standing{owner: owner, group: &combined.Group{Key: key, Most: mostTables}}
	g := in.group
	objects, err := l.store.List(ctx, domain.StatusIntents, key)
	if in.unread, err = domain.UnreadableOf(err); err != nil {
		return nil, err
	}
	for _, o := range objects {
		g.Intents = append(g.Intents, o.(*domain.StatusIntent))
	}
	if err := l.foresee(ctx, owner); err != nil {
		return nil, err
	}
	contextID := owner.Track().ContextID()
	if contextID == "" {
		return in, nil
	}
	i, err := l.instance(ctx, key, contextID)
	if err != nil {
		return nil, err
	}
	if g.Status, err = l.shown(ctx, owner, i); err != nil {
		return nil, err
	}
	if i.Plan == "" || g.Status.Over() {
		return in, nil
	}
	in.instance = i
	if g.Plan, err = l.recall.plan(ctx, l.records, i.Plan); err != nil {
		return nil, err
	}
	in.hearing, err = l.hearing(ctx, nil)
	return in, err
}

// source is what is known of the clusters of a group; nil when nothing is to be in them. Its rows read what clusters report
// with ctx.
// Records are those of the leaves; nil where they have to be read.
func (t *Tables) source(ctx context.Context, in *standing, records *view.Records) (_ *view.Source, err error) {
	i, now := in.instance, in.group.Status
	if i == nil {
		return nil, nil
	}
	if records == nil || records.Operation != at(i, now).Operation {
		if records, err = t.lifecycle.recordsOf(ctx, i, at(i, now), now.InProgress()); err != nil {
			return nil, err
		}
	}
	in.records = records
	s := &view.Source{ContextID: i.ContextID, Status: now, Namespace: i.Namespace, Apps: records.Apps()}
	if !records.Running {
		s.Ended = i.Ended
	}
	t.lifecycle.hearAs(ctx, s, i.LabelID(), in.hearing, records.Words())
	return s, nil
}

// bundles adds what the context is to put into clusters.
func (t *Tables) bundles(ctx context.Context, g *combined.Group) (err error) {
	if g.Plan == nil {
		return nil
	}
	l := t.lifecycle
	g.Bundles, g.Overlays = make(map[string]*plan.Bundle, len(g.Plan.Apps)), map[string][]*plan.Overlay{}
	for _, a := range g.Plan.Apps {
		if g.Bundles[a.Name], err = stored.JSON[plan.Bundle](ctx, l.records, a.Bundle); err != nil {
			return err
		}
		if g.Overlays[a.Name], err = stored.Parts[plan.Overlay](ctx, l.records, a.Overlays()); err != nil {
			return err
		}
	}
	within := string(domain.ScopeOf(g.Key))
	g.Mask = func(manifest json.RawMessage) json.RawMessage { return l.Masks.Mask(within, manifest) }
	return nil
}

// collectors reads and compiles what the intents of a group name, and says whether one of them looks at labels of clusters. One
// that cannot be evaluated says why in its results.
func (t *Tables) collectors(ctx context.Context, g *combined.Group) (found map[string]combined.Collector, labels bool, err error) {
	found = map[string]combined.Collector{}
	var specs []*domain.StatusCollectorSpec
	for _, i := range g.Intents {
		for _, name := range i.Spec.StatusCollectors {
			if _, known := found[name]; known {
				continue
			}
			noun, key := domain.CollectorNamed(g.Key, name)
			o, err := t.lifecycle.store.Get(ctx, noun, key)
			if fail.Is(err, fail.NotFound) { // deleted in this moment
				continue
			}
			if cannotBeRead(err) {
				found[name] = unreadCollector(name, err)
				continue
			}
			if err != nil {
				return nil, false, err
			}
			spec := &o.(*domain.StatusCollector).Spec
			specs = append(specs, spec)
			found[name] = t.program(name, spec)
		}
	}
	return found, looksAtLabels(specs), nil
}

// cannotBeRead says whether an error is about the document alone: somebody has damaged it, its key is missing, or a newer build has
// written it.
func cannotBeRead(err error) bool {
	return errors.Is(err, version.ErrNewer) || errors.Is(err, domain.ErrUnreadable)
}

// unreadCollector is one that cannot be read, and says so in its results.
func unreadCollector(name string, err error) combined.Collector {
	why := "the status collector cannot be evaluated: " + unreadableText
	if errors.Is(err, version.ErrNewer) {
		why = fail.TextOf(err)
	}
	return combined.Collector{Name: name, Made: why, Broken: &combine.Result{
		Name: name, ColumnNames: []string{}, Rows: []combine.ResultRow{}, Errors: []string{why},
	}}
}

// program is a collector that is stored, compiled. It is kept by its text for those who ask next.
func (t *Tables) program(name string, spec *domain.StatusCollectorSpec) combined.Collector {
	text, err := json.Marshal(spec)
	key := name + "\x00" + string(text)
	if c, ok := t.programs.Get(key); ok && err == nil {
		return c
	}
	c := compile(name, spec, string(text))
	t.programs.Add(key, c, heldOfProgram*int64(len(key)))
	return c
}

// compile compiles a collector that is made of a text.
func compile(name string, spec *domain.StatusCollectorSpec, made string) (c combined.Collector) {
	c.Name, c.Made = name, made
	var err error
	if c.Program, err = combine.Compile(name, spec); err != nil {
		c.Broken = combine.Broken(name, spec, err)
	}
	return c
}

// known are the members of the variable inventory that every cluster has without being asked.
var known = regexp.MustCompile(`\binventory\.(name|provider|id)\b`)

// looksAtLabels says whether an expression may look at the labels of clusters.
func looksAtLabels(specs []*domain.StatusCollectorSpec) bool {
	return slices.ContainsFunc(specs, func(spec *domain.StatusCollectorSpec) bool {
		text, err := json.Marshal(spec)
		return err != nil || strings.Count(string(text), "inventory") > len(known.FindAll(text, -1))
	})
}

// labels are those of the clusters of a group, and the keys of those that cannot be read. Who sees the group sees those, and of no other clusters.
func (t *Tables) labels(ctx context.Context, g *combined.Group) (labels map[domain.ClusterName][]string, unread []string, err error) {
	if g.Plan == nil {
		return nil, nil, nil
	}
	labels = map[domain.ClusterName][]string{}
	clusters := reached(g.Plan)
	of := func(label domain.Key) (c domain.ClusterName, ours bool) {
		cluster, _ := domain.Cut(domain.ClusterLabels, label)
		names, _ := domain.ClustersNoun.Split(cluster)
		c = domain.ClusterName{Provider: names["clusterProvider"], Name: names["cluster"]}
		_, ours = slices.BinarySearchFunc(clusters, c, domain.ClusterName.Compare)
		return c, ours
	}
	for _, p := range providersOf(clusters) {
		list, err := t.lifecycle.store.ListUnder(ctx, domain.ClusterLabels, domain.Join(domain.ClusterProviders.Collection, p))
		keys, err := domain.UnreadableOf(err)
		if err != nil {
			return nil, nil, err
		}
		for _, key := range keys {
			if _, ours := of(domain.Key(key)); ours {
				unread = append(unread, key)
			}
		}
		for _, o := range list { // sorted by key
			if c, ours := of(domain.KeyOf(o)); ours {
				labels[c] = append(labels[c], o.LocalName())
			}
		}
	}
	return labels, unread, nil
}

// providersOf are the providers of clusters, both sorted.
func providersOf(clusters []domain.ClusterName) (providers []string) {
	for _, c := range clusters {
		providers = append(providers, c.Provider)
	}
	return slices.Compact(providers)
}

// labelsVersions tell whether labels of clusters of an app context have changed; nil for no context.
func (t *Tables) labelsVersions(ctx context.Context, i *domain.Instance) (versions []string, err error) {
	if i == nil || i.Plan == "" {
		return nil, nil
	}
	clusters, err := t.lifecycle.recall.clusters(ctx, t.lifecycle.records, i.Plan)
	if err != nil {
		return nil, err
	}
	for _, provider := range providersOf(clusters) {
		v, err := t.lifecycle.store.LabelsVersion(ctx, provider)
		if err != nil {
			return nil, err
		}
		versions = append(versions, v)
	}
	return versions, nil
}
