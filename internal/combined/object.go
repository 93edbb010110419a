// Package combined makes the documents of what all clusters report of the objects of a deployment intent group: KubeStellar's
// CombinedStatus with the tables of package combine, and the objects with a status of their own. It joins the plan with rows of
// package view, and decides from values alone.
//
// How it is used:
//
//	set, err := combined.NewSet(ctx, &group, filter, collectors) // the objects, and which tables are asked of them
//	err = set.Evaluate(ctx, &source)                             // once, with all that is known of all clusters
//	changed, err := set.Put(ctx, row)                            // again for each row that changes, and set.Drop for a target that has left
//	changed, err := set.Follow(ctx, &source, clusters)           // in place of these: what differs from what it has taken before
//	set.CombinedStatuses(), set.Objects()                        // the documents, as they stand
package combined

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
)

// Group is a deployment intent group, as far as tables of it need it.
type Group struct {
	Key domain.Key
	// Status is where the current app context stands. Of one that is over, and without a plan, there are no objects.
	Status  domain.ContextStatus
	Plan    *plan.Plan              // of that context, nil for none
	Bundles map[string]*plan.Bundle // of the plan's apps
	// Overlays are those of the apps' variants, in their order.
	Overlays map[string][]*plan.Overlay
	// Mask masks what Secrets in a manifest hold, wherever they are: bundle.Masker.Mask.
	Mask    func(manifest json.RawMessage) json.RawMessage
	Intents []*domain.StatusIntent
	// Labels are the labels of clusters, sorted.
	Labels map[domain.ClusterName][]string
	// Most is how many bytes a set may hold; zero for limits.Tables.
	Most int64
	// Room has room for so many bytes, which is what the set takes by now; its error ends what is done with the set. Nil for room without end.
	Room func(bytes int64) error
}

// Object is an object that the group wants in clusters: a resource of a release, which no hook is.
type Object struct {
	domain.Tested
	Version string
	Index   int            // in the bundle of its app
	Content map[string]any // the variable obj, on clusters that varied has nothing for
	varied  map[domain.ClusterName]map[string]any
	// Targets are the clusters that it goes to: those of its app that are not leaving, but for those that lack it.
	Targets []domain.ClusterName
	lacking map[domain.ClusterName]bool
	Wants   domain.StatusWanted
	size    int64 // of Content and what is varied in memory, in bytes
}

// String is such as "Deployment.apps/default/web", and without a namespace "Namespace/web".
func (o *Object) String() string {
	parts := []string{schema.GroupKind{Group: o.Group, Kind: o.Kind}.String()}
	if o.Namespace != "" {
		parts = append(parts, o.Namespace)
	}
	return strings.Join(append(parts, o.Name), "/")
}

// compare is the order of documents: by app, group, kind, namespace, name.
func (o *Object) compare(other *Object) int {
	return cmp.Or(
		cmp.Compare(o.App, other.App), cmp.Compare(o.Group, other.Group), cmp.Compare(o.Kind, other.Kind),
		cmp.Compare(o.Namespace, other.Namespace), cmp.Compare(o.Name, other.Name),
	)
}

// Filter says which objects a query is about, and which collectors; nil for all.
type Filter struct{ Apps, Kinds, Resources, Collectors []string }

func (f *Filter) passes(o *domain.Tested) bool {
	return among(f.Apps, o.App) && among(f.Kinds, o.Kind) && among(f.Resources, o.Name)
}

func among(filter []string, value string) bool {
	return filter == nil || slices.Contains(filter, value)
}

// objects are those of the group that pass the filter and of which something is wanted, in their order. An error is that of a ctx that ends, too: there may
// be many objects, and much that intents ask of each; and that of full.
func (g *Group) objects(ctx context.Context, f *Filter, wanted func(*domain.StatusWanted) bool) ([]*Object, error) {
	if g.Plan == nil || g.Status.Over() {
		return nil, nil
	}
	definitions := scopes{}
	for _, b := range g.Bundles {
		definitions.add(b)
	}
	var objects []*Object
	var held int64
	for i := range g.Plan.Apps {
		a := &g.Plan.Apps[i]
		targets := targetsOf(a)
		b := g.Bundles[a.Name]
		if b == nil || len(b.Resources) < a.Wanted() {
			return nil, fail.New(fail.Internal, "the bundle of app %q is not that of the plan", a.Name)
		}
		for n, r := range b.Resources[:a.Wanted()] {
			if a.Hook(n) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			o, err := g.object(a.Name, n, &r, definitions)
			if err != nil {
				return nil, err
			}
			if !f.passes(&o.Tested) {
				continue
			}
			if o.Wants = domain.StatusWantedOf(g.Intents, &o.Tested); !wanted(&o.Wants) {
				continue
			}
			if err := g.vary(o, a, definitions); err != nil {
				return nil, err
			}
			held += o.bytes()
			if err := g.full(held); err != nil {
				return nil, err
			}
			o.Targets, o.lacking = targets.of(n)
			objects = append(objects, o)
		}
	}
	slices.SortStableFunc(objects, (*Object).compare)
	return objects, nil
}

// vary adds what clusters of variants get of an object.
func (g *Group) vary(o *Object, a *plan.App, definitions scopes) error {
	overlays := g.Overlays[a.Name]
	contents := make([]map[string]any, len(overlays))
	for i, overlay := range overlays {
		r := overlay.At(o.Index)
		if r == nil {
			continue
		}
		other, err := g.object(a.Name, o.Index, r, definitions)
		if err != nil {
			return err
		}
		contents[i] = other.Content
		o.size += other.size
	}
	for _, t := range a.Targets {
		if t.Variant == 0 || t.Variant > len(contents) || contents[t.Variant-1] == nil {
			continue
		}
		if o.varied == nil {
			o.varied = map[domain.ClusterName]map[string]any{}
		}
		o.varied[t.ClusterName] = contents[t.Variant-1]
	}
	return nil
}

// on is the object as a cluster gets it.
func (o *Object) on(c domain.ClusterName) map[string]any {
	if content, ok := o.varied[c]; ok {
		return content
	}
	return o.Content
}

// targets are the clusters of an app that are not leaving, and what each of them does not get of the app: intents add objects on some clusters.
type targets struct {
	all   []domain.ClusterName
	lacks []domain.Marks // of each
}

func targetsOf(a *plan.App) (t targets) {
	known := map[string]domain.Marks{} // there are few
	for i := range a.Targets {
		if a.Targets[i].Leaving {
			continue
		}
		lacks := a.LacksOn(&a.Targets[i])
		marks, ok := known[lacks]
		if !ok {
			marks = domain.DecodeMarks(lacks)
			known[lacks] = marks
		}
		t.all, t.lacks = append(t.all, a.Targets[i].ClusterName), append(t.lacks, marks)
	}
	return t
}

// of are the clusters that get the resource with an index, and those that do not, nil for none.
func (t targets) of(index int) (get []domain.ClusterName, lacking map[domain.ClusterName]bool) {
	lacks := func(marks domain.Marks) bool { return index < len(marks) && marks[index] == domain.MarkGone }
	if !slices.ContainsFunc(t.lacks, lacks) {
		return t.all, nil
	}
	lacking = map[domain.ClusterName]bool{}
	for i, c := range t.all {
		if lacks(t.lacks[i]) {
			lacking[c] = true
		} else {
			get = append(get, c)
		}
	}
	return get, lacking
}

func (g *Group) object(app string, index int, r *plan.Resource, definitions scopes) (*Object, error) {
	content, err := combine.Decode(g.Mask(r.Manifest))
	if err != nil || content == nil {
		return nil, fail.Wrap(err, fail.Internal, "the manifest of %s %q cannot be read", r.Kind, r.Name)
	}
	o := &Object{Index: index, Version: r.Version, Content: content}
	o.App, o.Group, o.Kind, o.Name = app, r.Group, r.Kind, r.Name
	known := definitions[schema.GroupKind{Group: r.Group, Kind: r.Kind}]
	o.Resource = cmp.Or(known.plural, pluralOf(r.Kind))
	metadata, _ := content["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{"name": r.Name}
		content["metadata"] = metadata
	}
	if !known.cluster && !plan.ClusterScoped(r.Group, r.Kind) {
		o.Namespace = cmp.Or(r.Namespace, g.Plan.Namespace)
		metadata["namespace"] = o.Namespace
	} else {
		delete(metadata, "namespace")
	}
	if labels, ok := metadata["labels"].(map[string]any); ok {
		o.Labels = make(map[string]string, len(labels))
		for k, v := range labels {
			o.Labels[k], _ = v.(string)
		}
	}
	delete(content, "status")
	bundle.Strip(r.Group, r.Kind, content)
	defaultReplicas(r, content)
	o.size = sizeOf(content)
	return o, nil
}

// replicated are the kinds of apps/v1 of which Kubernetes stores one replica where the manifest names none.
var replicated = []string{"Deployment", "ReplicaSet", "StatefulSet"}

// defaultReplicas adds spec.replicas as Kubernetes does. KubeStellar's hub has stored the object, so that collectors compare that member
// with what clusters have; nothing else is defaulted.
func defaultReplicas(r *plan.Resource, content map[string]any) {
	spec, ok := content["spec"].(map[string]any)
	if ok && spec["replicas"] == nil && r.Group == "apps" && r.Version == "v1" && slices.Contains(replicated, r.Kind) {
		spec["replicas"] = int64(1)
	}
}

// regular are words to which Kubernetes' guess adds the wrong ending: gateways and meshes, not gatewaies and meshs.
var regular = regexp.MustCompile(`([aeiou]y)$|(x|z|ch|sh)$`)

// pluralOf is what a kind is called in paths, as far as that can be told from its name.
func pluralOf(kind string) string {
	name := strings.ToLower(kind)
	switch m := regular.FindStringSubmatch(name); {
	case m == nil:
		guess, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind})
		return guess.Resource
	case m[1] != "":
		return name + "s"
	default:
		return name + "es"
	}
}

// scopes are what CRDs of the group say of their kinds.
type scopes map[schema.GroupKind]struct {
	plural  string
	cluster bool
}

func (s scopes) add(b *plan.Bundle) {
	for _, r := range b.Resources {
		if !r.IsDefinition() {
			continue
		}
		var crd struct {
			Spec struct {
				Group, Scope string
				Names        struct{ Plural, Kind string }
			}
		}
		if json.Unmarshal(r.Manifest, &crd) != nil {
			continue // the cluster says what is wrong with it
		}
		s[schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}] = struct {
			plural  string
			cluster bool
		}{crd.Spec.Names.Plural, crd.Spec.Scope == "Cluster"}
	}
}

// short is 16 hex digits that stand for some words.
func short(words ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return hex.EncodeToString(sum[:8])
}
