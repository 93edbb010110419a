package service

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/combined"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/stored"
	"github.com/drover-io/drover/internal/view"
)

// Tables answers what all clusters report of the objects of a deployment intent group, combined.
type Tables struct {
	lifecycle *Lifecycle
	programs  *lru.Cache[string, combined.Collector] // by name and spec
}

// keptPrograms is how many collectors stay compiled.
const keptPrograms = 1000

// NewTables makes the queries.
func NewTables(l *Lifecycle) *Tables {
	return &Tables{lifecycle: l, programs: lru.New[string, combined.Collector](keptPrograms)}
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

// CombinedStatus is what the status intents of a group ask for, as clusters report it now. Errors: NotFound; Invalid for a
// parameter; those of the store.
func (t *Tables) CombinedStatus(ctx context.Context, group domain.Key, parameters url.Values) (*combined.List, error) {
	f, err := ParseFilter(parameters)
	if err != nil {
		return nil, err
	}
	g, source, err := t.Group(ctx, group)
	if err != nil {
		return nil, err
	}
	collectors, err := t.Collectors(ctx, g)
	if err != nil {
		return nil, err
	}
	set, err := t.evaluate(ctx, g, source, f, collectors)
	if err != nil {
		return nil, err
	}
	return set.CombinedStatuses(), nil
}

// Objects are the objects that a group wants, each with the status that its intents ask for. Errors are those of CombinedStatus.
func (t *Tables) Objects(ctx context.Context, group domain.Key, parameters url.Values) (*combined.ObjectList, error) {
	f, err := ParseFilter(parameters)
	if err != nil {
		return nil, err
	}
	g, source, err := t.Group(ctx, group)
	if err != nil {
		return nil, err
	}
	set, err := t.evaluate(ctx, g, source, f, nil)
	if err != nil {
		return nil, err
	}
	return set.Objects(), nil
}

// Query evaluates a collector that is not stored. Errors: as CombinedStatus; Invalid with each fault of the body.
func (t *Tables) Query(ctx context.Context, group domain.Key, q *TableQuery) (*combined.List, error) {
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
	g, source, err := t.Group(ctx, group)
	if err != nil {
		return nil, err
	}
	name := c.Metadata.Name
	g.Intents = []*domain.StatusIntent{{Spec: domain.StatusIntentSpec{
		ObjectTest: q.Tests, StatusCollectors: []string{name}, Together: q.Together,
	}}}
	if g.Labels, err = t.labels(ctx, g, []*domain.StatusCollectorSpec{&q.Spec}); err != nil {
		return nil, err
	}
	set, err := t.evaluate(ctx, g, source, combined.Filter{}, map[string]combined.Collector{name: t.program(name, &q.Spec)})
	if err != nil {
		return nil, err
	}
	return set.CombinedStatuses(), nil
}

func (t *Tables) evaluate(ctx context.Context, g *combined.Group, source *view.Source, f combined.Filter, c map[string]combined.Collector) (*combined.Set, error) {
	set, err := combined.NewSet(g, f, c)
	if err != nil {
		return nil, err
	}
	return set, set.Evaluate(ctx, source)
}

// ParseFilter reads the parameters of a query for combined status or objects; Invalid for one without a value.
func ParseFilter(v url.Values) (f combined.Filter, err error) {
	for name, into := range map[string]*[]string{"app": &f.Apps, "kind": &f.Kinds, "resource": &f.Resources, "collector": &f.Collectors} {
		for _, value := range v[name] {
			if value == "" {
				return f, fail.New(fail.Invalid, `Invalid query %s: ""; use a name`, name)
			}
			*into = append(*into, value)
		}
	}
	return f, nil
}

// Group reads what a group has of objects and intents, and what is known of them in its current app context; nil for the
// latter when nothing is to be in clusters. Rows of the source read what clusters report with ctx.
func (t *Tables) Group(ctx context.Context, key domain.Key) (*combined.Group, *view.Source, error) {
	l := t.lifecycle
	owner, err := l.owner(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	g := &combined.Group{Key: key}
	objects, err := l.store.List(ctx, domain.StatusIntents, key)
	if err != nil {
		return nil, nil, err
	}
	for _, o := range objects {
		g.Intents = append(g.Intents, o.(*domain.StatusIntent))
	}
	if err := l.foresee(ctx, owner); err != nil {
		return nil, nil, err
	}
	contextID := owner.Track().ContextID()
	if contextID == "" {
		return g, nil, nil
	}
	i, err := l.instance(ctx, key, contextID)
	if err != nil {
		return nil, nil, err
	}
	if g.Status, err = l.shown(ctx, owner, i); err != nil {
		return nil, nil, err
	}
	if i.Plan == "" || g.Status.Over() {
		return g, nil, nil
	}
	d := &StatusDocument{query: status.Query{Type: status.TypeReady}}
	d.source.ContextID, d.source.Status = i.ContextID, g.Status
	if err := l.gatherApps(ctx, d, i, at(i, g.Status), g.Status.InProgress()); err != nil {
		return nil, nil, err
	}
	return g, &d.source.Source, t.planned(ctx, g, i)
}

// planned adds what the context is to put into clusters.
func (t *Tables) planned(ctx context.Context, g *combined.Group, i *domain.Instance) (err error) {
	l := t.lifecycle
	if g.Plan, err = l.recall.plan(ctx, l.records, i.Plan); err != nil {
		return err
	}
	g.Bundles = make(map[string]*plan.Bundle, len(g.Plan.Apps))
	for _, a := range g.Plan.Apps {
		if g.Bundles[a.Name], err = stored.JSON[plan.Bundle](ctx, l.records, a.Bundle); err != nil {
			return err
		}
	}
	within := string(domain.ScopeOf(g.Key))
	g.Mask = func(manifest json.RawMessage) json.RawMessage { return l.Masks.Mask(within, manifest) }
	return nil
}

// Collectors reads and compiles what the intents of a group name, and the labels of clusters where one of them looks at them.
// A collector that cannot be evaluated says why in its results.
func (t *Tables) Collectors(ctx context.Context, g *combined.Group) (map[string]combined.Collector, error) {
	found := map[string]combined.Collector{}
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
			if err != nil {
				return nil, err
			}
			spec := &o.(*domain.StatusCollector).Spec
			specs = append(specs, spec)
			found[name] = t.program(name, spec)
		}
	}
	var err error
	g.Labels, err = t.labels(ctx, g, specs)
	return found, err
}

// program compiles a collector.
func (t *Tables) program(name string, spec *domain.StatusCollectorSpec) combined.Collector {
	text, err := json.Marshal(spec)
	key := name + "\x00" + string(text)
	if c, ok := t.programs.Get(key); ok && err == nil {
		return c
	}
	c := combined.Collector{Name: name, Made: string(text)}
	if c.Program, err = combine.Compile(name, spec); err != nil {
		c.Broken = combine.Broken(name, spec, err)
	}
	t.programs.Add(key, c)
	return c
}

// known are the members of the variable inventory that every cluster has without being asked.
var known = regexp.MustCompile(`\binventory\.(name|provider|id)\b`)

// labels are those of the clusters, where an expression may look at them.
func (t *Tables) labels(ctx context.Context, g *combined.Group, specs []*domain.StatusCollectorSpec) (map[domain.ClusterName][]string, error) {
	asked := false
	for _, spec := range specs {
		text, err := json.Marshal(spec)
		asked = asked || err != nil || strings.Count(string(text), "inventory") > len(known.FindAll(text, -1))
	}
	if !asked || g.Plan == nil {
		return nil, nil
	}
	labels := map[domain.ClusterName][]string{}
	for _, p := range providersOf(g.Plan) {
		list, err := t.lifecycle.store.ListUnder(ctx, domain.ClusterLabels, domain.Join(domain.ClusterProviders.Collection, p))
		if err != nil {
			return nil, err
		}
		for _, o := range list { // sorted by key
			names, _ := domain.ClustersNoun.Split(o.Base().Parent)
			c := domain.ClusterName{Provider: names["clusterProvider"], Name: names["cluster"]}
			labels[c] = append(labels[c], o.LocalName())
		}
	}
	return labels, nil
}

// providersOf are the providers of the clusters of a plan, sorted.
func providersOf(p *plan.Plan) []string {
	providers := map[string]bool{}
	for _, a := range p.Apps {
		for _, target := range a.Targets {
			providers[target.Provider] = true
		}
	}
	return slices.Sorted(maps.Keys(providers))
}

// labelsVersions tell whether labels of clusters of an app context have changed; nil for no context.
func (t *Tables) labelsVersions(ctx context.Context, i *domain.Instance) (versions []string, err error) {
	if i == nil || i.Plan == "" {
		return nil, nil
	}
	p, err := t.lifecycle.recall.plan(ctx, t.lifecycle.records, i.Plan)
	if err != nil {
		return nil, err
	}
	for _, provider := range providersOf(p) {
		v, err := t.lifecycle.store.LabelsVersion(ctx, provider)
		if err != nil {
			return nil, err
		}
		versions = append(versions, v)
	}
	return versions, nil
}
