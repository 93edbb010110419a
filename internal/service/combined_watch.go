package service

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/combined"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/notify"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/view"
)

// tablesExtent is what a stream of tables, or of objects with their status, has to know of a group.
type tablesExtent struct {
	objects                          bool
	apps, kinds, resources, selected string // the members of a combined.Filter, joined, so that extents can be compared
}

// between are names that are joined; no name has it.
const between = "\x00"

// filter is that of the extent.
func (e tablesExtent) filter() combined.Filter {
	names := func(joined string) []string {
		if joined == "" {
			return nil
		}
		return strings.Split(joined, between)
	}
	return combined.Filter{Apps: names(e.apps), Kinds: names(e.kinds), Resources: names(e.resources), Collectors: names(e.selected)}
}

// tablesQuestion is what a subscriber to such a stream asks. It is the whole of its extent: tables are kept only of what
// somebody asks for.
type tablesQuestion struct{ tablesExtent }

// CombinedStatusQuestion is the query of CombinedStatus as a stream. Invalid for a parameter.
func CombinedStatusQuestion(parameters url.Values) (notify.Question, error) {
	return questionOf(false, parameters)
}

// ObjectsQuestion is the query of Objects as a stream. Invalid for a parameter.
func ObjectsQuestion(parameters url.Values) (notify.Question, error) {
	return questionOf(true, parameters)
}

func questionOf(objects bool, parameters url.Values) (notify.Question, error) {
	f, err := ParseFilter(parameters)
	if err != nil {
		return nil, err
	}
	joined := func(names []string) string {
		return strings.Join(slices.Compact(slices.Sorted(slices.Values(names))), between)
	}
	return tablesQuestion{tablesExtent{objects, joined(f.Apps), joined(f.Kinds), joined(f.Resources), joined(f.Collectors)}}, nil
}

// ID implements notify.Question: an extent has one question.
func (tablesQuestion) ID() string { return "tables" }

// Extent implements notify.Question.
func (q tablesQuestion) Extent() notify.Extent { return q.tablesExtent }

// Answer implements notify.Question.
func (q tablesQuestion) Answer(_ context.Context, s notify.Snapshot, before notify.Answer) (notify.Answer, error) {
	was, _ := before.(*tablesAnswer)
	now := s.(*tablesAnswer)
	if now == was {
		return nil, nil
	}
	return now, nil
}

// tablesAnswer is a list of items, encoded.
type tablesAnswer struct {
	head  string // of the document, up to its items
	items []tablesItem
}

type tablesItem struct {
	name string
	of   *combined.CombinedStatus // what it was encoded from, nil for an object
	data []byte
}

// Document implements notify.Answer: the list, as the plain query has it.
func (a *tablesAnswer) Document() []byte {
	parts := make([][]byte, len(a.items))
	for i := range a.items {
		parts[i] = a.items[i].data
	}
	return slices.Concat([]byte(a.head), bytes.Join(parts, []byte(",")), []byte("]}"))
}

// tablesChange is what has changed of a list.
type tablesChange struct {
	Items   []json.RawMessage `json:"items,omitempty"`   // those that are new or say something else, whole
	Removed []string          `json:"removed,omitempty"` // the names of those that are gone
}

// Since implements notify.Answer.
func (a *tablesAnswer) Since(before notify.Answer) ([]byte, error) {
	was := map[string][]byte{}
	for _, i := range before.(*tablesAnswer).items {
		was[i.name] = i.data
	}
	var c tablesChange
	for _, i := range a.items {
		if old, known := was[i.name]; !known || !bytes.Equal(old, i.data) {
			c.Items = append(c.Items, i.data)
		}
		delete(was, i.name)
	}
	c.Removed = slices.Sorted(maps.Keys(was))
	if len(c.Items)+len(c.Removed) == 0 {
		return nil, nil
	}
	data, err := json.Marshal(c)
	if err != nil {
		return nil, fail.Wrap(err, fail.Internal, "a change of tables cannot be encoded")
	}
	return data, nil
}

// Look looks at the tables of a group, as CombinedStatusQuestion and ObjectsQuestion ask for them; false for an extent of
// others.
func (t *Tables) Look(group domain.Key, e notify.Extent) (notify.Look, bool) {
	extent, ok := e.(tablesExtent)
	if !ok {
		return nil, false
	}
	return &tablesLook{tables: t, group: group, objects: extent.objects, filter: extent.filter()}, true
}

// tablesLook keeps the tables of a group as long as somebody reads them in a stream, and puts into them what changes.
type tablesLook struct {
	tables  *Tables
	group   domain.Key
	objects bool
	filter  combined.Filter

	now signed // what Sign has seen last

	// What was evaluated last.

	evaluated signed
	at        time.Time     // when Version was that of what clusters say
	plan      *plan.Plan    // of which the set was made, and
	structure string        // of what else
	set       *combined.Set // nil for none, and after a failure
	source    *view.Source  // nil when nothing is to be in clusters
	answer    *tablesAnswer
}

// signed is what tables depend on.
type signed struct {
	label    string // under which clusters report
	observed string // the version of what they say
	rest     string // a digest of all else
}

// Sign implements notify.Look.
func (k *tablesLook) Sign(ctx context.Context) (string, error) {
	l := k.tables.lifecycle
	s, err := l.signOf(ctx, k.group, status.Extent{Reported: true, Output: status.OutputAll})
	if err != nil {
		return "", err
	}
	k.now = signed{observed: s.Observed}
	if s.Instance != nil {
		k.now.label = s.Instance.LabelID()
	}
	s.Observed = ""
	asked, err := k.asked(ctx)
	if err != nil {
		return "", err
	}
	labels, err := k.tables.labelsVersions(ctx, s.Instance)
	if err != nil {
		return "", err
	}
	if k.now.rest, err = digestOf([]any{s, asked, labels}); err != nil {
		return "", err
	}
	return k.now.rest + k.now.observed, nil
}

// revision is that of a document that tables depend on.
type revision struct {
	Key      domain.Key
	Made     time.Time
	Revision int64
}

// asked is which intents there are, and which collectors they name.
func (k *tablesLook) asked(ctx context.Context) (documents []revision, err error) {
	store := k.tables.lifecycle.store
	intents, err := store.List(ctx, domain.StatusIntents, k.group)
	if err != nil {
		return nil, err
	}
	collectors := map[string]bool{}
	for _, o := range intents {
		documents = append(documents, revision{domain.KeyOf(o), o.Base().Made, o.Base().Revision})
		for _, name := range o.(*domain.StatusIntent).Spec.StatusCollectors {
			collectors[name] = true
		}
	}
	if k.objects {
		return documents, nil
	}
	for _, name := range slices.Sorted(maps.Keys(collectors)) {
		noun, key := domain.CollectorNamed(k.group, name)
		o, err := store.Get(ctx, noun, key)
		switch {
		case fail.Is(err, fail.NotFound):
		case err != nil:
			return nil, err
		default:
			documents = append(documents, revision{key, o.Base().Made, o.Base().Revision})
		}
	}
	return documents, nil
}

// Snapshot implements notify.Look.
func (k *tablesLook) Snapshot(ctx context.Context) (_ notify.Snapshot, err error) {
	defer func() {
		if err != nil { // what of it was taken is not known
			k.set, k.answer = nil, nil
		}
	}()
	changed, done, err := k.changes(ctx)
	if err == nil && !done {
		changed, err = k.all(ctx)
	}
	if err != nil {
		return nil, err
	}
	if changed || k.answer == nil {
		k.answer, err = k.encoded()
	}
	return k.answer, err
}

// fewChanged is up to how many clusters are looked at by themselves.
const fewChanged = 100

// changes takes what clusters have said since the last time, where nothing else has changed. Where they are many, or nobody can
// tell which they are, it compares what all have said: what was read of the group otherwise still holds.
func (k *tablesLook) changes(ctx context.Context) (changed, done bool, err error) {
	if k.set == nil || k.source == nil || k.now.rest != k.evaluated.rest || k.now.observed == k.evaluated.observed {
		return false, false, nil
	}
	at := k.tables.lifecycle.now()
	c, err := k.tables.lifecycle.heard.ObservationsSince(ctx, k.now.label, k.evaluated.observed, k.at)
	if err != nil {
		return false, false, err
	}
	clusters := []domain.ClusterName{}
	for _, o := range c.Of {
		clusters = append(clusters, o.Cluster)
	}
	slices.SortFunc(clusters, domain.ClusterName.Compare)
	if clusters = slices.Compact(clusters); !c.Known || len(clusters) > fewChanged {
		clusters = nil
	}
	if clusters == nil || len(clusters) > 0 {
		changed, err = k.set.Follow(ctx, k.source, clusters)
	}
	k.evaluated.observed, k.at = c.Version, at
	return changed, true, err
}

// all looks at all clusters, and takes what has changed. Where it is not the same objects, collectors and clusters any more,
// everything is evaluated anew.
func (k *tablesLook) all(ctx context.Context) (changed bool, err error) {
	t, at := k.tables, k.tables.lifecycle.now()
	// What the source reads it reads in later looks too, each call with a deadline of its own.
	g, source, err := t.Group(context.WithoutCancel(ctx), k.group)
	if err != nil {
		return false, err
	}
	var collectors map[string]combined.Collector
	if !k.objects {
		if collectors, err = t.Collectors(ctx, g); err != nil {
			return false, err
		}
	}
	structure, err := structureOf(g, collectors)
	if err != nil {
		return false, err
	}
	if k.set == nil || g.Plan != k.plan || structure != k.structure {
		if k.set, err = combined.NewSet(g, k.filter, collectors); err != nil {
			return false, err
		}
		k.plan, k.structure, changed = g.Plan, structure, true
	}
	if source != nil {
		more, err := k.set.Follow(ctx, source, nil)
		if err != nil {
			return false, err
		}
		changed = changed || more
	}
	k.source, k.evaluated, k.at = source, k.now, at
	return changed, nil
}

// structureOf is the same for groups of one plan whose sets are made of the same: then what differs is in rows alone.
func structureOf(g *combined.Group, collectors map[string]combined.Collector) (string, error) {
	type collector struct{ Name, Made string }
	s := struct {
		Deleting, Over bool
		Intents        []domain.StatusIntentSpec
		Collectors     []collector
		Labels         []any
	}{Deleting: g.Status.Deleting(), Over: g.Status.Over()}
	for _, i := range g.Intents {
		s.Intents = append(s.Intents, i.Spec)
	}
	for _, name := range slices.Sorted(maps.Keys(collectors)) {
		s.Collectors = append(s.Collectors, collector{name, collectors[name].Made})
	}
	for _, c := range slices.SortedFunc(maps.Keys(g.Labels), domain.ClusterName.Compare) {
		s.Labels = append(s.Labels, c, g.Labels[c])
	}
	return digestOf(s)
}

// encoded is the answer as the set stands. What has not changed since the last one is not encoded again.
func (k *tablesLook) encoded() (*tablesAnswer, error) {
	a := &tablesAnswer{}
	if k.objects {
		list := k.set.Objects()
		a.head = listHead(list.APIVersion, list.Kind)
		for i, name := range k.set.Names() {
			data, err := json.Marshal(list.Items[i])
			if err != nil {
				return nil, fail.Wrap(err, fail.Internal, "an object cannot be encoded")
			}
			a.items = append(a.items, tablesItem{name: name, data: data})
		}
		return a, nil
	}
	last := map[*combined.CombinedStatus][]byte{}
	if k.answer != nil {
		for _, i := range k.answer.items {
			last[i.of] = i.data
		}
	}
	list := k.set.CombinedStatuses()
	a.head = listHead(list.APIVersion, list.Kind)
	for _, d := range list.Items {
		data := last[d]
		if data == nil {
			var err error
			if data, err = json.Marshal(d); err != nil {
				return nil, fail.Wrap(err, fail.Internal, "a combined status cannot be encoded")
			}
		}
		a.items = append(a.items, tablesItem{d.Metadata.Name, d, data})
	}
	return a, nil
}

// listHead begins a list as encoding/json writes it.
func listHead(apiVersion, kind string) string {
	return `{"apiVersion":"` + apiVersion + `","kind":"` + kind + `","metadata":{},"items":[`
}

// Reported implements notify.Look.
func (k *tablesLook) Reported() bool { return true }

// Close implements notify.Look.
func (k *tablesLook) Close() { k.set, k.source, k.answer = nil, nil, nil }
