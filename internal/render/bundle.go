package render

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	chart "helm.sh/helm/v4/pkg/chart/v2"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
)

// notesFile ends the names of files that are text for people, as in Helm: RELEASE-NOTES.txt is one, too.
const notesFile = "NOTES.txt"

// bundle sorts the objects of the rendered files and of the crds directories, which are the definitions, into resources of the
// release and hooks.
func bundle(ctx context.Context, in Input, definitions []object, files map[string]string) (*plan.Bundle, error) {
	p := &parts{resources: []plan.Resource{}, claims: claims{namespace: in.Namespace, first: map[plan.ResourceID]*object{}}}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(file, notesFile) {
			continue
		}
		at(ctx, "%s: reading what it has written", file)
		found, err := objects(file, files[file])
		if err != nil {
			return nil, err
		}
		for i := range found {
			if err := p.add(&found[i]); err != nil {
				return nil, err
			}
		}
	}
	p.warnings = few(p.warnings, "%d more hooks are left out")
	if err := p.define(definitions); err != nil {
		return nil, err
	}
	slices.SortStableFunc(p.resources, inApplyOrder)
	slices.SortStableFunc(p.hooks, inHookOrder)
	return &plan.Bundle{App: in.App, Resources: append(p.resources, p.hooks...), Warnings: p.warnings}, nil
}

// parts are the resources of a bundle in the making.
type parts struct {
	claims           claims
	resources, hooks []plan.Resource
	warnings         []string
}

// add takes one object of a template.
func (p *parts) add(o *object) error {
	if err := o.CheckReplace(o.annotations); err != nil {
		return fmt.Errorf("%s: %s: %s", o.file, o, fail.TextOf(err))
	}
	events, hooked := o.annotations[hookAnnotation]
	if !hooked {
		return p.release(o, kept(o))
	}
	if o.IsDefinition() && slices.Equal(words(events), []string{crdInstall}) {
		return p.release(o, true)
	}
	h, err := hook(o, events)
	if err != nil {
		return err
	}
	if h == nil {
		if event, found := strange(events); found {
			p.warnings = append(p.warnings, fmt.Sprintf("%s: %s is left out: its annotation %s names %.64q, which is no event of Helm", o.file, o, hookAnnotation, event))
		}
		return nil
	}
	for _, run := range h.Runs() {
		r := resource(o, kept(o) || o.IsDefinition())
		r.Hook = run
		p.hooks = append(p.hooks, r)
	}
	return nil
}

// kept says whether an object is annotated to stay in its cluster.
func kept(o *object) bool {
	return plan.IsKept(o.annotations)
}

// release takes what is applied as it is. What is written twice in the same words, as where two subcharts include one template,
// counts once.
func (p *parts) release(o *object, keep bool) error {
	again, err := p.claims.claim(o)
	if err == nil && !again {
		p.resources = append(p.resources, resource(o, keep))
	}
	return err
}

// maxWarnings is how many things of one sort a bundle's warnings name.
const maxWarnings = 10

// few are the first ones of many warnings; more says with their number that there are others.
func few(warnings []string, more string) []string {
	if n := len(warnings) - maxWarnings; n > 0 {
		return append(warnings[:maxWarnings], fmt.Sprintf(more, n))
	}
	return warnings
}

// define takes the objects of the crds directories, as Helm does: what a template renders holds when they have it too
// (prometheus-operator), and of what several of them have, such as subcharts that need the same kind, the first one.
func (p *parts) define(definitions []object) error {
	var warnings []string
	templated, taken := maps.Clone(p.claims.first), map[plan.ResourceID]*object{}
	for i := range definitions {
		o := &definitions[i]
		id := p.claims.id(o)
		if _, ok := templated[id]; ok {
			continue
		}
		first := taken[id]
		switch {
		case first == nil:
			taken[id] = o
			// What is no definition goes with its context, as nothing tells it from what has been left behind.
			if err := p.release(o, o.IsDefinition() || kept(o)); err != nil {
				return err
			}
		case !bytes.Equal(first.manifest, o.manifest):
			warnings = append(warnings, fmt.Sprintf("%s: %s is taken from %s, which has something else in it", o.file, o, first.file))
		}
	}
	p.warnings = append(p.warnings, few(warnings, "%d more objects of crds/ are taken from other files, which have something else in them")...)
	return nil
}

// crds gives the objects of the crds directories, which are not templates.
func crds(ctx context.Context, ch *chart.Chart) ([]object, error) {
	var all []object
	for _, crd := range ch.CRDObjects() {
		at(ctx, "%s: reading it", crd.Filename)
		found, err := objects(crd.Filename, string(crd.File.Data))
		if err != nil {
			return nil, err
		}
		for i := range found {
			if err := found[i].fault; err != nil { // no template: what its annotations say of hooks does not count
				return nil, fmt.Errorf("%s: %w", crd.Filename, err)
			}
		}
		all = append(all, found...)
	}
	return all, nil
}

// claims notes which object says what a resource is to be. Two that disagree would overwrite each other in
// the cluster for ever.
type claims struct {
	namespace string // of objects that name none
	first     map[plan.ResourceID]*object
}

// id is what two objects that are the same one share.
func (c *claims) id(o *object) plan.ResourceID { return plan.Place(o.ResourceID, c.namespace) }

// claim notes an object, or says that an equal one has been noted.
func (c *claims) claim(o *object) (again bool, err error) {
	id := c.id(o)
	first := c.first[id]
	switch {
	case first == nil:
		c.first[id] = o
		return false, nil
	case bytes.Equal(o.manifest, first.manifest):
		return true, nil
	default:
		return false, fmt.Errorf("%s: %s is already rendered by %s", o.file, o, first.file)
	}
}

func resource(o *object, keep bool) plan.Resource {
	return plan.Resource{
		ResourceID: o.ResourceID, Stage: plan.StageOf(o.Group, o.Kind), Keep: keep, Manifest: o.manifest,
	}
}

func inApplyOrder(a, b plan.Resource) int {
	return cmp.Or(
		cmp.Compare(a.Stage, b.Stage),
		cmp.Compare(rank(a.Kind), rank(b.Kind)),
		cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Group, b.Group),
	)
}
