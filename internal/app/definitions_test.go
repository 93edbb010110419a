package app

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// beside describes a second group of the same composite app, in a logical cloud with a namespace of its own.
func (d *description) beside() *domain.DeploymentIntentGroup {
	cloud, group, reference, intent, placement, apps := *d.cloud, *d.group, *d.reference, *d.intent, *d.placement, *d.apps
	cloud.Name, cloud.Spec.Namespace = "lc2", "other"
	reference.Parent = domain.KeyOf(&cloud)
	group.Name, group.Spec.Version, group.Spec.LogicalCloud = "dig2", "r2", "lc2"
	key := domain.KeyOf(&group)
	intent.Parent, placement.Parent, apps.Parent = key, key, key.Child(domain.PlacementIntents.Collection, placement.Name)
	d.more = append(d.more, &cloud, &reference, &group, &intent, &placement, &apps)
	return &group
}

// ended are runs that have all come to their end.
type ended struct{}

func (ended) Running(context.Context, domain.Scope) (bool, error) { return false, nil }
func (ended) Ended(context.Context, domain.Scope) (activities.RunEnd, error) {
	return activities.RunInOrder, nil
}

func (ended) Close(context.Context, domain.Scope) (activities.RunEnd, error) {
	return activities.RunInOrder, nil
}

// A CRD that the terminate of one group deletes is no other group's; one that both keep may be. Of a kind without a namespace two groups
// have no object of the same name.
func TestGroupsWithTheSameDefinition(t *testing.T) {
	p := partial(t)
	const (
		definition = `app "web": CustomResourceDefinition "widgets.example.com" on cluster cp+c belongs to`
		metadata   = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.example.com}\n"
		spec       = "spec: {group: example.com, scope: Namespaced, names: {kind: Widget, plural: widgets}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}\n"
	)
	const widget = "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}}"
	cluster := strings.Replace(spec, "Namespaced", "Cluster", 1)
	// change puts other files into the chart, if there are some.
	change := func(t *testing.T, p *Parts, d *description, files, later map[string]string) {
		t.Helper()
		if later == nil {
			return
		}
		for file := range files {
			delete(d.chart, file)
		}
		maps.Copy(d.chart, later)
		var err error
		d.web.Chart, err = p.store.PutBlob(t.Context(), packed(t, d.chart))
		require.NoError(t, err)
		require.NoError(t, p.store.Replace(t.Context(), d.web))
	}
	for name, c := range map[string]struct {
		files map[string]string
		says  string
		later map[string]string // the files when the second group comes, nil for the same
	}{
		"of a template":                          {files: map[string]string{"web/templates/crd.yaml": metadata + spec}, says: definition},
		"of a template, which another one keeps": {files: map[string]string{"web/templates/crd.yaml": metadata + spec}, says: definition, later: map[string]string{"web/crds/crd.yaml": metadata + spec}},
		"of a template, and to be kept":          {files: map[string]string{"web/templates/crd.yaml": strings.Replace(metadata, "{name", `{annotations: {helm.sh/resource-policy: keep}, name`, 1) + spec}},
		"of crds/":                               {files: map[string]string{"web/crds/crd.yaml": metadata + spec}},
		"with an object":                         {files: map[string]string{"web/crds/crd.yaml": metadata + spec, "web/templates/w.yaml": widget}},
		"with an object that has no namespace": {
			files: map[string]string{"web/crds/crd.yaml": metadata + cluster, "web/templates/w.yaml": widget},
			says:  `app "web": Widget "w" on cluster cp+c belongs to`,
		},
		"with an object that has no namespace, of a kind that only the second one's chart defines": {
			files: map[string]string{"web/templates/w.yaml": widget}, later: map[string]string{"web/crds/crd.yaml": metadata + cluster, "web/templates/w.yaml": widget},
			says: `app "web": Widget "w" on cluster cp+c belongs to`,
		},
		"with objects that have no namespace": {
			files: map[string]string{"web/crds/crd.yaml": metadata + cluster, "web/templates/w.yaml": `{apiVersion: example.com/v1, kind: Widget, metadata: {name: "{{ .Release.Name }}"}}`},
		},
	} {
		t.Run(name+", at once", func(t *testing.T) { // neither is recorded when the other one's plan is made
			p, ctx := with(t, p), t.Context()
			d := described()
			maps.Copy(d.chart, c.files)
			other := d.beside()
			d.store(t, p.store)
			worker := &activities.Control{Store: p.store, Runs: ended{}, Now: time.Now, Charts: p.charts}
			begin := func(group *domain.DeploymentIntentGroup, id string) (record func() error) {
				t.Helper()
				group.History.Append(domain.Approved, "", 0, time.Now())
				require.NoError(t, p.store.Replace(ctx, group))
				in := activities.RecordInput{Scope: domain.Scope{Owner: domain.KeyOf(group), ContextID: id, Operation: domain.OpInstantiate}}
				var err error
				in.Prepared, err = worker.Prepare(ctx, in.Scope)
				require.NoError(t, err)
				return func() error { return worker.Record(ctx, in) }
			}
			first := begin(d.group, "2")
			change(t, p, d, c.files, c.later)
			second := begin(other, "3")
			require.NoError(t, first())
			err := second()
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, fail.Conflict, fail.KindOf(err), "%v", err)
			require.Contains(t, fail.TextOf(err), c.says)
		})
		t.Run(name, func(t *testing.T) {
			p, ctx := with(t, p), t.Context()
			d := described()
			maps.Copy(d.chart, c.files)
			other := d.beside()
			d.store(t, p.store)
			worker := &activities.Control{Store: p.store, Runs: ended{}, Now: time.Now, Charts: p.charts}
			prepare := func(group *domain.DeploymentIntentGroup, id string) (*activities.Prepared, error) {
				t.Helper()
				group.History.Append(domain.Approved, "", 0, time.Now())
				require.NoError(t, p.store.Replace(ctx, group))
				return worker.Prepare(ctx, domain.Scope{Owner: domain.KeyOf(group), ContextID: id, Operation: domain.OpInstantiate})
			}
			first, err := prepare(d.group, "2")
			require.NoError(t, err)
			carriedOut(t, p, d.group, first, "2", 1)
			change(t, p, d, c.files, c.later)
			_, warnings, err := activities.NewRehearsal(p.store, ended{}, p.charts).Rehearse(ctx, other)
			require.NoError(t, err)
			_, err = prepare(other, "3")
			if c.says == "" {
				require.NoError(t, err)
				require.Empty(t, warnings)
				return
			}
			require.Equal(t, fail.Conflict, fail.KindOf(err), "%v", err)
			require.Contains(t, fail.TextOf(err), c.says)
			require.Equal(t, []string{fail.TextOf(err)}, warnings, "approve says it")
		})
	}
}
