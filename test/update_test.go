package test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/workflows"
)

// changing is a deployment that is instantiated and then changed.
type changing struct {
	*client.Deployment
	t        *testing.T
	s        *harness.Stack
	clusters []*harness.Cluster
	label    string // the context id in the labels of what is in the clusters
}

// says is a chart of ConfigMaps: "a=1 b=2", name and what it says.
func says(t *testing.T, app, text string) []byte {
	t.Helper()
	templates := map[string]string{}
	for _, word := range strings.Fields(text) {
		name, value, _ := strings.Cut(word, "=")
		templates[name+".yaml"] = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-%s'}\ndata: {says: '%s'}\n", name, value)
	}
	return harness.Chart(t, app, templates)
}

// instantiated deploys apps, given as chart texts by name, on both clusters.
func instantiated(ctx context.Context, t *testing.T, s *harness.Stack, apps ...string) *changing {
	t.Helper()
	var list []client.App
	for _, a := range apps {
		name, text, _ := strings.Cut(a, ":")
		list = append(list, client.App{Name: name, Chart: says(t, name, text)})
	}
	c := &changing{t: t, s: s, clusters: twoClusters(t)}
	c.Deployment = s.Deployment(ctx, c.clusters, list...)
	do(ctx, t, c.Deployment, "approve", "instantiate")
	c.label = s.Await(ctx, c.Deployment, "Instantiated").States.ContextID()
	return c
}

// chart replaces an app's chart.
func (c *changing) chart(ctx context.Context, app, text string) {
	c.t.Helper()
	replaceChart(ctx, c.t, c.Deployment, app, says(c.t, app, text))
}

// replaceChart replaces the chart of an app of a deployment.
func replaceChart(ctx context.Context, t *testing.T, d *client.Deployment, app string, chart []byte) {
	t.Helper()
	_, err := d.API.Put(ctx, d.AppOf(app), chart)
	require.NoError(t, err)
}

// place puts an app on clusters.
func (c *changing) place(ctx context.Context, app string, clusters ...*harness.Cluster) {
	c.t.Helper()
	var on []domain.ClusterName
	for _, k := range clusters {
		on = append(on, domain.ClusterName{Provider: c.Clusters[0].Provider, Name: k.Name})
	}
	_, err := c.API.Put(ctx, c.PlacementOf(app, harness.All(on...)), nil)
	require.NoError(c.t, err)
}

// add adds an app.
func (c *changing) add(ctx context.Context, app, text string, clusters ...*harness.Cluster) {
	c.t.Helper()
	require.NoError(c.t, c.API.Run(ctx, []client.Step{
		{Object: c.AppOf(app), File: says(c.t, app, text)}, {Object: c.ProfileOf(app), File: harness.Profile(c.t)},
	}, nil))
	c.place(ctx, app, clusters...)
}

// drop takes an app away.
func (c *changing) drop(ctx context.Context, app string) {
	c.t.Helper()
	for _, o := range []domain.Object{c.PlacementOf(app, domain.Placement{}), c.ProfileOf(app), c.AppOf(app)} {
		require.NoError(c.t, c.API.Delete(ctx, domain.KeyOf(o)))
	}
}

// update updates and returns the revision.
func (c *changing) update(ctx context.Context) int {
	c.t.Helper()
	accepted, err := c.API.Operate(ctx, c.Key(), domain.OpUpdate)
	require.NoError(c.t, err)
	return accepted.Revision
}

// updated updates and waits for the end.
func (c *changing) updated(ctx context.Context) *status.Document {
	c.t.Helper()
	c.update(ctx)
	return c.s.Await(ctx, c.Deployment, "Instantiated")
}

func (c *changing) rollback(ctx context.Context, revision int) error {
	_, err := c.API.Rollback(ctx, c.Key(), revision)
	return err
}

// holds is what a cluster has of the deployment, as "app/name=value", sorted, with the given labels' context.
func (c *changing) holds(k *harness.Cluster) []string {
	c.t.Helper()
	list, err := k.Client(c.t).CoreV1().ConfigMaps("default").List(c.t.Context(), metav1.ListOptions{LabelSelector: "emco/deployment-id"})
	require.NoError(c.t, err)
	found := []string{}
	for _, m := range list.Items {
		if app, ok := strings.CutPrefix(m.Labels["emco/deployment-id"], c.label+"-"); ok {
			found = append(found, app+"/"+strings.TrimPrefix(m.Name, c.Release+"-")+"="+m.Data["says"])
		}
	}
	slices.Sort(found)
	return found
}

// versions are the resource versions of what a cluster has.
func (c *changing) versions(k *harness.Cluster) map[string]string {
	c.t.Helper()
	list, err := k.Client(c.t).CoreV1().ConfigMaps("default").List(c.t.Context(), metav1.ListOptions{LabelSelector: "emco/deployment-id"})
	require.NoError(c.t, err)
	found := map[string]string{}
	for _, m := range list.Items {
		if name, ok := strings.CutPrefix(m.Name, c.Release+"-"); ok {
			found[name] = m.ResourceVersion
		}
	}
	return found
}

// shown is what the status lists on a cluster, as "app/name=state", sorted.
func (c *changing) shown(ctx context.Context, query url.Values, k *harness.Cluster) []string {
	c.t.Helper()
	got, err := c.Status(ctx, query)
	require.NoError(c.t, err)
	found := []string{}
	for _, a := range got.Apps {
		for _, l := range a.Clusters {
			for _, r := range l.Resources {
				if l.Name == k.Name {
					found = append(found, a.Name+"/"+strings.TrimPrefix(r.Name, c.Release+"-")+"="+string(r.Status))
				}
			}
		}
	}
	slices.Sort(found)
	return found
}

// end terminates and looks for leftovers.
func (c *changing) end(ctx context.Context) {
	c.t.Helper()
	do(ctx, c.t, c.Deployment, "terminate")
	c.s.Await(ctx, c.Deployment, "Terminated")
	for _, k := range c.clusters {
		require.Empty(c.t, c.holds(k), "on %s", k.Name)
	}
}

// revisions are the states and revisions of the history.
func (c *changing) revisions(ctx context.Context) string {
	c.t.Helper()
	got, err := c.Summary(ctx)
	require.NoError(c.t, err)
	require.Equal(c.t, c.label, got.States.StatusContextID)
	var words []string
	for _, a := range got.States.Actions {
		words = append(words, fmt.Sprintf("%s %d", a.State, a.Revision))
	}
	return strings.Join(words, ", ")
}

// What others have taken away or changed in clusters an update does not see by itself.
func TestReapply(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	c := instantiated(ctx, t, s, "web:a=1 b=1", "log:x=1")
	one, two := c.clusters[0], c.clusters[1]
	whole := []string{"log/x=1", "web/a=1", "web/b=1"}
	maps := one.Client(t).CoreV1().ConfigMaps("default")
	require.NoError(t, maps.Delete(ctx, c.Release+"-a", metav1.DeleteOptions{}))
	_, err := maps.Patch(ctx, c.Release+"-b", types.MergePatchType, []byte(`{"data":{"says":"another","more":"yes"}}`), metav1.PatchOptions{FieldManager: "somebody"})
	require.NoError(t, err)
	require.Equal(t, []string{"log/x=1", "web/b=another"}, c.holds(one))

	accepted, err := c.API.Operate(ctx, c.Key(), domain.OpUpdate)
	require.NoError(t, err)
	require.Equal(t, 1, accepted.Revision)
	require.Contains(t, strings.Join(accepted.Warnings, "\n"), "an update with reapply puts back")
	require.Equal(t, []string{"log/x=1", "web/b=another"}, c.holds(one))

	d, err := c.API.Diff(ctx, c.Key(), url.Values{"operation": {"update"}, "reapply": {"true"}})
	require.NoError(t, err)
	for _, item := range d.Items {
		for _, r := range item.Resources {
			require.Equal(t, plan.ActionAgain, r.Action, r.Resource)
		}
	}
	require.Equal(t, service.DiffCounts{Again: 6}, d.Changes)

	accepted, err = c.API.Reapply(ctx, c.Key())
	require.NoError(t, err)
	require.Equal(t, 2, accepted.Revision)
	require.Equal(t, map[domain.ResourceState]int{"Applied": 6}, s.Await(ctx, c.Deployment, "Instantiated").Deployed)
	require.Equal(t, whole, c.holds(one))
	require.Equal(t, whole, c.holds(two))
	more, err := maps.Get(ctx, c.Release+"-b", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "yes", more.Data["more"], "what we do not say is its own manager's")

	answer := s.Send(ctx, http.MethodGet, s.At(c.Key())+"/diff?operation=rollback&revision=1&reapply=true", nil, "")
	require.Equal(t, 400, answer.Code)
	require.Contains(t, string(answer.Body), "reapply")
	for _, said := range []string{"again", "1", ""} {
		answer = s.Send(ctx, http.MethodPost, s.At(c.Key())+"/update?reapply="+said, nil, "")
		require.Equal(t, 400, answer.Code, said)
		require.Contains(t, string(answer.Body), "reapply")
	}
	c.end(ctx)
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	c := instantiated(ctx, t, s, "web:a=1 b=1 c=1", "log:x=1")
	one, two := c.clusters[0], c.clusters[1]
	first := []string{"log/x=1", "web/a=1", "web/b=1", "web/c=1"}
	require.Equal(t, first, c.holds(one))

	t.Run("without a difference touches nothing", func(t *testing.T) {
		ctx := within(t)
		before := c.versions(one)
		answer := s.Send(ctx, http.MethodPost, s.At(c.Key())+"/update", nil, "")
		require.Equal(t, 202, answer.Code)
		require.Equal(t, "1\n", string(answer.Body))
		require.Contains(t, answer.Header.Get("Warning"), "nothing to update")
		require.Equal(t, before, c.versions(one))
		require.Equal(t, "Created 0, Approved 0, Instantiated 1", c.revisions(ctx))
	})
	t.Run("of resources", func(t *testing.T) {
		ctx := within(t)
		before := c.versions(one)
		c.chart(ctx, "web", "a=1 b=2 d=1")
		require.Equal(t, "Created 0, Approved 0, Instantiated 1", c.revisions(ctx), "a change of what is wanted changes no state")
		require.Equal(t, 2, c.update(ctx))
		got := s.Await(ctx, c.Deployment, "Instantiated")
		require.Equal(t, map[domain.ResourceState]int{"Applied": 8}, got.Deployed)
		for _, k := range c.clusters {
			require.Equal(t, []string{"log/x=1", "web/a=1", "web/b=2", "web/d=1"}, c.holds(k), "on %s", k.Name)
			require.Equal(t, []string{"log/x=Applied", "web/a=Applied", "web/b=Applied", "web/d=Applied"}, c.shown(ctx, nil, k))
		}
		after := c.versions(one)
		require.Equal(t, before["a"], after["a"], "what is the same is not touched")
		require.Equal(t, before["x"], after["x"])
		require.NotEqual(t, before["b"], after["b"])
		require.Equal(t, "Created 0, Approved 0, Instantiated 1, Updated 1, Instantiated 2", c.revisions(ctx))
		require.Equal(t, []string{"log/x=Applied", "web/a=Applied", "web/b=Applied", "web/c=Applied"}, c.shown(ctx, url.Values{"instance": {c.label}}, one),
			"the context before answers with its own records")
		old, err := c.Status(ctx, url.Values{"output": {"summary"}, "instance": {c.label}})
		require.NoError(t, err)
		require.Equal(t, domain.ContextUpdated, old.Status)
	})
	t.Run("of clusters", func(t *testing.T) {
		ctx := within(t)
		c.place(ctx, "web", one)
		require.Equal(t, map[domain.ResourceState]int{"Applied": 5}, c.updated(ctx).Deployed)
		require.Equal(t, []string{"log/x=1", "web/a=1", "web/b=2", "web/d=1"}, c.holds(one))
		require.Equal(t, []string{"log/x=1"}, c.holds(two))
		require.Equal(t, []string{"log/x=Applied"}, c.shown(ctx, nil, two))
		c.place(ctx, "web", two)
		require.Equal(t, map[domain.ResourceState]int{"Applied": 5}, c.updated(ctx).Deployed)
		require.Equal(t, []string{"log/x=1"}, c.holds(one))
		require.Equal(t, []string{"log/x=1", "web/a=1", "web/b=2", "web/d=1"}, c.holds(two))
	})
	t.Run("of apps", func(t *testing.T) {
		ctx := within(t)
		c.add(ctx, "more", "m=1", one, two)
		c.drop(ctx, "log")
		require.Equal(t, map[domain.ResourceState]int{"Applied": 5}, c.updated(ctx).Deployed)
		require.Equal(t, []string{"more/m=1"}, c.holds(one))
		require.Equal(t, []string{"more/m=1", "web/a=1", "web/b=2", "web/d=1"}, c.holds(two))
		require.Equal(t, []string{"more/m=Applied"}, c.shown(ctx, nil, one))
	})
	t.Run("of a resource that goes from one app to another", func(t *testing.T) {
		ctx := within(t)
		before := c.versions(two)
		c.chart(ctx, "web", "b=2 d=1")
		c.chart(ctx, "more", "m=1 a=1")
		c.updated(ctx)
		require.Equal(t, []string{"more/a=1", "more/m=1", "web/b=2", "web/d=1"}, c.holds(two))
		require.NotEqual(t, before["a"], c.versions(two)["a"], "it has another label")
	})
	t.Run("rolled back", func(t *testing.T) {
		ctx := within(t)
		require.Equal(t, 404, code(t, c.rollback(ctx, 9)))
		require.NoError(t, c.rollback(ctx, 1))
		require.Equal(t, map[domain.ResourceState]int{"Applied": 8}, s.Await(ctx, c.Deployment, "Instantiated").Deployed)
		for _, k := range c.clusters {
			require.Equal(t, first, c.holds(k), "on %s", k.Name)
		}
		require.True(t, strings.HasSuffix(c.revisions(ctx), "Instantiated 6, Updated 6, Instantiated 7"), c.revisions(ctx))
		accepted, err := c.API.Rollback(ctx, c.Key(), 7)
		require.NoError(t, err)
		require.Contains(t, strings.Join(accepted.Warnings, "\n"), "nothing to rollback")
		require.NoError(t, c.rollback(ctx, 2))
		require.Equal(t, map[domain.ResourceState]int{"Applied": 8}, s.Await(ctx, c.Deployment, "Instantiated").Deployed)
		require.Equal(t, []string{"log/x=1", "web/a=1", "web/b=2", "web/d=1"}, c.holds(two))
		// What is wanted did not change; the next update goes by it.
		c.updated(ctx)
		require.Equal(t, []string{"more/a=1", "more/m=1", "web/b=2", "web/d=1"}, c.holds(two))
	})
	t.Run("and ended", func(t *testing.T) {
		ctx := within(t)
		c.end(ctx)
		for _, op := range []domain.Operation{"update", "terminate"} {
			require.Equal(t, 409, code(t, c.Do(ctx, op)), string(op))
		}
		require.Equal(t, 409, code(t, c.rollback(ctx, 1)))
		do(ctx, t, c.Deployment, "instantiate")
		c.label = s.Await(ctx, c.Deployment, "Instantiated").States.ContextID()
		require.Equal(t, 404, code(t, c.rollback(ctx, 2)), "revisions begin anew")
		c.chart(ctx, "web", "b=3")
		c.updated(ctx)
		require.NoError(t, c.rollback(ctx, 1))
		s.Await(ctx, c.Deployment, "Instantiated")
		require.Equal(t, []string{"more/a=1", "more/m=1", "web/b=2", "web/d=1"}, c.holds(two), "the first revision of this instance")
		c.end(ctx)
	})
}

func TestUpdateLeavesWhatIsSomebodyElses(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	c := instantiated(ctx, t, s, "web:a=1 b=1 c=1")
	maps := c.clusters[0].Client(t).CoreV1().ConfigMaps("default")
	// Somebody has made b anew, and has put another label on c.
	require.NoError(t, maps.Delete(ctx, c.Release+"-b", metav1.DeleteOptions{}))
	b, err := c.clusters[1].Client(t).CoreV1().ConfigMaps("default").Get(ctx, c.Release+"-b", metav1.GetOptions{})
	require.NoError(t, err)
	b.ObjectMeta = metav1.ObjectMeta{Name: b.Name}
	_, err = maps.Create(ctx, b, metav1.CreateOptions{})
	require.NoError(t, err)
	other, err := maps.Get(ctx, c.Release+"-c", metav1.GetOptions{})
	require.NoError(t, err)
	other.Labels["emco/deployment-id"] = "1234567890123456789-other"
	_, err = maps.Update(ctx, other, metav1.UpdateOptions{})
	require.NoError(t, err)

	c.chart(ctx, "web", "a=1")
	require.Equal(t, map[domain.ResourceState]int{"Applied": 2}, c.updated(ctx).Deployed)
	for _, name := range []string{"a", "b", "c"} {
		_, err := maps.Get(ctx, c.Release+"-"+name, metav1.GetOptions{})
		require.NoError(t, err, name)
	}
	require.Equal(t, []string{"web/a=1"}, c.holds(c.clusters[1]))
	c.end(ctx)
	for _, name := range []string{"b", "c"} {
		require.NoError(t, maps.Delete(ctx, c.Release+"-"+name, metav1.DeleteOptions{}))
	}
}

// successor is a group of another version of the composite app, which has the first of its apps alone.
func (c *changing) successor(text string) client.Deployment {
	c.t.Helper()
	next := *c.Deployment
	next.Version, next.Group = "v2", "next-"+next.Group
	next.Apps = slices.Clone(next.Apps[:1])
	next.Apps[0].Chart = says(c.t, next.Apps[0].Name, text)
	return next
}

func migrate(ctx context.Context, from *client.Deployment, version, group string) error {
	_, err := from.API.Migrate(ctx, from.Key(), version, group)
	return err
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	c := instantiated(ctx, t, s, "web:a=1 b=1 c=1", "log:x=1")
	source := *c.Deployment
	next := c.successor("a=1 b=2 d=1")
	require.Equal(t, 404, code(t, migrate(ctx, &source, "v2", next.Group)), "there is no such group")
	require.NoError(t, next.API.Run(ctx, next.GroupSteps(), nil))
	require.Equal(t, 409, code(t, migrate(ctx, &source, "v2", next.Group)), "it is not approved")
	require.Equal(t, 400, code(t, migrate(ctx, &source, "v1", source.Group)), "it is the group itself")
	require.Equal(t, "Created 0, Approved 0, Instantiated 1", c.revisions(ctx), "a refusal leaves nothing behind")
	do(ctx, t, &next, "approve")
	require.Equal(t, 409, code(t, migrate(ctx, &next, "v1", source.Group)), "it is not instantiated")
	before := c.versions(c.clusters[0])

	require.NoError(t, migrate(ctx, &source, "v2", next.Group))
	c.Deployment = &next
	require.Equal(t, map[domain.ResourceState]int{"Applied": 6}, s.Await(ctx, &next, "Instantiated").Deployed)
	for _, k := range c.clusters {
		require.Equal(t, []string{"web/a=1", "web/b=2", "web/d=1"}, c.holds(k), "on %s", k.Name)
	}
	require.Equal(t, before["a"], c.versions(c.clusters[0])["a"], "what is the same is not touched")
	require.Equal(t, "Created 0, Approved 0, Instantiated 0", c.revisions(ctx))
	got, err := source.Summary(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"Created", "Approved", "Instantiated", "Updated"}, states(got))
	require.Equal(t, domain.ContextUpdated, got.Status)
	for _, op := range []domain.Operation{"terminate", "update", "stop", "instantiate"} {
		require.Equal(t, 409, code(t, source.Do(ctx, op)), string(op))
	}
	require.Equal(t, 409, code(t, migrate(ctx, &source, "v2", next.Group)), "again")

	c.chart(ctx, "web", "a=3")
	require.Equal(t, 1, c.update(ctx))
	s.Await(ctx, &next, "Instantiated")
	require.Equal(t, []string{"web/a=3"}, c.holds(c.clusters[0]))
	require.NoError(t, c.rollback(ctx, 0), "back to what the migrate made")
	s.Await(ctx, &next, "Instantiated")
	require.Equal(t, []string{"web/a=1", "web/b=2", "web/d=1"}, c.holds(c.clusters[0]))

	// The source is free: with all that hangs below it, it can be deleted, and its instance stays.
	forget(ctx, t, &source)
	require.Equal(t, []string{"web/a=Applied", "web/b=Applied", "web/d=Applied"}, c.shown(ctx, nil, c.clusters[0]))

	// To another group of the same version, with the same release.
	source = next
	next.Group = "same-" + source.Group
	require.NoError(t, next.API.Run(ctx, next.IntentSteps(), nil))
	do(ctx, t, &next, "approve")
	require.NoError(t, migrate(ctx, &source, next.Version, next.Group))
	c.Deployment = &next
	s.Await(ctx, &next, "Instantiated")
	require.Equal(t, []string{"web/a=3"}, c.holds(c.clusters[0]), "what the charts of the version say")
	forget(ctx, t, &source)
	c.end(ctx)
}

// replaced is an update of thirty ConfigMaps to thirty others on two clusters.
type replaced struct {
	s             *harness.Stack
	old, wanted   string
	before, after []string
}

func newReplaced(s *harness.Stack) *replaced {
	m := &replaced{s: s, old: "web:"}
	for i := range 30 {
		m.old += fmt.Sprintf(" old%02d=1", i)
		m.wanted += fmt.Sprintf(" new%02d=1", i)
		m.before = append(m.before, fmt.Sprintf("web/old%02d=1", i))
		m.after = append(m.after, fmt.Sprintf("web/new%02d=1", i))
	}
	return m
}

// begin updates, and waits until the first cluster holds some of what is new, which stays so until the update is let
// go on.
func (m *replaced) begin(ctx context.Context, t *testing.T) (c *changing, goOn func()) {
	t.Helper()
	c = instantiated(ctx, t, m.s, m.old)
	c.chart(ctx, "web", m.wanted)
	goOn = hold(c.clusters)
	require.Equal(t, 2, c.update(ctx))
	harness.Until(ctx, t, "midway", func() bool { return len(c.holds(c.clusters[0])) > len(m.before)+2 })
	return c, goOn
}

// ends waits until both clusters hold what is wanted, and terminates.
func (m *replaced) ends(ctx context.Context, t *testing.T, c *changing) {
	t.Helper()
	require.Equal(t, map[domain.ResourceState]int{"Applied": 60}, m.s.Await(ctx, c.Deployment, "Instantiated").Deployed)
	for _, k := range c.clusters {
		require.Equal(t, m.after, c.holds(k), "on %s", k.Name)
	}
	c.end(ctx)
}

// finish updates to the end and terminates.
func (m *replaced) finish(ctx context.Context, t *testing.T, c *changing) {
	t.Helper()
	c.updated(ctx)
	m.ends(ctx, t, c)
}

func TestUpdateInItsMiddle(t *testing.T) {
	t.Parallel()
	m := newReplaced(harness.SharedStack(t))
	t.Run("stopped, nothing is pruned, and another one goes on", func(t *testing.T) {
		t.Parallel()
		ctx := within(t)
		c, goOn := m.begin(ctx, t)
		require.Equal(t, 409, code(t, c.Do(ctx, "update")), "while it goes on")
		do(ctx, t, c.Deployment, "stop")
		got := m.s.Await(ctx, c.Deployment, "InstantiateFailed")
		require.Equal(t, domain.InstantiateStopped, got.States.State())
		for _, k := range c.clusters {
			require.Subset(t, c.holds(k), m.before, "on %s", k.Name)
			require.Less(t, len(c.holds(k)), 60)
		}
		goOn()
		m.finish(ctx, t, c)
	})
	t.Run("stopped and rolled back", func(t *testing.T) {
		t.Parallel()
		ctx := within(t)
		c, goOn := m.begin(ctx, t)
		do(ctx, t, c.Deployment, "stop")
		m.s.Await(ctx, c.Deployment, "InstantiateFailed")
		goOn()
		require.NoError(t, c.rollback(ctx, 1))
		require.Equal(t, map[domain.ResourceState]int{"Applied": 60}, m.s.Await(ctx, c.Deployment, "Instantiated").Deployed)
		for _, k := range c.clusters {
			require.Equal(t, m.before, c.holds(k), "on %s", k.Name)
		}
		c.end(ctx)
	})
	t.Run("terminated, nothing is left", func(t *testing.T) {
		t.Parallel()
		ctx := within(t)
		c, goOn := m.begin(ctx, t)
		do(ctx, t, c.Deployment, "terminate")
		goOn()
		got := m.s.Await(ctx, c.Deployment, "Terminated")
		require.Equal(t, 120, got.Deployed["Deleted"], "%v", got.Deployed)
		for _, k := range c.clusters {
			require.Empty(t, c.holds(k), "on %s", k.Name)
		}
	})
	t.Run("ended by hand in the Web UI, and another one goes on", func(t *testing.T) {
		t.Parallel()
		ctx := within(t)
		c, goOn := m.begin(ctx, t)
		got, err := c.Summary(ctx)
		require.NoError(t, err)
		id := workflows.OperationID(scope(c.Deployment, got.States.ContextID(), domain.OpUpdate))
		require.NoError(t, m.s.TemporalClient().TerminateWorkflow(ctx, id, "", "by hand"))
		m.s.Await(ctx, c.Deployment, "InstantiateFailed")
		goOn()
		m.finish(ctx, t, c)
	})
	t.Run("with a cluster down, which comes back", func(t *testing.T) {
		t.Parallel()
		ctx := within(t)
		c := instantiated(ctx, t, m.s, m.old)
		c.chart(ctx, "web", m.wanted)
		c.clusters[1].Down()
		c.update(ctx)
		got := waitFor(ctx, t, c.Deployment, func(g *status.Document) bool { return g.Deployed["Applied"] == 30 && retrying(g) > 0 })
		require.Equal(t, domain.ContextInstantiating, got.Status)
		require.Len(t, c.holds(c.clusters[0]), 60, "nothing is pruned before all is applied")
		c.clusters[1].Up(t)
		m.ends(ctx, t, c)
	})
	t.Run("with a cluster down, stopped, and updated away from it", func(t *testing.T) {
		t.Parallel()
		ctx := within(t)
		c := instantiated(ctx, t, m.s, "web:a=1")
		c.chart(ctx, "web", "b=1")
		c.clusters[1].Down()
		c.update(ctx)
		waitFor(ctx, t, c.Deployment, func(g *status.Document) bool { return retrying(g) > 0 })
		do(ctx, t, c.Deployment, "stop")
		m.s.Await(ctx, c.Deployment, "InstantiateFailed")
		c.place(ctx, "web", c.clusters[0])
		c.update(ctx)
		got := waitFor(ctx, t, c.Deployment, func(g *status.Document) bool { return retrying(g) > 0 })
		require.Equal(t, domain.ContextInstantiating, got.Status, "what the cluster holds is known")
		require.Contains(t, c.shown(ctx, nil, c.clusters[1]), "web/a=Pending")
		harness.Until(ctx, t, "pruned", func() bool { return slices.Equal(c.holds(c.clusters[0]), []string{"web/b=1"}) })
		c.clusters[1].Up(t)
		m.s.Await(ctx, c.Deployment, "Instantiated")
		require.Empty(t, c.holds(c.clusters[1]))
		require.Empty(t, c.shown(ctx, nil, c.clusters[1]))
		c.end(ctx)
	})
	t.Run("an instantiate goes on from what a stopped terminate has left", func(t *testing.T) {
		t.Parallel()
		ctx := within(t)
		c := instantiated(ctx, t, m.s, "web:a=1 b=1")
		c.clusters[1].Down()
		do(ctx, t, c.Deployment, "terminate")
		waitFor(ctx, t, c.Deployment, func(g *status.Document) bool { return retrying(g) == 2 && g.Deployed["Deleted"] == 2 })
		require.Equal(t, domain.TerminateStopped, stopped(ctx, t, c.Deployment, "TerminateFailed").States.State())
		c.clusters[1].Up(t)
		require.Equal(t, []string{"web/a=1", "web/b=1"}, c.holds(c.clusters[1]))
		c.chart(ctx, "web", "b=2 c=1")
		do(ctx, t, c.Deployment, "instantiate")
		got := m.s.Await(ctx, c.Deployment, "Instantiated")
		require.Equal(t, map[domain.ResourceState]int{"Applied": 4}, got.Deployed)
		require.Equal(t, []string{"Created", "Approved", "Instantiated", "Terminated", "TerminateStopped", "Instantiated"}, states(got))
		for _, k := range c.clusters {
			require.Equal(t, []string{"web/b=2", "web/c=1"}, c.holds(k), "on %s", k.Name)
		}
		c.end(ctx)
	})
	t.Run("with a refusal, nothing is pruned", func(t *testing.T) {
		t.Parallel()
		ctx := within(t)
		c := instantiated(ctx, t, m.s, "web:a=1 b=1")
		c.chart(ctx, "web", "a=1 Not-A-Name=1")
		c.update(ctx)
		got := m.s.Await(ctx, c.Deployment, "InstantiateFailed")
		require.Equal(t, 2, got.Deployed["Failed"])
		require.Equal(t, []string{"web/a=1", "web/b=1"}, c.holds(c.clusters[0]))
		require.NoError(t, c.rollback(ctx, 1))
		m.s.Await(ctx, c.Deployment, "Instantiated")
		require.Equal(t, []string{"web/a=1", "web/b=1"}, c.holds(c.clusters[0]))
		c.end(ctx)
	})
}

func TestUpdateWhoseWorkerIsKilled(t *testing.T) {
	t.Parallel()
	m := newReplaced(harness.NewStack(t))
	t.Run("with the worker killed", func(t *testing.T) {
		ctx := within(t)
		c, goOn := m.begin(ctx, t)
		m.s.Worker.Kill()
		goOn()
		m.s.StartWorker()
		m.ends(ctx, t, c)
	})
	t.Run("with the worker killed while it prunes", func(t *testing.T) {
		ctx := within(t)
		c := instantiated(ctx, t, m.s, m.old)
		c.chart(ctx, "web", m.wanted)
		var gates []*harness.Gate
		for _, k := range c.clusters {
			gates = append(gates, k.Gate(http.MethodDelete, some))
		}
		c.update(ctx)
		harness.Until(ctx, t, "pruning", func() bool {
			holds := c.holds(c.clusters[0])
			return len(holds) < 58 && slices.Contains(holds, m.after[29])
		})
		m.s.Worker.Kill()
		for _, g := range gates {
			g.Open()
		}
		m.s.StartWorker()
		m.ends(ctx, t, c)
	})
	t.Run("as a migrate with a cluster down and the worker killed, stopped, and updated to its end", func(t *testing.T) {
		ctx := within(t)
		c := instantiated(ctx, t, m.s, m.old)
		c.t = t
		source, next := *c.Deployment, c.successor(strings.TrimPrefix(m.wanted, "web:"))
		require.NoError(t, next.API.Run(ctx, next.GroupSteps(), nil))
		do(ctx, t, &next, "approve")
		c.clusters[1].Down()
		require.NoError(t, migrate(ctx, &source, next.Version, next.Group))
		waitFor(ctx, t, &next, func(g *status.Document) bool { return g.Deployed["Applied"] == 30 && retrying(g) > 0 })
		m.s.Worker.Kill()
		m.s.StartWorker()
		require.Equal(t, 409, code(t, migrate(ctx, &source, next.Version, next.Group)), "it is under way")
		stopAtLast(ctx, t, &next)
		require.Equal(t, domain.InstantiateStopped, m.s.Await(ctx, &next, "InstantiateFailed").States.State())
		for _, op := range []domain.Operation{"stop", "terminate", "update"} {
			require.Equal(t, 409, code(t, source.Do(ctx, op)), string(op))
		}
		for _, k := range c.clusters {
			require.Subset(t, c.holds(k), m.before, "on %s: nothing is pruned", k.Name)
		}
		c.clusters[1].Up(t)
		c.Deployment = &next
		m.finish(ctx, t, c)
	})
}

// TestUpdateIsReported: what clusters report goes on under the first context's id, and reports of apps that are gone go
// with them.
func TestUpdateIsReported(t *testing.T) {
	ctx, s := within(t), harness.SharedStack(t)
	clusters := twoClusters(t)
	for _, k := range clusters {
		k.DefineReports(t)
		k.StartAgent(t)
	}
	c := instantiated(ctx, t, s, "web:a=1 b=1", "log:x=1")
	present := func(n int) func(*reportedStatus) bool {
		return func(r *reportedStatus) bool { return r.Counts["Present"] == n && len(r.Counts) == 1 }
	}
	reports(ctx, t, s, c.Deployment, "type=cluster", present(6))
	c.chart(ctx, "web", "a=1 d=1 e=1")
	c.drop(ctx, "log")
	c.place(ctx, "web", c.clusters[0])
	c.updated(ctx)
	reports(ctx, t, s, c.Deployment, "type=cluster", present(3))
	names := func(k *harness.Cluster) []string {
		return slices.DeleteFunc(slices.Collect(maps.Keys(k.Reports(t))), func(name string) bool { return !strings.Contains(name, c.label) })
	}
	require.Equal(t, []string{bundle.Name("web", c.label)}, names(clusters[0]))
	require.Empty(t, names(clusters[1]))
	c.place(ctx, "web", c.clusters...)
	c.updated(ctx)
	reports(ctx, t, s, c.Deployment, "type=cluster", present(6))
	c.end(ctx)
	for _, k := range clusters {
		require.Empty(t, names(k))
	}
}
